package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/failures"
	"github.com/goworker/goworker/internal/stamp"
)

// subject is a job that is compared with a query: its bytes, and what else is known where it is.
type subject struct {
	place Place
	queue string
	raw   []byte

	due     time.Time // of a delayed job
	process string    // of a running job
	version string    // of that process
	began   time.Time // of a running job, if it is known

	failure *payload.FailureFields // of a failed job
	record  []byte                 // the bytes of its record

	parsed *payload.Payload // once it is needed; nil: it is no job
	tried  bool
	inner  args.ActiveJob

	shown *subject // behind a mask, once it is needed
}

func (s *subject) job() *payload.Payload {
	if !s.tried {
		s.tried = true
		if p, err := payload.Parse(s.raw); err == nil {
			if s.parsed = &p; p.Class == args.ActiveJobWrapper {
				s.inner, _ = args.OpenActiveJob(p.Args)
			}
		}
	}
	return s.parsed
}

// came is when the job came to where it is, zero if nothing says so.
func (s *subject) came() time.Time {
	switch s.place {
	case Failed:
		if s.failure == nil {
			return time.Time{}
		}
		return failures.Time(payload.Text(s.failure.FailedAt))
	case Running:
		return s.began
	case Leased:
		return time.Time{}
	}
	p := s.job()
	if p == nil {
		return time.Time{}
	}
	at, _ := stamp.EnqueuedAt(p)
	return at
}

// verdict is whether a job fulfils a condition.
type verdict int8

const (
	no verdict = iota
	unsure
	yes
)

func is(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// test is a condition prepared for many jobs.
type test func(s *subject) verdict

// prepare makes a test of a condition, and the texts that every payload and every record that fulfils it contains.
func (c Condition) prepare() (t test, texts []string, err error) {
	path := pathOf(c.Name)
	if path == nil && c.Name != onText && c.Name != onRetried {
		return nil, nil, fmt.Errorf("goworker: %q is no condition of a query; %s", c.Name, meant(c.Name, conditionNames, ""))
	}
	// sure are the parts of the value that stand in the bytes as they are.
	var sure []string
	for _, part := range c.parts() {
		if part != "" && payload.PlainText(part) {
			sure = append(sure, part)
		}
	}
	switch c.Name {
	case onRetried:
		t = func(s *subject) verdict { return is(s.failure != nil && payload.Text(s.failure.RetriedAt) != "") }
	case onText:
		if t = c.inBytes(); c.Literal {
			texts = sure
		}
	case onClass:
		t, texts = func(s *subject) verdict {
			p := s.job()
			return is(p != nil && (c.equal(p.Class) || s.inner.Class != "" && c.equal(s.inner.Class)))
		}, sure
	case onQueue:
		t = func(s *subject) verdict { return is(c.equal(s.queue)) }
	case onID:
		t, texts = func(s *subject) verdict {
			p := s.job()
			return is(p != nil && (c.equal(p.ID) || s.inner.ID != "" && c.equal(s.inner.ID)))
		}, nil // a job that was leased may have an id that its payload lacks
	case onRef:
		t = func(s *subject) verdict { return is(refOf(s.queue, s.raw) == c.Value) }
	case onError:
		t = func(s *subject) verdict {
			return is(s.failure != nil && (c.inside(payload.Text(s.failure.Error)) || c.inside(payload.Text(s.failure.Exception))))
		}
	case onException:
		t = func(s *subject) verdict { return is(s.failure != nil && c.equal(payload.Text(s.failure.Exception))) }
	case onGroup:
		t = func(s *subject) verdict {
			return is(s.place == Failed && failures.GroupOf(s.failure).String() == c.Value)
		}
	case onWorker:
		t = func(s *subject) verdict {
			who := s.process
			if s.failure != nil {
				who = payload.Text(s.failure.Worker)
			}
			return is(c.begins(who))
		}
	case onVersion:
		t = func(s *subject) verdict { return is(s.place == Running && c.prefixes(s.version)) }
	case onState:
		words := strings.Split(c.Value, ",")
		for _, word := range words {
			if states[word] == nil {
				return nil, nil, fmt.Errorf("goworker: %q is no state of a query", word)
			}
		}
		t = func(s *subject) verdict { return is(slices.ContainsFunc(words, s.isIn)) }
	case onSince, onUntil:
		t = func(s *subject) verdict {
			switch came := s.came(); {
			case came.IsZero():
				return unsure
			case c.Name == onSince:
				return is(!came.Before(c.Time))
			default:
				return is(came.Before(c.Time))
			}
		}
	case onDue:
		t = func(s *subject) verdict {
			if c.Value == "<" {
				return is(s.place == Delayed && s.due.Before(c.Time))
			}
			return is(s.place == Delayed && s.due.After(c.Time))
		}
	case onArgs:
		wanted := payload.Elements([]byte(c.Value))
		t = func(s *subject) verdict {
			p := s.job()
			return is(p != nil && (sameArgs(p.Args, wanted) || s.inner.Class != "" && sameArgs(s.inner.Args, wanted)))
		}
	default:
		texts = nil
		t = c.onPath(path)
		if t == nil {
			return nil, nil, fmt.Errorf("goworker: the condition %q of a query has no value that ParseQuery would give it", c.Name)
		}
		if path[0] == onMeta && !c.Not {
			texts = sure
		}
	}
	if !c.Not {
		return t, texts, nil
	}
	plain := t
	return func(s *subject) verdict { return yes - plain(s) }, nil, nil
}

// onPath is the test of arg and meta.
func (c Condition) onPath(path []string) test {
	switch path[0] {
	case onMeta:
		return func(s *subject) verdict {
			p := s.job()
			if p == nil {
				return no
			}
			value := member(p.Field(httpjob.MetaField), path[1])
			return is(value != nil && c.equal(payload.Text(value)))
		}
	case onArg:
		n, _ := strconv.Atoi(path[1])
		in := func(list []json.RawMessage) bool {
			if n >= len(list) {
				return false
			}
			value := list[n]
			for _, key := range path[2:] {
				if value = into(value, key); value == nil {
					return false
				}
			}
			return c.equalJSON(value)
		}
		return func(s *subject) verdict {
			p := s.job()
			return is(p != nil && (in(p.Args) || s.inner.Class != "" && in(s.inner.Args)))
		}
	}
	return nil
}

// into returns what an object or an array has under a key; nil: nothing.
func into(value json.RawMessage, key string) json.RawMessage {
	if len(value) > 0 && value[0] == '[' {
		n, err := strconv.ParseUint(key, 10, 31)
		if list := payload.Elements(value); err == nil && n < uint64(len(list)) {
			return list[n]
		}
		return nil
	}
	return member(value, key)
}

// member returns the value of a key of an object; nil: it has none.
func member(object []byte, key string) json.RawMessage {
	var value json.RawMessage
	for _, m := range payload.Members(object) {
		if payload.StringValue(m.Key) == key {
			value = m.Value
		}
	}
	return value
}

// isIn reports whether the job is in a state.
func (s *subject) isIn(word string) bool {
	if !slices.Contains(states[word], s.place) {
		return false
	}
	if word != retryingState {
		return true
	}
	p := s.job()
	return p != nil && p.Attempt > 1
}

func sameArgs(a, b []json.RawMessage) bool {
	return slices.EqualFunc(a, b, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// parts are the texts between the stars of a value.
func (c Condition) parts() []string {
	if c.Literal {
		return []string{c.Value}
	}
	return strings.Split(c.Value, "*")
}

// equal reports whether a text is the value, or fits its stars.
func (c Condition) equal(text string) bool {
	parts := c.parts()
	if len(parts) == 1 {
		return text == c.Value
	}
	text, ok := strings.CutPrefix(text, parts[0])
	last := parts[len(parts)-1]
	return ok && strings.HasSuffix(text, last) && inOrder(text[:max(0, len(text)-len(last))], parts[1:len(parts)-1])
}

// inOrder reports whether a text contains all parts, one behind the other.
func inOrder(text string, parts []string) bool {
	for _, part := range parts {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// inside reports whether a text contains the value: in quotes to the letter, else in any case.
func (c Condition) inside(text string) bool {
	if c.Literal {
		return strings.Contains(text, c.Value)
	}
	return inOrder(strings.ToLower(text), strings.Split(strings.ToLower(c.Value), "*"))
}

// begins reports whether a worker or process is meant by its id or by a beginning up to a colon. A goworker process
// writes .go behind its host.
func (c Condition) begins(id string) bool {
	if id == "" {
		return false
	}
	if c.equal(id) {
		return true
	}
	for at := range len(id) {
		if id[at] == ':' && (c.equal(id[:at]) || c.equal(strings.TrimSuffix(id[:at], ".go"))) {
			return true
		}
	}
	return false
}

// prefixes reports whether a text begins with the value.
func (c Condition) prefixes(text string) bool {
	c.Value += "*"
	if c.Literal {
		return strings.HasPrefix(text, c.Value[:len(c.Value)-1])
	}
	return text != "" && c.equal(text)
}

// equalJSON reports whether a value of JSON is what was written: a text without its quotes, and anything else as it is.
func (c Condition) equalJSON(value json.RawMessage) bool {
	if len(value) > 0 && value[0] == '"' {
		return c.equal(payload.StringValue(value))
	}
	return c.equal(string(value))
}

// inBytes is the test of a text without a name. Letters that the encoder of JSON has escaped are found too.
func (c Condition) inBytes() test {
	return func(s *subject) verdict {
		raw := s.raw
		if s.record != nil {
			raw = s.record
		} else if p := s.job(); p != nil && p.Text != nil {
			raw = p.Text // an item in MessagePack
		}
		if c.inside(string(raw)) {
			return yes
		}
		if bytes.IndexByte(raw, '\\') < 0 {
			return no
		}
		return is(c.inside(unescaped(raw)))
	}
}

// unescaped returns JSON with the escapes in its strings taken off. It is for looking into only.
func unescaped(raw []byte) string {
	var b strings.Builder
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			b.WriteByte(raw[i])
			i++
			continue
		}
		end := i + 1
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(raw))
		b.WriteByte('"')
		b.WriteString(payload.StringValue(raw[i:end]))
		b.WriteByte('"')
		i = end
	}
	return b.String()
}
