package resque

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// retryPayload is what a retry pushes. Class and args are copied as they stand:
// a number or an escape that went through a decoder would not be found by
// Resque's dequeue any more.
func retryPayload(payload []byte, whole bool) ([]byte, error) {
	all, err := members(payload)
	if err != nil {
		return nil, fmt.Errorf("the record holds no job; its payload is %s: %w", excerpt(payload), err)
	}
	class := last(payload, all, "class")
	var name string
	if json.Unmarshal(class, &name) != nil || name == "" {
		return nil, fmt.Errorf("the record's payload names no class: %s", excerpt(payload))
	}
	if whole {
		return anew(payload, all), nil
	}
	args := last(payload, all, "args")
	if args == nil || string(args) == "null" {
		args = []byte("[]")
	}
	job := append([]byte(`{"class":`), class...)
	job = append(append(job, `,"args":`...), args...)
	return append(job, '}'), nil
}

// anew returns a payload without the number of its attempt and the time at which it
// expires: who retries a job by hand gives it all its attempts again and wants it run.
// Every other byte stays.
func anew(payload []byte, all []member) []byte {
	for i := len(all) - 1; i >= 0; i-- {
		switch {
		case all[i].name != "attempt" && all[i].name != "expires_at":
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

// markRetried returns a failure record with retried_at set, and not one other
// byte changed.
func markRetried(record []byte, at string) ([]byte, error) {
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
