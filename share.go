package goworker

import "time"

// This file is how a poller deals with its share of a budget of workers, if the
// daemon has one together with others.

// slots is how many jobs may run here now.
func (p *poller) slots() int {
	if p.share == nil {
		return p.d.config.concurrency
	}
	return p.granted
}

// claim brings the poller's share up to date: it keeps tokens for the jobs that run
// and for those it has asked for, and wants as many as it has workers while there
// may be jobs for them in Redis. It is called each turn.
func (p *poller) claim() {
	if p.share == nil {
		return
	}
	now := time.Now()
	most := p.d.config.concurrency
	switch {
	case p.link == nil || p.fenced:
		p.promised = 0
	case p.sent == nil:
		p.promised = min(p.promised, len(p.ahead))
	case !now.Before(p.overdue()):
		p.promised = 0 // this Redis stands still; others need not
	}
	used := min(p.busy+p.promised, most)
	need := used
	if p.link != nil && !p.fenced {
		need = p.busy + len(p.ahead)
		if p.suspect == nil && len(p.suspects) > 0 || p.launch != nil {
			need++
		}
		if p.mayReserve() && (!p.paused || p.watch.repause) && p.watch.hungry(now, len(p.pending) > 0) {
			need = most
		}
	}
	p.granted = p.share.claim(used, min(need, most))
}

// overdue is when the tokens of an exchange under way are given to others.
func (p *poller) overdue() time.Time { return p.sentAt.Add(p.pace.patience()) }
