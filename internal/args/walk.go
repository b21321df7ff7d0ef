package args

import "encoding/json"

// These take JSON apart without decoding it, so that what is only passed on keeps
// its bytes. They expect valid JSON; given anything else they return nonsense, but
// never read beyond it and always end.

// jsonMember is one key and value of an object, as written. The key has its quotes.
type jsonMember struct {
	key, value []byte
}

// member returns the last value of a key written with its quotes, nil without one.
func member(members []jsonMember, key string) []byte {
	for i := len(members) - 1; i >= 0; i-- {
		if string(members[i].key) == key {
			return members[i].value
		}
	}
	return nil
}

// jsonMembers returns the members of an object in their order.
func jsonMembers(object []byte) []jsonMember {
	var members []jsonMember
	for i := 1; ; i++ {
		i = skipBlank(object, i)
		if i >= len(object) || object[i] == '}' {
			return members
		}
		keyEnd := valueEnd(object, i)
		value := skipBlank(object, keyEnd)
		if value < len(object) { // the colon
			value = skipBlank(object, value+1)
		}
		end := valueEnd(object, value)
		members = append(members, jsonMember{object[i:keyEnd], object[value:end]})
		i = skipBlank(object, end)
	}
}

// jsonElements returns the elements of an array in their order.
func jsonElements(array []byte) []json.RawMessage {
	elements := []json.RawMessage{}
	for i := 1; ; i++ {
		i = skipBlank(array, i)
		if i >= len(array) || array[i] == ']' {
			return elements
		}
		end := valueEnd(array, i)
		elements = append(elements, array[i:end:end])
		i = skipBlank(array, end)
	}
}

// jsonString returns the text of a JSON string, empty for any other value.
func jsonString(raw []byte) string {
	s, ok := plainString(raw)
	if !ok && len(raw) > 0 && raw[0] == '"' {
		_ = json.Unmarshal(raw, &s) // valid JSON, and a string
	}
	return s
}

func skipBlank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return min(i, len(b))
}

// valueEnd returns the index behind the value that begins at i.
func valueEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return i // of what the value stands in
			}
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}

func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}
