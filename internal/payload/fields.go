package payload

import (
	"bytes"
	"crypto/rand"
	"slices"
	"strconv"
)

// Field is a top-level field of a payload beside class and args, with which one of our
// features marks a job. Ruby's workers ignore it, and Ruby's retry and scheduler
// drop it.
type Field struct {
	Name  string
	Value []byte // JSON
}

// TextField is a Field with a string.
func TextField(name, value string) Field {
	return Field{name, appendString(nil, value, Plain, replacement)}
}

// NumberField is a Field with a number.
func NumberField(name string, n int64) Field {
	return Field{name, strconv.AppendInt(nil, n, 10)}
}

// NewID returns an id for a job: 80 random bits in 16 letters and digits. It is in each
// delayed job, of which there may be ten million in Redis.
func NewID() string { return rand.Text()[:16] }

// SetFields returns the payload with the given fields set. A field that exists is
// changed in its place, the last of equal ones, since that one counts;
// new ones follow the last field. All other bytes are kept. The error is
// a *Error; raw must be an object.
func SetFields(raw []byte, fields ...Field) ([]byte, error) {
	s := scanner{src: raw, room: MaxDepth}
	s.space()
	if s.peek() != '{' {
		return nil, &Error{"the payload is no object"}
	}
	type span struct{ start, end int }
	found := make([]span, len(fields))
	end, empty := 0, true
	s.enter()
	for first := true; ; first = false {
		before := s.pos
		more, ok := s.more('}', first)
		if !ok {
			return nil, s.refusal()
		}
		if !more {
			if first {
				before = bytes.IndexByte(raw, '{') + 1
			}
			end = before
			break
		}
		empty = false
		quoted, ok := s.key()
		if !ok {
			return nil, s.refusal()
		}
		start, name := s.pos, unquoteKey(quoted)
		if !s.value() {
			return nil, s.refusal()
		}
		for i, f := range fields {
			if string(name) == f.Name {
				found[i] = span{start, s.pos}
			}
		}
	}
	out := make([]byte, 0, len(raw)+32*len(fields))
	var added []byte
	order := make([]int, 0, len(fields))
	for i, f := range fields {
		if found[i].end > 0 {
			order = append(order, i)
			continue
		}
		if !empty || len(added) > 0 {
			added = append(added, ',')
		}
		added = appendString(added, f.Name, Plain, replacement)
		added = append(append(added, ':'), f.Value...)
	}
	slices.SortFunc(order, func(a, b int) int { return found[a].start - found[b].start })
	at := 0
	for _, i := range order {
		out = append(append(out, raw[at:found[i].start]...), fields[i].Value...)
		at = found[i].end
	}
	out = append(append(out, raw[at:end]...), added...)
	return append(out, raw[end:]...), nil
}
