// Package share lets the pollers of several daemons share a number of workers.
package share

import (
	"slices"
	"sync"
)

// Pool holds the tokens that several shares have in common, one for each worker. A job
// that runs holds a token. So does each worker for which a poller asks its Redis: the
// pollers never reserve more jobs than may run.
//
// A share says how many tokens it uses and how many it could use. An unused token goes
// at once to a share that is short of one, the share with the fewest first. A share that
// holds two tokens more than a share that is short gives up its unused ones. So
// one share alone holds all tokens. Several that want more than there are hold the same
// number, give or take one; if there are fewer tokens than shares they take turns. A
// token in use is never taken away: the other shares wait for jobs to end.
//
// Resize changes how many tokens there are. If there are fewer, those that are missing are
// taken from the free ones, and then from each share as soon as it does not use them: until
// then free is negative, and nothing is granted.
type Pool struct {
	mu     sync.Mutex
	tokens int
	free   int
	shares []*Share
	turn   int64 // rises with each grant
}

// Share is what one poller has of a pool. Only the poller's goroutine calls its methods.
type Share struct {
	pool *Pool  // nil: the poller has all workers for itself
	most int    // how many workers there are
	wake func() // called when another share's Acquire grants a token; must not block

	// Of the poller's goroutine.
	granted  int // how many tokens the share held after the last Acquire
	reserved int // of those: how many wait for jobs that were asked for and have not begun

	// Guarded by the pool's mutex.
	held  int
	used  int   // of those, as of the last acquire
	need  int   // how many the share could use
	since int64 // the turn in which a token was last granted
	fresh bool  // a token was granted, and none was used since
}

// NewPool returns a pool of so many tokens.
func NewPool(tokens int) *Pool { return &Pool{tokens: tokens, free: tokens} }

// Tokens returns how many tokens there are.
func (p *Pool) Tokens() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens
}

// Resize changes how many tokens there are, and has all shares look at it.
func (p *Pool) Resize(tokens int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += tokens - p.tokens
	p.tokens = tokens
	for _, s := range p.shares {
		s.wake()
	}
}

// Alone returns the share of a poller that has so many workers for itself.
func Alone(workers int) *Share { return &Share{most: workers} }

// Join adds a share that holds nothing, of a poller with so many workers.
func (p *Pool) Join(workers int, wake func()) *Share {
	s := &Share{pool: p, most: workers, wake: wake}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shares = append(p.shares, s)
	return s
}

// Leave gives everything back.
func (s *Share) Leave() {
	if s.pool == nil {
		return
	}
	s.acquire(0, 0)
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shares = slices.DeleteFunc(p.shares, func(other *Share) bool { return other == s })
}

// Resize changes the number of workers of the poller.
func (s *Share) Resize(workers int) { s.most = workers }

// Shared reports whether other pollers use the same workers.
func (s *Share) Shared() bool { return s.pool != nil }

// Slots returns how many jobs may run here now.
func (s *Share) Slots() int {
	if s.pool == nil {
		return s.most
	}
	return s.granted
}

// Spare reports whether the share holds tokens, in common with others, beyond those of
// the jobs that run.
func (s *Share) Spare(running int) bool { return s.pool != nil && s.granted > running }

// Reserve keeps tokens for so many jobs that Redis was asked for. They count as used.
func (s *Share) Reserve(jobs int) { s.reserved = jobs }

// KeepReserved gives up what is reserved beyond the number of jobs still to begin.
func (s *Share) KeepReserved(jobs int) { s.reserved = min(s.reserved, jobs) }

// Begin uses a reserved token for a job that begins.
func (s *Share) Begin() { s.reserved = max(0, s.reserved-1) }

// Acquire brings the share up to date. Besides the tokens of the jobs that run and of
// the reserved ones the share asks for what the poller could use, at most all workers.
func (s *Share) Acquire(running, could int) {
	if s.pool == nil {
		return
	}
	used := max(running, min(running+s.reserved, s.most)) // more than most run where there were more workers
	s.granted = s.acquire(used, max(used, min(could, s.most)))
}

// acquire says how many of the tokens held are in use and how many could be. It returns
// how many the share holds now: at least those in use.
func (s *Share) acquire(used, need int) (held int) {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.used, s.need = used, max(used, need)
	if used > 0 {
		s.fresh = false
	}
	if unused := s.held - s.need; unused > 0 {
		s.held -= unused
		p.free += unused
	}
	if owed := min(-p.free, s.held-s.used); owed > 0 {
		s.held -= owed
		p.free += owed
	}
	for p.free > 0 {
		w := p.short(nil)
		if w == nil {
			break
		}
		p.free--
		p.grant(w, s)
	}
	for s.held > s.used {
		w := p.short(s)
		if w == nil || w.held+1 >= s.held && (w.held > 0 || s.fresh) {
			break
		}
		s.held--
		p.grant(w, s)
	}
	return s.held
}

// short returns the share, other than this one, that holds the fewest tokens of those
// that want more. Of several such it returns the one that has waited longest for a grant.
func (p *Pool) short(than *Share) (least *Share) {
	for _, w := range p.shares {
		if w == than || w.held >= w.need {
			continue
		}
		if least == nil || w.held < least.held || w.held == least.held && w.since < least.since {
			least = w
		}
	}
	return least
}

func (p *Pool) grant(w, caller *Share) {
	p.turn++
	w.held++
	w.since, w.fresh = p.turn, true
	if w != caller {
		w.wake()
	}
}
