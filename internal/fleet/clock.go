package fleet

import (
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Clock returns the time by Redis's clock. It is safe for concurrent use.
type Clock struct {
	local  clock.Clock
	offset atomic.Int64 // Redis's clock less this machine's, in nanoseconds; written by Saw
	first  atomic.Int64 // what Saw was given first, in nanoseconds; 0: nothing yet
}

// NewClock returns a clock that says what this machine's does until it has seen Redis's.
func NewClock(local clock.Clock) *Clock { return &Clock{local: local} }

// Now returns the time by Redis's clock, as far as this process knows it.
func (c *Clock) Now() time.Time { return c.At(c.local.Now()) }

// At returns what Redis's clock says when this machine's clock says t.
func (c *Clock) At(t time.Time) time.Time { return t.Add(time.Duration(c.offset.Load())) }

// Saw sets the clock to a time that Redis has just answered.
func (c *Clock) Saw(t time.Time) {
	c.first.CompareAndSwap(0, t.UnixNano())
	c.offset.Store(int64(clock.Until(c.local, t)))
}

// Since returns the first time that Redis answered: before it, this process was not in the fleet. It is zero where Redis has not answered.
func (c *Clock) Since() (t time.Time) {
	if first := c.first.Load(); first != 0 {
		t = time.Unix(0, first)
	}
	return t
}
