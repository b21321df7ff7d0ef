package resque

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// member is one member of a JSON object: its name, and where its value stands.
type member struct {
	name       string
	start, end int64
}

// members returns the members of a JSON object in their order, so that one can
// be read or replaced while every other byte stays as its author wrote it.
func members(object []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var all []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		end := d.InputOffset()
		all = append(all, member{name.(string), end - int64(len(value)), end})
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if rest := bytes.Trim(object[d.InputOffset():], " \t\r\n"); len(rest) > 0 { // JSON's blanks, no others
		return nil, errors.New("something follows the JSON object")
	}
	return all, nil
}

// last returns the value of the last member of that name, the one that counts.
func last(object []byte, all []member, name string) json.RawMessage {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].name == name {
			return object[all[i].start:all[i].end]
		}
	}
	return nil
}

// splice returns b with b[start:end] replaced.
func splice(b []byte, start, end int64, by []byte) []byte {
	out := make([]byte, 0, len(b)+len(by))
	out = append(out, b[:start]...)
	out = append(out, by...)
	return append(out, b[end:]...)
}
