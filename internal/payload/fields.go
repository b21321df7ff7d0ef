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

// Limits of the metadata of one job.
const (
	MaxMetaKeys  = 64
	MaxMetaBytes = 16 << 10 // as JSON
)

// TextField is a Field with a string.
func TextField(name, value string) Field {
	return Field{name, appendString(make([]byte, 0, len(value)+len(`""`)), value, Plain, replacement)}
}

// NumberField is a Field with a number.
func NumberField(name string, n int64) Field {
	return Field{name, strconv.AppendInt(nil, n, 10)}
}

// AppendField adds a field behind the last one of the payload at the end of dst, which Append wrote.
func AppendField(dst []byte, f Field) []byte {
	dst = appendString(append(dst[:len(dst)-1], ','), f.Name, Plain, replacement)
	return append(append(append(dst, ':'), f.Value...), '}')
}

// AppendTextField is AppendField with a text.
func AppendTextField(dst []byte, name, value string) []byte {
	dst = appendString(append(dst[:len(dst)-1], ','), name, Plain, replacement)
	return append(appendString(append(dst, ':'), value, Plain, replacement), '}')
}

// Priority is what follows the brace of a job with a priority, from 1 to 9. Scripts know the job by these
// bytes, which no other part of a payload can have: they are its first ones.
func Priority(level int) string { return `"priority":` + strconv.Itoa(level) + "," }

// NewID returns an id for a job: 80 random bits in 16 letters and digits. It is in each
// delayed job, of which there may be ten million in Redis.
func NewID() string { return rand.Text()[:16] }

// SetFields returns the payload with the given fields set. A field that exists is changed in its place, the
// last of equal ones, since that one counts. New ones follow the last field, except that expires_at and id
// stay the last two, in this order, where they are the last. Where another program or an older release
// put them elsewhere they stay there. All other bytes are kept. The error is a *Error; raw must be an object.
func SetFields(raw []byte, fields ...Field) ([]byte, error) {
	raw = JSON(raw)
	s := scanner{src: raw, room: MaxDepth}
	s.space()
	if s.peek() != '{' {
		return nil, &Error{Reason: "the payload is no object"}
	}
	var some [8]edit // most calls set fewer fields
	found := some[:0]
	for range fields {
		found = append(found, edit{})
	}
	end, empty := 0, true
	var last trailing
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
		last.add(name, before, first)
		for i, f := range fields {
			if string(name) == f.Name {
				found[i] = edit{start, s.pos, f.Value}
			}
		}
	}
	room := 0
	for _, f := range fields {
		room += len(f.Name) + len(f.Value) + len(`,"":`)
	}
	var inner, behind []byte // before the fields that stay the last, and behind them
	for _, step := range [...]func(name string) bool{isOther, isExpiry, isID} {
		for i, f := range fields {
			switch {
			case found[i].end > 0 || !step(f.Name):
			case last.keepsBehind(f.Name):
				if inner == nil {
					inner = make([]byte, 0, room)
				}
				inner = f.appendTo(inner, true)
			default:
				if behind == nil {
					behind = make([]byte, 0, room)
				}
				behind = f.appendTo(behind, !empty || len(behind) > 0)
			}
		}
	}
	edits := append(slices.DeleteFunc(found, func(e edit) bool { return e.end == 0 }), edit{last.start, last.start, inner}, edit{end, end, behind})
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	out := make([]byte, 0, len(raw)+room)
	at := 0
	for _, e := range edits {
		out = append(append(out, raw[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, raw[at:]...), nil
}

// edit puts a text in the place of some bytes.
type edit struct {
	start, end int
	text       []byte
}

func (f Field) appendTo(dst []byte, comma bool) []byte {
	if comma {
		dst = append(dst, ',')
	}
	dst = appendString(dst, f.Name, Plain, replacement)
	return append(append(dst, ':'), f.Value...)
}

func isExpiry(name string) bool { return name == "expires_at" }
func isID(name string) bool     { return name == "id" }
func isOther(name string) bool  { return !isExpiry(name) && !isID(name) }

// trailing are expires_at and id where they are the last fields of a payload, but not its first.
type trailing struct {
	start      int // where they begin, the comma included; 0: there are none
	expiry, id bool
}

// add adds a field that begins at a place.
func (t *trailing) add(name []byte, at int, first bool) {
	expiry, id := string(name) == "expires_at", string(name) == "id"
	switch {
	case first || !expiry && !id:
		*t = trailing{}
		return
	case t.start == 0 || expiry && t.expiry || id && t.id:
		*t = trailing{start: at}
	}
	t.expiry, t.id = t.expiry || expiry, t.id || id
}

// keepsBehind reports whether a new field goes before these.
func (t trailing) keepsBehind(name string) bool {
	switch {
	case isID(name):
		return false
	case isExpiry(name):
		return t.id
	}
	return t.start > 0
}
