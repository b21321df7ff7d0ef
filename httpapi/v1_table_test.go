package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/httpjob"
)

// TestV1Table asks what testdata/lmstfy asks, and compares the answers. They are lmstfy's, but where a line with an
// exclamation mark has lmstfy's beside ours, and in more.txt, which has what lmstfy has not.
//
// A file has blocks with empty lines between them. Of a block:
//
//	# says what it is about
//	~ the request is repeated until the answer is as below
//	> PUT /api/{ns}/mail?delay=0    a request; {ns} is a namespace of the file's own
//	> Name: value                   its headers
//	>> hello                        its body; a Go string if it is in quotes
//	< 201                           the status
//	< Name: value                   a header; - is for none
//	<< {"job_id":"{id:a}"}          the body
//	!< 404                          lmstfy's status, where it is another one
//	!<< {"msg":"none"}              lmstfy's body, where it is another one
//
// {id:a} is a ULID that is kept as a, {a} is its value, {ids} are some. {ms} is a number, {s:60} one of 60 or a little less.
//
// LMSTFY_TOKENS=http://127.0.0.1:7778/token/ has the table ask lmstfy itself, at LMSTFY=http://127.0.0.1:7777: what lmstfy
// answers is then what the files say, but for more.txt.
func TestV1Table(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/lmstfy/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	var s *site
	if url := os.Getenv("LMSTFY"); url == "" {
		s = serve(t, httpapi.Settings{})
	} else {
		s = &site{url: url, client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
		t.Cleanup(s.client.CloseIdleConnections)
		files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "/more.txt") })
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			token := ""
			namespace := "table-" + name
			if s.jobs != nil {
				token = s.token(t, namespace)
			} else {
				namespace, token = lmstfyToken(t, namespace)
			}
			p := play{site: s, values: map[string]string{"ns": namespace, "token": token,
				"long": strings.Repeat("x", 256), "most": strings.Repeat("x", 1<<20)}}
			blocks := parseBlocks(t, string(text))
			for _, b := range blocks {
				if s.jobs == nil && b.lmstfy != nil {
					b.status, b.answer, b.hasAnswer = b.lmstfy.status, b.lmstfy.answer, b.lmstfy.hasAnswer
				}
				p.run(t, b)
			}
		})
	}
}

// lmstfyToken makes a token of lmstfy for a namespace that nothing has used.
func lmstfyToken(t *testing.T, begin string) (namespace, token string) {
	t.Helper()
	namespace = begin + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	answer, err := http.Post(os.Getenv("LMSTFY_TOKENS")+namespace+"?description=table", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var made struct{ Token string }
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil || made.Token == "" {
		t.Fatal(answer.Status, err)
	}
	return namespace, made.Token
}

type block struct {
	line         int
	about        string
	again        bool
	request      []string // lines
	body         string
	status       string
	answerHeader []string
	answer       string
	hasAnswer    bool
	lmstfy       *block // lmstfy's answer, where it is another one
}

func parseBlocks(t *testing.T, text string) (blocks []block) {
	t.Helper()
	var b block
	flush := func() {
		if len(b.request) > 0 {
			blocks = append(blocks, b)
		}
		b = block{}
	}
	for i, line := range strings.Split(text, "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case "":
			flush()
		case "#":
			b.about += rest
		case "~":
			b.again = true
		case ">":
			if b.line == 0 {
				b.line = i + 1
			}
			b.request = append(b.request, rest)
		case ">>":
			b.body = rest
			if strings.HasPrefix(rest, `"`) {
				quoted, err := strconv.Unquote(rest)
				if err != nil {
					t.Fatalf("line %d: %v", i+1, err)
				}
				b.body = quoted
			}
		case "<":
			if b.status == "" {
				b.status = rest
			} else {
				b.answerHeader = append(b.answerHeader, rest)
			}
		case "<<":
			b.answer, b.hasAnswer = rest, true
		case "!<":
			b.lmstfy = &block{status: rest}
		case "!<<":
			if b.lmstfy == nil {
				b.lmstfy = &block{status: b.status}
			}
			b.lmstfy.answer, b.lmstfy.hasAnswer = rest, true
		default:
			t.Fatalf("line %d has no mark: %q", i+1, line)
		}
	}
	flush()
	return blocks
}

type play struct {
	site   *site
	values map[string]string
}

var placeholder = regexp.MustCompile(`\{(id:)?(\w+)\}`)

// fill puts the values in the place of their names.
func (p *play) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := p.values[strings.Trim(name, "{}")]; ok {
			return value
		}
		return name
	})
}

func (p *play) run(t *testing.T, b block) {
	t.Helper()
	ends := time.Now().Add(patience)
	for {
		wrong := p.ask(t, b)
		if wrong == "" {
			return
		}
		if !b.again || time.Now().After(ends) {
			t.Errorf("line %d:%s\n%s", b.line, b.about, wrong)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ask makes a request and says what is wrong with its answer.
func (p *play) ask(t *testing.T, b block) string {
	t.Helper()
	method, target, _ := strings.Cut(p.fill(b.request[0]), " ")
	r, err := http.NewRequest(method, p.site.url+target, strings.NewReader(p.fill(b.body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Token", p.values["token"])
	for _, line := range b.request[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Del(name); value != "-" {
			r.Header.Set(name, p.fill(value))
		}
	}
	answer, err := p.site.client.Do(r)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return err.Error()
	}
	if got := strconv.Itoa(answer.StatusCode); got != b.status {
		return fmt.Sprintf("status %s, want %s: %s", got, b.status, body)
	}
	if answer.StatusCode == http.StatusMovedPermanently {
		return "" // only lmstfy has it, with a page
	}
	if id := answer.Header.Get("X-Request-ID"); !isULID(id) {
		return fmt.Sprintf("the X-Request-ID is %q", id)
	}
	want := b.answerHeader
	switch {
	case b.hasAnswer:
		want = append(want, "Content-Type: application/json; charset=utf-8")
	case method != http.MethodHead:
		want = append(want, "Content-Type: -")
	}
	for _, line := range want {
		name, value, _ := strings.Cut(line, ": ")
		if got := answer.Header.Get(name); got != strings.TrimPrefix(value, "-") {
			return fmt.Sprintf("%s: %q, want %q", name, got, value)
		}
	}
	return p.compare(body, p.fill(b.answer))
}

func isULID(id string) bool {
	_, _, ok := httpjob.ParseID(id)
	return ok && len(id) == 26
}

var pattern = regexp.MustCompile(`\\\{(ids?|ms|s)(?::(\w+))?\\\}`)

// compare says how a body differs from what is wanted, and keeps the ids that it names.
func (p *play) compare(body []byte, want string) string {
	var names []string
	expression := pattern.ReplaceAllStringFunc(regexp.QuoteMeta(want), func(m string) string {
		parts := pattern.FindStringSubmatch(m)
		names = append(names, parts[1]+":"+parts[2])
		switch parts[1] {
		case "id":
			return `([0-9A-Z]{26,27})`
		case "ids":
			return `("[0-9A-Z]{26}"(?:,"[0-9A-Z]{26}")*)`
		}
		return `(\d+)`
	})
	found := regexp.MustCompile("^" + expression + "$").FindSubmatch(body)
	if found == nil {
		return fmt.Sprintf("got  %s\nwant %s", bytes.TrimSpace(body), want)
	}
	for i, name := range names {
		kind, name, _ := strings.Cut(name, ":")
		value := string(found[i+1])
		switch kind {
		case "id":
			if _, _, ok := httpjob.ParseID(value); !ok {
				return value + " is no id of a job"
			}
			p.values[name] = value
		case "s":
			seconds, _ := strconv.Atoi(value)
			if most, _ := strconv.Atoi(name); seconds > most || seconds < most-30 {
				return fmt.Sprintf("%d s are not about %s", seconds, name)
			}
		}
	}
	return ""
}
