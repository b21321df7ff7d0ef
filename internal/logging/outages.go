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
}

// NewOutages returns an Outages that writes to log and reads the time from c.
func NewOutages(log *slog.Logger, c clock.Clock) *Outages { return &Outages{log: log, clock: c} }

// Fail is called by a part after each command that Redis did not serve.
func (o *Outages) Fail(part string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failed) == 0 {
		o.since = o.clock.Now()
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
		o.log.Info("redis available again", "after", clock.Since(o.clock, o.since).Round(time.Millisecond))
	}
}
