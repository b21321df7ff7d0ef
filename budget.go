package goworker

import (
	"slices"
	"sync"
)

// budget shares a number of tokens among the pollers of several daemons. A job that
// runs holds one, and so does each worker for which a poller asks its Redis: no
// more jobs are reserved than may run.
//
// A share says how many tokens it has in use and how many it could use. Those that
// nobody uses go at once to who is short of some, the one with the fewest first; a
// share that has two more than one that is short gives up what it does not use. So
// one alone has all of them, several that want more than there are hold the same
// number, give or take one, and where there are fewer tokens than shares they take
// turns. What is in use is never taken away: a share waits for jobs to end.
type budget struct {
	mu     sync.Mutex
	free   int
	shares []*share
	turn   int64 // rises with each grant
}

// share is what one poller has of a budget. Only the poller's goroutine calls its
// methods.
type share struct {
	budget *budget
	wake   func() // tells the poller that it was given tokens; must not block

	// Guarded by the budget's mutex.
	held  int
	used  int   // of those, as of the last claim
	need  int   // how many it could use
	since int64 // the turn in which it was last given one
	fresh bool  // it was given one and has not used any since
}

func newBudget(tokens int) *budget { return &budget{free: tokens} }

// join adds a share that holds nothing.
func (b *budget) join(wake func()) *share {
	s := &share{budget: b, wake: wake}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares = append(b.shares, s)
	return s
}

// leave gives everything back.
func (s *share) leave() {
	s.claim(0, 0)
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares = slices.DeleteFunc(b.shares, func(other *share) bool { return other == s })
}

// claim says how many of the tokens held are in use and how many could be, and
// returns how many the share holds now: at least those in use.
func (s *share) claim(used, need int) (held int) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.used, s.need = used, max(used, need)
	if used > 0 {
		s.fresh = false
	}
	if unused := s.held - s.need; unused > 0 {
		s.held -= unused
		b.free += unused
	}
	for b.free > 0 {
		w := b.short(nil)
		if w == nil {
			break
		}
		b.free--
		b.give(w, s)
	}
	for s.held > s.used {
		w := b.short(s)
		if w == nil || w.held+1 >= s.held && (w.held > 0 || s.fresh) {
			break
		}
		s.held--
		b.give(w, s)
	}
	return s.held
}

// short returns the share, other than this one, that holds the fewest tokens of
// those that want more; of several such the one that was given none for longest.
func (b *budget) short(than *share) (least *share) {
	for _, w := range b.shares {
		if w == than || w.held >= w.need {
			continue
		}
		if least == nil || w.held < least.held || w.held == least.held && w.since < least.since {
			least = w
		}
	}
	return least
}

func (b *budget) give(w, caller *share) {
	b.turn++
	w.held++
	w.since, w.fresh = b.turn, true
	if w != caller {
		w.wake()
	}
}
