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
	able := p.link != nil && !p.fenced && (p.sent == nil || now.Before(p.overdue()))
	switch {
	case !able:
		p.promised = 0 // others can use them meanwhile
	case p.sent == nil:
		p.promised = min(p.promised, len(p.ahead))
	}
	used := min(p.busy+p.promised, most)
	need := used
	if able {
		need = p.busy + len(p.ahead)
		if p.suspects.next() {
			need++
		}
		if p.mayReserve() && p.source.Hungry(now, len(p.pending) > 0) {
			need = most
		}
	}
	p.granted = p.share.claim(used, min(need, most))
}

// overdue is when the exchange under way has taken so long that this Redis may be
// standing still, and its tokens are for others.
func (p *poller) overdue() time.Time { return p.sentAt.Add(p.pace.Patience()) }
