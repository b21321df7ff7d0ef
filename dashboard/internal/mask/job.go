package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/payload"
)

// Payload masks a job: its arguments, those of an ActiveJob too, its metadata and its other fields. Its class, id and queue stay. What is not
// masked keeps its bytes. An item of a MessagePack queue becomes JSON. Text that is not JSON is masked as Text does it.
func (m *Masker) Payload(job []byte) json.RawMessage { return m.payload(job, 0) }

// payload masks a job. most is how many bytes of it are wanted; 0: all.
func (m *Masker) payload(job []byte, most int) json.RawMessage {
	if m.level == Show || len(job) == 0 {
		return job
	}
	got := new(values)
	first := m.masked(job, &walker{m: m, got: got, quiet: most > 0})
	known := got.secrets(m)
	if most == 0 && !known.some() {
		return first
	}
	return m.masked(job, &walker{m: m, known: known, most: most})
}

// masked is a job as a walker masks it.
func (m *Masker) masked(raw []byte, w *walker) json.RawMessage {
	raw = payload.JSON(raw)
	w.class = classOf(raw)
	return m.walked(w, raw, scope{kind: job, hit: m.level == Hide})
}

// classOf is the class of a job, also where goworker would not run it.
func classOf(raw []byte) (class string) {
	if p, err := payload.Parse(raw); err == nil {
		return p.Class
	}
	if !payload.WellFormed(raw, maxDepth) {
		return ""
	}
	for _, member := range payload.Members(bytes.TrimLeft(raw, " \t\r\n")) {
		if payload.StringValue(member.Key) == "class" {
			class = payload.StringValue(member.Value)
		}
	}
	return class
}

// Brief returns the first n bytes of a masked job as text, cut between two characters and outside of a Mark, with an ellipsis where something was
// left off. It keeps no more than that of a large job in memory.
func (m *Masker) Brief(job []byte, n int) string {
	return brief(m.payload(job, n+len(Mark)+utf8.UTFMax), n)
}

func brief(text []byte, n int) string {
	if len(text) <= n {
		return string(bytes.ToValidUTF8(text, []byte("?")))
	}
	at := n
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	for from := max(0, at-len(Mark)+1); from < at; from++ {
		if bytes.HasPrefix(text[from:], []byte(Mark)) {
			at = from
			break
		}
	}
	return string(bytes.ToValidUTF8(text[:at], []byte("?"))) + "…"
}

// Failure masks a failure, with the values of its job that are masked. Raw is nil; Record masks that.
func (m *Masker) Failure(f inspect.Failure) inspect.Failure {
	if m.level == Show {
		return f
	}
	known := m.With(f.Payload)
	f.Raw = nil
	f.Payload = m.Payload(f.Payload)
	f.Exception, f.Error = known.Text(f.Exception), known.Text(f.Error)
	if len(f.Backtrace) > 0 {
		f.Backtrace = strings.Split(known.Text(strings.Join(f.Backtrace, "\n")), "\n")
	}
	f.Invalid = known.err(f.Invalid)
	return f
}

// err masks the text of an error.
func (s *Secrets) err(err error) error {
	if err == nil {
		return nil
	}
	if text := s.Text(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// Record masks a failure as it is in Redis. What is no record is masked as text.
func (m *Masker) Record(record []byte) []byte {
	if m.level == Show {
		return record
	}
	var f payload.FailureFields
	if !f.Scan(record) {
		return m.walked(&walker{m: m}, record, scope{hit: m.level == Hide})
	}
	known := m.With(f.Payload)
	out := []byte("{")
	for n, member := range payload.Members(bytes.TrimLeft(record, " \t\r\n")) {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(append(out, member.Key...), ':')
		switch name := payload.StringValue(member.Key); name {
		case "payload":
			out = append(out, m.Payload(member.Value)...)
		case "failed_at", "retried_at", "worker", "queue":
			out = append(out, member.Value...)
		case "exception", "error":
			out = payload.AppendText(out, known.Text(payload.Text(member.Value)))
		case "backtrace":
			out = append(out, known.lines(member.Value)...)
		default:
			out = append(out, known.JSON(member.Value)...)
		}
	}
	return append(out, '}')
}

// lines masks a backtrace, which is a list of lines, or one text.
func (s *Secrets) lines(raw json.RawMessage) []byte {
	var lines []string
	if json.Unmarshal(raw, &lines) != nil {
		return payload.AppendText(nil, s.Text(payload.Text(raw)))
	}
	out := []byte("[")
	for n, line := range strings.Split(s.Text(strings.Join(lines, "\n")), "\n") {
		if n > 0 {
			out = append(out, ',')
		}
		out = payload.AppendText(out, line)
	}
	return append(out, ']')
}

// Entry masks a job that a search has found, and its failure.
func (m *Masker) Entry(e inspect.Entry) inspect.Entry {
	if m.level == Show {
		return e
	}
	known := m.With(e.Payload)
	e.Payload = m.Payload(e.Payload)
	switch p, err := payload.Parse(e.Payload); {
	case err == nil:
		e.Args = p.Args
	case e.Args != nil:
		e.Args = m.Args(e.Class, e.Args)
	}
	e.Limits = slices.Clone(e.Limits)
	for n, limit := range e.Limits {
		e.Limits[n] = known.Text(limit)
	}
	e.Invalid = known.err(e.Invalid)
	if e.Failure != nil {
		f := m.Failure(*e.Failure)
		e.Failure = &f
	}
	return e
}
