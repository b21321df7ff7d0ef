package goworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// This file is what the poller does when an exchange did not end well, and what
// it does about jobs that were found in dead processes.

// relink starts to connect, and to try again until it succeeds.
func (p *poller) relink(ctx context.Context) {
	if p.linking || p.forced {
		return
	}
	p.linking = true
	wait := p.retry.Attempt()
	go func() {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			p.links <- linked{err: ctx.Err()}
			return
		}
		l, err := link.Dial(ctx, p.d.dialer, p.store, !p.d.config.DisableTracking, link.PingEvery, p.signal, p.replies)
		p.links <- linked{l, err}
	}()
}

func (p *poller) linkMade(ctx context.Context, l linked) {
	p.linking = false
	if l.err != nil {
		p.d.outages.Fail("poller", l.err)
		return
	}
	p.link = l.link
	p.source.Connected(l.link.Wake != nil)
	if l.link.Untracked != nil {
		p.sayTracking(l.link.Untracked)
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
	p.link.Shut()
	p.link = nil
	p.relink(ctx)
	return true
}

func (p *poller) sayTracking(err error) {
	text := link.WhyUntracked(err, p.d.config.PollInterval)
	if p.logged["tracking"] != text {
		p.logged["tracking"] = text
		p.log.Warn(text)
	}
}

// lose closes a link that broke. An exchange under way comes back as an error.
func (p *poller) lose(err error) {
	p.d.outages.Fail("poller", err)
	l := p.link
	p.link = nil
	l.Shut()
}

// trouble decides what an error of an exchange means.
func (p *poller) trouble(ctx context.Context, err error) {
	switch {
	case errors.Is(err, resque.ErrReaped):
		p.reaped = true
		p.d.lease.Wake()
	case errors.Is(err, resque.ErrGone):
		p.lost = true
		p.resync(ctx)
	case errors.Is(err, resque.ErrStale):
		p.resync(ctx)
	default:
		p.lose(err)
	}
}

// resync reads back the in-flight record: after a reply was lost the script may have run. Jobs
// in it that this process never saw are adopted. An outcome whose ticket is gone was committed,
// if the record has its mark. If it has not, the record was removed: what this process holds is
// written into it again, and all outcomes are handed in.
func (p *poller) resync(ctx context.Context) {
	if s := p.d.lease.Session(); s != p.session {
		p.begin(s)
	}
	c, process := p.link.Conn, p.session.Process.ID
	if p.lost {
		if err := p.reenter(); err != nil {
			p.unread(err)
			return
		}
	}
	epoch, tickets, whole, err := p.store.Resync(c, process)
	var unknown []resque.Reserved
	var unreadable []error
	if err == nil {
		unknown, unreadable, err = p.store.ReadReserved(c, process,
			slices.DeleteFunc(slices.Clone(tickets), func(t int64) bool { return p.held[t] != nil }))
	}
	inRecord := make(map[int64]bool, len(tickets))
	for _, t := range tickets {
		inRecord[t] = true
	}
	if err == nil && !whole {
		err = p.restore(inRecord, epoch)
	}
	if err != nil {
		p.unread(err)
		return
	}
	p.epoch, p.resyncs, p.lost = epoch, false, false
	for _, e := range unreadable {
		p.sayOnce("unreadable", "the in-flight record holds a value that goworker did not write", "error", e)
	}
	if whole {
		committed := func(o ended) bool {
			if inRecord[o.task.Ticket] {
				return false
			}
			p.release(o.task.Ticket)
			return true
		}
		p.pending = slices.DeleteFunc(p.pending, committed)
		p.refused = slices.DeleteFunc(p.refused, committed)
		p.misplaced = slices.DeleteFunc(p.misplaced, committed)
	}
	p.adopt(unknown)
	p.suspects.forget() // what the record says of them is not known
	p.source.Changed(nil, true)
}

// unread decides what to do when the record could not be read back.
func (p *poller) unread(err error) {
	if errors.Is(err, resque.ErrReaped) {
		p.reaped, p.resyncs = true, false
		p.d.lease.Wake()
		return
	}
	p.lost = p.lost || errors.Is(err, resque.ErrGone)
	p.lose(fmt.Errorf("reading back what this process holds: %w", err))
}

// adopt takes over jobs that stand in the record and are not held here.
func (p *poller) adopt(unknown []resque.Reserved) {
	var fresh []resque.Reserved
	for _, j := range unknown {
		if j.Ticket > p.last {
			fresh = append(fresh, j)
			continue
		}
		// The job ended before, and the server that answers now was behind: it knows nothing
		// of that. So it ends once more in the same way, effects included.
		t := &task{Job: outcome.Job{Reserved: j, Process: p.session.Process.ID}, Session: p.session}
		p.hold(t)
		o := ended{task: t, started: true, Ended: resque.Ended{Ticket: j.Ticket, Counts: resque.CountsDone}}
		if end, ok := p.recent.ends[j.Ticket]; ok {
			o.Ended = end
		} else if j.Ticket <= p.recent.forgotten {
			o = p.returned(t, true) // its effects are not known any more: it runs again
		}
		p.pending = append(p.pending, o)
	}
	if len(fresh) > 0 {
		p.log.Info("found jobs that were reserved by an exchange whose answer was lost", "jobs", len(fresh))
		p.receive(resque.Exchanged{Jobs: fresh, Suspects: true}, time.Now())
	}
}

// recentEnds are the latest ends with effects that Redis has committed. A server that takes over
// may lag behind by a second or two, and then shows their jobs again.
type recentEnds struct {
	ends      map[int64]resque.Ended
	order     []int64 // their tickets, as they were committed
	size      int
	forgotten int64 // the highest ticket among those that were dropped
}

const (
	recentMost  = 4096
	recentBytes = 4 << 20
)

func (r *recentEnds) add(e resque.Ended) {
	if r.ends == nil {
		r.ends = make(map[int64]resque.Ended)
	}
	if old, again := r.ends[e.Ticket]; again {
		r.size -= old.Size()
	} else {
		r.order = append(r.order, e.Ticket)
	}
	r.ends[e.Ticket] = e
	r.size += e.Size()
	for len(r.order) > recentMost || r.size > recentBytes {
		oldest := r.order[0]
		r.order = r.order[1:]
		r.size -= r.ends[oldest].Size()
		delete(r.ends, oldest)
		r.forgotten = max(r.forgotten, oldest)
	}
}

// reenter puts this process back into the fleet after Redis lost its record there.
func (p *poller) reenter() error {
	p.log.Warn("Redis lost the record of this process; writing it again", "process", p.session.Process.ID)
	p.epoch++
	err := p.store.Reenter(p.link.Conn, p.session.Process, p.epoch, fleet.LeasePeriod)
	if err == nil {
		p.d.lease.RegisterAgain()
	}
	return err
}

// restore writes into the in-flight record what it has lost, so that the jobs that run here are
// protected again and their outcomes count.
func (p *poller) restore(inRecord map[int64]bool, epoch int64) error {
	var jobs []resque.Reserved
	for _, t := range p.held {
		if !inRecord[t.Ticket] {
			jobs = append(jobs, t.Reserved)
		}
	}
	p.log.Warn("the in-flight record of this process was removed; writing it again", "process", p.session.Process.ID, "jobs", len(jobs))
	return p.store.Restore(p.link.Conn, p.session.Process.ID, epoch, jobs, p.suspects.handedOut(p.last).String())
}

// RecordGone is called by the lease when Redis has lost the record of this process.
func (p *poller) RecordGone(s *fleet.Session) {
	p.ask(func() {
		if p.session == s {
			p.resyncs, p.lost = true, true
		}
	})
}

// deaths asks how often jobs were found in dead processes. Where Redis does not
// answer it is not known, and all of them are suspects.
func (p *poller) deaths(jobs []resque.Reserved, now time.Time) (deaths []resque.Deaths, known bool) {
	deaths, err := p.store.DeathsOf(p.link.Conn, jobs, p.d.lease.At(now))
	if err != nil {
		p.log.Warn("could not learn which jobs were found in dead processes; running them one at a time", "error", err)
		return nil, false
	}
	return deaths, true
}
