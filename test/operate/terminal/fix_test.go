package terminal

import (
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// doctor --fix asks before each finding: one that is declined stays, and the next one is offered.
func TestFixAsksBeforeEach(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SADD", "resque:workers", "bad1", "bad2", "bad3")
	x := open(t, 200, 50, s.URI())
	x.line("goworker doctor 24 --fix; echo it ended with $?")
	x.shows(`(?s)Go on\? \[y/N\]\s*$`)
	x.line("y")
	x.shows(`(?s)24 mended.*Go on\? \[y/N\]\s*$`)
	x.line("n")
	x.shows(`(?s)24 mended.*Go on\? \[y/N\] n\n.*Go on\? \[y/N\]\s*$`)
	x.line("y")
	x.shows(`(?m)^it ended with 5`)
	if left := s.List(t, "SMEMBERS", "resque:workers"); len(left) != 1 {
		t.Errorf("one was declined, and there are %q", left)
	}
}
