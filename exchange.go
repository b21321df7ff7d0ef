package goworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/resque"
)

// This file is one turn of the poller. It composes an exchange, takes its answer, and reads the
// in-flight record back when an answer was lost.

// turn starts an exchange if there is a reason to and none is under way.
func (p *poller) turn(ctx context.Context) {
	if s := p.lease.Session(); s != p.record.Session() {
		p.begin(s)
	}
	if p.sent != nil {
		p.claim()
		return
	}
	now := p.Clock.Now()
	if l := p.keeper.Link(); l != nil {
		if err := p.source.Read(l.Conn, now); err != nil {
			p.keeper.Lose(err)
		}
	}
	if p.keeper.Link() == nil {
		p.claim()
		if p.stage < forced {
			p.keeper.Dial(ctx)
		}
		return
	}
	if p.stage == working && p.keeper.Retrack(ctx, now) {
		return
	}
	if p.resyncs {
		if p.resync(); p.keeper.Link() == nil {
			return
		}
	}
	paused := p.source.Tick(now)
	p.record.Retry(now)
	if p.complete && !p.record.Starting() && p.slots.Busy() == 0 && p.record.Undelivered() == 0 { // a job that runs may enqueue others
		p.quit()
	}
	p.claim()
	p.requeue(now, paused)
	p.record.Regroup()
	if p.record.Ahead() > 0 && p.pace.Ahead() && p.stage == working {
		return // workers are about to take these jobs; one exchange then serves more
	}
	x := p.compose(now)
	if x == nil {
		return
	}
	p.sent, p.sentAt = x, now
	p.keeper.Link().Send(x)
}

// begin starts another session: at the start, or after the lease was lost.
func (p *poller) begin(s *fleet.Session) {
	p.Meter.Add(meter.Duplicate, p.record.Begin(s))
	p.fenced, p.reaped, p.resyncs, p.lost = false, false, false, false
	p.source.Changed(nil, true)
}

// claim updates the poller's share of the workers, each turn. It keeps tokens for the jobs that run and
// for the jobs it has asked Redis for. While there may be jobs in Redis, it wants all workers.
func (p *poller) claim() {
	if !p.share.Shared() {
		return
	}
	now := p.Clock.Now()
	able := p.keeper.Link() != nil && !p.fenced && (p.sent == nil || now.Before(p.overdue()))
	if !able {
		p.share.Reserve(0) // other daemons can use these workers meanwhile
		p.share.Acquire(p.slots.Busy(), 0)
		return
	}
	if p.sent == nil {
		p.share.KeepReserved(p.record.Ahead())
	}
	could := p.slots.Busy() + p.record.Ahead()
	if p.record.SuspectWaits() {
		could++
	}
	if p.mayReserve() && p.source.Hungry(now, p.record.Pending() > 0) {
		could = math.MaxInt
	}
	p.share.Acquire(p.slots.Busy(), could)
}

// overdue is when an exchange takes so long that Redis may stand still. Then other daemons get
// the workers that are reserved for its jobs.
func (p *poller) overdue() time.Time { return p.sentAt.Add(p.pace.Patience()) }

// mayReserve reports whether more jobs may be reserved, except for the pause of the fleet.
func (p *poller) mayReserve() bool {
	return p.stage == working && p.held == 0 && !p.fenced && !p.record.Full()
}

// requeue returns prefetched jobs and suspects that may not wait here: the process pauses or stops, or the
// workers turned out to be slow.
func (p *poller) requeue(now time.Time, paused bool) {
	leave := p.record.SuspectsLeave(p.slots.Busy() < p.share.Slots(), p.Clock)
	switch stop := p.stage > working || paused || p.held != 0; {
	case stop, !leave.IsZero() && !now.Before(leave):
		p.record.Requeue(true)
	case p.record.Ahead() == 0 || p.slots.Busy() < p.share.Slots():
	case p.pace.Waited(now, p.record.AheadSince()):
		p.record.Requeue(false)
	}
}

// compose builds the next exchange, or returns nil if there is no need of one.
func (p *poller) compose(now time.Time) *resque.Exchange {
	if p.reaped || p.fenced && p.record.Pending() == 0 {
		return nil
	}
	x := p.spare
	if p.spare = nil; x == nil {
		x = new(resque.Exchange)
	}
	p.record.HandIn(x)
	slots := p.share.Slots()
	idle, want := max(0, slots-p.slots.Busy()), 0
	if p.mayReserve() {
		want = p.record.Room(slots, idle, p.pace.Ahead())
	}
	p.source.Plan(x, want, idle-p.record.Ahead(), now)
	if n := x.Reserves(); n > 0 {
		p.share.Reserve(min(idle, n+p.record.Ahead()))
	}
	p.record.Advance(x, p.slots.Busy() < slots, now)
	if x.Empty() && !p.keeper.Link().Prove() {
		*x = resque.Exchange{}
		p.spare = x
		return nil
	}
	return x
}

// answer takes the reply to the exchange under way.
func (p *poller) answer(ctx context.Context, r link.Reply) {
	x := p.sent
	p.sent = nil
	current := r.Link == p.keeper.Link()
	if x.Process != p.record.Session().Process.ID { // sent in a session before this one
		if current && r.Err != nil && !aboutRecord(r.Err) {
			p.keeper.Lose(r.Err)
		}
		return
	}
	if !current || r.Err != nil {
		// The script may have run or not. So the poller reads the record back before it
		// sends anything.
		p.record.Unanswered()
		if current {
			p.trouble(r.Err)
		}
		return
	}
	now := p.Clock.Now()
	p.keeper.Served(now, now.Sub(p.sentAt), len(x.Done)+len(x.Ended)+len(r.Jobs))
	p.pace.Trip(now.Sub(p.sentAt))
	if r.Missing > 0 {
		p.sayOnce("lost", "Redis lost the records of jobs that were running; their outcomes are counted all the same", "process", x.Process)
	}
	for _, e := range r.Broken {
		p.complain(e)
	}
	for _, f := range r.Refused {
		p.complain(f.KeyError)
	}
	p.record.Confirm(r.Refused, now, p.committed)
	p.record.Recorded(x, now)
	if r.Fenced && !p.fenced {
		p.fenced = true
		p.lease.Wake()
	}
	p.receive(r.Exchanged, now)
	p.complete = p.source.Answered(x, r.Exchanged, now)
	p.resyncs = p.resyncs || r.Removed && !r.Fenced
}

// committed is called for each outcome that Redis has committed.
func (p *poller) committed(e *inflight.End) {
	p.source.Ended(&e.Task.Job, &e.Commit, true)
}

// receive takes jobs that were reserved. If some may have been found in dead processes, it first
// asks Redis how often. If Redis does not answer, all of them are suspects.
func (p *poller) receive(r resque.Exchanged, now time.Time) {
	var deaths []resque.Deaths
	var err error
	if r.Suspects {
		if deaths, err = p.Store.DeathsOf(p.keeper.Link().Conn, r.Jobs, p.lease.Now()); err != nil {
			p.Log.Warn("could not learn which jobs were found in dead processes; running them one at a time", "error", err)
		}
	}
	p.record.Received(r.Jobs, deaths, err != nil, now)
}

// complain logs that Redis refused a key or that a key is wrong, once for each key and reason.
func (p *poller) complain(e resque.KeyError) {
	p.Meter.Failed(redis.Error(e.Reason))
	p.sayOnce(e.Key, "Redis refuses a key; the others go on", "key", e.Key, "error", e.Advice())
}

func (p *poller) sayOnce(about, message string, args ...any) {
	if p.said.News(about, slog.AnyValue(args[len(args)-1]).String()) {
		p.Log.Error(message, args...)
	}
}

// connected takes the end of an attempt to connect.
func (p *poller) connected(ctx context.Context, d link.Dialed) {
	if !p.keeper.Take(d) {
		return
	}
	p.source.Connected(p.keeper.Link().Wake != nil)
	p.resync()
}

// aboutRecord reports whether an error is about the process's record, and not about the connection.
func aboutRecord(err error) bool {
	return errors.Is(err, resque.ErrReaped) || errors.Is(err, resque.ErrGone) || errors.Is(err, resque.ErrStale)
}

// trouble decides what an error of an exchange means.
func (p *poller) trouble(err error) {
	switch {
	case errors.Is(err, resque.ErrReaped):
		p.reaped = true
		p.lease.Wake()
	case errors.Is(err, resque.ErrGone):
		p.lost = true
		p.resync()
	case errors.Is(err, resque.ErrStale):
		p.resync()
	default:
		p.keeper.Lose(err)
	}
}

// resync reads back the in-flight record, because the script may have run although its
// reply was lost.
func (p *poller) resync() {
	if s := p.lease.Session(); s != p.record.Session() {
		p.begin(s)
	}
	switch err := p.readBack(); {
	case err == nil:
	case errors.Is(err, resque.ErrReaped):
		p.reaped, p.resyncs = true, false
		p.lease.Wake()
	default:
		p.lost = p.lost || errors.Is(err, resque.ErrGone)
		p.keeper.Lose(fmt.Errorf("reading back what this process holds: %w", err))
	}
}

// readBack adopts jobs in the record that this process never saw. If the record has its mark,
// outcomes whose tickets are gone were committed. If it has not, the record was removed. Then
// readBack writes the jobs of this process into it again, and the poller commits all outcomes.
func (p *poller) readBack() error {
	c, process := p.keeper.Link().Conn, p.record.Session().Process
	if p.lost {
		p.Log.Warn("Redis lost the record of this process; writing it again", "process", process.ID)
		if err := p.Store.Reenter(c, p.record.Session().Record(), p.record.NextEpoch(), fleet.LeasePeriod); err != nil {
			return err
		}
		p.lease.RegisterAgain()
	}
	epoch, tickets, whole, err := p.Store.Resync(c, process.ID)
	if err != nil {
		return err
	}
	unknown, unreadable, err := p.Store.ReadReserved(c, process.ID, p.record.Unknown(tickets))
	if err != nil {
		return err
	}
	if !whole {
		jobs, handed := p.record.Missing(tickets)
		p.Log.Warn("the in-flight record of this process was removed; writing it again", "process", process.ID, "jobs", len(jobs))
		if err := p.Store.Restore(c, process.ID, epoch, jobs, handed); err != nil {
			return err
		}
	}
	p.resyncs, p.lost = false, false
	for _, e := range unreadable {
		p.sayOnce("unreadable", "the in-flight record holds a value that goworker did not write", "error", e)
	}
	p.record.Resynced(epoch, tickets, whole)
	if fresh := p.record.Adopt(unknown); len(fresh) > 0 {
		p.Log.Info("found jobs that were reserved by an exchange whose answer was lost", "jobs", len(fresh))
		p.receive(resque.Exchanged{Jobs: fresh, Suspects: true}, p.Clock.Now())
	}
	p.source.Changed(nil, true)
	return nil
}

// LeaseLost is called by the lease when another session has begun.
func (p *poller) LeaseLost(*fleet.Session) { p.poke() }

// LeaseHeld is called by the lease after each renewal.
func (p *poller) LeaseHeld(s *fleet.Session) {
	p.ask(func() {
		if p.record.Session() == s {
			p.fenced = false
		}
	})
}

// RecordGone is called by the lease when Redis has lost the process's record.
func (p *poller) RecordGone(s *fleet.Session) {
	p.ask(func() {
		if p.record.Session() == s {
			p.resyncs, p.lost = true, true
		}
	})
}
