package payload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Failure is one record of a failure list.
type Failure struct {
	FailedAt  string          // as FailedAt writes it; other clients use other forms
	Payload   json.RawMessage // the job, as it was in its queue
	Exception string          // kind of the error: a type's or class's name
	Error     string          // its message
	Backtrace []string        // innermost frame first
	Worker    string          // id of the worker
	Queue     string          // the queue the job came from
	RetriedAt string          // "" if it was not retried
}

// FailedAt formats a time as Resque's failure records do, in t's own zone.
func FailedAt(t time.Time) string { return t.Format("2006/01/02 15:04:05 MST") }

// Encode writes the record with Ruby's order of fields, always as JSON that
// Ruby's and Node's tools can show:
//
//   - The payload keeps its bytes. One that is not JSON, not UTF-8, or nested
//     deeper than MaxDepth is wrapped by Invalid.
//   - Bytes of a text that are not UTF-8 become question marks, as in Ruby.
//   - Characters of markup in Exception become underscores, because
//     Resque's page prints that field without escaping it.
func (f Failure) Encode() []byte {
	payload := JSON(f.Payload)
	if !utf8.Valid(payload) || !WellFormed(payload, MaxDepth) {
		payload = Invalid(payload)
	}
	const names = len(`{"failed_at":"","payload":,"exception":"","error":"","backtrace":[],"worker":"","queue":"","retried_at":""}`)
	size := names + len(f.FailedAt) + len(payload) + len(f.Exception) + len(f.Error) + len(f.Worker) + len(f.Queue) + len(f.RetriedAt)
	for _, frame := range f.Backtrace {
		size += len(frame) + len(`"",`)
	}
	b := append(make([]byte, 0, size), `{"failed_at":`...)
	b = AppendText(b, f.FailedAt)
	b = append(b, `,"payload":`...)
	b = append(b, payload...)
	b = append(b, `,"exception":`...)
	b = AppendText(b, withoutMarkup.Replace(f.Exception))
	b = append(b, `,"error":`...)
	b = AppendText(b, f.Error)
	b = append(b, `,"backtrace":[`...)
	for i, frame := range f.Backtrace {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendText(b, frame)
	}
	b = append(b, `],"worker":`...)
	b = AppendText(b, f.Worker)
	b = append(b, `,"queue":`...)
	b = AppendText(b, f.Queue)
	if f.RetriedAt != "" {
		b = append(b, `,"retried_at":`...)
		b = AppendText(b, f.RetriedAt)
	}
	return append(b, '}')
}

// Markup are the characters that Encode replaces in Exception.
const Markup = `<>&"'`

// Safe for concurrent use, like every strings.Replacer.
var withoutMarkup = strings.NewReplacer("<", "_", ">", "_", "&", "_", `"`, "_", "'", "_")

// AppendText writes a text of a failure record. The style does not matter, because a record is
// never compared byte by byte with one by a Rails process.
func AppendText(dst []byte, s string) []byte { return appendString(dst, s, Plain, "?") }

// ParseFailure reads a record by Ruby, Node, PHP, or an older goworker: fields
// in any order, missing or null ones empty, times in any form. If a field is not the
// text it should be, its JSON is the text. A backtrace that is
// one string is split into lines. Payload is nil if there is none.
//
// It is an error if raw is not a JSON object. That includes the empty
// element which is in a list for a moment while Ruby removes a record.
func ParseFailure(raw []byte) (Failure, error) {
	if len(raw) == 0 {
		return Failure{}, errors.New("the failure record is empty; another program is removing it")
	}
	var f FailureFields
	if !f.Scan(raw) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return Failure{}, fmt.Errorf("the failure record is not a JSON object: %w", err)
		}
		return Failure{}, errors.New("the failure record is null, not a JSON object")
	}
	return Failure{
		FailedAt:  Text(f.FailedAt),
		Payload:   f.Payload,
		Exception: Text(f.Exception),
		Error:     Text(f.Error),
		Backtrace: linesOf(f.Backtrace),
		Worker:    Text(f.Worker),
		Queue:     Text(f.Queue),
		RetriedAt: Text(f.RetriedAt),
	}, nil
}

// FailureFields are the values of a failure record's members, each as JSON.
type FailureFields struct {
	FailedAt, Payload, Exception, Error, Backtrace, Worker, Queue, RetriedAt json.RawMessage
}

// recordDepth is how deep a record that is read may be nested, as in encoding/json.
const recordDepth = 10000

// Scan finds the members in one pass, because a search may read millions of records. Of
// several members of a name the last counts. It is false if raw is not a JSON object.
func (f *FailureFields) Scan(raw []byte) bool {
	s := scanner{src: raw, room: recordDepth}
	s.space()
	if s.peek() != '{' || !s.enter() {
		return false
	}
	for first := true; ; first = false {
		more, ok := s.more('}', first)
		if !more || !ok {
			s.space()
			return ok && s.pos == len(raw)
		}
		name, ok := s.key()
		start := s.pos
		if !ok || !s.value() {
			return false
		}
		if field := f.named(unquoteKey(name)); field != nil {
			*field = raw[start:s.pos]
		}
	}
}

func (f *FailureFields) named(name []byte) *json.RawMessage {
	switch string(name) {
	case "failed_at":
		return &f.FailedAt
	case "payload":
		return &f.Payload
	case "exception":
		return &f.Exception
	case "error":
		return &f.Error
	case "backtrace":
		return &f.Backtrace
	case "worker":
		return &f.Worker
	case "queue":
		return &f.Queue
	case "retried_at":
		return &f.RetriedAt
	}
	return nil
}

// Text is a string's value, "" for null or nothing, else the JSON itself.
func Text(raw json.RawMessage) string {
	switch {
	case len(raw) == 0 || raw[0] == 'n':
		return ""
	case raw[0] == '"':
		return strings.ToValidUTF8(unquote(raw), replacement)
	}
	return string(raw)
}

func linesOf(raw json.RawMessage) []string {
	var frames []json.RawMessage
	if json.Unmarshal(raw, &frames) == nil {
		var lines []string
		for _, f := range frames {
			lines = append(lines, Text(f))
		}
		return lines
	}
	text := strings.TrimRight(Text(raw), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
