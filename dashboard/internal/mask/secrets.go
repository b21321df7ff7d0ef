package mask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/payload"
)

const (
	leastValue = 4         // characters of a value that is sought in other texts
	mostValues = 256 << 10 // bytes of all values together
	leastCut   = 8         // bytes of the beginning of a value that count at an ellipsis
)

// values collects what is masked in a job. A nil one collects nothing.
type values struct {
	all  map[string]bool
	size int
	over bool // there are too many
}

// add adds a text, and the forms in which programs quote it.
func (v *values) add(text string) {
	if v == nil || v.over {
		return
	}
	if v.one(text); v.over {
		return
	}
	if strings.ContainsAny(text, "\\\"'\n\t<>&") || !isPlain(text) {
		for _, quoted := range []string{strconv.Quote(text), strconv.QuoteToASCII(text)} {
			v.one(quoted[1 : len(quoted)-1])
		}
		if encoded, err := json.Marshal(text); err == nil {
			v.one(string(encoded[1 : len(encoded)-1]))
		}
		encoded := payload.AppendText(nil, text)
		v.one(string(encoded[1 : len(encoded)-1]))
	}
	if escaped := url.QueryEscape(text); escaped != text {
		v.one(escaped)
		v.one(url.PathEscape(text))
	}
	if trimmed := strings.TrimSpace(text); trimmed != text {
		v.one(trimmed)
	}
	if strings.Contains(text, "\n") { // log lines come one by one
		for line := range strings.SplitSeq(text, "\n") {
			v.one(strings.TrimSpace(line))
		}
	}
}

// spans adds parts of a text.
func (v *values) spans(text []byte, all []span) {
	for _, s := range all {
		if v == nil || v.over {
			return
		}
		v.add(string(text[s.from:s.to]))
	}
}

func isPlain(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

func (v *values) one(text string) {
	if v.over || len(text) < leastValue || v.all[text] || utf8.RuneCountInString(text) < leastValue {
		return
	}
	if v.size += len(text); v.size > mostValues {
		v.all, v.over = nil, true
		return
	}
	if v.all == nil {
		v.all = make(map[string]bool)
	}
	v.all[text] = true
}

// scalar adds a masked value of JSON.
func (v *values) scalar(raw, decoded []byte) {
	switch {
	case v == nil || v.over:
	case len(raw) > mostValues:
		v.all, v.over = nil, true
	case raw[0] == '"':
		v.add(string(decoded))
		v.one(string(raw[1 : len(raw)-1]))
	case isDigit(raw[0]) || raw[0] == '-':
		v.one(string(raw))
		if f, err := strconv.ParseFloat(string(raw), 64); err == nil && len(raw) > 6 { // a program that reads numbers as floats writes them so
			v.one(fmt.Sprint(f))
			v.one(fmt.Sprintf("%f", f))
		}
	}
}

func (v *values) secrets(m *Masker) *Secrets { return &Secrets{m: m, all: v.all, over: v.over} }

// Secrets is what is masked in the arguments and other fields of a job. It masks the texts that belong to the job. It is safe for concurrent use.
type Secrets struct {
	m    *Masker
	all  map[string]bool
	over bool

	once sync.Once
	tree *tree
}

// With returns what is masked in a job. Where that is more than 256 KiB, all of each text of the job is masked.
func (m *Masker) With(job []byte) *Secrets {
	got := new(values)
	if m.level != Show && len(job) > 0 {
		m.masked(job, &walker{m: m, got: got, quiet: true})
	}
	return got.secrets(m)
}

// some reports whether there is something to look for.
func (s *Secrets) some() bool { return s.over || len(s.all) > 0 }

// is reports whether a scalar of JSON without quotes is one of the values.
func (s *Secrets) is(raw []byte) bool { return s != nil && (s.over || s.all[string(raw)]) }

// found finds the values in a text. With cut, the beginning of a value counts that was cut off.
func (s *Secrets) found(text []byte, cut bool) []span {
	switch {
	case len(text) == 0:
		return nil
	case s.over:
		return []span{{0, len(text)}}
	case len(s.all) == 0:
		return nil
	}
	s.once.Do(func() { s.tree = newTree(s.all) })
	return s.tree.find(text, cut)
}

// Text is Masker.Text for an error, a line of a backtrace or a log line of the job. It also masks the values of the job that are masked and
// have at least four characters, and their beginnings before an ellipsis.
func (s *Secrets) Text(text string) string {
	if s.m.level == Show || text == "" {
		return text
	}
	raw := []byte(text)
	return masked(text, merged(spansOf(raw), s.found(raw, true)))
}

// JSON is Masker.JSON for a result or a progress of the job.
func (s *Secrets) JSON(raw json.RawMessage) json.RawMessage {
	if s.m.level == Show || len(raw) == 0 {
		return raw
	}
	got := new(values)
	first := s.m.walked(&walker{m: s.m, got: got, known: s}, raw, scope{hit: s.m.level == Hide})
	if s.m.level == Hide || !got.secrets(s.m).some() {
		return first
	}
	for text := range s.all {
		got.one(text)
	}
	return s.m.walked(&walker{m: s.m, known: got.secrets(s.m)}, raw, scope{})
}

// tree finds many values in one pass (Aho and Corasick).
type tree struct {
	nodes []branch
	root  [256]int32
}

// branch is a beginning of values.
type branch struct {
	first, next int32 // the first longer beginning, and the next beginning of the same length
	fail        int32 // the longest other beginning that this one ends with
	depth       int32
	length      int32 // of the longest value that ends here; 0: none
	c           byte
}

func newTree(values map[string]bool) *tree {
	t := &tree{nodes: make([]branch, 1)}
	for text := range values {
		at := int32(0)
		for i := range len(text) {
			below := t.below(at, text[i])
			if below == 0 {
				below = int32(len(t.nodes))
				n := branch{c: text[i], depth: int32(i + 1), next: t.nodes[at].first}
				t.nodes = append(t.nodes, n)
				t.nodes[at].first = below
				if at == 0 {
					t.root[text[i]] = below
				}
			}
			at = below
		}
		t.nodes[at].length = int32(len(text))
	}
	queue := make([]int32, 0, len(t.nodes))
	for n := t.nodes[0].first; n != 0; n = t.nodes[n].next {
		queue = append(queue, n)
	}
	for head := 0; head < len(queue); head++ {
		at := queue[head]
		for n := t.nodes[at].first; n != 0; n = t.nodes[n].next {
			fail := t.step(t.nodes[at].fail, t.nodes[n].c)
			t.nodes[n].fail = fail
			t.nodes[n].length = max(t.nodes[n].length, t.nodes[fail].length)
			queue = append(queue, n)
		}
	}
	return t
}

// below is the beginning that is longer by one byte; 0: none.
func (t *tree) below(at int32, c byte) int32 {
	if at == 0 {
		return t.root[c]
	}
	for n := t.nodes[at].first; n != 0; n = t.nodes[n].next {
		if t.nodes[n].c == c {
			return n
		}
	}
	return 0
}

// step is the longest beginning after one more byte.
func (t *tree) step(at int32, c byte) int32 {
	for {
		if n := t.below(at, c); n != 0 || at == 0 {
			return n
		}
		at = t.nodes[at].fail
	}
}

func (t *tree) find(text []byte, cut bool) (all []span) {
	at := int32(0)
	for i, c := range text {
		at = t.step(at, c)
		if at == 0 {
			continue
		}
		length := t.nodes[at].length
		if depth := t.nodes[at].depth; cut && depth >= leastCut && cutAt(text[i+1:]) {
			length = max(length, depth)
		}
		if length == 0 {
			continue
		}
		s := span{i + 1 - int(length), i + 1}
		for len(all) > 0 && all[len(all)-1].from >= s.from {
			all = all[:len(all)-1]
		}
		all = join(all, s)
	}
	return all
}

// cutAt reports whether a text that was cut off goes on like this.
func cutAt(rest []byte) bool {
	return len(rest) == 0 || bytes.HasPrefix(rest, []byte("…")) || bytes.HasPrefix(rest, []byte("..."))
}
