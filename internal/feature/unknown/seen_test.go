package unknown

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// byHand is a clock that a test sets.
type byHand struct {
	clock.Clock
	now time.Time
}

func (c *byHand) Now() time.Time { return c.now }

// A class is warned of at its first job, and then with its count after one minute, two, four, at most each
// hour. However many classes there are, the lines and the memory are bounded.
func TestSeen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &byHand{now: time.Unix(1e9, 0)}
	s := newSeen(c, failing(slog.New(slog.NewTextHandler(&out, nil))))
	for range 60 * 60 * 24 { // a job each second for a day
		s.note("A")
		c.now = c.now.Add(time.Second)
	}
	var counts []string
	for line := range strings.Lines(out.String()) {
		_, count, _ := strings.Cut(strings.TrimSpace(line), "jobs=")
		counts = append(counts, count)
	}
	if got := fmt.Sprint(counts[:7]); got != "[1 61 181 421 901 1861 3781]" || len(counts) > 32 {
		t.Errorf("a day has %d lines, with the counts %s", len(counts), got)
	}
	out.Reset()
	for n := range 10 * mostNames {
		s.note(fmt.Sprint("class", n))
	}
	if n := strings.Count(out.String(), "\n"); n != mostNames || len(s.names) != mostNames+1 {
		t.Errorf("%d lines and %d classes for %d", n, len(s.names), 10*mostNames)
	}
}
