package resque

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var tickScript = script("tick")

// Ruby's keys of recurring schedules.

func (s Store) lastEnqueuedAt() string      { return s.ns + "delayed:last_enqueued_at" }
func (s Store) persistentSchedules() string { return s.ns + "persistent_schedules" }
func (s Store) schedulesChanged() string    { return s.ns + "schedules_changed" }

// Our keys.

func (s Store) ticks() string           { return s.ns + "go:ticks" }
func (s Store) pausedSchedules() string { return s.ns + "go:paused-schedules" }

// Ticks is the state of a schedule's ticks in Redis.
type Ticks struct {
	Last   time.Time // ticks up to here are done; zero: unknown
	Owner  string    // the process that noted it, NoOwner, or a RemovedOwner
	Timing string    // the schedule's timing as the owner had it

	// Enqueued is when a scheduler last enqueued the job, in whole seconds; zero: never, or
	// the text has no form we know. Foreign is whether a Ruby scheduler did so after Last
	// was noted.
	Enqueued time.Time
	Foreign  bool

	tick, enqueued string // the texts in Redis
}

// EnqueuedText is Enqueued as it was written.
func (t Ticks) EnqueuedText() string { return t.enqueued }

// NoOwner is the owner after the owning process has stopped.
const NoOwner = "-"

// RemovedOwner is the owner after the schedule was removed from the owning process at that moment.
func RemovedOwner(at time.Time) string { return NoOwner + strconv.FormatInt(at.UnixMilli(), 10) }

// Removed returns when the schedule was removed from its owner; zero: it was not.
func (t Ticks) Removed() time.Time {
	ms, err := strconv.ParseInt(strings.TrimPrefix(t.Owner, NoOwner), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func parseTicks(tick, enqueued string) Ticks {
	t := Ticks{tick: tick, enqueued: enqueued}
	if fields := strings.SplitN(tick, " ", 4); len(fields) >= 3 {
		if ms, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			t.Last, t.Owner, t.Timing = time.UnixMilli(ms), fields[1], fields[2]
			t.Foreign = enqueued != "" && (len(fields) == 3 || fields[3] != enqueued)
		}
	}
	var err error
	if t.Enqueued, err = time.Parse(startedLayout, enqueued); err != nil {
		t.Enqueued, _ = time.Parse(utcLayout, enqueued) // another program may have written anything
	}
	return t
}

// ReadTicks reads the ticks of schedules, in their order.
func (s Store) ReadTicks(c redis.Conn, schedules ...string) ([]Ticks, error) {
	b := Batch{Conn: c}
	b.Send("HMGET", redis.Args{}.Add(s.ticks()).AddFlat(schedules)...)
	b.Send("HMGET", redis.Args{}.Add(s.lastEnqueuedAt()).AddFlat(schedules)...)
	replies, err := b.Receive()
	var both [2][]string
	for i := range both {
		if err == nil {
			both[i], err = redis.Strings(Answer(replies[i]))
		}
		if err == nil && len(both[i]) != len(schedules) {
			err = ErrAnswer
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ticks of recurring schedules: %w", Explain(err))
	}
	all := make([]Ticks, len(schedules))
	for i := range all {
		all[i] = parseTicks(both[0][i], both[1][i])
	}
	return all, nil
}

// Fire is ticks of one schedule to be fired.
type Fire struct {
	Schedule string
	Was      Ticks // as ReadTicks returned it

	Last          time.Time // the last of the ticks; to be noted with owner and timing
	Owner, Timing string

	// Lock is that of the Ruby schedulers. With Shared nothing is fired while one of them
	// holds it.
	Lock   MasterLock
	Shared bool

	Queue    string
	Payloads [][]byte  // none: the ticks are only noted
	At       time.Time // now, as far as the caller knows Redis's clock
}

// Fired is what became of a Fire.
type Fired int

const (
	FiredOK      Fired = iota
	FiredPaused        // the ticks are noted, but nothing was pushed
	FiredMoved         // another process was faster; its ticks are returned
	FiredForeign       // a Ruby scheduler holds the lock
	FiredEarly         // too early by Redis's clock, which is returned as Last
)

// Fire pushes the jobs of ticks, unless the schedule has changed since it was read. In that
// case, and if it succeeds, the new state is returned.
func (s Store) Fire(c redis.Conn, f Fire) (Fired, Ticks, error) {
	tick := fmt.Sprintf("%d %s %s", f.Last.UnixMilli(), f.Owner, f.Timing)
	enqueued := StartedAt(f.At.UTC())
	var a Call
	a.Key(s.ticks())
	a.Key(s.lastEnqueuedAt())
	a.Key(s.pausedSchedules())
	a.Key(s.KeyOfNames(f.Queue))
	a.Key(s.KeyOfQueue(f.Queue))
	a.Key(f.Lock.keys[0])
	shared := ""
	if f.Shared {
		shared = "1"
	}
	// A clock that is ahead must not skip ticks to come.
	notBefore := f.At.UnixMilli()
	if len(f.Payloads) > 0 {
		notBefore = max(notBefore, f.Last.UnixMilli())
	}
	a.Arg(f.Schedule, f.Was.tick, f.Was.enqueued, tick, notBefore, shared, enqueued, f.Queue)
	for _, p := range f.Payloads {
		a.Arg(p)
	}
	r, err := redis.Strings(a.Do(c, tickScript))
	if err == nil && len(r) == 0 {
		err = ErrAnswer
	}
	if err != nil {
		return 0, Ticks{}, fmt.Errorf("firing the recurring schedule %s: %w", f.Schedule, Explain(err))
	}
	switch {
	case r[0] == "ok":
		if len(f.Payloads) == 0 {
			enqueued = f.Was.enqueued
		}
		return FiredOK, parseTicks(tick+" "+enqueued, enqueued), nil
	case r[0] == "paused":
		return FiredPaused, parseTicks(tick+" "+f.Was.enqueued, f.Was.enqueued), nil
	case r[0] == "moved" && len(r) == 3:
		return FiredMoved, parseTicks(r[1], r[2]), nil
	case r[0] == "foreign":
		return FiredForeign, f.Was, nil
	case r[0] == "early" && len(r) == 2:
		ms, err := strconv.ParseInt(r[1], 10, 64)
		return FiredEarly, Ticks{Last: time.UnixMilli(ms)}, err
	}
	return 0, Ticks{}, fmt.Errorf("firing the recurring schedule %s: %w", f.Schedule, ErrAnswer)
}

// PersistentSchedules returns the schedules that all schedulers share, as JSON.
func (s Store) PersistentSchedules(c redis.Conn) (map[string]string, error) {
	all, err := redis.StringMap(c.Do("HGETALL", s.persistentSchedules()))
	if err != nil {
		return nil, fmt.Errorf("reading the recurring schedules: %w", Explain(err))
	}
	return all, nil
}

// PersistentSchedule returns one of them, and whether it exists.
func (s Store) PersistentSchedule(c redis.Conn, name string) (text string, there bool, err error) {
	text, err = redis.String(c.Do("HGET", s.persistentSchedules(), name))
	if errors.Is(err, redis.ErrNil) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("reading the recurring schedule %s: %w", name, Explain(err))
	}
	return text, true, nil
}

// SaveSchedule writes a schedule that all schedulers share, and makes Ruby's schedulers
// load it.
func (s Store) SaveSchedule(c redis.Conn, name string, config []byte) error {
	b := Batch{Conn: c}
	b.Send("HSET", s.persistentSchedules(), name, config)
	b.Send("SADD", s.schedulesChanged(), name)
	if err := b.check(); err != nil {
		return fmt.Errorf("saving the recurring schedule %s: %w", name, Explain(err))
	}
	return nil
}

// RemoveSchedule removes such a schedule, and reports whether it existed.
func (s Store) RemoveSchedule(c redis.Conn, name string) (bool, error) {
	b := Batch{Conn: c}
	b.Send("HDEL", s.persistentSchedules(), name)
	b.Send("SADD", s.schedulesChanged(), name)
	replies, err := b.Receive()
	removed := 0
	if err == nil {
		removed, err = redis.Int(Answer(replies[0]))
	}
	if err == nil {
		_, err = Answer(replies[1])
	}
	if err != nil {
		return false, fmt.Errorf("removing the recurring schedule %s: %w", name, Explain(err))
	}
	return removed > 0, nil
}

// PauseSchedule makes a schedule's ticks pass without a job, in the whole fleet.
func (s Store) PauseSchedule(c redis.Conn, name string, at time.Time) error {
	if _, err := c.Do("HSET", s.pausedSchedules(), name, StartedAt(at.UTC())); err != nil {
		return fmt.Errorf("pausing the recurring schedule %s: %w", name, Explain(err))
	}
	return nil
}

// ResumeSchedule ends PauseSchedule.
func (s Store) ResumeSchedule(c redis.Conn, name string) error {
	if _, err := c.Do("HDEL", s.pausedSchedules(), name); err != nil {
		return fmt.Errorf("resuming the recurring schedule %s: %w", name, Explain(err))
	}
	return nil
}

// PausedSchedules returns the names of the paused schedules.
func (s Store) PausedSchedules(c redis.Conn) ([]string, error) {
	names, err := redis.Strings(c.Do("HKEYS", s.pausedSchedules()))
	if err != nil {
		return nil, fmt.Errorf("reading which recurring schedules are paused: %w", Explain(err))
	}
	return names, nil
}

// KnownSchedules returns the names of the schedules that have fired, in no order.
func (s Store) KnownSchedules(c redis.Conn) (names []string, err error) {
	b := Batch{Conn: c}
	b.Send("HKEYS", s.ticks())
	b.Send("HKEYS", s.lastEnqueuedAt())
	replies, err := b.Receive()
	for n := range replies {
		var some []string
		if err == nil {
			some, err = redis.Strings(Answer(replies[n]))
		}
		names = append(names, some...)
	}
	if err != nil {
		return nil, fmt.Errorf("reading which recurring schedules have fired: %w", Explain(err))
	}
	return names, nil
}
