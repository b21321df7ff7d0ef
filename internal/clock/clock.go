// Package clock is the one place from which the daemon's parts take the time and timers. A test
// puts another clock in place of the system's.
package clock

import "time"

// Clock tells the time and makes timers. A Clock is safe for concurrent use.
type Clock interface {
	// Now returns the present time.
	Now() time.Time

	// NewTimer returns a timer that fires once, d from now.
	NewTimer(d time.Duration) Timer

	// AfterFunc calls f in a goroutine of its own, d from now, unless the timer is stopped before.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a timer of a Clock.
type Timer interface {
	// C returns the channel on which the time arrives. It is nil for a timer of AfterFunc.
	C() <-chan time.Time

	// Stop prevents the timer from firing. It reports whether it did.
	Stop() bool

	// Reset makes the timer fire d from now.
	Reset(d time.Duration) bool
}

// System is the clock of this machine.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) NewTimer(d time.Duration) Timer { return timer{time.NewTimer(d)} }

func (system) AfterFunc(d time.Duration, f func()) Timer { return timer{time.AfterFunc(d, f)} }

type timer struct{ *time.Timer }

func (t timer) C() <-chan time.Time { return t.Timer.C }

// Since returns how long ago t was, by the clock c.
func Since(c Clock, t time.Time) time.Duration { return c.Now().Sub(t) }

// Until returns how long it is until t, by the clock c.
func Until(c Clock, t time.Time) time.Duration { return t.Sub(c.Now()) }

// Sleep waits for d, by the clock c.
func Sleep(c Clock, d time.Duration) { <-c.NewTimer(d).C() }
