package goworker

import (
	"log/slog"
	"sync"
	"time"
)

// outages logs each trouble with Redis once: when the first part of the daemon
// meets it and when the last one is over it.
type outages struct {
	log *slog.Logger

	mu     sync.Mutex
	failed map[string]bool
	since  time.Time
}

func (o *outages) fail(part string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failed) == 0 {
		o.since = time.Now()
		o.failed = make(map[string]bool)
		o.log.Warn("Redis does not serve us; trying again until it does", "part", part, "error", err)
	} else {
		o.log.Debug("still no Redis", "part", part, "error", err)
	}
	o.failed[part] = true
}

func (o *outages) ok(part string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failed[part] {
		return
	}
	delete(o.failed, part)
	if len(o.failed) == 0 {
		o.log.Info("Redis serves us again", "after", time.Since(o.since).Round(time.Millisecond))
	}
}
