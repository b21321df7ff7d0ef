package inflight

import (
	"maps"
	"math/bits"
)

// Slots are the numbers under which jobs run: each job that is with a worker has one, the lowest that was
// free. The zero value has no job. It belongs to the poller's goroutine.
type Slots struct {
	taken []uint64 // a bit for each slot
	busy  int
	marks map[int]bool // slots of which freed is to be called; nil: of none
	freed func()
}

// Busy returns how many slots have a job.
func (s *Slots) Busy() int { return s.busy }

// Lowest returns the lowest slot that is free.
func (s *Slots) Lowest() int {
	for i, word := range s.taken {
		if word != ^uint64(0) {
			return 64*i + bits.TrailingZeros64(^word)
		}
	}
	return 64 * len(s.taken)
}

// Take takes a slot that is free.
func (s *Slots) Take(n int) {
	for n/64 >= len(s.taken) {
		s.taken = append(s.taken, 0)
	}
	s.taken[n/64] |= 1 << (n % 64)
	s.busy++
}

// Free gives a slot back.
func (s *Slots) Free(n int) {
	s.taken[n/64] &^= 1 << (n % 64)
	s.busy--
	if s.marks != nil {
		s.unmark(n)
	}
}

func (s *Slots) unmark(n int) {
	if !s.marks[n] {
		return
	}
	if delete(s.marks, n); len(s.marks) == 0 {
		s.marks = nil
	}
	s.freed()
}

// Mark marks the slots that have a job now. When one of them falls free it loses its mark, and freed is
// called.
func (s *Slots) Mark(freed func()) {
	s.marks, s.freed = nil, freed
	for n := range 64 * len(s.taken) {
		if s.taken[n/64]&(1<<(n%64)) != 0 {
			if s.marks == nil {
				s.marks = make(map[int]bool)
			}
			s.marks[n] = true
		}
	}
}

// Marked returns the slots that are marked still.
func (s *Slots) Marked() map[int]bool { return maps.Clone(s.marks) }
