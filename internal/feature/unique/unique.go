// Package unique gives unique jobs their locks when they are enqueued, gives up the locks of those that
// end, and keeps those of jobs that go on.
package unique

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// AtMost is how long a lock stays at most whose job does not say.
const AtMost = 7 * 24 * time.Hour

// unlockWithin is how long a job waits at most for a connection to give up its lock by.
const unlockWithin = time.Second

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	return outcome.Feature{
		Name:    "unique",
		Field:   "unique",
		Enqueue: func(p *outcome.Push) error { return enqueue(d, p) },
		Open: func(j *outcome.Job) outcome.Policy {
			hold, name, most := resque.ParseLock(j.Parsed.Unique)
			if name == "" {
				return nil // the field is another program's
			}
			if most == 0 {
				most = AtMost
			}
			return &lock{deps: &d, hold: hold, name: name, most: most}
		},
	}
}

// lock is what the payload of one job says of its lock.
type lock struct {
	outcome.None
	deps  *outcome.Deps
	hold  resque.Hold
	name  string
	most  time.Duration
	freed bool // it was given up before the run
}

// Admit gives up the lock of a job that is to be unique only until it starts. Where Redis cannot be
// asked now the job runs all the same, and gives up its lock with its end.
func (l *lock) Admit(ctx context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	if l.hold == resque.HoldStart && j.Err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockWithin)
		defer cancel()
		l.freed = l.deps.Do(ctx, func(c redis.Conn) error { return l.deps.Store.Unlock(c, l.name, j.Parsed.ID) }) == nil
	}
	return o, false
}

// Settle gives up the lock of a job that is over, and moves that of one that goes on under another
// payload. The id is the payload's, whatever an ActiveJob calls itself.
func (l *lock) Settle(j *outcome.Job, o *outcome.Outcome) {
	switch {
	case l.freed:
	case o.State.Over():
		o.Add(l.deps.Store.Released(l.name, j.Parsed.ID))
	case l.hold == resque.HoldDone && o.Next.Payload != nil && o.Next.Place != outcome.RubySchedule:
		o.Effects = append(o.Effects, l.deps.Store.LockMoved(l.name, j.Parsed.ID, l.deps.Time.Now(), o.At, l.most, j.Queue, o.Next.Payload))
	}
}
