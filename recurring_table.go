package goworker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// recurringTable holds the schedules of a Daemon that are its own: from code and files.
type recurringTable struct {
	mu      sync.Mutex
	own     map[string]*recurring
	changed chan struct{} // of the run, if there is one; holds one token
}

func (t *recurringTable) set(name string, d *recurring) (was *recurring) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was = t.own[name]
	if d == nil {
		delete(t.own, name)
	} else {
		if t.own == nil {
			t.own = make(map[string]*recurring)
		}
		t.own[name] = d
	}
	t.tell()
	return was
}

func (t *recurringTable) get(name string) *recurring {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own[name]
}

func (t *recurringTable) all() map[string]*recurring {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]*recurring, len(t.own))
	for name, d := range t.own {
		all[name] = d
	}
	return all
}

// watch begins a run and returns what tells it of changes.
func (t *recurringTable) watch() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = make(chan struct{}, 1)
	return t.changed
}

func (t *recurringTable) tell() {
	select {
	case t.changed <- struct{}{}:
	default: // nobody runs, or he was told
	}
}

// Schedule enqueues a job again and again from now on, or replaces the schedule that had
// the name. It may be called before and while the daemon runs; only a daemon that runs
// fires ticks. It returns an error that says what is wrong with the schedule.
//
// One with Persist is written to Redis at once and ends one that this process has under
// that name; the daemons with DynamicSchedule fire it. What Ruby schedulers do not read is
// refused: they would end at it, at each start. One without leaves what Redis has
// under its name alone, and in this process counts before it.
//
// Every process of the fleet that has the schedule can fire it, and each tick is fired
// once by one of them: by the one that fired the tick before, and, should that be late,
// seconds later by another. While two have different timings under one name, that of the
// process which fires counts until it ends; the others say so in their logs.
//
// What the fleet knows of a schedule is in Redis, so that a new version of a program goes
// on where the one before was. A schedule that the fleet never had, or that was removed,
// begins now.
func (d *Daemon) Schedule(name string, r Recurring) error {
	if err := d.usable(); err != nil {
		return err
	}
	checked, err := newRecurring(name, r)
	if err != nil {
		return err
	}
	if !r.Persist {
		d.recurring.set(name, checked)
		return nil
	}
	config, err := checked.persistent()
	if err != nil {
		return err
	}
	err = d.withConn(func(s resque.Store, c redis.Conn) error { return s.SaveSchedule(c, name, config) })
	if err == nil {
		d.recurring.set(name, nil) // it would count before the one in Redis
	}
	return err
}

// persistent is the schedule's JSON, after it was seen to mean the same to others.
func (d *recurring) persistent() ([]byte, error) {
	r := d.Recurring
	if r.Missed == MissedOnce {
		r.Missed = ""
	}
	if r.Grace == DefaultTickGrace {
		r.Grace = 0
	}
	if d.timing.cron != nil {
		var err error
		if r.Cron, err = d.timing.cron.ForRuby(); err != nil {
			return nil, d.about(fmt.Errorf("with Persist, the cron %q is also for Ruby schedulers, which would end at it: %w", d.Cron, err))
		}
		r.Location = nil // it is in the Cron
	}
	text, err := payload.EncodeValue(r, payload.Plain)
	if err != nil {
		return nil, d.about(err)
	}
	if _, err := readRecurring(d.name, string(text)); err != nil {
		return nil, fmt.Errorf("%w; others could not read it", err)
	}
	return text, nil
}

// Unschedule ends a schedule: one of this process's, and one that is in Redis for all.
// It reports whether there was one. Jobs that were enqueued stay. Other processes that
// have the schedule go on with it; if it is scheduled again, it begins anew.
func (d *Daemon) Unschedule(name string) (bool, error) {
	if err := d.usable(); err != nil {
		return false, err
	}
	own := d.recurring.set(name, nil) != nil
	var removed bool
	err := d.withConn(func(s resque.Store, c redis.Conn) error {
		_, there, err := s.PersistentSchedule(c, name)
		if there && err == nil {
			removed, err = s.RemoveSchedule(c, name)
		}
		return err
	})
	return own || removed, err
}

// PauseSchedule makes the ticks of a schedule pass without a job, in the whole fleet and
// until ResumeSchedule. They are not made up for. It need not be a schedule of this
// process. Ruby schedulers do not know of it.
func (d *Daemon) PauseSchedule(name string) error {
	return d.withConn(func(s resque.Store, c redis.Conn) error {
		now, err := s.Now(c)
		if err != nil {
			return err
		}
		return s.PauseSchedule(c, name, now)
	})
}

// ResumeSchedule ends PauseSchedule, from the next tick on.
func (d *Daemon) ResumeSchedule(name string) error {
	return d.withConn(func(s resque.Store, c redis.Conn) error { return s.ResumeSchedule(c, name) })
}

// RunScheduleNow enqueues the job of a schedule once, beside its ticks, also while it is
// paused. A TickArg is the time of the call.
func (d *Daemon) RunScheduleNow(name string) error {
	own := d.recurring.get(name)
	if own == nil {
		err := d.withConn(func(s resque.Store, c redis.Conn) error {
			text, there, err := s.PersistentSchedule(c, name)
			if err != nil {
				return err
			}
			if !there {
				return fmt.Errorf("goworker: recurring schedule %s: %w", name, ErrNoSchedule)
			}
			own, err = readRecurring(name, text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return d.Enqueue(own.job(time.Now()))
}

// ScheduleInfo is a recurring schedule as it stands.
type ScheduleInfo struct {
	Name      string
	Recurring Recurring

	// Next is its next tick; zero if the fleet has not heard of it yet.
	Next time.Time
	// LastEnqueued is when its job was last enqueued by a tick, by whichever scheduler,
	// in whole seconds; zero: never.
	LastEnqueued time.Time
	// Paused is whether its ticks pass without a job.
	Paused bool
	// Broken says why a schedule that somebody wrote to Redis does not run.
	Broken error
}

// Schedules returns the recurring schedules of this process and those that are in Redis
// for all, sorted by name. Where both have a name, it is this process's.
func (d *Daemon) Schedules() ([]ScheduleInfo, error) {
	var infos []ScheduleInfo
	err := d.withConn(func(s resque.Store, c redis.Conn) error {
		now, err := s.Now(c)
		if err != nil {
			return err
		}
		shared, err := s.PersistentSchedules(c)
		if err != nil {
			return err
		}
		paused, err := s.PausedSchedules(c)
		if err != nil {
			return err
		}
		all := d.recurring.all()
		broken := make(map[string]error)
		for name, text := range shared {
			if all[name] == nil {
				if all[name], err = readRecurring(name, text); err != nil {
					broken[name] = err
				}
			}
		}
		names := sortedNames(all)
		if len(names) == 0 {
			return nil
		}
		known, err := s.ReadTicks(c, names...)
		if err != nil {
			return err
		}
		for i, name := range names {
			info := ScheduleInfo{Name: name, LastEnqueued: known[i].Enqueued, Paused: slices.Contains(paused, name), Broken: broken[name]}
			if r := all[name]; r != nil {
				info.Recurring = r.Recurring
				if done := r.done(known[i], now); !done.IsZero() {
					info.Next = r.timing.next(done, later(done, now))
				}
			}
			infos = append(infos, info)
		}
		return nil
	})
	return infos, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// readRecurring reads a schedule that is in Redis for all.
func readRecurring(name, text string) (*recurring, error) {
	var r Recurring
	if err := r.UnmarshalJSON([]byte(text)); err != nil {
		return nil, (&recurring{name: name}).about(err)
	}
	r.Persist = true
	return newRecurring(name, r)
}
