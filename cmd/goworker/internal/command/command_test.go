package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// output is what a command prints, for a reader that does not wait for its end.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func none(string) (string, bool) { return "", false }

// run runs a command to its end.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e output
	code = Run(t.Context(), patient(args), none, &o, &e)
	return code, o.String(), e.String()
}

// patient gives a command a minute for what it asks Redis, unless the test says how long it may take: on a busy machine the usual time may be
// over before Redis is reached, and that of a search before it has seen all.
func patient(args []string) []string {
	command, _, err := (&program{lookup: none}).root().Find(args)
	given := func(arg string) bool {
		return strings.HasPrefix(arg, "--timeout") || strings.HasPrefix(arg, "--budget")
	}
	if err != nil || command.Flag("budget") == nil || slices.ContainsFunc(args, given) {
		return args
	}
	flags := slices.Index(args, "--")
	if flags < 0 {
		flags = len(args)
	}
	return slices.Insert(slices.Clone(args), flags, "--timeout=1m", "--budget=1m")
}

// server starts goworker serve, and returns its address and a function that stops it and returns its exit code.
func server(t *testing.T, args ...string) (base, admin string, stop func() int) {
	t.Helper()
	var o, e output
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	args = append([]string{"serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--log-level=error"}, args...)
	go func() { ended <- Run(ctx, args, none, &o, &e) }()
	stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	lines := regexp.MustCompile(`serves jobs at (\S+), and its admin pages at (\S+)\.\n`)
	redistest.Eventually(t, time.Minute, "the server says where it is", func() bool {
		if len(ended) > 0 {
			t.Fatalf("it ended with %d:\n%s%s", <-ended, o.String(), e.String())
		}
		m := lines.FindStringSubmatch(o.String())
		if m != nil {
			base, admin = m[1], m[2]
		}
		return m != nil
	})
	return base, admin, stop
}

// call sends a request, and returns its status and body.
func call(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// The lines that --dev prints work as they are printed. Pages of other hosts get nothing.
func TestDev(t *testing.T) {
	t.Parallel()
	base, _, stop := server(t, "-dev")
	jobs, reservations := base+"/v2/dev/queues/mail/jobs", base+"/v2/dev/reservations"
	if status, text := call(t, "POST", jobs, "hello"); status != http.StatusCreated {
		t.Errorf("publish: %d %s", status, text)
	}
	if status, text := call(t, "POST", reservations, `{"queues":["mail"]}`); status != http.StatusOK || !strings.Contains(text, `"body":"hello"`) {
		t.Errorf("reserve: %d %s", status, text)
	}
	for _, header := range [][]string{{"Host", "evil.example.com"}, {"Origin", "https://evil.example.com"}} {
		if status, text := call(t, "POST", jobs, "x", header...); status/100 == 2 {
			t.Errorf("with %v: %d %s", header, status, text)
		}
	}
	if code := stop(); code != exitDone {
		t.Errorf("it ended with %d", code)
	}
}

// Tokens that the command makes are valid at once, and not after they were revoked.
func TestServeWithTokens(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	uri := "--redis=" + redis.URI()
	base, _, stop := server(t, uri)
	code, token, errs := run(t, "token", "create", "shop", "--description", "the shop", "--scopes", "publish", uri)
	token = strings.TrimSpace(token)
	if code != exitDone || len(token) < 20 || !strings.Contains(errs, "not shown again") {
		t.Fatalf("create: %d %q %q", code, token, errs)
	}
	if left := strings.Join(redis.List(t, "HVALS", "resque:go:http:tokens"), ""); strings.Contains(left, token) {
		t.Error("Redis has the token in clear")
	}
	jobs := base + "/v2/shop/queues/mail/jobs"
	redistest.Eventually(t, time.Minute, "the server knows the token", func() bool {
		status, _ := call(t, "POST", jobs, "x", "X-Token", token)
		return status == http.StatusCreated
	})
	if status, text := call(t, "POST", base+"/v2/shop/reservations", `{"queues":["mail"]}`, "X-Token", token); status != http.StatusForbidden {
		t.Errorf("without the scope: %d %s", status, text)
	}
	_, list, _ := run(t, "token", "list", "shop", "--json", uri)
	var entry struct{ ID, Namespace, Description string }
	if err := json.Unmarshal([]byte(list), &entry); err != nil || entry.Namespace != "shop" || entry.Description != "the shop" {
		t.Fatalf("list: %s, %v", list, err)
	}
	if code, table, _ := run(t, "token", "list", uri); code != exitDone || !strings.Contains(table, entry.ID) || !strings.Contains(table, "publish") || strings.Contains(table, token) {
		t.Errorf("list: %d\n%s", code, table)
	}
	code, fresh, errs := run(t, "token", "rotate", entry.ID, uri)
	if fresh = strings.TrimSpace(fresh); code != exitDone || fresh == token {
		t.Fatalf("rotate: %d %q %q", code, fresh, errs)
	}
	redistest.Eventually(t, time.Minute, "the server knows the new token", func() bool {
		status, _ := call(t, "POST", jobs, "x", "X-Token", fresh)
		return status == http.StatusCreated
	})
	if code, _, errs := run(t, "token", "revoke", entry.ID, uri); code != exitDone {
		t.Fatalf("revoke: %d %s", code, errs)
	}
	redistest.Eventually(t, time.Minute, "the server refuses the old token", func() bool {
		status, _ := call(t, "POST", jobs, "x", "X-Token", token)
		return status == http.StatusUnauthorized
	})
	if code, _, errs := run(t, "token", "revoke", entry.ID, uri); code != exitFailed || !strings.Contains(errs, entry.ID) {
		t.Errorf("revoke again: %d %s", code, errs)
	}
	if code := stop(); code != exitDone {
		t.Errorf("it ended with %d", code)
	}
}

// lmstfy's file is read as it is. Its tokens, taken over, open what they opened there; so do its jobs.
func TestFromLmstfy(t *testing.T) {
	t.Parallel()
	theirs, ours := redistest.Start(t), redistest.Start(t)
	from, to := "--from="+theirs.URI(), "--redis="+ours.URI()
	const token, id = "01DT5PMXVW4Q0X7EPCC2HC5C6C", "01M80NTA9RZYBB7STPTR000000"
	theirs.Do(t, "HSET", "tk/default/shop", token, "the shop")
	theirs.Do(t, "HSET", "m/ns", "shop", 1)
	theirs.Do(t, "HSET", "m/ns/shop", "mail", 1)
	theirs.Do(t, "SET", "j/shop/mail/"+id, "hello")
	theirs.Do(t, "LPUSH", "q/shop/mail", "\x02\x00\x1a\x00"+id)
	conf := filepath.Join(t.TempDir(), "lmstfy.toml")
	text := "TTRSecond = 30\nLogDir = \"/var/log\"\n[AdminRedis]\nAddr = \"x:1\"\n[Pool.default]\nAddr = \"localhost:1\"\nPassword = \"secret\"\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := run(t, "token", "import", from, to); code != exitDone || !strings.Contains(out, "1 tokens were taken over, 0 were there") {
		t.Fatalf("token import: %d %s %s", code, out, errs)
	}
	if _, out, _ := run(t, "token", "import", from, to); !strings.Contains(out, "0 tokens were taken over, 1 were there") {
		t.Errorf("token import again: %s", out)
	}
	if code, out, errs := run(t, "import", "lmstfy", from, to); code != exitDone || !strings.Contains(out, "1 job moved: 1 ready") {
		t.Fatalf("import: %d %s %s", code, out, errs)
	}
	if left := strings.Join(theirs.Keys(t), " "); left != "goworker:import m/ns m/ns/shop tk/default/shop" {
		t.Errorf("lmstfy's Redis has the keys %s", left)
	}
	base, _, _ := server(t, "-c", conf, "--require-aof=false", to)
	status, body := call(t, "GET", base+"/api/shop/mail", "", "X-Token", token)
	var job struct {
		ID    string `json:"job_id"`
		Data  []byte `json:"data"`
		Tries int    `json:"remain_tries"`
	}
	if err := json.Unmarshal([]byte(body), &job); err != nil || status != http.StatusOK || job.ID != id || string(job.Data) != "hello" || job.Tries != 1 {
		t.Errorf("the job is %+v, %d %s %v", job, status, body, err)
	}
	if status, body := call(t, "DELETE", base+"/api/shop/mail/job/"+id+"?token="+token, ""); status != http.StatusNoContent {
		t.Errorf("acknowledged: %d %s", status, body)
	}
}

// A Redis that may lose jobs is refused, and the exit code of a mistake differs from that of a failure.
func TestRefusals(t *testing.T) {
	t.Parallel()
	evicting := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	forgetting := redistest.Start(t, "--appendonly", "no")
	forgetting.Do(t, "ACL", "SETUSER", "poor", "on", ">secret", "~*", "&*", "+@all", "-zadd")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"serve", "--redis=" + evicting.URI()}, exitFailed, "deletes keys when its memory is full (allkeys-lru)"},
		{[]string{"serve", "--redis=" + forgetting.URI(), "--require-aof"}, exitFailed, "keeps no append-only file"},
		{[]string{"serve", "--redis=redis://poor:secret@" + forgetting.Addr}, exitFailed, "may not run"},
		{[]string{"serve", "--redis=redis://:secret@127.0.0.1:1/"}, exitUnavailable, "goworker: redis: nothing listens at 127.0.0.1:1; start Redis there"},
		{[]string{"serve", "--redis=http://x"}, exitUsage, "http"},
		{[]string{"serve", "--redis=redis://:secret@127.0.0.1:1/", "--admin-listen=0.0.0.0:0"}, exitUsage, "set accounts, or admin certificates with a client CA"},
		{[]string{"serve", "--redis=redis://:secret@127.0.0.1:1/", "--tls-cert=/nowhere.pem", "--tls-key=/nowhere.pem"}, exitUsage, "/nowhere.pem"},
		{[]string{"serve", "--ttr=soon"}, exitUsage, `the flag --ttr: ttr is "soon"`},
		{[]string{"serve", "--colour"}, exitUsage, "unknown flag: --colour; goworker serve --help lists the flags"},
		{[]string{"serve", "now"}, exitUsage, "goworker: serve takes flags only, and was given now"},
		{[]string{"serve", "-c", "/nowhere.yaml"}, exitUsage, "/nowhere.yaml"},
		{[]string{"work"}, exitUsage, "there is no command work; there are "},
		{[]string{"token", "make"}, exitUsage, "there is no command token make"},
		{[]string{"token", "create"}, exitUsage, "goworker: token create takes one namespace"},
		{[]string{"token", "import"}, exitUsage, "takes --from"},
		{[]string{"import", "sidekiq"}, exitUsage, "nothing is imported from sidekiq"},
		{[]string{"import", "lmstfy"}, exitUsage, "takes --from with the URI of lmstfy's Redis, or --to"},
	} {
		code, _, errs := run(t, tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.want) || !strings.HasPrefix(errs, "goworker: ") || strings.Contains(errs, "secret") {
			t.Errorf("%q: %d\n%s\nand not %d with\n%s", tt.args, code, errs, tt.code, tt.want)
		}
	}
	base, _, stop := server(t, "--redis="+forgetting.URI())
	if status, text := call(t, "GET", base+"/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, text)
	}
	stop()
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	if code, out, _ := run(t, "version"); code != exitDone || !strings.HasPrefix(out, "goworker ") {
		t.Errorf("version: %d %s", code, out)
	}
	for _, args := range [][]string{nil, {"-help"}, {"serve", "--help"}, {"token"}, {"import"}} {
		if code, out, errs := run(t, args...); code != exitDone || !strings.Contains(out, "Usage:") || errs != "" {
			t.Errorf("%q: %d %s %s", args, code, out, errs)
		}
	}
	for _, out := range []string{"redis", "REDIS_URL", "GOWORKER_HTTP_LISTEN"} {
		if _, help, _ := run(t, "serve", "--help"); !strings.Contains(help, out) {
			t.Errorf("the help does not name %s", out)
		}
	}
}

// Help fits a terminal of 80 columns, but for examples and usage, which are copied. Each command is in a part of the list, or comes last because
// it is about goworker itself.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	root := (&program{lookup: none}).root()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		_, help, _ := run(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		for line := range strings.Lines(help) {
			if view.Width(strings.TrimSuffix(line, "\n")) > helpWidth && !strings.Contains(line, "goworker ") {
				t.Errorf("%s --help: wider than %d columns: %s", c.CommandPath(), helpWidth, line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	var last []string
	for _, c := range root.Commands() {
		if c.GroupID == "" {
			last = append(last, c.Name())
		}
	}
	if got := strings.Join(last, " "); got != "config man version" {
		t.Errorf("in no part of the list: %s", got)
	}
}
