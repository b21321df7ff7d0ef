package inspect

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/payload"
)

// Mask is what a user may see of jobs. Its methods are called by many goroutines at once.
type Mask interface {
	// Payload returns a job with its secrets replaced.
	Payload(job []byte) json.RawMessage
	// Record returns a failure as it is in Redis, with its secrets replaced.
	Record(failure []byte) []byte
}

// ErrMasked is returned by calls that would tell a user of masked jobs what they hide: those that take the arguments of a Job. It is also
// returned for an operation by a search that was begun with a Mask, and is run without one.
var ErrMasked = errors.New("goworker: the arguments of jobs are masked, so nothing is sought by them; search with Find, which compares what is shown")

// Masked returns an Inspector whose searches compare what the mask leaves of a job. So a search for a secret finds nothing. It
// concerns conditions about arguments, metadata, errors and texts, in Find, All, the searches of failures, Operations and all calls that take
// a Query or a FailureFilter. Conditions about the queue, class, id, ref, worker, state and times are not affected.
//
// What it returns is not masked: the program that shows it masks it. An operation by a search is run on only by an Inspector with a mask; give it
// the same one. nil is no mask.
func (i *Inspector) Masked(mask Mask) *Inspector {
	as := *i
	as.mask, as.shards = mask, nil
	for _, one := range i.shards {
		as.shards = append(as.shards, one.Masked(mask))
	}
	return &as
}

// hidden returns ErrMasked for a job that is sought by its arguments.
func (i *Inspector) hidden(job *Job) error {
	if i.mask != nil && job != nil && len(job.Args) > 0 {
		return ErrMasked
	}
	return nil
}

// masks reports whether a condition is about what a mask may hide.
func (c Condition) masks() bool {
	name, _, _ := strings.Cut(c.Name, ".")
	return slices.Contains([]string{onText, onError, onException, onArgs, onArg, onMeta}, name)
}

// masks reports whether the query asks for what a mask may hide.
func (q Query) masks() bool { return q.Args != nil || slices.ContainsFunc(q.Where, Condition.masks) }

// maskedField marks the record of an operation whose search compares what a mask leaves.
const maskedField = "masked"

// shownArgs are the arguments of the job as errors and the audit may show them.
func (e Entry) shownArgs() []json.RawMessage {
	if e.mask == nil {
		return e.Args
	}
	p, err := payload.Parse(e.mask.Payload(e.Payload))
	if err != nil {
		return nil
	}
	return p.Args
}

// behind is the job as the mask leaves it.
func (s *subject) behind(mask Mask) *subject {
	if mask == nil {
		return s
	}
	if s.shown != nil {
		return s.shown
	}
	shown := *s
	shown.parsed, shown.tried, shown.inner, shown.failure = nil, false, args.ActiveJob{}, nil
	if s.record == nil {
		shown.raw = mask.Payload(s.raw)
	} else {
		shown.record = mask.Record(s.record)
		var f payload.FailureFields
		if shown.raw = shown.record; f.Scan(shown.record) {
			shown.raw, shown.failure = f.Payload, &f
		}
	}
	s.shown = &shown
	return s.shown
}

// compares reports whether a record has the exception and the text of a filter, as the mask leaves it.
func (f FailureFilter) compares(mask Mask, record []byte) bool {
	var fields payload.FailureFields
	if !fields.Scan(mask.Record(record)) {
		return false
	}
	return (f.Exception == "" || payload.Text(fields.Exception) == f.Exception) &&
		strings.Contains(strings.ToLower(payload.Text(fields.Error)), strings.ToLower(f.Text))
}
