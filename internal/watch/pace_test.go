package watch

import (
	"testing"
	"time"
)

func TestPaceReservesAheadOnlyForShortHandlers(t *testing.T) {
	t.Parallel()
	p := Pace{Allowed: true}
	for range 20 {
		p.Trip(100 * time.Microsecond)
		p.Ran(time.Microsecond)
	}
	if !p.Ahead() {
		t.Fatal("handlers of 1 µs and round trips of 100 µs: not ahead")
	}
	for range 20 {
		p.Ran(10 * time.Millisecond)
	}
	if p.Ahead() {
		t.Error("handlers of 10 ms: still ahead")
	}
	p.Trip(10 * time.Second)
	for range 3 {
		p.Ran(20 * time.Millisecond)
	}
	if p.Ahead() {
		t.Error("ahead with handlers of 20 ms, because Redis stood still once")
	}
	p = Pace{Allowed: true, run: 1, trip: 1000, runs: paceRuns}
	now := time.Now()
	if p.Waited(now, now.Add(-time.Millisecond)) || !p.Waited(now, now.Add(-time.Second)) {
		t.Error("patience is not 10 ms")
	}
	if p.Ahead() {
		t.Error("still ahead after a job waited for too long")
	}
}
