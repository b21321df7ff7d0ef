package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
	"github.com/goworker/goworker/internal/resque/operations"
)

const (
	// brakeSteps is the size of a step that stops the operation if it is too slow.
	brakeSteps = 10
	// brakeReads is how many new failures of a list a brake looks at after a step.
	brakeReads = 1000
)

// brake watches what becomes of the jobs that an operation put back.
type brake struct {
	Brake
	stops string // why the operation stops; "": it does not

	back map[string]bool  // the jobs that it put back, by their ids, and those without one by their refs: whether in this run
	ends map[string]int64 // failure list → its length when it was last looked at

	// of this run: who runs a stopped operation on has seen why it was stopped
	done, again int64

	all int64 // that have failed again, also those that were put back before
}

// begin notes how long the failure lists are, and which jobs the operation has put back before.
func (b *brake) begin(ctx context.Context, r *runner, record operations.Record) {
	b.Brake = r.plan.Brake
	if r.plan.Verb != Retry && r.plan.Verb != Run {
		b.Failed = 0
	}
	if b.Failed == 0 {
		return
	}
	b.back, b.ends = make(map[string]bool), make(map[string]int64)
	b.failures(ctx, r, false)
	for name := range record.Bins() {
		_ = r.wents(ctx, name, func(w went) { b.back[w.key()] = false }) // fewer known jobs only make the brake stop later
	}
}

// key is what the job is known by in a failure record: its id, because a retry changes the bytes, or else its bytes.
func (w went) key() string {
	if w.id != "" {
		return w.id
	}
	return w.ref
}

// failures reads the failures that are new, and counts those of jobs that the operation has put back. A list of which something
// was removed meanwhile hides some: the brake stops later then.
func (b *brake) failures(ctx context.Context, r *runner, count bool) {
	_ = r.do(ctx, func(s resque.Store, c redis.Conn) error {
		lists, _ := failures.New(s).Lists(c)
		for _, list := range lists {
			end, err := redis.Int64(c.Do("LLEN", s.KeyOfFailures(list)))
			if err != nil {
				continue
			}
			from, known := b.ends[list]
			if b.ends[list] = end; !count || end <= from {
				continue
			}
			if !known {
				from = 0
			}
			raws, _ := redis.ByteSlices(c.Do("LRANGE", s.KeyOfFailures(list), max(from, end-brakeReads), end-1))
			for _, raw := range raws {
				var f payload.FailureFields
				if f.Scan(raw) {
					b.count(payload.Text(f.Queue), f.Payload)
				}
			}
		}
		return nil
	})
}

// count counts a job that has failed, if the operation has put it back.
func (b *brake) count(queue string, raw []byte) {
	p, err := payload.Parse(raw)
	if err != nil {
		return
	}
	keys := []string{p.ID, innerID(p)}
	if p.ID == "" {
		keys = append(keys, refOf(queue, raw))
	}
	for _, key := range keys {
		now, known := b.back[key]
		if key == "" || !known {
			continue
		}
		if b.all++; now {
			b.again++
		}
		return
	}
}

// look looks at what a step did, and whether it is to be the last one.
func (b *brake) look(ctx context.Context, r *runner, did []Entry, took time.Duration, asked int) {
	b.done += int64(len(did))
	if b.Slow > 0 && took > b.Slow {
		if asked <= brakeSteps {
			b.stops = fmt.Sprintf("brake: Redis worked at a step of %d jobs for %s, longer than %s", asked, took.Round(time.Millisecond), b.Slow)
			return
		}
		r.size = max(brakeSteps, asked/2)
	} else if r.size < operations.StepJobs {
		r.size = min(operations.StepJobs, r.size+brakeSteps)
	}
	if b.Failed > 0 {
		b.failed(ctx, r, did)
	}
	if b.Waiting > 0 && b.stops == "" {
		b.waiting(ctx, r, did)
	}
}

func (b *brake) failed(ctx context.Context, r *runner, did []Entry) {
	for _, e := range did {
		w := went{id: e.ID, ref: e.Ref}
		if e.Failure != nil {
			if as, err := payload.ForRetry(e.Failure.Payload, true); err == nil {
				w.ref = refOf(e.Failure.Queue, as)
			}
		}
		b.back[w.key()] = true
	}
	before := b.all
	b.failures(ctx, r, true)
	if b.all > before {
		_ = r.with(ctx, func(s operations.Store, c redis.Conn) error { return s.Add(c, r.id, "again", b.all-before) })
	}
	if b.done >= brakeFrom && float64(b.again) > b.Failed*float64(b.done) {
		b.stops = fmt.Sprintf("brake: %d of the %d jobs that went back have failed again, more than %g %%", b.again, b.done, 100*b.Failed)
	}
}

func (b *brake) waiting(ctx context.Context, r *runner, did []Entry) {
	var queues []string
	for _, e := range did {
		queue := e.Queue
		if r.plan.Verb == MoveTo {
			queue = r.plan.Queue
		}
		if !slices.Contains(queues, queue) {
			queues = append(queues, queue)
		}
	}
	for _, queue := range queues {
		if n, err := r.QueueSize(ctx, queue); err == nil && n > b.Waiting {
			b.stops = fmt.Sprintf("brake: %d jobs wait in queue %s, more than %d", n, queue, b.Waiting)
			return
		}
	}
}

// concluded records what the operation did.
func (r *runner) concluded(ctx context.Context, why string) error {
	record, err := query(ctx, r.Inspector, func(s resque.Store, c redis.Conn) ([]operations.Record, error) {
		return operations.New(s).Read(c, r.id)
	})
	if err != nil || len(record) == 0 {
		return err
	}
	op := operationOf(record[0])
	by := *r.Inspector
	if by.who == "" {
		by.who, by.why = op.Who, op.Reason
	}
	what, n := "Operations."+string(op.Plan.Verb), op.Done
	if r.undo {
		what, n = "Operations.Undo", op.Back
	}
	e := AuditEntry{What: what, On: "operation " + r.id, Changed: n, Error: why}
	return by.note(ctx, e)
}

// innerID is the id that Rails gave an ActiveJob.
func innerID(p payload.Payload) string {
	if p.Class != args.ActiveJobWrapper {
		return ""
	}
	job, _ := args.OpenActiveJob(p.Args)
	return job.ID
}
