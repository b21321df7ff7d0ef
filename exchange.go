package goworker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// This file is one turn of the poller: what an exchange hands in and asks for, and
// what is made of its answer.

// tasksTogether is how many tasks are allocated as one: enough to make little of the
// cost, and few enough that a long job does not keep many a finished one in memory.
const tasksTogether = 16

// turn starts an exchange if there is a reason to and none is under way.
func (p *poller) turn(ctx context.Context) {
	if s := p.d.session.Load(); s != p.session {
		p.begin(s)
	}
	if p.sent != nil {
		p.claim()
		return
	}
	if p.link == nil {
		p.claim()
		p.relink(ctx)
		return
	}
	now := time.Now()
	if p.retell(ctx, now) {
		return
	}
	p.watch.tick(now)
	if !p.retryAt.IsZero() && !now.Before(p.retryAt) {
		p.pending, p.refused = append(p.refused, p.pending...), nil
		p.retryAt = time.Time{}
	}
	if p.complete && len(p.ahead)+len(p.suspects) == 0 && p.launch == nil {
		p.quitting = true
	}
	p.sortQueues()
	p.claim()
	p.giveBackIdle(now)
	if len(p.ahead) > 0 && p.pace.ahead() && !p.quitting {
		return // they are about to be taken; one exchange then serves more
	}
	x := p.compose(now)
	if x == nil {
		return
	}
	p.sent, p.sentAt = x, now
	p.link.send(x)
}

// compose builds the next exchange, or returns nil if there is no need of one.
func (p *poller) compose(now time.Time) *resque.Exchange {
	if p.reaped || p.fenced && len(p.pending) == 0 {
		return nil
	}
	if p.paused && p.watch.recheck() {
		p.paused = false // and the answer says whether it still holds
	}
	x := &resque.Exchange{
		Process: p.session.process.ID, Epoch: p.epoch, Last: p.last,
		MultiQueue: p.d.config.multiQueueFailures,
	}
	idle := max(0, p.slots()-p.busy)
	if want := p.wanted(idle); want > 0 && !p.askPolicy(x) {
		p.watch.lanes.want = min(want, idle-len(p.ahead))
		x.Asks, x.List = p.watch.plan(now, want, len(p.pending) > 0)
		p.turnToLanes(x)
		if len(x.Asks) > 0 {
			x.Want = want
			p.promised = idle
		}
		if len(x.Asks) > 0 || x.List {
			x.Arm = p.link.wake != nil && p.watch.arm()
		}
	}
	p.handIn(x)
	x.Sizes = p.watch.rounds.unmeasured()
	p.launchSuspect()
	back := p.heldTickets()
	if x.Want > 0 || p.launch != nil || back != p.heldBack {
		upTo := p.last + int64(idle-len(p.ahead))
		if idle < len(p.ahead) {
			upTo = p.ahead[idle].Ticket - 1
		}
		if p.launch != nil {
			upTo = max(upTo, p.launch.Ticket)
		}
		x.Handed = resque.Handed(upTo, p.heldList())
		p.heldBack = back
	}
	if x.Empty() && !p.link.prove() {
		return nil
	}
	return x
}

// heldPayloads is how many payloads of the largest size may be held at a time: each is
// decoded by a worker, and a queue of large ones must not cost memory by concurrency.
const heldPayloads = 4

func (p *poller) hold(t *task) {
	p.held[t.Ticket] = t
	p.heldBytes += len(t.Payload)
}

func (p *poller) release(ticket int64) {
	if t := p.held[ticket]; t != nil {
		delete(p.held, ticket)
		p.heldBytes -= len(t.Payload)
	}
}

// wanted is how many jobs to reserve.
func (p *poller) wanted(idle int) int {
	if p.paused || !p.mayReserve() {
		return 0
	}
	if p.heldBytes >= heldPayloads*p.d.config.maxPayload {
		return 0
	}
	n := p.slots()
	want := idle - len(p.ahead)
	if p.pace.ahead() && len(p.suspects) == 0 && p.suspect == nil {
		want += n
	}
	if len(p.suspects) >= n {
		want = 0
	}
	return min(want, resque.MaxExchangeJobs)
}

// mayReserve reports whether more jobs may be reserved, but for the fleet's pause.
func (p *poller) mayReserve() bool {
	return !p.quitting && !p.selfPause && !p.fenced && len(p.refused) < resque.MaxExchangeJobs
}

// handIn moves pending outcomes into the exchange, as many as one may carry.
func (p *poller) handIn(x *resque.Exchange) {
	n, size := 0, 0
	for _, o := range p.pending {
		if n == resque.MaxExchangeJobs || size > resque.MaxExchangeBytes {
			break
		}
		n++
		if o.task.Lane != nil {
			o = p.fromLane(o)
		}
		switch {
		case o.back:
			x.Back = append(x.Back, o.task.Reserved)
			p.watch.returned(o.task.Queue)
		case o.settle != nil:
			for _, e := range o.settle.effects {
				size += e.Size()
			}
			if o.settle.left {
				p.watch.returned(o.task.Queue)
			}
			settled := resque.Settled{Ticket: o.task.Ticket, Counts: o.settle.counts, Effects: o.settle.effects}
			if o.unrun {
				settled.Unrun = o.task.from()
			}
			x.Settled = append(x.Settled, settled)
		case o.record != nil:
			size += len(o.record)
			x.Failed = append(x.Failed, resque.FailedJob{Ticket: o.task.Ticket, Queue: o.task.Queue, Lane: o.task.Lane, Record: o.record, Keep: o.keep})
		default:
			x.Done = append(x.Done, o.task.Ticket)
		}
	}
	p.sentOut = p.pending[:n:n]
	p.pending = p.pending[n:]
	if len(p.pending) == 0 {
		p.pending = nil
	}
	x.Forgive, p.forgive = p.forgive, nil
}

// answer takes the reply to the exchange under way.
func (p *poller) answer(ctx context.Context, r reply) {
	x, out := p.sent, p.sentOut
	p.sent, p.sentOut = nil, nil
	if x.Process != p.session.process.ID { // sent in a life before this one
		if r.link == p.link && r.err != nil && !aboutRecord(r.err) {
			p.lose(r.err)
		}
		return
	}
	if r.link != p.link || r.err != nil {
		// The script may have run. Nothing of it is taken for granted: the record
		// is read back before anything else is sent.
		p.pending = append(out, p.pending...)
		p.forgive = append(p.forgive, x.Forgive...)
		if r.link == p.link {
			p.trouble(ctx, r.err)
		}
		return
	}
	p.d.outages.ok("poller")
	p.retry.reset()
	now := time.Now()
	p.pace.trip(now.Sub(p.sentAt))
	if r.Missing > 0 {
		p.sayOnce("lost", "Redis lost the records of jobs that were running; their outcomes are counted all the same", "process", p.session.process.ID)
	}
	if len(r.Broken) > 0 {
		p.complain(r.Broken)
	}
	refused := len(r.Broken) > 0 && len(x.Failed)+len(x.Back)+len(x.Settled) > 0
	if !refused {
		p.confirm(out)
	}
	if p.launch != nil && x.Handed != "" {
		p.suspect, p.launch = p.launch, nil
		p.ahead = slices.Insert(p.ahead, 0, p.suspect)
	}
	p.paused = r.Paused
	if r.Fenced && !p.fenced {
		p.fenced = true
		p.d.lease.hurry()
	}
	p.receive(r.Exchanged, now)
	p.watch.answered(x, r.Exchanged)
	for _, o := range out {
		if o.settle != nil && o.settle.to != "" {
			p.watch.returned(o.settle.to) // after what was said of it: it may have been filled later
		}
	}
	if r.Taken != nil {
		p.complain(r.Taken.Broken)
		p.lanesTaken()
	}
	if p.d.config.exitOnComplete && !p.paused && p.watch.drained() {
		p.complete = true
	}
	if refused {
		p.setAside(ctx, out, now) // last, for it may lose the link
	}
}

func (p *poller) receive(r resque.Exchanged, now time.Time) {
	var deaths []resque.Deaths
	known := true
	if r.Suspects {
		deaths, known = p.deaths(r.Jobs, now)
	}
	var tasks []task
	var misplaced []*task
	sorts := p.watch.lanes.sorts()
	for i, j := range r.Jobs {
		if len(tasks) == 0 {
			tasks = make([]task, min(tasksTogether, len(r.Jobs)-i))
		}
		t := &tasks[0]
		tasks = tasks[1:]
		t.Reserved, t.session, t.reserved = j, p.session, now
		p.last = j.Ticket
		p.hold(t)
		if sorts && p.misplaced(t) {
			misplaced = append(misplaced, t)
			continue
		}
		if deaths != nil {
			t.deaths = deaths[i].Count
		}
		if t.deaths >= suspectAfter || !known {
			p.suspects = append(p.suspects, t)
		} else {
			p.ahead = append(p.ahead, t)
		}
	}
	p.back(misplaced, true)
}

// undoneKept is how many tickets that did not end well are remembered: a server that
// takes over may lag by a second or two.
const undoneKept = 4096

func (p *poller) confirm(out []outcome) {
	for _, o := range out {
		p.release(o.task.Ticket)
		if o.task.Lane != nil {
			p.watch.lanes.released(*o.task.Lane, o.back, o.unrun)
		}
		if o.back || o.record != nil || o.settle != nil && o.settle.moved {
			p.undone = append(p.undone, o.task.Ticket)
		}
	}
	if n := len(p.undone); n > 2*undoneKept {
		p.undone = slices.Delete(p.undone, 0, n-undoneKept)
	}
}

// complain logs what Redis refused or what is wrong with a key, once for each key and reason.
func (p *poller) complain(broken []resque.KeyError) {
	for _, e := range broken {
		p.sayOnce(e.Key, "Redis refuses a key; the others go on", "key", e.Key, "error", e.Reason)
	}
}

func (p *poller) sayOnce(about, message string, args ...any) {
	said := slog.AnyValue(args[len(args)-1]).String()
	if p.logged[about] == said {
		return
	}
	p.logged[about] = said
	p.log.Error(message, args...)
}

// aboutRecord tells whether an error is not about the way to Redis, but says what
// was found there instead of our record.
func aboutRecord(err error) bool {
	return errors.Is(err, resque.ErrReaped) || errors.Is(err, resque.ErrGone) || errors.Is(err, resque.ErrStale)
}
