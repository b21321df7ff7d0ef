package unknown

import (
	"log/slog"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
)

// How often the log says how many jobs of a class were seen: at the first of them, then after a minute
// if there were more, after two more minutes, and so on.
const (
	firstWait   = time.Minute
	longestWait = time.Hour
)

// mostClasses bounds how many classes are counted apart. Those beyond are counted together.
const mostClasses = 100

// seen counts the jobs of classes that have no handler, and warns of them. It is safe for concurrent use.
type seen struct {
	log   *slog.Logger
	clock clock.Clock

	mu      sync.Mutex
	classes map[string]*count
}

// count is how many jobs of one class were seen.
type count struct {
	jobs int
	next time.Time     // before it the log says nothing
	wait time.Duration // from next on
}

func newSeen(log *slog.Logger, c clock.Clock) *seen {
	return &seen{log: log, clock: c, classes: make(map[string]*count)}
}

// note counts a job of a class.
func (s *seen) note(class string) {
	class = logging.Shorten(class, logging.MaxText)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.classes[class]
	if c == nil && len(s.classes) >= mostClasses {
		class = "… (other classes)"
		c = s.classes[class]
	}
	if c == nil {
		c = &count{wait: firstWait}
		s.classes[class] = c
	}
	c.jobs++
	now := s.clock.Now()
	if now.Before(c.next) {
		return
	}
	c.next = now.Add(c.wait)
	c.wait = min(2*c.wait, longestWait)
	s.log.Warn("no handler is registered for a class, its jobs fail", "class", class, "jobs", c.jobs)
}
