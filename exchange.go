package goworker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// This file is one turn of the poller: what an exchange hands in and asks for, and
// what is made of its answer.

// tasksTogether is how many tasks are allocated as one: enough to make little of the
// cost, and few enough that a long job does not keep many a finished one in memory.
const tasksTogether = 16

// turn starts an exchange if there is a reason to and none is under way.
func (p *poller) turn(ctx context.Context) {
	if s := p.d.lease.Session(); s != p.session {
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
	if p.resyncs {
		if p.resync(ctx); p.link == nil {
			return
		}
	}
	paused := p.source.Tick(now)
	if !p.retryAt.IsZero() && !now.Before(p.retryAt) {
		p.pending, p.refused = append(p.refused, p.pending...), nil
		p.retryAt = time.Time{}
	}
	if p.complete && len(p.ahead)+len(p.misplaced) == 0 && p.suspects.idle() {
		p.quitting = true
	}
	p.claim()
	p.giveBackIdle(now, paused)
	p.giveBackMisplaced()
	if len(p.ahead) > 0 && p.pace.Ahead() && !p.quitting {
		return // they are about to be taken; one exchange then serves more
	}
	x := p.compose(now)
	if x == nil {
		return
	}
	p.sent, p.sentAt = x, now
	p.link.Send(x)
}

// compose builds the next exchange, or returns nil if there is no need of one.
func (p *poller) compose(now time.Time) *resque.Exchange {
	if p.reaped || p.fenced && len(p.pending) == 0 {
		return nil
	}
	x := &resque.Exchange{Process: p.session.Process.ID, Epoch: p.epoch, Last: p.last}
	idle := max(0, p.slots()-p.busy)
	p.handIn(x)
	p.source.Plan(x, p.wanted(idle), idle-len(p.ahead), now)
	if n := x.Reserves(); n > 0 {
		p.share.Reserve(min(idle, n+len(p.ahead)))
	}
	p.suspects.advance(now, p.busy < p.slots())
	// Whatever this exchange reserves may be with a worker before the next one says so.
	x.Handed = p.suspects.record(p.last+int64(x.Reserves()), x.Reserves() > 0)
	if x.Empty() && !p.link.Prove() {
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
	if !p.mayReserve() {
		return 0
	}
	if p.heldBytes >= heldPayloads*p.d.config.MaxPayload {
		return 0
	}
	n := p.slots()
	want := idle - len(p.ahead)
	if p.pace.Ahead() && p.suspects.idle() {
		want += n
	}
	if len(p.suspects.waiting) >= n {
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
	var back []resque.Ended
	for _, o := range p.pending {
		if n == resque.MaxExchangeJobs || size > resque.MaxExchangeBytes {
			break
		}
		n++
		if o.plain() {
			x.Done = append(x.Done, o.task.Ticket)
			continue
		}
		size += o.Size()
		if o.back {
			back = append(back, o.Ended)
		} else {
			x.Ended = append(x.Ended, o.Ended)
		}
	}
	// Each goes in front of those before it, so the last reserved comes first.
	slices.SortFunc(back, func(a, b resque.Ended) int { return cmp.Compare(b.Ticket, a.Ticket) })
	x.Ended = append(x.Ended, back...)
	p.sentOut = p.pending[:n:n]
	p.pending = p.pending[n:]
	if len(p.pending) == 0 {
		p.pending = nil
	}
}

// answer takes the reply to the exchange under way.
func (p *poller) answer(ctx context.Context, r link.Reply) {
	x, out := p.sent, p.sentOut
	p.sent, p.sentOut = nil, nil
	if x.Process != p.session.Process.ID { // sent in a life before this one
		if r.Link == p.link && r.Err != nil && !aboutRecord(r.Err) {
			p.lose(r.Err)
		}
		return
	}
	if r.Link != p.link || r.Err != nil {
		// The script may have run. Nothing of it is taken for granted: the record
		// is read back before anything else is sent.
		p.pending = append(out, p.pending...)
		if r.Link == p.link {
			p.trouble(ctx, r.Err)
		}
		return
	}
	p.d.outages.OK("poller")
	p.retry.Reset()
	now := time.Now()
	p.pace.Trip(now.Sub(p.sentAt))
	if r.Missing > 0 {
		p.sayOnce("lost", "Redis lost the records of jobs that were running; their outcomes are counted all the same", "process", p.session.Process.ID)
	}
	p.complain(r.Broken)
	p.confirm(p.setAside(out, r.Refused, now))
	if x.Handed != "" {
		if t := p.suspects.begin(now); t != nil {
			p.ahead = slices.Insert(p.ahead, 0, t)
		}
	}
	if r.Fenced && !p.fenced {
		p.fenced = true
		p.d.lease.Wake()
	}
	p.receive(r.Exchanged, now)
	if p.source.Answered(x, r.Exchanged, now) {
		p.complete = true
	}
	p.resyncs = p.resyncs || r.Removed && !r.Fenced
}

func (p *poller) receive(r resque.Exchanged, now time.Time) {
	var deaths []resque.Deaths
	known := true
	if r.Suspects {
		deaths, known = p.deaths(r.Jobs, now)
	}
	var tasks []task
	for i, j := range r.Jobs {
		if len(tasks) == 0 {
			tasks = make([]task, min(tasksTogether, len(r.Jobs)-i))
		}
		t := &tasks[0]
		tasks = tasks[1:]
		t.Reserved, t.Process, t.Session, t.ReservedAt = j, p.session.Process.ID, p.session, now
		p.last = j.Ticket
		p.hold(t)
		if deaths != nil {
			t.Deaths = deaths[i]
		}
		if t.Deaths.Count > 0 || !known {
			p.suspects.add(t)
		} else {
			p.ahead = append(p.ahead, t)
		}
	}
}

// setAside keeps the outcomes that Redis refused, so that they are handed in again in a while,
// and returns the others.
func (p *poller) setAside(out []ended, refused []resque.Refusal, now time.Time) (taken []ended) {
	if len(refused) == 0 {
		return out
	}
	why := make(map[int64]resque.Refusal, len(refused))
	for _, r := range refused {
		p.complain([]resque.KeyError{r.KeyError})
		why[r.Ticket] = r
	}
	for _, o := range out {
		switch r, ok := why[o.task.Ticket]; {
		case !ok:
			taken = append(taken, o)
		case r.NoBytes():
			o.Bytes = o.task.Payload
			p.pending = append(p.pending, o)
		default:
			p.refused, p.retryAt = append(p.refused, o), now.Add(part.BackoffMost)
		}
	}
	return taken
}

// confirm ends what was committed.
func (p *poller) confirm(out []ended) {
	for _, o := range out {
		t := o.task
		p.release(t.Ticket)
		p.tell(o, true)
		if !o.plain() {
			p.recent.add(o.Ended)
		}
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
