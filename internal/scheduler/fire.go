package scheduler

import (
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/recurring"
	"github.com/goworker/goworker/internal/resque"
)

// check fires what is due of a schedule if this process may, and plans when to check it again.
func (t *Ticker) check(c redis.Conn, e *entry) error {
	now := t.redis.Now()
	switch {
	case e.isNew():
		return t.commit(c, e, now, t.note(e, now, e.Begins(e.loaded)))
	case e.state.Timing != e.TimingHash():
		if t.owned(e) {
			t.warn(e.Name, e.state.Timing, "another process fires a recurring schedule of this name with another timing; this one's counts when that process has ended",
				"process", e.state.Owner)
			e.wake = now.Add(dynamicEvery)
			return nil
		}
		return t.commit(c, e, now, t.note(e, now, recurring.Later(e.loaded, e.LastFired(e.state, now))))
	}
	if e.Unclear(e.state) {
		t.warn(e.Name, "a time", "when a Ruby scheduler fired a recurring schedule is not understood; its ticks up to now count as fired",
			"last_enqueued_at", e.state.EnqueuedText())
		return t.commit(c, e, now, t.note(e, now, now))
	}
	if e.ahead(now) || e.RubyAhead(e.state, now) { // unless this process is wrong about Redis's clock
		var err error
		if now, err = t.base.Store.Now(c); err != nil {
			return err
		}
		t.redis.Saw(now)
		if e.ahead(now) {
			return t.commit(c, e, now, t.note(e, now, now))
		}
		if e.RubyAhead(e.state, now) {
			t.warn(e.Name, "its clock", "the clock of a Ruby scheduler is ahead of Redis's; what it fired of a recurring schedule is not taken into account",
				"last_enqueued_at", e.state.EnqueuedText())
		}
	}
	if t.plan(e); e.wake.IsZero() || e.wake.After(now) {
		return nil
	}
	times, last := e.Due(e.LastFired(e.state, now), now)
	if last.IsZero() {
		return nil
	}
	return t.fire(c, e, now, times, last)
}

// fire enqueues the jobs of fire times, of which the last is done with then.
func (t *Ticker) fire(c redis.Conn, e *entry, now time.Time, times []time.Time, last time.Time) error {
	if len(times) > 0 && queues.IsOwn(e.Queue) {
		old, err := t.base.Store.Unaware(c, resque.KnowsMessagePack)
		if err != nil {
			return err
		}
		if len(old) > 0 {
			t.wait(e, now, errors.New(resque.UnawareOfMessagePack(old[0], e.Queue)))
			return nil
		}
	}
	f := t.note(e, now, last)
	f.Shared = e.Shared
	for _, at := range times {
		payload, err := e.Payload(t.config.Style, at)
		if err != nil {
			return err
		}
		f.Payloads = append(f.Payloads, payload)
	}
	if e.Shared && len(f.Payloads) > 0 && !t.config.LeaveDelayed {
		// While this process has the lock, no Ruby scheduler fires the schedule for the same
		// time. If another process of goworker has the lock, that is as good: the script
		// distinguishes its lock from Ruby's.
		//
		// With LeaveDelayed only the lock's holder moves Ruby's delayed jobs, and Ruby's
		// scheduler asks for the lock each five seconds. So the ticker never takes it. The
		// script alone proves that Ruby does not hold the lock. Ruby's scheduler fires nothing
		// for a time before the moment in which it got the lock.
		t.locked = now.Add(lockLinger) // after an error, too, this process may have it
		if _, _, err := t.lock.Hold(c, tickerUser); err != nil {
			return err
		}
	}
	return t.commit(c, e, now, f)
}

// isNew reports whether the fleet has never fired the schedule, or had removed it before this
// process loaded it.
func (e *entry) isNew() bool {
	removed := e.state.Removed()
	return e.state.Last.IsZero() || !removed.IsZero() && !e.loaded.Before(removed)
}

// ahead reports whether the last fired time of a period is farther in the future than it can be:
// Redis's clock was ahead and has been set back. Then the period restarts now; otherwise nothing
// would fire until that future time. A cron is left alone: it has fired those times already.
func (e *entry) ahead(now time.Time) bool {
	return e.TooFar(e.state.Last, now)
}

// note returns the call that notes last as the last fired time, with this process as owner. The
// jobs to enqueue are added to it.
func (t *Ticker) note(e *entry, now, last time.Time) resque.Fire {
	return resque.Fire{
		Schedule: e.Name, Was: e.state, Last: last, Owner: t.fleet.Self(), Timing: e.TimingHash(),
		Lock: t.lock.own(), Queue: e.Queue, At: now,
	}
}

// plan sets when to check a schedule again.
func (t *Ticker) plan(e *entry) {
	if e.isNew() || e.Unclear(e.state) {
		e.wake = t.redis.Now()
		return
	}
	last := e.LastFired(e.state, t.redis.Now())
	e.wake = e.After(last)
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

const fireRefused = "a tick of a recurring schedule is refused; it is tried again"

// isRefusal reports whether Redis refused one schedule. Otherwise the error is the connection's, or
// that of a server that serves no client now.
func isRefusal(err error) bool {
	kind := conn.Classify(err)
	return err != nil && (kind == conn.KindOther || kind == conn.KindWrongType || kind == conn.KindNoPerm)
}

// wait leaves a schedule whose tick is refused alone for some seconds.
func (t *Ticker) wait(e *entry, now time.Time, why error) {
	t.warn(e.Name, why.Error(), fireRefused, "error", why)
	e.failed = now.Add(dynamicEvery)
	e.wake = e.failed
}

// commit sends a call to Redis. If Redis refuses this one schedule, it is tried again some seconds
// later.
func (t *Ticker) commit(c redis.Conn, e *entry, now time.Time, f resque.Fire) error {
	fired, state, err := t.base.Store.Fire(c, f)
	if err != nil {
		if !isRefusal(err) {
			return err
		}
		t.wait(e, now, err)
		return nil
	}
	switch fired {
	case resque.FiredOK, resque.FiredPaused:
		if !e.failed.IsZero() {
			t.settled(e.Name, fireRefused)
			e.failed = time.Time{}
		}
		e.saw(state, now)
		if n := len(f.Payloads); n > 0 && fired == resque.FiredOK {
			t.base.Log.Debug("recurring schedule", "schedule", e.Name, "tick", f.Last, "jobs", n)
		}
	case resque.FiredMoved:
		e.saw(state, now)
	case resque.FiredForeign:
		t.foreign = now.Add(dynamicEvery)
	case resque.FiredEarly:
		t.redis.Saw(state.Last)
		if e.loaded.After(state.Last) {
			e.loaded = state.Last
		}
	}
	t.plan(e)
	return nil
}
