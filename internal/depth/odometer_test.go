package depth

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// world is a queue with processes that take from it, in steps of a tenth of a second.
type world struct {
	rand  *rand.Rand
	now   time.Time
	jobs  []time.Time // when each that waits came
	taken []int64     // of each process, not yet said
	said  int64       // what go:taken has
	o     odometer

	off, far []float64 // the odometer's errors in seconds, and beyond max(5 s, 5 %)
	bounds   int       // looks at which it knew a lower bound only
	looks    int
}

const (
	step      = 100 * time.Millisecond
	renewal   = 20 // steps from one renewal to the next
	processes = 5
)

func newWorld(seed uint64) *world {
	return &world{rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_800_000_000, 0), taken: make([]int64, processes)}
}

// times returns how many events a step has, with so many a second on average.
func (w *world) times(rate float64) int {
	mean := rate * step.Seconds()
	n := int(mean)
	if w.rand.Float64() < mean-float64(n) {
		n++
	}
	return n
}

// run lets the world go on for a time. in and out are jobs a second; others is the part of them that others take.
func (w *world) run(t *testing.T, d time.Duration, in, out, others float64) {
	t.Helper()
	for n := range int(d / step) {
		w.now = w.now.Add(step)
		for range w.times(in) {
			w.jobs = append(w.jobs, w.now)
		}
		for range min(w.times(out), len(w.jobs)) {
			w.jobs = w.jobs[1:]
			if w.rand.Float64() >= others {
				w.taken[w.rand.IntN(processes)]++
			}
		}
		for p := range processes { // their renewals fall at different times
			if (n+4*p)%renewal == 0 {
				w.said += w.taken[p]
				w.taken[p] = 0
			}
		}
		if n%renewal == 7 {
			w.look(t)
		}
	}
}

// look has the keeper look, and compares what it finds with the truth.
func (w *world) look(t *testing.T) {
	t.Helper()
	w.o.look(w.now, w.said, int64(len(w.jobs)))
	if len(w.o.pairs) > mostPairs {
		t.Fatalf("%d pairs", len(w.o.pairs))
	}
	w.looks++
	since, counted := w.o.oldest()
	if len(w.jobs) == 0 {
		return
	}
	age := w.now.Sub(w.jobs[0]).Seconds()
	found := w.now.Sub(since).Seconds()
	if !counted {
		w.bounds++
		if found > age+3 {
			t.Errorf("a lower bound of %.1f s for %.1f s", found, age)
		}
		return
	}
	off := math.Abs(found - age)
	w.off, w.far = append(w.off, off), append(w.far, off-max(5, age/20))
}

func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}

// The odometer's error is small whatever comes and goes, as long as all that take say it.
func TestOdometer(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(w *world){
		"steady": func(w *world) { w.run(t, 2*time.Minute, 100, 90, 0); w.run(t, 4*time.Hour, 20, 20, 0) },
		"bursts": func(w *world) {
			for range 40 {
				w.run(t, 10*time.Second, 300, 20, 0)
				w.run(t, time.Duration(1+w.rand.IntN(9))*time.Minute, 1, 12, 0)
			}
		},
		"trickle": func(w *world) { w.run(t, 4*time.Hour, 0.05, 0.055, 0) },
		"a backlog that grows for hours": func(w *world) {
			w.run(t, 2*time.Hour, 20, 5, 0)
			w.run(t, 2*time.Hour, 10, 25, 0)
		},
		"a backlog of idle hours": func(w *world) {
			w.run(t, time.Minute, 5, 0, 0)
			w.run(t, 2*time.Hour, 0, 0, 0)
			w.run(t, time.Minute, 5, 0, 0)
			w.run(t, 20*time.Minute, 0, 0.4, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				w := newWorld(seed)
				load(w)
				if p50, p95, far := quantile(w.off, 0.5), quantile(w.off, 0.95), quantile(w.far, 0.95); !(p50 <= 2.5) || !(far <= 2.5) {
					t.Errorf("seed %d: off by %.1f s (median), %.1f s (p95), of which %.1f s are beyond 5 s or 5 %%", seed, p50, p95, far)
				} else {
					t.Logf("seed %d: %d looks, off by %.1f s, p95 %.1f s; lower bounds %d", seed, w.looks, p50, p95, w.bounds)
				}
			}
		})
	}
}

// What others take makes the odometer wrong: that is why it is not asked where they do.
func TestOdometerWithOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	w.run(t, 10*time.Minute, 30, 10, 0)
	w.run(t, 30*time.Minute, 20, 20, 0.2)
	if p95 := quantile(w.off, 0.95); p95 < 20 {
		t.Errorf("p95 is %.1f s: the test shows nothing", p95)
	}
}

// Jobs that an operator removes count as gone at the head, and the ages are right again when those behind them have passed.
func TestOdometerAfterRemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	w.run(t, 10*time.Minute, 30, 10, 0)
	w.jobs = slices.DeleteFunc(w.jobs, func(time.Time) bool { return w.rand.IntN(20) == 0 })
	w.off = nil
	w.run(t, time.Minute, 10, 10, 0)
	if p95 := quantile(w.off, 0.95); p95 > 60 {
		t.Errorf("off by %.1f s", p95)
	}
	w.run(t, 30*time.Minute, 10, 25, 0)
	w.off, w.far = nil, nil
	w.run(t, 10*time.Minute, 20, 19, 0)
	if far := quantile(w.far, 0.95); !(far <= 2.5) {
		t.Errorf("beyond 5 s or 5 %% by %.1f s after the removed ones have passed", far)
	}

	w.jobs = nil // the queue is cleared
	w.run(t, 20*time.Second, 0, 0, 0)
	w.off, w.far = nil, nil
	w.run(t, 5*time.Minute, 20, 15, 0)
	if far := quantile(w.far, 0.95); !(far <= 2.5) {
		t.Errorf("beyond 5 s or 5 %% by %.1f s after the queue was cleared", far)
	}
}

// The next keeper goes on with a few moments of the one before.
func TestOdometerResumes(t *testing.T) {
	t.Parallel()
	w := newWorld(3)
	w.run(t, 10*time.Minute, 30, 10, 0)
	w.run(t, 10*time.Minute, 5, 10, 0)
	q := queue{odometer: w.o}
	d, ok := resque.ParseDepth(q.depth(true).String())
	if !ok || d.Method != resque.AgeCounted || len(d.Trail) == 0 || len(d.String()) > 400 {
		t.Fatalf("%v %+v", ok, d)
	}
	w.o = odometer{}
	w.o.resume(d)
	w.off, w.far, w.bounds = nil, nil, 0
	w.run(t, 30*time.Minute, 10, 15, 0)
	if far := quantile(w.far, 0.95); w.bounds > 0 || !(far <= 60) {
		t.Errorf("%d lower bounds, beyond 5 s or 5 %% by %.1f s", w.bounds, far)
	}
	w.run(t, 30*time.Minute, 10, 15, 0)
	w.off, w.far = nil, nil
	w.run(t, 30*time.Minute, 10, 11, 0)
	w.run(t, 10*time.Minute, 20, 11, 0)
	if far := quantile(w.far, 0.95); !(far <= 2.5) {
		t.Errorf("beyond 5 s or 5 %% by %.1f s", far)
	}
}

// A keeper that has just begun knows a lower bound, and rates after some seconds.
func TestOdometerBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(4)
	for range 1000 {
		w.jobs = append(w.jobs, w.now)
	}
	w.now = w.now.Add(time.Hour)
	w.run(t, 5*time.Second, 0, 10, 0)
	since, counted := w.o.oldest()
	if in, _ := w.o.rates(); counted || in >= 0 || w.now.Sub(since) > 10*time.Second {
		t.Errorf("since %v, counted %v, %v jobs a second came", since, counted, in)
	}
	w.run(t, 2*time.Minute, 20, 10, 0)
	if in, out := w.o.rates(); math.Abs(in-20) > 2 || math.Abs(out-10) > 2 {
		t.Errorf("%.1f a second came and %.1f went", in, out)
	}
}

func Example_depth() {
	at := time.UnixMilli(1_795_262_400_000)
	d := resque.Depth{At: at, Method: resque.AgeCounted, Oldest: at.Add(-time.Minute), Length: 3, Pushed: 10, In: 1, Out: -1,
		Trail: []resque.Passed{{From: at.Add(-2 * time.Minute), To: at.Add(-time.Minute), Pushed: 9}}}
	fmt.Println(d)
	// Output: 1795262400000 counted 1795262340000 3 10 0 1.000 -1.000 2klc 1aao 1
}
