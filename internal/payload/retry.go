package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// ForRetry is the payload that a retry pushes. Class and args are copied byte for byte:
// if a decoder changed a number or an escape, Resque's dequeue would not find the job any more.
func ForRetry(payload []byte, whole bool) ([]byte, error) {
	payload = JSON(payload)
	all, err := members(payload)
	if err != nil {
		return nil, fmt.Errorf("the record holds no job; its payload is %s: %w", Short(payload), err)
	}
	class := last(payload, all, "class")
	var name string
	if json.Unmarshal(class, &name) != nil || name == "" {
		return nil, fmt.Errorf("the record's payload names no class: %s", Short(payload))
	}
	if whole {
		return without(payload, all, "attempt", "expires_at"), nil
	}
	args := last(payload, all, "args")
	if args == nil || string(args) == "null" {
		args = []byte("[]")
	}
	job := append([]byte(`{"class":`), class...)
	job = append(append(job, `,"args":`...), args...)
	return append(job, '}'), nil
}

// Without returns a payload without some of its fields. Every other byte stays. The payload has a class.
func Without(payload []byte, names ...string) ([]byte, error) {
	payload = JSON(payload)
	all, err := members(payload)
	if err != nil {
		return nil, err
	}
	return without(payload, all, names...), nil
}

// without removes members. A job that an operator retries goes without its attempt and expiry: it has all its
// attempts again and is to run. The error of the last run, which stands behind its attempt, goes with that.
func without(payload []byte, all []member, names ...string) []byte {
	place := func(name string) int { return slices.IndexFunc(all, func(m member) bool { return m.name == name }) }
	if at := place("attempt"); at >= 0 && at < place(ErrorField) && slices.Contains(names, "attempt") {
		names = append(slices.Clone(names), ErrorField)
	}
	for i := len(all) - 1; i >= 0; i-- {
		switch {
		case !slices.Contains(names, all[i].name):
		case i > 0: // with the comma before it
			payload = splice(payload, all[i-1].end, all[i].end, nil)
		default: // with the comma after it; the object has a class, so there is one
			start := int64(bytes.IndexByte(payload, '{') + 1)
			comma := int64(bytes.IndexByte(payload[all[0].end:], ','))
			payload = splice(payload, start, all[0].end+comma+1, nil)
		}
	}
	return payload
}

// MarkRetried returns a failure record with retried_at set and every other byte
// unchanged.
func MarkRetried(record []byte, at string) ([]byte, error) {
	all, err := members(record)
	if err != nil {
		return nil, fmt.Errorf("the failure record cannot be changed: %w", err)
	}
	value, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if m := all[i]; m.name == "retried_at" {
			return splice(record, m.start, m.end, value), nil
		}
	}
	text := append([]byte(`"retried_at":`), value...)
	if len(all) > 0 {
		text = append([]byte{','}, text...)
	}
	brace := int64(bytes.LastIndexByte(record, '}'))
	return splice(record, brace, brace, text), nil
}

// Unretried returns a failure record without retried_at: as it was before MarkRetried, unless it said null there.
func Unretried(record []byte) ([]byte, error) {
	all, err := members(record)
	if err != nil {
		return nil, fmt.Errorf("the failure record cannot be changed: %w", err)
	}
	return without(record, all, "retried_at"), nil
}

// member is one member of a JSON object: its name, and the place of its value.
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
