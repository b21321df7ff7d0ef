package unknown

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/logging"
)

// How often the log says how many jobs of a class or queue were seen: at the first of them, then after a minute
// if there were more, after two more minutes, and so on.
const (
	firstWait   = time.Minute
	longestWait = time.Hour
)

// mostNames bounds how many classes or queues are counted apart. Those beyond are counted together.
const mostNames = 100

// seen counts the jobs of classes that have no handler, or of queues that they are left in, and warns of them. It is safe for
// concurrent use.
type seen struct {
	clock clock.Clock
	warn  func(name string, jobs int)

	mu    sync.Mutex
	names map[string]*count
}

// count is how many jobs of one class or queue were seen.
type count struct {
	jobs int
	next time.Time     // before it the log says nothing
	wait time.Duration // from next on
}

func newSeen(c clock.Clock, warn func(name string, jobs int)) *seen {
	return &seen{clock: c, warn: warn, names: make(map[string]*count)}
}

// note counts a job of a class or queue.
func (s *seen) note(name string) {
	name = logging.Shorten(name, logging.MaxText)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.names[name]
	if c == nil && len(s.names) >= mostNames {
		name = "… (other ones)"
		c = s.names[name]
	}
	if c == nil {
		c = &count{wait: firstWait}
		s.names[name] = c
	}
	c.jobs++
	now := s.clock.Now()
	if now.Before(c.next) {
		return
	}
	c.next = now.Add(c.wait)
	c.wait = min(2*c.wait, longestWait)
	s.warn(name, c.jobs)
}

// failing warns of a class whose jobs fail.
func failing(log *slog.Logger) func(string, int) {
	return func(class string, jobs int) {
		log.Warn("no handler is registered for a class, its jobs fail", "class", class, "jobs", jobs)
	}
}

// leaving warns of a queue of HTTP clients, and names what keeps this process out of it.
func leaving(log *slog.Logger) func(string, int) {
	return func(queue string, jobs int) {
		exclude := "!" + queue
		if namespace, _, ok := strings.Cut(queue, "."); ok {
			exclude = "!" + namespace + ".*"
		}
		log.Warn("jobs of HTTP clients have no handler here and go back to the tail of their queue; exclude the queue", "queue", queue, "exclude", exclude,
			"class", httpjob.DefaultClass, "jobs", jobs)
	}
}
