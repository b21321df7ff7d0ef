package httpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrLeaseLost matches (errors.Is) the error of an acknowledgement or a touch whose lease is over: the job is back in
	// its queue, or another consumer has it. It is also the cause of the end of the context of such a job's handler.
	ErrLeaseLost = errors.New("httpclient: the lease of the job is over")

	// ErrNotFound matches the error about a job, a queue or a result that is not there.
	ErrNotFound = errors.New("httpclient: there is no such thing")
)

// Problem is an error that the server answered: problem details, as RFC 9457 describes them.
type Problem struct {
	Name     string `json:"-"`      // of the type, such as queue-full; "": a proxy answered, and not the server
	Type     string `json:"type"`   // a link to its description
	Title    string `json:"title"`  // what all problems of the type have in common
	Status   int    `json:"status"` // of HTTP
	Detail   string `json:"detail"` // what is wrong with what, and what to do
	Instance string `json:"instance"`

	Members    map[string]json.RawMessage `json:"-"` // all members, those of the type too
	RetryAfter time.Duration              `json:"-"` // 0: the server did not say
}

func (p *Problem) Error() string {
	text := "httpclient: "
	switch {
	case p.Detail != "":
		text += p.Detail
	case p.Title != "":
		text += p.Title
	}
	if p.Name == "" {
		return fmt.Sprintf("%s (HTTP status %d)", text, p.Status)
	}
	return fmt.Sprintf("%s (%s, HTTP status %d)", text, p.Name, p.Status)
}

// Is makes errors.Is find ErrLeaseLost and ErrNotFound.
func (p *Problem) Is(target error) bool {
	switch target {
	case ErrLeaseLost:
		return p.Name == "lease-lost"
	case ErrNotFound:
		return p.Name == "no-job" || p.Name == "no-queue" || p.Name == "no-result"
	}
	return false
}

// JobError is the error of a call whose job has ended without a result.
type JobError struct {
	ID        string
	State     string // failed, discarded, expired or cancelled
	Exception string // the kind of error
	Message   string // its text
}

func (e *JobError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("httpclient: job %s is %s", e.ID, e.State)
	}
	return fmt.Sprintf("httpclient: job %s is %s: %s", e.ID, e.State, e.Message)
}

// PendingError is the error of a call whose job has not ended in time. The job goes on: Result awaits it by its ID.
type PendingError struct{ Queue, ID string }

func (e *PendingError) Error() string {
	return fmt.Sprintf("httpclient: job %s of queue %s has not ended yet; it goes on, and Result returns its result", e.ID, e.Queue)
}

// jobError is the error of a problem that says how a job has ended; nil for another one.
func jobError(err error) error {
	var p *Problem
	if !errors.As(err, &p) || p.Name != "job-failed" {
		return err
	}
	e := new(JobError)
	for name, to := range map[string]*string{"id": &e.ID, "state": &e.State, "exception": &e.Exception, "error": &e.Message} {
		_ = json.Unmarshal(p.Members[name], to)
	}
	return e
}
