// Package trial is how package goworkertest gets at what no program may touch: the clock of a daemon, the
// bytes of enqueued jobs, outcomes, and the steps of the pump and the ticker. A nil *Trial is production:
// each of its methods then returns what it was given, or the system's.
package trial

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/lanes"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
)

// Trial is a test of a daemon or a client. Its clock stands still until Set. It is safe for concurrent use;
// the functions are set before use.
type Trial struct {
	// Sent is called after each call that enqueues, with what it enqueued. It may be nil.
	Sent func([]producer.Sent)

	// Ended is called by a worker for each job that has ended. It may be nil.
	Ended func(*outcome.Job, *outcome.Outcome)

	mu  sync.Mutex
	now time.Time
}

// Said is what a job said of itself, as Redis would have it: the first two of a job with a document.
type Said struct {
	Progress []byte   // nil: nothing
	Lines    [][]byte // the log lines that were captured
	Cursor   []byte   // nil: it has none
}

// New returns a trial whose clock says now.
func New(now time.Time) *Trial { return &Trial{now: now} }

// Now returns the time of the trial.
func (t *Trial) Now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// Set sets the clock.
func (t *Trial) Set(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = now
}

// Saw does nothing: Redis has the same clock.
func (t *Trial) Saw(time.Time) {}

// frozen is the clock of a trial. Its timers are the system's: they measure how long a test really waits.
type frozen struct {
	clock.Clock
	*Trial
}

func (f frozen) Now() time.Time { return f.Trial.Now() }

// Clock returns the clock by which jobs are due.
func (t *Trial) Clock() clock.Clock {
	if t == nil {
		return clock.System
	}
	return frozen{clock.System, t}
}

// Time returns the fleet's clock.
func (t *Trial) Time(fleets outcome.Time) outcome.Time {
	if t == nil {
		return fleets
	}
	return t
}

// Base returns what features are given. The daemon's own parts keep the system's clock, by which they poll
// and renew the lease.
func (t *Trial) Base(b part.Base) part.Base {
	if t != nil {
		b.Clock = t.Clock()
	}
	return b
}

// Recorder returns what is called after each call that enqueues; nil: nothing.
func (t *Trial) Recorder() func([]producer.Sent) {
	if t == nil {
		return nil
	}
	return t.Sent
}

// Watch shows the jobs that end to the trial.
func (t *Trial) Watch(s *outcome.Set) {
	if t != nil && t.Ended != nil {
		s.Watch(t.Ended)
	}
}

// Features returns the makers of features without the named ones, which do nothing in a trial. A feature that
// watches keys has read them before each job.
func (t *Trial) Features(all []func(outcome.Deps) outcome.Feature, without ...string) []func(outcome.Deps) outcome.Feature {
	if t == nil {
		return all
	}
	kept := make([]func(outcome.Deps) outcome.Feature, len(all))
	for i, maker := range all {
		kept[i] = func(d outcome.Deps) outcome.Feature {
			f := maker(d)
			for _, name := range without {
				if f.Name == name {
					if f.Close != nil {
						f.Close()
					}
					return outcome.Feature{Name: name}
				}
			}
			return current(f, d)
		}
	}
	return kept
}

// current has a feature read the keys that it watches before each job, when Live is called. The Redis of a trial notifies
// nobody, so the poller reads them a moment later: too late for a job that another job of the same Drain cancels.
func current(f outcome.Feature, d outcome.Deps) outcome.Feature {
	if len(f.Watch) == 0 || d.Do == nil {
		return f
	}
	var mu sync.Mutex // so that an earlier answer of Redis does not replace a later one
	watch := slices.Clone(f.Watch)
	for i, w := range f.Watch {
		watch[i].Read = func(c redis.Conn) error {
			mu.Lock()
			defer mu.Unlock()
			return w.Read(c)
		}
	}
	f.Watch = watch
	live := f.Live
	f.Live = func() uint64 {
		for _, w := range watch {
			_ = d.Do(context.Background(), w.Read) // the poller logs what Redis refuses
		}
		if live == nil {
			return 1
		}
		return live()
	}
	return f
}

// Frozen returns the clock of the trial; nil in production.
func (t *Trial) Frozen() clock.Clock {
	if t == nil {
		return nil
	}
	return t.Clock()
}

// Limits returns the limits by which queues are sorted into lanes: none in a trial.
func (t *Trial) Limits(of lanes.Classes) lanes.Classes {
	if t == nil {
		return of
	}
	return unlimited{}
}

// unlimited are classes and queues without limits. In a trial a job runs as soon as it is due: its clock
// stands still, so a rate would keep jobs for ever.
type unlimited struct{}

func (unlimited) Lanes(queue string, jobs [][]byte) []resque.Lane {
	return slices.Repeat([]resque.Lane{{Queue: queue}}, len(jobs))
}
func (unlimited) Alike(string, []byte) (of resque.Alike, some bool) { return of, false }
func (unlimited) Limits(string) bool                                { return false }
func (unlimited) SortedBy(resque.Lanes) bool                        { return false }
func (unlimited) Numbers() (map[string]string, error)               { return nil, nil }
func (unlimited) Any() bool                                         { return false }
func (unlimited) Version() uint64                                   { return 0 }
func (unlimited) PauseOver(string) bool                             { return false }
func (unlimited) PauseLeft(string) time.Duration                    { return 0 }
