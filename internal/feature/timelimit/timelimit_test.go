package timelimit_test

import (
	"testing"
	"time"

	"github.com/goworker/goworker/internal/feature/timelimit"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
)

// What is enqueued is what a run finds, to the millisecond above.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	s := outcome.New(outcome.Deps{}, nil, timelimit.New)
	for limit, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Millisecond, time.Second: time.Second, time.Second + 1: time.Second + time.Millisecond, 1<<63 - 1: 9223372036854 * time.Millisecond,
	} {
		p := &outcome.Push{Queue: "q", Name: "C", Options: new(outcome.Options)}
		outcome.Put(p.Options, timelimit.Limit(limit))
		if err := s.Enqueue(p); err != nil || len(p.Fields) != 1 {
			t.Fatalf("%s: %v %v", limit, p.Fields, err)
		}
		j := new(outcome.Job)
		j.Parsed.Extra = []payload.Extra{{Name: []byte(p.Fields[0].Name), Value: p.Fields[0].Value}}
		if got, ok := timelimit.Of(j); !ok || got != want {
			t.Errorf("%s comes back as %s, %v", limit, got, ok)
		}
	}
}

// A job without a limit costs nothing.
func TestPlainJobsCostNothing(t *testing.T) {
	s := outcome.New(outcome.Deps{}, nil, timelimit.New)
	p, j := &outcome.Push{Class: &outcome.Class{Name: "C"}}, new(outcome.Job)
	if n := testing.AllocsPerRun(100, func() { _ = s.Enqueue(p); _, _ = timelimit.Of(j) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
