// Package cancel ends jobs that were cancelled: before their handlers run, and while they run. Each process
// keeps a copy of the set of cancelled jobs, which Redis has it read again after each change. While the
// set is empty the feature has no policy for any job.
package cancel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// Most is how many cancelled jobs a process keeps in memory. While there are more it asks Redis about each
// job with an id. Each change has every process read as many again, about 30 bytes each.
const Most = 1000

// askWithin is how long a job waits at most for Redis to say whether it was cancelled.
const askWithin = time.Second

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	f := &feature{deps: d, cancelled: d.Store.CancelledKey()}
	return outcome.Feature{
		Name:  "cancel",
		Drops: true,
		Open:  func(*outcome.Job) outcome.Policy { return f.unlessIdle() },
		Bind: func(c *outcome.Class) outcome.Policy {
			if c == nil { // it knows the errors of jobs that were admitted before they were cancelled
				return f
			}
			return f.unlessIdle()
		},
		Live: func() uint64 {
			if f.set.Load() == nil {
				return 0
			}
			return 1
		},
		Enqueue:      f.enqueue,
		EnqueueNamed: true,
		Watch:        []outcome.Watched{{Key: d.Store.KeyOfCancelled(), Read: f.read}},
	}
}

// feature is the policy of all jobs.
type feature struct {
	outcome.None
	deps outcome.Deps

	cancelled resque.Key
	set       atomic.Pointer[set] // nil: no job is cancelled. Written by read, in the poller's goroutine
}

// set is the set of cancelled jobs as it was read.
type set struct {
	entries map[string]struct{} // does not change
	more    bool                // Redis has more
	lifted  sync.Map            // names of entries that Redis had no more when it was asked
}

func (f *feature) unlessIdle() outcome.Policy {
	if f.set.Load() == nil {
		return nil
	}
	return f
}

// names are the entries by which a job may have been cancelled. It needs a job that was opened.
func names(j *outcome.Job) []string {
	all := make([]string, 0, 4)
	if queue, id, leased := resque.ParsePlace(j.Place); leased {
		if all = append(all, resque.CancelledPlace(queue, id)); id != j.Parsed.ID { // it got its id when it was given
			all = append(all, resque.CancelledID(id))
		}
	} else {
		all = append(all, resque.CancelledTicket(j.Process, j.Ticket))
		if j.Parsed.ID != "" {
			all = append(all, resque.CancelledPlace(j.Queue, j.Parsed.ID))
		}
	}
	if j.Parsed.ID != "" {
		all = append(all, resque.CancelledID(j.Parsed.ID))
	}
	if j.ID != "" && j.ID != j.Parsed.ID { // of an ActiveJob
		all = append(all, resque.CancelledID(j.ID))
	}
	return all
}

// has reports whether the job was cancelled, as far as this process knows.
func (s *set) has(j *outcome.Job) bool {
	if s == nil {
		return false
	}
	for _, name := range names(j) {
		if _, there := s.entries[name]; there {
			if _, lifted := s.lifted.Load(name); !lifted {
				return true
			}
		}
	}
	return false
}

// lift takes the entries of a job out. Workers call it.
func (s *set) lift(j *outcome.Job) {
	for _, name := range names(j) {
		s.lifted.Store(name, nil)
	}
}

// read reads the set, and then cancels the jobs that run and are in it. A job whose bytes are not read yet
// is left to Admit, which will find the set: it is stored before.
func (f *feature) read(c redis.Conn) error {
	entries, more, err := f.deps.Store.ReadCancelled(c, Most)
	if err != nil && c.Err() != nil {
		return err
	}
	if len(entries) == 0 {
		f.set.Store(nil)
		return err
	}
	s := &set{entries: make(map[string]struct{}, len(entries)), more: more}
	for _, e := range entries {
		s.entries[e] = struct{}{}
	}
	f.set.Store(s)
	if f.deps.Running == nil {
		return nil
	}
	var asked []*outcome.Job
	for j := range f.deps.Running {
		switch {
		case !j.Opened():
		case s.has(j):
			j.Cancel(failure.ErrUnwanted)
		case more:
			asked = append(asked, j)
		}
	}
	return f.cancelOthers(c, asked)
}

// cancelOthers asks Redis about jobs that run, because this process does not have the whole set.
func (f *feature) cancelOthers(c redis.Conn, jobs []*outcome.Job) error {
	for _, j := range jobs {
		there, err := f.deps.Store.AreCancelled(c, names(j))
		if err != nil {
			return err
		}
		if len(there) > 0 {
			j.Cancel(failure.ErrUnwanted)
		}
	}
	return nil
}

// Admit ends a job that was cancelled before it runs. The copy of the set may be older than the job: a push
// with the id of a cancelled job, and Lift, take the cancel back. So Redis is asked before a job is dropped.
func (f *feature) Admit(ctx context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	switch s := f.set.Load(); {
	case s.has(j):
		if there, err := f.asks(ctx, j); err == nil && !there {
			s.lift(j)
			return o, false
		}
		return cancelled(failure.ErrUnwanted), true
	case s != nil && s.more && (j.ID != "" || j.Parsed.ID != ""):
		if there, err := f.asks(ctx, j); err == nil && there { // where Redis does not answer, the job runs
			return cancelled(failure.ErrUnwanted), true
		}
	}
	return o, false
}

func cancelled(why error) outcome.Outcome { return outcome.Outcome{State: outcome.Cancelled, Err: why} }

// errSilent says that Redis did not say whether a job was cancelled.
var errSilent = errors.New("redis was not asked")

// asks asks Redis whether a job was cancelled.
func (f *feature) asks(ctx context.Context, j *outcome.Job) (there bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	answer := errSilent // in a test without Redis the function is not called
	err = f.deps.Do(ctx, func(c redis.Conn) error {
		var entries []string
		entries, answer = f.deps.Store.AreCancelled(c, names(j))
		there = len(entries) > 0
		return answer
	})
	return there, errors.Join(err, answer)
}

// Decide drops what the handler of a cancelled job has returned, whatever it is.
func (f *feature) Decide(_ context.Context, j *outcome.Job, err error) (o outcome.Outcome, decided bool) {
	if failure.Is(err, failure.ErrUnwanted) || f.set.Load().has(j) {
		return cancelled(err), true
	}
	return o, false
}

// Settle removes the entry of a job that is over, also of one that was done all the same. A cancelled job
// that would go back to its queue is over too: its process stops, or is dead, or a client over HTTP gives it back or
// lets its lease run out.
func (f *feature) Settle(j *outcome.Job, o *outcome.Outcome) {
	s := f.set.Load()
	if s == nil {
		return
	}
	hit := s.has(j)
	away := j.Dead || j.Place != "" // no handler here has returned what Decide would drop
	if hit && (o.State == outcome.Returned && j.Started || away && o.State != outcome.Done) {
		o.State, o.Err, o.Next, o.Log = outcome.Cancelled, failure.ErrUnwanted, outcome.Next{}, outcome.Log{}
	}
	if o.State.Over() && (hit || s.more && j.Parsed.ID != "") {
		o.Effects = append(o.Effects, f.deps.Store.Uncancelled(names(j)...))
	}
}

// enqueue takes a cancel back that is still there of an earlier job with the id that the program chose.
func (f *feature) enqueue(p *outcome.Push) error {
	if p.Chosen {
		p.Lifts = f.cancelled
	}
	return nil
}
