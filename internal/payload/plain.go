package payload

import (
	"encoding/json"
	"unicode/utf8"
)

// PlainArgs appends the arguments of a job to list, as Parse reads them, if its payload begins as nearly all do: the class, in which nothing
// is escaped, and a list of arguments. It allocates nothing but room in the list. Without ok the payload is for Parse.
func PlainArgs(raw []byte, list []json.RawMessage) (all []json.RawMessage, ok bool) {
	const class, args = `{"class":"`, `,"args":[`
	s := scanner{src: raw, room: MaxDepth - 1, pos: len(class) - 1} // inside the brace
	if len(raw) < len(class) || string(raw[:len(class)]) != class || !s.text() || s.pos == len(class)+1 ||
		len(raw)-s.pos < len(args) || string(raw[s.pos:s.pos+len(args)]) != args || !utf8.Valid(raw) {
		return list, false
	}
	s.pos += len(args) - 1
	if all, ok = s.elements(list); !ok {
		return list, false
	}
	for {
		more, ok := s.more('}', false)
		if !ok {
			return list, false
		}
		if !more {
			break
		}
		quoted, ok := s.key()
		if !ok || !s.value() {
			return list, false
		}
		switch string(unquoteKey(quoted)) {
		case "class", "args": // the last of equal ones counts
			return list, false
		}
	}
	if s.space(); s.pos != len(raw) {
		return list, false
	}
	return all, true
}
