package goworker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// tickSlack is how late a tick must be before a process that did not fire the one
	// before looks whether it was fired: the one that did has died or stands still.
	// Half as much again is drawn on top, so that not all look at once.
	tickSlack = 3 * time.Second

	// dynamicEvery is how often the schedules that are in Redis are looked at by those
	// who fire them, and how long somebody else's lock is believed to hold. Ruby's
	// schedulers look as often. Who fires none looks each dynamicSeldom, and before it
	// fires the first.
	dynamicEvery  = 5 * time.Second
	dynamicSeldom = 30 * time.Second

	// lockLinger is for how long after a shared tick we hold the lock of the Ruby
	// schedulers: one that took it at once would fire the same tick.
	lockLinger = 5 * time.Second

	// longestNap is how long the ticker trusts its clock: each renewal of the lease tells
	// Redis's time anew.
	longestNap = 2 * time.Second
)

// lockUser is the ticker's name as a user of the master lock.
const lockUser = "schedules"

// ticker fires the ticks of recurring schedules. All processes that have a schedule watch
// its ticks: the one that fired the last one, its owner, fires the next on time, the
// others some seconds later if it was not. That each is fired once is proven by the script
// that fires it; who is the owner saves only commands.
type ticker struct {
	d       *Daemon
	line    conn.Line
	slack   time.Duration
	changed <-chan struct{}
	cancel  context.CancelFunc
	ended   chan struct{}

	// of the goroutine
	dynamic map[string]string // what is in Redis for all, as it was read
	looked  time.Time         // when it was
	entries map[string]*scheduled
	gone    []*scheduled      // entries that were removed and are still owned
	refused map[string]string // by schedule, what is in Redis and does not run here
	warned  map[warning]string
	foreign time.Time // until when a Ruby scheduler is believed to hold the lock
	locked  time.Time // when to give it back if it is ours; zero: it is not
	retry   part.Backoff
}

// warning is what may be logged about a schedule.
type warning struct{ schedule, message string }

// scheduled is a schedule and what is known of its ticks.
type scheduled struct {
	*recurring
	text   string // of one that is in Redis for all
	loaded time.Time
	known  bool // ticks was read
	ticks  resque.Ticks
	wake   time.Time // by Redis's clock, like all times here; zero: never
	failed time.Time // when Redis refused a tick

	removed time.Time // when this process was to have it no more
}

// saw takes what was read of its ticks. If Redis has lost it, the schedule begins anew:
// those since it was loaded were fired.
func (e *scheduled) saw(ticks resque.Ticks, now time.Time) {
	if ticks.Last.IsZero() && !e.ticks.Last.IsZero() {
		e.loaded = now
	}
	e.ticks, e.known = ticks, true
}

func newTicker(d *Daemon) *ticker {
	return &ticker{
		d: d, line: conn.Line{Dialer: d.dialer, Limit: part.ReplyWithin}, slack: tickSlack + rand.N(tickSlack/2),
		ended: make(chan struct{}), entries: make(map[string]*scheduled),
		refused: make(map[string]string), warned: make(map[warning]string),
	}
}

func (t *ticker) start(context.Context) error {
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(t.d.base)
	t.changed = t.d.recurring.watch()
	t.load(t.now())
	go t.run(ctx)
	return nil
}

func (t *ticker) stop(ctx context.Context) error {
	t.cancel()
	<-t.ended
	defer t.line.Close()
	if len(t.entries)+len(t.gone) == 0 && t.locked.IsZero() {
		return nil
	}
	for _, e := range t.entries {
		t.gone = append(t.gone, e)
	}
	return t.line.Do(ctx, func(c redis.Conn) error {
		return errors.Join(t.disown(c), t.d.master.release(c, lockUser))
	})
}

func (t *ticker) now() time.Time { return t.d.lease.Now() }

func (t *ticker) self() string { return t.d.lease.Self() }

// owned reports whether a live process other than this one owns a schedule.
func (t *ticker) owned(e *scheduled) bool {
	return e.ticks.Owner != t.self() && t.d.lease.Alive(e.ticks.Owner)
}

func (t *ticker) run(ctx context.Context) {
	defer close(t.ended)
	for {
		wait := longestNap
		err := t.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.d.outages.Fail("schedules", err)
			wait = t.retry.Next()
		default:
			t.d.outages.OK("schedules")
			t.retry.Reset()
			wait = t.nap(t.now())
		}
		select {
		case <-time.After(wait):
		case <-t.changed:
		case <-ctx.Done():
			return
		}
	}
}

// nap is how long there is nothing to do.
func (t *ticker) nap(now time.Time) time.Duration {
	wait := longestNap
	if t.d.config.DynamicSchedule {
		wait = t.lookEvery() - time.Since(t.looked)
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

// lookEvery is how often this process looks at the schedules that are in Redis.
func (t *ticker) lookEvery() time.Duration {
	if t.d.lease.Leads() {
		return dynamicEvery // what is new is the leader's to fire
	}
	for _, e := range t.entries {
		if e.text != "" && e.ticks.Owner == t.self() {
			return dynamicEvery
		}
	}
	return dynamicSeldom
}

// turn does all there is to do now. An error is the connection's, or the server's that
// serves nobody now; what is wrong with one schedule is logged and costs the others
// nothing.
func (t *ticker) turn(ctx context.Context) error {
	t.load(t.now())
	due, _ := t.due(t.now())
	// What is gone may be in Redis now.
	look := t.d.config.DynamicSchedule && (time.Since(t.looked) >= t.lookEvery() || len(t.gone) > 0 || t.mayBeStale())
	unlock := !t.locked.IsZero() && !t.locked.After(t.now())
	if len(due)+len(t.gone) == 0 && !look && !unlock {
		return nil
	}
	return t.line.Do(ctx, func(c redis.Conn) error {
		if look {
			all, err := t.d.store.PersistentSchedules(c)
			if err != nil {
				return err
			}
			t.dynamic, t.looked = all, time.Now()
			t.load(t.now())
		}
		if err := t.disown(c); err != nil {
			return err
		}
		if unlock {
			if err := t.d.master.release(c, lockUser); err != nil {
				return err
			}
			t.locked = time.Time{}
		}
		due, unknown := t.due(t.now())
		if err := t.read(c, unknown); err != nil {
			return err
		}
		for _, e := range due {
			if err := t.look(c, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// mayBeStale reports whether a schedule that is in Redis seems to be late because its
// owner died: it may as well have been removed.
func (t *ticker) mayBeStale() bool {
	_, unknown := t.due(t.now())
	return slices.ContainsFunc(unknown, func(e *scheduled) bool { return e.text != "" && e.known })
}
