package goworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// This file is what the poller does when an exchange did not end well, and what
// it does about jobs that were found in dead processes.

// suspectAfter is how often a job must have been found running in a dead process
// before it is run alone of its kind: beside a job that kills its process, the
// innocent ones are found as often as the culprit.
const suspectAfter = 2

// relink starts to connect, and to try again until it succeeds.
func (p *poller) relink(ctx context.Context) {
	if p.linking || p.forced {
		return
	}
	p.linking = true
	wait := time.Duration(0)
	if p.retry.failures > 0 {
		wait = p.retry.next()
	} else {
		p.retry.failures = 1
	}
	go func() {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			p.links <- linked{err: ctx.Err()}
			return
		}
		l, err := dialLink(ctx, p.d.dialer, p.store, p.d.config.tracking, pingEvery, p.signal, p.replies)
		p.links <- linked{l, err}
	}()
}

func (p *poller) linkMade(ctx context.Context, l linked) {
	p.linking = false
	if l.err != nil {
		p.d.outages.fail("poller", l.err)
		return
	}
	p.link = l.link
	p.watch.remade(l.link.wake != nil)
	if l.link.untold != nil {
		p.sayTracking(l.link.untold)
		p.tellAgain = time.Now().Add(tellAfter << min(p.untold, tellDoublings))
		p.untold++
	} else {
		p.tellAgain, p.untold = time.Time{}, 0
	}
	p.resync(ctx)
}

// A server that would not tell of changes is asked anew after a second, then after
// two, and so on up to 17 minutes: it may have been slow, or its user may have been
// given the permission since.
const (
	tellAfter     = time.Second
	tellDoublings = 10
)

// retell makes a new link when it is time to ask for the tracking again.
func (p *poller) retell(ctx context.Context, now time.Time) bool {
	if p.tellAgain.IsZero() || now.Before(p.tellAgain) || p.quitting {
		return false
	}
	p.tellAgain = time.Time{}
	p.link.shut()
	p.link = nil
	p.relink(ctx)
	return true
}

func (p *poller) sayTracking(err error) {
	text := tellsWhy(err, p.watch.interval)
	if p.logged["tracking"] != text {
		p.logged["tracking"] = text
		p.log.Warn(text)
	}
}

// lose closes a link that broke. An exchange under way comes back as an error.
func (p *poller) lose(err error) {
	p.d.outages.fail("poller", err)
	l := p.link
	p.link = nil
	l.shut()
}

// trouble decides what an error of an exchange means.
func (p *poller) trouble(ctx context.Context, err error) {
	switch {
	case errors.Is(err, resque.ErrReaped):
		p.reaped = true
		p.d.lease.hurry()
	case errors.Is(err, resque.ErrGone):
		p.restore()
	case errors.Is(err, resque.ErrStale):
		p.resync(ctx)
	default:
		p.lose(err)
	}
}

// resync reads back our in-flight record: after a reply was lost the script may
// have run. Jobs in it that we never saw are adopted, jobs that we have finished
// are handed in again, and outcomes whose ticket is gone were committed.
func (p *poller) resync(ctx context.Context) {
	if s := p.d.session.Load(); s != p.session {
		p.begin(s)
	}
	epoch, tickets, err := p.store.Resync(p.link.conn, p.session.process.ID)
	var unknown []resque.Reserved
	var unreadable []error
	if err == nil {
		unknown, unreadable, err = p.store.ReadReserved(p.link.conn, p.session.process.ID,
			slices.DeleteFunc(slices.Clone(tickets), func(t int64) bool { return p.held[t] != nil }))
	}
	if err != nil {
		if aboutRecord(err) {
			p.trouble(ctx, err)
			return
		}
		p.lose(fmt.Errorf("reading back what this process holds: %w", err))
		return
	}
	p.epoch = epoch
	for _, e := range unreadable {
		p.sayOnce("unreadable", "our record holds what nobody of us wrote", "error", e)
	}
	if p.restoring { // what is missing there was not committed
		p.restore()
		return
	}

	inRecord := make(map[int64]bool, len(tickets))
	for _, t := range tickets {
		inRecord[t] = true
	}
	committed := func(o outcome) bool {
		if inRecord[o.task.Ticket] {
			return false
		}
		p.release(o.task.Ticket)
		return true
	}
	p.pending = slices.DeleteFunc(p.pending, committed)
	p.refused = slices.DeleteFunc(p.refused, committed)
	now := time.Now()
	var fresh []resque.Reserved
	for _, j := range unknown {
		if j.Ticket > p.last {
			fresh = append(fresh, j)
			continue
		}
		// Finished before; the server that answers now does not know it. Neither does
		// it know the failure record or the queue's place of one that was not done.
		t := &task{Reserved: j, session: p.session}
		p.hold(t)
		p.pending = append(p.pending, outcome{task: t, back: slices.Contains(p.undone, j.Ticket)})
	}
	if len(fresh) > 0 {
		p.log.Info("found jobs that were reserved by an exchange whose answer was lost", "jobs", len(fresh))
		p.receive(resque.Exchanged{Jobs: fresh, Suspects: true}, now)
	}
	p.heldBack = "?" // what is recorded as handed is not known any more
	p.watch.forget()
}

// setAside finds out which outcomes of an exchange Redis would not take, because a
// key is of the wrong type, and keeps them for a while so that the others go on.
func (p *poller) setAside(ctx context.Context, out []outcome, now time.Time) {
	sent := make(map[*task]bool, len(out))
	for _, o := range out {
		sent[o.task] = true
	}
	p.pending = append(out, p.pending...)
	p.resync(ctx)
	p.pending = slices.DeleteFunc(p.pending, func(o outcome) bool {
		if sent[o.task] {
			p.refused = append(p.refused, o)
		}
		return sent[o.task]
	})
	p.retryAt = now.Add(backoffMost)
}

// restore writes our record anew after Redis lost it, so that the jobs that run
// here are protected again and their outcomes count.
func (p *poller) restore() {
	jobs := make([]resque.Reserved, 0, len(p.held))
	for _, t := range p.held {
		jobs = append(jobs, t.Reserved)
	}
	p.log.Warn("Redis lost the records of this process; writing them again", "process", p.session.process.ID, "jobs", len(jobs))
	p.epoch++
	p.heldBack = "?"
	p.restoring = true
	err := p.store.Restore(p.link.conn, p.session.process, p.epoch, leasePeriod, jobs, resque.Handed(p.last, p.heldList()))
	switch {
	case err == nil:
		p.restoring = false
		p.watch.forget()
		p.d.lease.registerAgain()
		p.d.records.again()
	case errors.Is(err, resque.ErrReaped):
		p.reaped = true
		p.d.lease.hurry()
	default:
		p.lose(err)
	}
}

// forgotten is how the lease tells that Redis no longer knows this process.
func (p *poller) forgotten(s *session) {
	p.ask(func() {
		if p.session != s || p.link == nil || p.sent != nil {
			return // the next exchange finds out by itself
		}
		p.restore()
	})
}

// deaths asks how often jobs were found in dead processes. Where Redis does not
// answer it is not known, and all of them are suspects.
func (p *poller) deaths(jobs []resque.Reserved, now time.Time) (deaths []resque.Deaths, known bool) {
	digests := make([]string, len(jobs))
	for i, j := range jobs {
		digests[i] = resque.Digest(j.Payload)
	}
	deaths, err := p.store.Deaths(p.link.conn, digests, p.d.lease.redisTime(now))
	if err != nil {
		p.log.Warn("could not learn which jobs were found in dead processes; running them one at a time", "error", err)
		return nil, false
	}
	return deaths, true
}

// launchSuspect chooses the suspect to run next, while none does. It is handed to
// a worker only after an exchange has recorded that the others are not.
func (p *poller) launchSuspect() {
	if p.suspect != nil || p.launch != nil || len(p.suspects) == 0 || p.busy >= p.slots() {
		return
	}
	p.launch, p.suspects = p.suspects[0], p.suspects[1:]
}

func (p *poller) heldList() []int64 {
	tickets := make([]int64, len(p.suspects))
	for i, t := range p.suspects {
		tickets[i] = t.Ticket
	}
	return tickets
}

func (p *poller) heldTickets() string {
	if len(p.suspects) == 0 {
		return ""
	}
	return resque.Handed(0, p.heldList())
}
