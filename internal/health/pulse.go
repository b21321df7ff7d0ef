package health

import (
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Pulse asks a goroutine for its state. It keeps the last answer, and since when the goroutine owes one. It
// asks only during a probe, and one question at a time. So without probes it wakes no goroutine. It is safe
// for concurrent use.
type Pulse[T any] struct {
	clock clock.Clock
	ask   func(func()) // makes the goroutine call a function
	look  func() T     // called by the goroutine

	mu       sync.Mutex
	asked    time.Time     // when the question under way was asked; zero: none is
	answered chan struct{} // closed with its answer
	last     T
	ever     bool
	at       time.Time // of the last answer
}

// askEvery is the least time between two questions of Owed, so that a flood of probes costs the goroutine little.
const askEvery = time.Second

// NewPulse returns a Pulse. ask makes the goroutine call a function soon, which calls look.
func NewPulse[T any](c clock.Clock, ask func(func()), look func() T) *Pulse[T] {
	return &Pulse[T]{clock: c, ask: ask, look: look}
}

// Answer is an answer of the goroutine.
type Answer[T any] struct {
	Last   T
	Ever   bool          // it has answered at all
	Silent time.Duration // for how long it has owed an answer; 0: it answered just now
}

// Take returns the goroutine's answer. It waits up to the given time, and then returns the last answer.
func (p *Pulse[T]) Take(most time.Duration) Answer[T] {
	p.mu.Lock()
	if p.asked.IsZero() {
		p.question()
	}
	answered := p.answered
	p.mu.Unlock()
	timer := p.clock.NewTimer(most)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := Answer[T]{Last: p.last, Ever: p.ever}
	select {
	case <-answered:
	default:
		a.Silent = clock.Since(p.clock, p.asked)
	}
	return a
}

// Owed returns for how long the goroutine has owed an answer. It does not wait for one.
func (p *Pulse[T]) Owed() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked.IsZero() {
		return clock.Since(p.clock, p.asked)
	}
	if !p.ever || clock.Since(p.clock, p.at) >= askEvery {
		p.question()
	}
	return 0
}

// question asks. The mutex is held, and no question is under way.
func (p *Pulse[T]) question() {
	p.asked, p.answered = p.clock.Now(), make(chan struct{})
	p.ask(p.answer)
}

// answer is called by the goroutine.
func (p *Pulse[T]) answer() {
	state := p.look()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.ever, p.asked, p.at = state, true, time.Time{}, p.clock.Now()
	close(p.answered)
}
