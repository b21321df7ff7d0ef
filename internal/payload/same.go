package payload

import (
	"bytes"
	"encoding/json"
)

// Same reports whether the job has this class, and arguments of exactly these JSON texts, as Encode
// writes them. Its other fields, their order and blanks between the arguments do not matter.
func (p Payload) Same(class string, args []json.RawMessage) bool {
	if p.Class != class || len(p.Args) != len(args) {
		return false
	}
	for i := range args {
		if !bytes.Equal(p.Args[i], args[i]) {
			return false
		}
	}
	return true
}

// PlainText reports whether no encoder is known to write a text in another way than with its own
// characters.
func PlainText(text string) bool {
	for _, c := range []byte(text) {
		switch {
		case '0' <= c && c <= ':', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', c == '_', c == '-', c == '.', c == ' ':
		default:
			return false
		}
	}
	return true
}
