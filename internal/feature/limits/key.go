package limits

import "encoding/json"

// Arg returns a function that takes the argument at an index, or a value in it, as the key. The path
// names the fields to that value. The function returns "" for no key.
func Arg(index int, path []string) func(args []json.RawMessage) string {
	return func(args []json.RawMessage) string {
		if index < 0 || index >= len(args) {
			return ""
		}
		value := args[index]
		for _, name := range path {
			var object map[string]json.RawMessage
			if json.Unmarshal(value, &object) != nil {
				return ""
			}
			value = object[name]
		}
		if len(value) == 0 || string(value) == "null" {
			return ""
		}
		var text string
		if value[0] == '"' && json.Unmarshal(value, &text) == nil {
			return text
		}
		return string(value)
	}
}
