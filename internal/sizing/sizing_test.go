package sizing

import (
	"math"
	"strings"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*math.Abs(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// The part of the jobs that wait is Erlang's: two values of its published tables, and one worker, of which the formula is simple.
func TestLate(t *testing.T) {
	t.Parallel()
	near(t, "M/M/1", Late(1, 0.5, time.Second, 0), 0.5, 1e-9)
	near(t, "M/M/1 after a second", Late(1, 0.5, time.Second, time.Second), 0.5*math.Exp(-0.5), 1e-9)
	near(t, "M/M/2", Late(2, 1, time.Second, 0), 1.0/3, 1e-9)
	near(t, "M/M/10", Late(10, 8, time.Second, 0), 0.4092, 1e-3)
	if late := Late(5, 5, time.Second, time.Hour); late != 1 {
		t.Errorf("%v of the jobs wait for workers that never catch up", late)
	}
}

// The number of workers is the least that holds the wait, whatever the load.
func TestWorkers(t *testing.T) {
	t.Parallel()
	for _, busy := range []float64{0.01, 0.9, 1, 7.5, 100, 5000} {
		for _, wait := range []time.Duration{0, 10 * time.Millisecond, time.Second} {
			n := Workers(busy, 100*time.Millisecond, wait)
			if Late(n, busy, 100*time.Millisecond, wait) > late {
				t.Errorf("%d workers are too few for %v busy ones and %v", n, busy, wait)
			}
			if n > 1 && Late(n-1, busy, 100*time.Millisecond, wait) <= late {
				t.Errorf("%d workers are one too many for %v busy ones and %v", n, busy, wait)
			}
		}
	}
}

// A simulated queue waits as the formula says.
func TestLateSimulated(t *testing.T) {
	t.Parallel()
	const workers, busy, jobs = 10, 8.0, 200_000
	next, free, over := 0.0, make([]float64, workers), 0
	random := uint64(1)
	exp := func() float64 {
		random = random*6364136223846793005 + 1442695040888963407
		return -math.Log((float64(random>>11) + 1) / (1 << 53))
	}
	for range jobs {
		next += exp() / busy
		first := 0
		for n := range free {
			if free[n] < free[first] {
				first = n
			}
		}
		starts := max(next, free[first])
		if starts-next > 0.5 {
			over++
		}
		free[first] = starts + exp()
	}
	near(t, "the part that waits over half of a run time", float64(over)/jobs, Late(workers, busy, time.Second, time.Second/2), 0.1)
}

// A process makes two exchanges for a job that comes alone, shares them as jobs come closer, and never makes more than fit into the
// time or fewer than its workers need.
func TestExchanges(t *testing.T) {
	t.Parallel()
	const trip = time.Millisecond
	near(t, "a job an hour", Exchanges(1.0/3600, 25, trip), 2, 1e-6)
	last := 2.0
	for rate := 1.0; rate < 1e7; rate *= 2 {
		e := Exchanges(rate, 25, trip)
		if e > last || e*rate > 1/trip.Seconds()+1e-9 && e > 1.0/50 {
			t.Errorf("%v exchanges a job at %v jobs a second", e, rate)
		}
		last = e
	}
	near(t, "a flood", last, 1.0/50, 1e-9)
}

// No fleet looks more often for nothing than the pause after an empty look allows.
func TestWoken(t *testing.T) {
	t.Parallel()
	if w := Woken(100, 1); w != 0 {
		t.Errorf("one process wakes %v others", w)
	}
	for _, processes := range []int{2, 10, 100, 1000} {
		near(t, "a rare job", Woken(0.001, processes), float64(processes-1), 1e-3)
		if looks := 1e5 * Woken(1e5, processes) / float64(processes-1); looks > 40 {
			t.Errorf("each of %d processes looks %v times a second", processes, looks)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	f := Measured()
	p, err := f.Of(Load{Rate: 500, Duration: 200 * time.Millisecond})
	if err != nil || p.Needed != 125 || p.Processes != 6 || !p.Stable || p.Redises != 1 || p.Connections != 27 || p.Late > late || p.RedisBusy > 0.2 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err = f.Of(Load{Rate: 500, Duration: time.Second, Processes: 2}); err != nil || p.Stable || p.Late != 1 || p.Woken != 0 {
		t.Errorf("two processes do the work of twenty: %+v, %v", p, err)
	}
	few, err1 := f.Of(Load{Rate: 1e5, Duration: 100 * time.Millisecond, Workers: 500})
	many, err2 := f.Of(Load{Rate: 1e5, Duration: 100 * time.Millisecond, Processes: 1000})
	if err1 != nil || err2 != nil || few.Redises < 2 || few.Redises >= many.Redises || few.RedisBusy > 1.01*Full || many.RedisBusy > 1.01*Full {
		t.Errorf("few large processes: %+v, %v\nmany small ones: %+v, %v", few, err1, many, err2)
	}
	last := 0.0
	for _, kind := range []string{"plain", "unique", "limited", "keyed"} {
		p, err := f.Of(Load{Rate: 100, Duration: time.Second, Kind: kind})
		if err != nil || p.RedisBusy <= last {
			t.Errorf("%s: %v of a core, %v", kind, p.RedisBusy, err)
		}
		last = p.RedisBusy
	}
	for wrong, l := range map[string]Load{
		"the rate is 0":             {Duration: time.Second},
		"called \"sticky\"":         {Rate: 1, Duration: time.Second, Kind: "sticky"},
		"negative":                  {Rate: 1, Duration: -time.Second},
		"use up a Redis while they": {Rate: 1, Duration: time.Second, Processes: 1_000_000},
		"10,000,000":                {Rate: 1e8, Duration: time.Hour},
	} {
		if _, err := f.Of(l); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%+v: %v, want %q", l, err, wrong)
		}
	}
}
