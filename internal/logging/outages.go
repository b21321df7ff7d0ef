package logging

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
)

// Outages logs each outage of Redis once: when the first part of the daemon meets it, and when the
// last part has recovered. If it began with a broken connection, and Redis then refuses what only an operator can mend, that
// is one line more. It is safe for concurrent use.
type Outages struct {
	// Heard is called with each error of Fail. It does not wait, and is set before the first one; nil: nothing counts them.
	Heard func(error)

	log   *slog.Logger
	clock clock.Clock

	mu     sync.Mutex
	failed map[string]bool // the parts without Redis
	cause  bool            // the log has what Redis refuses in this outage
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
	if o.Heard != nil {
		o.Heard(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	refused := refusal(err)
	switch {
	case len(o.failed) == 0:
		o.since = o.clock.Now()
		o.count++
		o.failed = make(map[string]bool)
		o.cause = refused
		o.log.Warn("redis unavailable, retrying", "part", part, "error", err)
	case refused && !o.cause: // "EOF" alone would hide a password that was changed
		o.cause = true
		o.log.Warn("redis still unavailable", "part", part, "error", err)
	default:
		o.log.Debug("redis still unavailable", "part", part, "error", err)
	}
	o.failed[part] = true
}

// lasting begin the replies of Redis that last until an operator mends their cause.
var lasting = []string{"WRONGPASS", "NOAUTH", "NOPERM", "OOM", "MISCONF", "ERR max number of clients"}

func refusal(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	for _, prefix := range lasting {
		if strings.HasPrefix(string(reply), prefix) {
			return true
		}
	}
	return false
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
