package logging

import (
	"log/slog"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Outages logs each outage of Redis once: when the first part of the daemon meets it, and when the
// last part has recovered. It is safe for concurrent use.
type Outages struct {
	log   *slog.Logger
	clock clock.Clock

	mu     sync.Mutex
	failed map[string]bool // the parts without Redis
	since  time.Time
	count  int64         // of outages, the present one too
	past   time.Duration // how long those that are over took together
}

// State is what was seen of outages.
type State struct {
	Count int64         // how many there were, the present one too
	Away  time.Duration // how long all of them took, the present one so far
	Since time.Time     // when the present one began; zero: there is none
}

// State returns what was seen so far.
func (o *Outages) State() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := State{Count: o.count, Away: o.past}
	if len(o.failed) > 0 {
		s.Since = o.since
		s.Away += clock.Since(o.clock, o.since)
	}
	return s
}

// NewOutages returns an Outages that writes to log and reads the time from c.
func NewOutages(log *slog.Logger, c clock.Clock) *Outages { return &Outages{log: log, clock: c} }

// Fail is called by a part after each command that Redis did not serve.
func (o *Outages) Fail(part string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failed) == 0 {
		o.since = o.clock.Now()
		o.count++
		o.failed = make(map[string]bool)
		o.log.Warn("redis unavailable, retrying", "part", part, "error", err)
	} else {
		o.log.Debug("redis still unavailable", "part", part, "error", err)
	}
	o.failed[part] = true
}

// OK is called by a part after each command that Redis served.
func (o *Outages) OK(part string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failed[part] {
		return
	}
	delete(o.failed, part)
	if len(o.failed) == 0 {
		took := clock.Since(o.clock, o.since)
		o.past += took
		o.log.Info("redis available again", "after", took.Round(time.Millisecond))
	}
}
