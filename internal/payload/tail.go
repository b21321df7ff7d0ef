package payload

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// tailMost is how many bytes of a payload Tail looks at.
const tailMost = 1 << 10

// Tail returns the id, the lock and the fields at the end of a payload that is too large to be parsed. So its end
// can give up what the job holds. It reads texts, numbers and words, from the last one to the first
// value of another form: behind class and args goworker writes such fields, and the id comes last.
func Tail(raw []byte) (p Payload) {
	p.Attempt = 1
	raw = JSON(raw)
	rest, ok := bytes.CutSuffix(raw[max(0, len(raw)-tailMost):], []byte("}"))
	for ok {
		var value, name []byte
		if rest, value, ok = lastValue(rest); !ok {
			break
		}
		if rest, ok = bytes.CutSuffix(rest, []byte(":")); !ok {
			break
		}
		if rest, name, ok = lastText(rest); !ok || bytes.IndexByte(name, '\\') >= 0 {
			break
		}
		p.Extra = append(p.Extra, Extra{name[1 : len(name)-1], value})
		rest, ok = bytes.CutSuffix(rest, []byte(","))
	}
	slices.Reverse(p.Extra)
	p.ID, p.Unique = idText(p.Field("id")), idText(p.Field("unique"))
	return p
}

// lastValue cuts a simple value off the end of a text.
func lastValue(text []byte) (rest, value []byte, ok bool) {
	if bytes.HasSuffix(text, []byte(`"`)) {
		return lastText(text)
	}
	at := len(text)
	for at > 0 && (text[at-1] >= 'a' && text[at-1] <= 'z' || text[at-1] >= '0' && text[at-1] <= '9' || text[at-1] == '-') {
		at--
	}
	return text[:at], text[at:], at < len(text)
}

// lastText cuts a quoted text off the end of a text.
func lastText(text []byte) (rest, quoted []byte, ok bool) {
	at := len(text) - 1
	if at < 0 || text[at] != '"' || quoteEscaped(text, at) {
		return text, nil, false
	}
	for {
		if at = bytes.LastIndexByte(text[:at], '"'); at < 0 {
			return text, nil, false
		}
		if !quoteEscaped(text, at) {
			return text[:at], text[at:], utf8.Valid(text[at:])
		}
	}
}

// quoteEscaped reports whether a quote stands behind a backslash that makes it a part of its text.
func quoteEscaped(text []byte, at int) bool {
	return (at-len(bytes.TrimRight(text[:at], `\`)))%2 == 1
}

// IDLast returns a job with expires_at and id as its last fields, where scripts read them by their place. ok is false if
// the job has no id, or one that is not its own text in JSON or is longer than most.
func IDLast(raw []byte, most int) (out []byte, ok bool) {
	p, err := Parse(raw)
	if err != nil || p.Text != nil || p.PHP != nil || p.ID == "" || len(p.ID) > most {
		return nil, false
	}
	if id := AppendText(nil, p.ID); len(id) != len(p.ID)+2 || string(p.Field("id")) != string(id) {
		return nil, false
	}
	out = append(out, '{')
	var expires, id []byte
	for _, m := range Members(raw[bytes.IndexByte(raw, '{'):]) {
		field := append(append(append([]byte(nil), m.Key...), ':'), m.Value...)
		switch string(unquoteKey(m.Key)) {
		case "expires_at":
			expires = field
		case "id":
			id = field
		default:
			out = append(append(out, field...), ',')
		}
	}
	if expires != nil {
		out = append(append(out, expires...), ',')
	}
	return append(append(out, id...), '}'), true
}
