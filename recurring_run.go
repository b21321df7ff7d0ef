package goworker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

const (
	// tickSlack is how late a tick must be before a process that did not fire the one
	// before looks whether it was fired: the one that did has died or stands still.
	// Half as much again is drawn on top, so that not all look at once.
	tickSlack = 3 * time.Second

	// dynamicEvery is how often the schedules that are in Redis are looked at, and how
	// long somebody else's lock is believed to hold. Ruby's schedulers look as often.
	dynamicEvery = 5 * time.Second

	// lockLinger is for how long after a shared tick we hold the lock of the Ruby
	// schedulers: one that took it at once would fire the same tick.
	lockLinger = 5 * time.Second

	// longestNap is how long the ticker trusts its clock.
	longestNap = time.Minute
)

// lockUser is the ticker's name as a user of the master lock.
const lockUser = "schedules"

// dynamicWords are those that switch DYNAMIC_SCHEDULE on in Ruby.
var dynamicWords = map[string]bool{"1": true, "t": true, "T": true, "true": true, "TRUE": true, "on": true, "ON": true}

// ticker fires the ticks of recurring schedules. All processes that have a schedule watch
// its ticks: the one that fired the last one, its owner, fires the next on time, the
// others some seconds later if it was not. That each is fired once is proven by the script
// that fires it; who is the owner saves only commands.
type ticker struct {
	d       *Daemon
	line    line
	slack   time.Duration
	changed <-chan struct{}
	cancel  context.CancelFunc
	ended   chan struct{}

	// of the goroutine
	dynamic map[string]string // what is in Redis for all, as it was read
	looked  time.Time         // when it was
	entries map[string]*scheduled
	warned  map[string]string // by schedule, what was logged last
	foreign time.Time         // until when a Ruby scheduler is believed to hold the lock
	locked  time.Time         // until when we are to hold it; zero: we do not
	retry   backoff
}

// scheduled is a schedule and what is known of its ticks.
type scheduled struct {
	*recurring
	text   string // of one that is in Redis for all
	loaded time.Time
	known  bool // ticks was read
	ticks  resque.Ticks
	wake   time.Time // by Redis's clock, like all times here; zero: never
	failed time.Time // when Redis refused a tick
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
		d: d, line: line{dialer: d.dialer, limit: renewWithin}, slack: tickSlack + rand.N(tickSlack/2),
		ended: make(chan struct{}), entries: make(map[string]*scheduled), warned: make(map[string]string),
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
	defer t.line.close()
	if t.locked.IsZero() {
		return nil
	}
	return t.line.do(ctx, func(c redis.Conn) error { return t.d.master.release(c, lockUser) })
}

func (t *ticker) now() time.Time { return t.d.lease.redisTime(time.Now()) }

func (t *ticker) self() string { return t.d.session.Load().process.ID }

// owned reports whether a live process other than this one owns a schedule.
func (t *ticker) owned(e *scheduled) bool {
	if e.ticks.Owner == t.self() {
		return false
	}
	fleet := t.d.lease.reaper.fleet.Load()
	if fleet == nil {
		return true // not known yet
	}
	return slices.ContainsFunc(*fleet, func(l resque.Lease) bool { return l.Process == e.ticks.Owner && l.Value != fenced })
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
			t.d.outages.fail("schedules", err)
			wait = t.retry.next()
		default:
			t.d.outages.ok("schedules")
			t.retry.reset()
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
	if t.d.config.dynamicSchedule {
		wait = dynamicEvery - time.Since(t.looked)
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

// turn does all there is to do now. An error is the connection's, or the server's that
// serves nobody now; what is wrong with one schedule is logged and costs the others
// nothing.
func (t *ticker) turn(ctx context.Context) error {
	if t.d.config.dynamicSchedule && time.Since(t.looked) >= dynamicEvery {
		err := t.line.do(ctx, func(c redis.Conn) (err error) {
			t.dynamic, err = t.d.store.PersistentSchedules(c)
			return err
		})
		if err != nil {
			return err
		}
		t.looked = time.Now()
	}
	now := t.now()
	if gone := t.load(now); len(gone) > 0 {
		if err := t.line.do(ctx, func(c redis.Conn) error { return t.disown(c, gone) }); err != nil {
			return err
		}
	}
	if !t.locked.IsZero() && !t.locked.After(now) {
		if err := t.line.do(ctx, func(c redis.Conn) error { return t.d.master.release(c, lockUser) }); err != nil {
			return err
		}
		t.locked = time.Time{}
	}
	due, unknown := t.due(now)
	if len(due) == 0 {
		return nil
	}
	return t.line.do(ctx, func(c redis.Conn) error {
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

// load takes in which schedules there are, and returns those that are no more.
func (t *ticker) load(now time.Time) (gone []*scheduled) {
	all := t.d.recurring.all()
	for name, text := range t.dynamic {
		switch old := t.entries[name]; {
		case all[name] != nil:
			t.warn(name, "its own", "this process has a recurring schedule of a name that is in Redis for all; its own counts here")
		case old != nil && old.text == text:
			all[name] = old.recurring
		default:
			d, err := readRecurring(name, text)
			if err != nil {
				t.warn(name, err.Error(), "a recurring schedule in Redis is not understood and does not run", "error", err)
				continue
			}
			if !inEnvironment(d.Environments, t.d.config.environment) {
				continue
			}
			all[name] = d
		}
	}
	for name, e := range t.entries {
		if all[name] == nil {
			delete(t.entries, name)
			gone = append(gone, e)
		}
	}
	for name, d := range all {
		if old := t.entries[name]; old == nil || old.recurring != d {
			text := ""
			if t.d.recurring.get(name) == nil {
				text = t.dynamic[name]
			}
			t.entries[name] = &scheduled{recurring: d, text: text, loaded: now, wake: now}
		}
	}
	return gone
}

// inEnvironment reports whether a schedule counts where this process runs.
func inEnvironment(of []string, here string) bool { return len(of) == 0 || slices.Contains(of, here) }

// warn logs something about a schedule, unless it was the last thing logged about it.
func (t *ticker) warn(name, what, message string, args ...any) {
	if t.warned[name] != what {
		t.warned[name] = what
		t.d.log.Warn(message, append([]any{"schedule", name}, args...)...)
	}
}

// due are the schedules that must be looked at now, the latest first, and those of them
// whose ticks somebody else may have fired.
func (t *ticker) due(now time.Time) (due, unknown []*scheduled) {
	for _, e := range t.entries {
		if !e.wake.IsZero() && !e.wake.After(now) {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *scheduled) int { return cmp.Or(a.wake.Compare(b.wake), cmp.Compare(a.name, b.name)) })
	for _, e := range due {
		if !e.known || e.ticks.Owner != t.self() {
			unknown = append(unknown, e)
		}
	}
	return due, unknown
}

func (t *ticker) read(c redis.Conn, entries []*scheduled) error {
	if len(entries) == 0 {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	all, err := t.d.store.ReadTicks(c, names...)
	if err != nil {
		return err
	}
	for i, e := range entries {
		e.saw(all[i], t.now())
	}
	return nil
}

// disown leaves schedules that this process has no more to whoever has them.
func (t *ticker) disown(c redis.Conn, gone []*scheduled) error {
	for _, e := range gone {
		delete(t.warned, e.name)
		if e.known && e.ticks.Owner == t.self() {
			f := t.fire(e, e.ticks.Last)
			f.Owner = "-"
			if _, _, err := t.d.store.Fire(c, f); err != nil {
				return err
			}
		}
	}
	return nil
}
