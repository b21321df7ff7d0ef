package goworker

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/resque"
)

// look fires what is due of a schedule, if that is ours to do, and says when to look again.
func (t *ticker) look(c redis.Conn, e *scheduled) error {
	now := t.now()
	switch {
	case e.isNew():
		return t.commit(c, e, now, t.fire(e, now, e.timing.begins(e.loaded, e.FirstIn)))
	case e.ticks.Timing != e.timing.mark:
		if t.owned(e) {
			t.warn(e.name, e.ticks.Timing, "another process fires a recurring schedule of this name with another timing; this one's counts when that process has ended",
				"process", e.ticks.Owner)
			e.wake = now.Add(dynamicEvery)
			return nil
		}
		return t.commit(c, e, now, t.fire(e, now, later(e.loaded, e.done(e.ticks, now))))
	}
	if e.unclear(e.ticks) {
		t.warn(e.name, "a time", "when a Ruby scheduler fired a recurring schedule is not understood; its ticks up to now count as fired",
			"last_enqueued_at", e.ticks.EnqueuedText())
		return t.commit(c, e, now, t.fire(e, now, now))
	}
	if e.ahead(now) || e.rubyAhead(e.ticks, now) { // if it is not our idea of Redis's clock that is wrong
		var err error
		if now, err = t.d.store.Now(c); err != nil {
			return err
		}
		t.d.lease.Saw(now)
		if e.ahead(now) {
			return t.commit(c, e, now, t.fire(e, now, now))
		}
		if e.rubyAhead(e.ticks, now) {
			t.warn(e.name, "its clock", "the clock of a Ruby scheduler is ahead of Redis's; what it fired of a recurring schedule is not taken into account",
				"last_enqueued_at", e.ticks.EnqueuedText())
		}
	}
	if t.plan(e); e.wake.IsZero() || e.wake.After(now) {
		return nil
	}
	ticks, last := e.recurring.due(e.done(e.ticks, now), now)
	if last.IsZero() {
		return nil
	}
	f := t.fire(e, now, last)
	f.Shared = e.Shared
	for _, tick := range ticks {
		payload, err := e.payload(t.d.config.style, tick)
		if err != nil {
			return err
		}
		f.Payloads = append(f.Payloads, payload)
	}
	if e.Shared && len(f.Payloads) > 0 && !t.d.config.LeaveDelayed {
		// While the lock is ours no Ruby scheduler fires this tick too. If another of our
		// own processes has it, that does as well: the script tells theirs from Ruby's.
		//
		// With LeaveDelayed only the holder of the lock moves Ruby's delayed jobs, and Ruby's
		// scheduler asks for the lock each five seconds. So the ticker never takes it. The
		// script alone proves that the lock is not Ruby's, and Ruby's scheduler fires no tick
		// from before the moment in which it got the lock.
		t.locked = now.Add(lockLinger) // after an error, too, it may be ours
		if _, _, err := t.d.master.hold(c, lockUser); err != nil {
			return err
		}
	}
	return t.commit(c, e, now, f)
}

// isNew reports whether the fleet has not had the schedule, or no more when it was loaded.
func (e *scheduled) isNew() bool {
	removed := e.ticks.Removed()
	return e.ticks.Last.IsZero() || !removed.IsZero() && !e.loaded.Before(removed)
}

// ahead reports whether the last tick of a period is farther in the future than it can be:
// Redis's clock was ahead and has been set back. The period begins anew then, for else
// there was no tick until that time comes again. A cron has had the ticks until then.
func (e *scheduled) ahead(now time.Time) bool {
	return e.timing.cron == nil && e.ticks.Last.After(now.Add(e.timing.every+e.FirstIn))
}

// fire notes a tick; what is to be enqueued is added to it.
func (t *ticker) fire(e *scheduled, now, last time.Time) resque.Fire {
	return resque.Fire{
		Schedule: e.name, Was: e.ticks, Last: last, Owner: t.self(), Timing: e.timing.mark,
		Lock: t.d.master.lock(), Queue: e.Queue, At: now,
	}
}

// plan says when to look at a schedule again.
func (t *ticker) plan(e *scheduled) {
	if e.isNew() || e.unclear(e.ticks) {
		e.wake = t.now()
		return
	}
	done := e.done(e.ticks, t.now())
	e.wake = e.timing.next(done, done)
	if e.wake.IsZero() {
		return
	}
	if t.owned(e) {
		e.wake = e.wake.Add(t.slack)
	}
	if e.Shared && e.wake.Before(t.foreign) {
		e.wake = t.foreign
	}
	if e.wake.Before(e.failed) {
		e.wake = e.failed
	}
}

const tickRefused = "a tick of a recurring schedule is refused; it is tried again"

// isRefusal reports whether err is about one schedule, not the connection's or that of a
// server that serves nobody now.
func isRefusal(err error) bool {
	kind := conn.Classify(err)
	return err != nil && (kind == conn.KindOther || kind == conn.KindWrongType || kind == conn.KindNoPerm)
}

// commit hands a tick in. What Redis refuses of this one schedule is tried again some
// seconds later.
func (t *ticker) commit(c redis.Conn, e *scheduled, now time.Time, f resque.Fire) error {
	fired, ticks, err := t.d.store.Fire(c, f)
	if err != nil {
		if !isRefusal(err) {
			return err
		}
		t.warn(e.name, err.Error(), tickRefused, "error", err)
		e.failed = now.Add(dynamicEvery)
		e.wake = e.failed
		return nil
	}
	switch fired {
	case resque.FiredOK, resque.FiredPaused:
		if !e.failed.IsZero() {
			delete(t.warned, warning{e.name, tickRefused})
			e.failed = time.Time{}
		}
		e.saw(ticks, now)
		if n := len(f.Payloads); n > 0 && fired == resque.FiredOK {
			t.d.log.Debug("recurring schedule", "schedule", e.name, "tick", f.Last, "jobs", n)
		}
	case resque.FiredMoved:
		e.saw(ticks, now)
	case resque.FiredForeign:
		t.foreign = now.Add(dynamicEvery)
	case resque.FiredEarly:
		t.d.lease.Saw(ticks.Last)
		if e.loaded.After(ticks.Last) {
			e.loaded = ticks.Last
		}
	}
	t.plan(e)
	return nil
}
