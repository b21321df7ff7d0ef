// Package stamp reads from a job's payload when the job was put into its queue, and writes that for jobs that ask for it.
// A plain Resque payload does not say it, and must not: Ruby's dequeue compares bytes.
package stamp

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
)

// Field is the field of a payload that Stamp writes: when the job was put into its queue, in ms.
const Field = "queued_at"

// activeJob is the class of the jobs of Rails. Their one argument says what the job is.
const activeJob = "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper"

// largeArgument is how long the argument of a job of Rails is that is not read: that would cost as much as the job's arguments
// are long, with each job.
const largeArgument = 16 << 10

// Of returns the field of a job that is put into its queue at this time.
func Of(at time.Time) payload.Field { return payload.NumberField(Field, at.UnixMilli()) }

// Waited returns how long a job waited until then, as its payload says. It is false where the payload does not say it.
func Waited(raw []byte, until time.Time) (time.Duration, bool) {
	if p, err := payload.Parse(raw); err == nil {
		if at, ok := EnqueuedAt(&p); ok {
			return max(0, until.Sub(at)), true
		}
	}
	return 0, false
}

// EnqueuedAt returns when a job was put into its queue, or when it was due there if it was delayed. It is false where the
// payload does not say it. Of a job that goworker runs again the payload says when it was first put there: it is false, too.
func EnqueuedAt(p *payload.Payload) (at time.Time, ok bool) {
	switch {
	case p.Attempt > 1:
		return at, false
	case p.Class == activeJob && len(p.Args) > 0:
		if len(p.Args[0]) <= largeArgument {
			at = rails(p.Args[0])
		}
	default:
		at = said(p)
	}
	return at, !at.Before(earliest) && at.Before(latest)
}

// Times outside of these are no times.
var (
	earliest = time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// said returns what fields of the payload, or the id of a job that came over HTTP, say.
func said(p *payload.Payload) time.Time {
	// An error of strconv costs memory, and this is asked for each job.
	if text := p.Field(Field); text != nil {
		if ms, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return time.UnixMilli(ms)
		}
	}
	if text := p.Field("queue_time"); text != nil { // php-resque's
		if seconds, err := strconv.ParseFloat(string(text), 64); err == nil && math.Abs(seconds) < 1e11 {
			return time.UnixMilli(int64(seconds * 1000))
		}
	}
	if ms, ok := httpjob.FirstDue(p.ID); ok {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// rails returns what the argument of a job of Rails says. A delayed one has both times.
func rails(arg json.RawMessage) time.Time {
	var job struct {
		Enqueued  string `json:"enqueued_at"`
		Scheduled string `json:"scheduled_at"`
	}
	_ = json.Unmarshal(arg, &job) // an argument of another form says nothing
	at, _ := time.Parse(time.RFC3339Nano, job.Enqueued)
	if due, err := time.Parse(time.RFC3339Nano, job.Scheduled); err == nil && due.After(at) && !at.IsZero() {
		at = due
	}
	return at
}
