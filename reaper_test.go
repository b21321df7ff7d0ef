package goworker

import (
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// fleet drives an observer through the ticks of a reaper that renews its own lease
// every two seconds.
type fleet struct {
	o      observer
	now    time.Time
	values map[string]int
}

func newFleet(processes ...string) *fleet {
	f := &fleet{now: time.Unix(1_800_000_000, 0), values: make(map[string]int)}
	for _, p := range processes {
		f.values[p] = 0
	}
	return f
}

// tick lets time pass, renews the leases of the living and returns who is found dead.
func (f *fleet) tick(d time.Duration, living ...string) []string {
	f.now = f.now.Add(d)
	for _, p := range living {
		f.values[p]++
	}
	leases := []resque.Lease{{Process: "self", Value: f.now.String()}}
	for p, v := range f.values {
		leases = append(leases, resque.Lease{Process: p, Value: string(rune('a' + v%26))})
	}
	var dead []string
	for _, l := range f.o.observe(f.now, "self", leases) {
		dead = append(dead, l.Process)
	}
	return dead
}

func TestObserverFindsTheSilentDeadAfterOnePeriod(t *testing.T) {
	t.Parallel()
	f := newFleet("quiet", "lively")
	for waited := time.Duration(0); waited < leasePeriod; waited += renewEvery {
		if dead := f.tick(renewEvery, "lively"); dead != nil {
			t.Fatalf("after %s of silence %v found dead", waited, dead)
		}
	}
	dead := f.tick(renewEvery, "lively")
	if len(dead) != 1 || dead[0] != "quiet" {
		t.Errorf("after a period of silence %v found dead, want quiet", dead)
	}
}

// A reaper that dies while it takes a dead process's jobs costs that process no
// other period of silence.
func TestObserverGoesOnForADeadReaper(t *testing.T) {
	t.Parallel()
	o := observer{}
	now := time.Now()
	value := "7"
	for silent := time.Duration(0); silent <= leasePeriod+fencedGrace; silent += renewEvery {
		if silent == leasePeriod { // he fences, and is not heard of again
			value = fenced
		}
		dead := o.observe(now.Add(silent), "self", []resque.Lease{{Process: "quiet", Value: value}})
		if want := silent == leasePeriod+fencedGrace; (len(dead) == 1) != want {
			t.Errorf("after %s of silence %v found dead", silent, dead)
		}
	}
}

func TestObserverTrustsNobodyAfterAGap(t *testing.T) {
	t.Parallel()
	for name, gap := range map[string]func(f *fleet){
		"a renewal failed":              func(f *fleet) { f.o.forget() },
		"we stood still, or Redis did":  func(f *fleet) { f.tick(time.Minute) },
		"we stood still for a bit more": func(f *fleet) { f.tick(2*renewEvery + time.Millisecond) },
	} {
		f := newFleet("other")
		for range int(leasePeriod / renewEvery) {
			f.tick(renewEvery)
		}
		gap(f)
		// Every lease looks old now. The living renew theirs within the period.
		for range int(leasePeriod/renewEvery) - 1 {
			if dead := f.tick(renewEvery); dead != nil {
				t.Errorf("%s: %v found dead too early", name, dead)
			}
		}
		if dead := f.tick(renewEvery, "other"); dead != nil {
			t.Errorf("%s: %v found dead although it renewed", name, dead)
		}
	}
}

func TestLeaderIsALiveProcess(t *testing.T) {
	t.Parallel()
	got := leader([]resque.Lease{{Process: "a", Value: fenced}, {Process: "c", Value: "5"}, {Process: "b", Value: "9"}})
	if got != "b" {
		t.Errorf("leader %q, want b", got)
	}
}
