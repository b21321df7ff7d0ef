package payload

import (
	"encoding/json"
	"math"
)

// The functions of this file split JSON without decoding it, so that values which are only
// passed on keep their bytes. They expect valid JSON. In other text they stop at the
// first mistake.

// Member is one key and value of an object, as written. The key has its quotes.
type Member struct {
	Key, Value []byte
}

// LastMember returns the last value of a key written with its quotes, nil without one.
func LastMember(members []Member, key string) []byte {
	for i := len(members) - 1; i >= 0; i-- {
		if string(members[i].Key) == key {
			return members[i].Value
		}
	}
	return nil
}

// Members returns the members of an object in their order.
func Members(object []byte) []Member {
	s := scanner{src: object, room: math.MaxInt}
	if s.peek() != '{' || !s.enter() {
		return nil
	}
	var members []Member
	for first := true; ; first = false {
		more, ok := s.more('}', first)
		if !more || !ok {
			return members
		}
		key, ok := s.key()
		start := s.pos
		if !ok || !s.value() {
			return members
		}
		members = append(members, Member{key, object[start:s.pos]})
	}
}

// Elements returns the elements of an array in their order.
func Elements(array []byte) []json.RawMessage {
	s := scanner{src: array, room: math.MaxInt}
	if s.peek() != '[' {
		return []json.RawMessage{}
	}
	elements, _ := s.elements([]json.RawMessage{})
	return elements
}

// StringValue returns the text of a JSON string, empty for any other value.
func StringValue(raw []byte) string {
	if len(raw) < len(`""`) || raw[0] != '"' {
		return ""
	}
	return unquote(raw)
}
