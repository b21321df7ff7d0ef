package scheduler

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/recurring"
	"github.com/goworker/goworker/internal/resque"
)

// TickerConfig is what the ticker needs of the settings.
type TickerConfig struct {
	Dynamic      bool   // fire the schedules that are in Redis for all processes, too
	Environment  string // RAILS_ENV; schedules in Redis may name those in which they count
	Style        payload.Style
	LeaveDelayed bool // the pump leaves delayed jobs to Ruby's scheduler, and the ticker the lock
}

const (
	// ownerSlack is how late a schedule must be before a process that is not its owner looks
	// whether it was fired. Then the owner has died or stands still. Half as much again is drawn
	// on top, so that the processes do not look all at once.
	ownerSlack = 3 * time.Second

	// dynamicEvery is how often a process that fires schedules of Redis reads them. It is also
	// how long another scheduler's lock is taken to hold, and how often Ruby's schedulers look.
	// A process that fires none reads them each dynamicSeldom, and before it fires the first.
	dynamicEvery  = 5 * time.Second
	dynamicSeldom = 30 * time.Second

	// lockLinger is how long the ticker holds the lock after it fired a shared schedule. A Ruby
	// scheduler that took the lock at once would fire it for the same time.
	lockLinger = 5 * time.Second

	// longestNap is how long the ticker trusts its idea of Redis's clock. The lease, which sets
	// it right, is renewed as often.
	longestNap = 2 * time.Second

	// replyWithin bounds connecting, and each reply.
	replyWithin = 2 * time.Second

	// tickerUser is the ticker's name as a user of the lock.
	tickerUser = "schedules"
)

// Ticker fires recurring schedules. All processes that have a schedule watch it. The process that
// fired it last is its owner and fires it at the next time. If it was not fired some seconds later,
// another process fires it. The script that fires a schedule proves that each fire time is fired
// once. Owners only save commands.
type Ticker struct {
	base   part.Base
	config TickerConfig
	table  *Table
	lock   *Lock
	fleet  Fleet
	redis  Clock
	loop   *part.Loop
	line   conn.Line
	slack  time.Duration

	// of the goroutine; after it has ended, of Stop
	dynamic map[string]string // the schedules in Redis, as they were read
	looked  time.Time         // when they were read, by this machine's clock
	entries map[string]*entry
	gone    []*entry                 // removed entries that this process may still own
	refused map[string]string        // schedules in Redis that do not run here, by name
	said    map[string]*logging.Once // the last log line, by schedule
	foreign time.Time                // until when a Ruby scheduler is taken to hold the lock
	locked  time.Time                // when to release the lock; zero: the ticker does not hold it
}

// entry is a schedule as this process watches it. All times are by Redis's clock.
type entry struct {
	*recurring.Schedule
	text    string // its JSON, if it is in Redis for all processes
	loaded  time.Time
	read    bool // state was read
	state   resque.Ticks
	wake    time.Time // when to check it again; zero: never
	failed  time.Time // until when to leave it alone, since Redis refused to fire it
	removed time.Time // when it was removed; zero: it was not
}

// saw takes what was read of the schedule's state. If Redis has lost it, the schedule starts again
// now: its fire times since it was loaded were fired.
func (e *entry) saw(state resque.Ticks, now time.Time) {
	if state.Last.IsZero() && !e.state.Last.IsZero() {
		e.loaded = now
	}
	e.state, e.read = state, true
}

// NewTicker returns a ticker that fires the schedules of table and, with Dynamic, those in Redis.
func NewTicker(b part.Base, c TickerConfig, table *Table, lock *Lock, fleet Fleet, redis Clock) *Ticker {
	t := &Ticker{
		base: b, config: c, table: table, lock: lock, fleet: fleet, redis: redis,
		line: b.Line(replyWithin), slack: ownerSlack + rand.N(ownerSlack/2),
		entries: make(map[string]*entry), refused: make(map[string]string), said: make(map[string]*logging.Once),
	}
	t.loop = part.NewLoop(b, "schedules", t.turn)
	return t
}

// Start loads the schedules and starts the ticker. The process must be in the fleet.
func (t *Ticker) Start(ctx context.Context) error {
	t.table.watch(t.Wake)
	t.load(t.redis.Now())
	t.loop.Start(ctx)
	return nil
}

// Wake has the ticker look at its schedules and the clock now.
func (t *Ticker) Wake() { t.loop.Wake() }

// Stop stops the ticker, breaks off the turn under way, and leaves the schedules to other processes.
func (t *Ticker) Stop(ctx context.Context) error {
	t.loop.Stop(ctx)
	defer t.line.Close()
	if len(t.entries)+len(t.gone) == 0 && t.locked.IsZero() {
		return nil
	}
	for _, e := range t.entries {
		t.gone = append(t.gone, e)
	}
	clear(t.entries)
	return t.line.Do(ctx, func(c redis.Conn) error {
		return errors.Join(t.disown(c), t.lock.Release(c, tickerUser))
	})
}

// turn does everything that is to be done now, and returns how long there is nothing to do. It
// returns an error of the connection, or of a server that serves no client now. What is wrong
// with one schedule is logged and costs the others nothing.
func (t *Ticker) turn(ctx context.Context) (time.Duration, error) {
	t.load(t.redis.Now())
	due, _ := t.due(t.redis.Now())
	// A removed schedule may be in Redis now.
	look := t.config.Dynamic && (clock.Since(t.base.Clock, t.looked) >= t.lookEvery() || len(t.gone) > 0 || t.mayBeStale())
	unlock := !t.locked.IsZero() && !t.locked.After(t.redis.Now())
	if len(due)+len(t.gone) == 0 && !look && !unlock {
		return t.nap(t.redis.Now()), nil
	}
	err := t.line.Do(ctx, func(c redis.Conn) error { return t.work(c, look, unlock) })
	if err != nil {
		return 0, err
	}
	return t.nap(t.redis.Now()), nil
}

// Step is a turn of a ticker that was not started, on a connection of the caller's. It returns when the next
// schedule is due; zero: there is none.
func (t *Ticker) Step(c redis.Conn) (next time.Time, err error) {
	t.load(t.redis.Now())
	if err := t.work(c, t.config.Dynamic, false); err != nil {
		return next, err
	}
	if !t.locked.IsZero() { // no Ruby scheduler waits for it
		if err := t.lock.Release(c, tickerUser); err != nil {
			return next, err
		}
		t.locked = time.Time{}
	}
	for _, e := range t.entries {
		if !e.wake.IsZero() && (next.IsZero() || e.wake.Before(next)) {
			next = e.wake
		}
	}
	return next, nil
}

// work is the part of a turn that needs Redis. With look it reads the schedules in Redis, with
// unlock it releases the lock, and it fires what is due.
func (t *Ticker) work(c redis.Conn, look, unlock bool) error {
	if look {
		all, err := t.base.Store.PersistentSchedules(c)
		if err != nil {
			return err
		}
		t.dynamic, t.looked = all, t.base.Clock.Now()
		t.load(t.redis.Now())
	}
	if err := t.disown(c); err != nil {
		return err
	}
	if unlock {
		if err := t.lock.Release(c, tickerUser); err != nil {
			return err
		}
		t.locked = time.Time{}
	}
	due, unknown := t.due(t.redis.Now())
	if err := t.read(c, unknown); err != nil {
		return err
	}
	for _, e := range due {
		if err := t.check(c, e); err != nil {
			return err
		}
	}
	return nil
}

// nap returns how long there is nothing to do.
func (t *Ticker) nap(now time.Time) time.Duration {
	wait := longestNap
	if t.config.Dynamic {
		wait = min(wait, t.lookEvery()-clock.Since(t.base.Clock, t.looked))
	}
	if !t.locked.IsZero() {
		wait = min(wait, t.locked.Sub(now))
	}
	for _, e := range t.entries {
		if !e.wake.IsZero() {
			wait = min(wait, e.wake.Sub(now))
		}
	}
	return max(wait, 0)
}

// lookEvery is how often this process reads the schedules in Redis.
func (t *Ticker) lookEvery() time.Duration {
	if t.fleet.Leads() {
		return dynamicEvery // the leader fires new ones
	}
	for _, e := range t.entries {
		if e.text != "" && e.state.Owner == t.fleet.Self() {
			return dynamicEvery
		}
	}
	return dynamicSeldom
}

// mayBeStale reports whether a schedule of Redis seems to be late because its owner died. It may
// as well have been removed.
func (t *Ticker) mayBeStale() bool {
	_, unknown := t.due(t.redis.Now())
	return slices.ContainsFunc(unknown, func(e *entry) bool { return e.text != "" && e.read })
}

// owned reports whether a live process other than this one owns a schedule.
func (t *Ticker) owned(e *entry) bool {
	return e.state.Owner != t.fleet.Self() && t.fleet.Alive(e.state.Owner)
}
