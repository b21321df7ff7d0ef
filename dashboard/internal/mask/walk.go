package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
)

const metaField = httpjob.MetaField

// kind is what the members of an object are.
type kind uint8

const (
	plain   kind = iota
	job          // a job's payload
	argList      // its arguments
	wrapper      // the argument of Rails' wrapper
	record       // a failure
)

// scope is what a value inherits from the keys above it.
type scope struct {
	kind  kind
	hit   bool    // all is masked
	paths []*node // of the class
	inner []*node // of the class of an ActiveJob: where its arguments begin
}

// scopeOf is the scope of a list of arguments.
func (m *Masker) scopeOf(class string, list []json.RawMessage) scope {
	s := scope{kind: argList, hit: m.level == Hide}
	if root := m.paths[class]; root != nil {
		s.paths = []*node{root}
	}
	if class == args.ActiveJobWrapper && len(list) == 1 {
		s.kind = wrapper
		for _, member := range payload.Members(bytes.TrimLeft(list[0], " \t\r\n")) {
			if payload.StringValue(member.Key) == "job_class" {
				s.inner = nil
				if root := m.paths[payload.StringValue(member.Value)]; root != nil {
					s.inner = []*node{root}
				}
			}
		}
	}
	return s
}

// under is the scope of what stands under a key or an index.
func (s scope) under(key string) scope {
	next := scope{hit: s.hit}
	for _, n := range s.paths {
		for _, below := range [2]*node{n.keys[key], n.any} {
			if below != nil {
				next.hit = next.hit || below.end
				next.paths = append(next.paths, below)
			}
		}
	}
	return next
}

// walker masks well-formed JSON in one pass. What is not masked is copied in pieces, and not at all if nothing is masked.
type walker struct {
	m     *Masker
	class string
	path  []string // if Rules.Func is set

	got   *values  // collects what is masked; nil: it does not
	known *Secrets // masks these values too; nil: there are none

	src  []byte
	pos  int
	dst  []byte
	from int // what of src before it is in dst
	most int // bytes of dst that are enough; 0: all

	quiet bool // it only collects
}

// full reports whether what is written is enough.
func (w *walker) full() bool { return w.most > 0 && len(w.dst)+w.pos-w.from >= w.most }

// put replaces a part of src.
func (w *walker) put(start, end int, by []byte) {
	if w.quiet {
		return
	}
	w.dst = append(append(w.dst, w.src[w.from:start]...), by...)
	w.from = end
}

func (w *walker) result() json.RawMessage {
	if w.from == 0 && w.dst == nil {
		return w.src
	}
	rest := w.src[w.from:]
	if w.most > 0 {
		rest = rest[:min(len(rest), w.most)]
	}
	return append(w.dst, rest...)
}

// broken masks text that is not JSON.
func (w *walker) broken(raw []byte) json.RawMessage {
	if w.m.level == Hide {
		w.got.add(string(raw))
		return json.RawMessage(Mark)
	}
	spans := spansOf(raw)
	w.got.spans(raw, spans)
	if w.known != nil {
		spans = merged(spans, w.known.found(raw, false))
	}
	if len(spans) == 0 || w.quiet {
		return raw
	}
	return apply(raw, spans, w.most)
}

func (w *walker) space() {
	for w.pos < len(w.src) && (w.src[w.pos] == ' ' || w.src[w.pos] == '\n' || w.src[w.pos] == '\t' || w.src[w.pos] == '\r') {
		w.pos++
	}
}

func (w *walker) value(s scope) {
	if w.full() {
		return
	}
	switch w.src[w.pos] {
	case '{':
		w.object(s)
	case '[':
		w.array(s)
	default:
		w.scalar(s)
	}
}

func (w *walker) object(s scope) {
	w.pos++
	for {
		w.space()
		if w.src[w.pos] == ',' {
			w.pos++
			w.space()
		}
		if w.src[w.pos] == '}' {
			w.pos++
			return
		}
		start := w.pos
		w.text()
		key := w.src[start+1 : w.pos-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(payload.StringValue(w.src[start:w.pos]))
		}
		w.space()
		w.pos++ // the colon
		w.space()
		if w.member(s, key); w.full() {
			return
		}
	}
}

// member masks the value of a key.
func (w *walker) member(s scope, key []byte) {
	scalar := w.src[w.pos] != '{' && w.src[w.pos] != '['
	next := scope{hit: s.hit}
	if len(s.paths) > 0 {
		next = s.under(string(key))
	}
	switch s.kind {
	case job:
		switch string(key) {
		case "class", "queue", "id":
			if scalar {
				w.skip()
				return
			}
		case "args":
			w.arguments()
			return
		case metaField:
			next.hit = w.m.level == Hide
			w.below(string(key), func() { w.value(next) })
			return
		}
		next.hit = w.m.level == Hide && !(scalar && w.src[w.pos] != '"' && slices.Contains(jobFields, string(key)))
	case wrapper:
		switch string(key) {
		case "job_class", "job_id", "queue_name":
			if scalar {
				w.skip()
				return
			}
		case "arguments":
			next.paths = append(next.paths, s.inner...)
		}
		if scalar && w.m.level == Hide && slices.Contains(railsFields, string(key)) {
			next.hit = false
		}
	}
	if !next.hit && secretKey(key) {
		next.hit = true
	}
	if w.m.also == nil {
		w.value(next)
		return
	}
	w.below(string(key), func() { w.value(next) })
}

// jobFields are numbers and the like of a payload that Hide shows, because they are not what the program says, and railsFields those of an ActiveJob.
var (
	jobFields   = []string{"attempt", "tries", "priority", "expires_at", "queued_at", "enqueued_at", "queue_time", "timeout_ms", "result", "logs"}
	railsFields = []string{"provider_job_id", "priority", "executions", "locale", "timezone", "enqueued_at", "scheduled_at"}
)

// arguments masks the member args of a payload. Its paths begin with the index of an argument.
func (w *walker) arguments() {
	if w.src[w.pos] != '[' {
		w.value(scope{hit: w.m.level == Hide})
		return
	}
	var list []json.RawMessage
	if w.class == args.ActiveJobWrapper {
		list = payload.Elements(w.src[w.pos:])
	}
	w.array(w.m.scopeOf(w.class, list))
}

func (w *walker) array(s scope) {
	w.pos++
	for n := 0; ; n++ {
		w.space()
		if w.src[w.pos] == ',' {
			w.pos++
			w.space()
		}
		if w.src[w.pos] == ']' {
			w.pos++
			return
		}
		next := w.element(s, n)
		if w.m.also == nil {
			w.value(next)
		} else {
			w.below(strconv.Itoa(n), func() { w.value(next) })
		}
		if w.full() {
			return
		}
	}
}

// element is the scope of an element.
func (w *walker) element(s scope, n int) scope {
	next := scope{hit: s.hit}
	if len(s.paths) > 0 {
		next = s.under(strconv.Itoa(n))
	}
	if s.kind == wrapper {
		next.kind, next.inner = wrapper, s.inner
	}
	return next
}

// below calls do with one more part of the path.
func (w *walker) below(part string, do func()) {
	w.path = append(w.path, part)
	do()
	w.path = w.path[:len(w.path)-1]
}

// text goes past a string.
func (w *walker) text() {
	for w.pos++; w.src[w.pos] != '"'; w.pos++ {
		if w.src[w.pos] == '\\' {
			w.pos++
		}
	}
	w.pos++
}

// skip goes past a scalar.
func (w *walker) skip() {
	if w.src[w.pos] == '"' {
		w.text()
		return
	}
	for w.pos < len(w.src) && (isAlnum(w.src[w.pos]) || w.src[w.pos] == '-' || w.src[w.pos] == '+' || w.src[w.pos] == '.') {
		w.pos++
	}
}

func (w *walker) scalar(s scope) {
	start := w.pos
	w.skip()
	raw := w.src[start:w.pos]
	var decoded []byte
	if raw[0] == '"' {
		if decoded = raw[1 : len(raw)-1]; bytes.IndexByte(decoded, '\\') >= 0 {
			decoded = []byte(payload.StringValue(raw))
		}
	}
	hit := s.hit
	if !hit && w.m.also != nil {
		text := string(raw)
		if raw[0] == '"' {
			text = string(decoded)
		}
		hit = w.m.also(w.class, w.path, text)
	}
	switch {
	case hit:
	case raw[0] == '"':
		w.string(start, decoded)
		return
	case isDigit(raw[0]) || raw[0] == '-':
		if hit = numberIsCard(raw) || w.known.is(raw); !hit {
			return
		}
	default:
		return
	}
	w.got.scalar(raw, decoded)
	w.put(start, w.pos, []byte(quotedMark))
}

// string masks parts of a string whose key says nothing.
func (w *walker) string(start int, text []byte) {
	spans := spansOf(text)
	w.got.spans(text, spans)
	if w.known != nil {
		spans = merged(spans, w.known.found(text, false))
	}
	switch {
	case w.quiet:
	case len(spans) > 0:
		w.put(start, w.pos, payload.AppendText(nil, string(apply(text, spans, w.most))))
	case secretBase64(text):
		w.put(start, w.pos, []byte(quotedMark))
	}
}

// secretBase64 reports whether a text is what a failure shows of a payload that was not UTF-8, and something of that is masked.
func secretBase64(text []byte) bool {
	encoded, ok := bytes.CutPrefix(text, []byte("base64:"))
	if !ok {
		return false
	}
	raw, err := base64.StdEncoding.AppendDecode(nil, encoded)
	return err != nil || len(spansOf(raw)) > 0
}
