// Package leased ends jobs that a server has leased to clients. No worker of a process has them: a lease says until when
// a client may end its job. However it ends, and by whichever process, the features of the seam take part. Locks, steps
// of workflows, documents and failure records are settled as at the end of any other job, in the same commit.
package leased

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// Kind is what is to become of a leased job.
type Kind uint8

const (
	Done      Kind = iota // a client has done it
	Retried               // it did not go well, or its lease ran out: it is retried if it has a try left, and else failed
	Failed                // it is failed, whatever tries it has left
	Returned              // a client gives it back: it goes to the head of its queue, byte for byte, and keeps its try
	Unseen                // no client has got it: as Returned, and nothing says that it was away
	Cancelled             // it is no longer wanted
	Expired               // its time was over before a client got it
)

// End is one end of a leased job.
type End struct {
	Queue, ID string // its place
	Lease     string // as it was read: nothing happens if the job has another one now
	Payload   []byte // as it is in Redis
	Kind      Kind
	Result    json.RawMessage // of Done; nil: none
	Delay     time.Duration   // of Retried: until its next try may begin
	Err       error           // of Retried, Failed and Cancelled: why
	Extra     []resque.Effect // written as one with the end
	Rewritten []byte          // of Unseen: what goes back instead of Payload, to the tail of the queue; nil: Payload
}

// Result is what became of a leased job.
type Result struct {
	Ended bool          // by this call. If not, and Err is nil, the job has another lease by now, or none
	State outcome.State // what became of it
	Err   error         // what Redis refused: the job is still leased
}

// Ender ends leased jobs. It is safe for concurrent use.
type Ender struct {
	// Ended, if it is set before the first end, is called with each job that this Ender has ended.
	Ended func(*outcome.Job, *outcome.Outcome)

	// Took, if it is set before the first end, is called with -1 for each job that has gone back to the head of a queue.
	Took func(queue string, n int)

	base   part.Base
	store  leases.Store
	ends   *outcome.Set
	worker string
}

// NewEnder returns an Ender that has these features settle the ends. worker is what failure records name, without the
// queue: see Worker.
func NewEnder(b part.Base, ends *outcome.Set, worker string) *Ender {
	return &Ender{base: b, store: leases.New(b.Store), ends: ends, worker: worker}
}

// Worker is the name that failure records of leased jobs have for a process.
func Worker(host string, pid int) string { return fmt.Sprintf("%s.http:%d-0", host, pid) }

// Limits of one commit.
const (
	mostEnds  = 256
	mostBytes = 4 << 20
)

// End ends leased jobs in their order, in as few commits as their sizes allow. The results are in the order of the ends. After
// an error the results are of the commits before it: an end that has none may have been written.
func (e *Ender) End(ctx context.Context, c redis.Conn, ends []End) ([]Result, error) {
	results := make([]Result, 0, len(ends))
	for len(results) < len(ends) {
		if err := ctx.Err(); err != nil {
			return results, err
		}
		rest := ends[len(results):]
		var jobs []*outcome.Job
		var outcomes []*outcome.Outcome
		var rows []resque.Ended
		for size := 0; len(rows) < min(len(rest), mostEnds) && size < mostBytes; {
			j, o, row := e.decide(&rest[len(rows)])
			size += row.Size() + len(j.Payload)
			jobs, outcomes, rows = append(jobs, j), append(outcomes, o), append(rows, row)
		}
		out, err := e.store.CommitLeased(c, rows)
		if err != nil {
			return results, err
		}
		refused := make(map[string]error)
		for _, r := range out.Refused {
			switch {
			case r.Left(): // the lease is another one
			case r.Place == "":
				e.base.Log.Warn("a key was not written with the end of a leased job", "key", r.Key, "error", r.Reason)
			default:
				refused[r.Place] = r.KeyError
			}
		}
		for i, j := range jobs {
			r := Result{Ended: out.Ended[j.Place], State: outcomes[i].State}
			delete(out.Ended, j.Place) // a second end of the same job has done nothing
			if !r.Ended {
				r.Err = refused[j.Place]
			} else {
				e.log(j, outcomes[i])
				if e.Ended != nil {
					e.Ended(j, outcomes[i])
				}
				if e.Took != nil && outcomes[i].State == outcome.Returned && outcomes[i].Next.Place == outcome.Head {
					e.Took(j.Queue, -1)
				}
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// decide returns the outcome of a leased job and what is to be committed.
func (e *Ender) decide(end *End) (*outcome.Job, *outcome.Outcome, resque.Ended) {
	place := leases.Place(end.Queue, end.ID)
	j := &outcome.Job{
		Reserved: resque.Reserved{Ticket: resque.LeasedTicket, Queue: end.Queue, Payload: end.Payload},
		Place:    place, Process: e.worker, Worker: e.worker + ":" + end.Queue,
		Started: end.Kind != Unseen && end.Kind != Expired && end.Kind != Cancelled,
	}
	o := &outcome.Outcome{Err: end.Err}
	switch end.Kind {
	case Done:
		if end.Result != nil {
			j.Value = end.Result
		}
	case Retried:
		o.State = outcome.Retried
		if e.ends.Open(j); j.Parsed.Attempt == 0 || j.Parsed.Attempt >= j.Parsed.Tries() {
			o.State, o.Err = outcome.Failed, &Exhausted{Tries: max(1, j.Parsed.Attempt), Err: end.Err}
			if httpjob.IsReply(end.Queue) { // an answer that its caller has read; no failure
				o.State, o.Err = outcome.Expired, nil
			}
		} else if end.Delay > 0 {
			o.At = e.ends.Now().Add(end.Delay)
		}
	case Failed:
		o.State = outcome.Failed
	case Returned, Unseen:
		o.State = outcome.Returned
		if end.Rewritten != nil {
			o.Next = outcome.Next{Place: outcome.Tail, Payload: end.Rewritten}
		}
	case Cancelled:
		if o.State = outcome.Cancelled; o.Err == nil {
			o.Err = failure.ErrUnwanted
		}
	case Expired:
		o.State = outcome.Expired
	}
	if o.State == outcome.Failed && o.Err == nil {
		o.Err = errGivenUp
	}
	e.ends.Complete(j, o)
	now := e.ends.Now().UnixMilli()
	switch {
	case o.State == outcome.Failed:
		o.Effects = append(o.Effects, e.store.Filed(place, end.Payload, now))
	case o.State == outcome.Retried && o.Next.Payload != nil:
		o.Effects = append(o.Effects, e.store.WentBack(place, o.Next.Payload, now))
	// At the first attempt the bytes are those of any job with this id and body, also of one that is published later, so
	// nothing is noted: a late acknowledgement then does not spare the second run.
	case o.State == outcome.Returned && end.Kind != Unseen && j.Attempt > 1:
		o.Effects = append(o.Effects, e.store.WentBack(place, end.Payload, now))
	}
	row := o.Ended(j.Ticket)
	row.Place = place
	row.Effects = append(append(row.Effects, end.Extra...), e.store.EndLease(place, end.Lease)...)
	return j, o, row
}

// log writes the line of a job that has ended.
func (e *Ender) log(j *outcome.Job, o *outcome.Outcome) {
	level, message := o.Line()
	if !e.base.Log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("queue", logging.Shorten(j.Queue, logging.MaxText)), slog.String("place", logging.Shorten(j.Place, logging.MaxText))}
	if j.Readable() {
		attrs = append(attrs, slog.String("class", logging.Shorten(j.Name, logging.MaxText)))
	}
	if o.Err != nil {
		attrs = append(attrs, slog.String("error", logging.Shorten(o.Err.Error(), logging.MaxText)))
	}
	e.base.Log.LogAttrs(context.Background(), level, message, append(attrs, o.Log.Attrs...)...)
}

// errGivenUp is the failure of a job whose client gives no reason.
var errGivenUp = errors.New("the client gave the job up")

// ErrLeaseEnded is why a job goes back whose client has not ended it in time.
var ErrLeaseEnded = errors.New("the lease ran out: the client did not end the job in time")

// Exhausted is the failure of a job that has no try left.
type Exhausted struct {
	Tries int   // how many it had
	Err   error // why the last one did not go well
}

func (e *Exhausted) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("The job was tried %s.", resque.Plural(e.Tries, "time"))
	}
	return fmt.Sprintf("The job was tried %s; at last: %v", resque.Plural(e.Tries, "time"), e.Err)
}

// Unwrap returns why the last try did not go well.
func (e *Exhausted) Unwrap() error { return e.Err }

// Exception is what the failure record has in place of a Ruby exception.
func (e *Exhausted) Exception() string { return "Goworker::TriesExhausted" }
