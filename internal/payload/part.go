package payload

import (
	"bytes"
	"encoding/json"
)

// Fields calls take for each field of a JSON object of which only the beginning may be there. The value of the last field is cut then:
// it is what is there of it. It ends without an error where the text is no JSON object.
func Fields(beginning []byte, take func(name string, value []byte, cut bool)) {
	d := json.NewDecoder(bytes.NewReader(beginning))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return
	}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return
		}
		at := int(d.InputOffset())
		var value json.RawMessage
		if d.Decode(&value) == nil {
			take(name, value, false)
			continue
		}
		if rest, found := bytes.CutPrefix(bytes.TrimLeft(beginning[at:], " \t\r\n"), []byte(":")); found {
			take(name, bytes.TrimLeft(rest, " \t\r\n"), true)
		}
		return
	}
}

// Beginning is what the beginning of a payload says of its job. What comes behind large arguments is not known.
func Beginning(beginning []byte) (class, id string, attempt int) {
	if p, err := Parse(beginning); err == nil {
		return p.Class, p.ID, p.Attempt
	}
	Fields(beginning, func(name string, value []byte, cut bool) {
		switch {
		case cut:
		case name == "class":
			_ = json.Unmarshal(value, &class)
		case name == "id":
			_ = json.Unmarshal(value, &id)
		case name == "attempt":
			_ = json.Unmarshal(value, &attempt)
		}
	})
	return class, id, attempt
}
