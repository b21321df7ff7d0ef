package autoscale

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// world is a process whose jobs wait in one queue. It is a fluid: jobs come and go in fractions, a tenth of a second at a time. So it
// has no chance in it, and a run always ends alike.
type world struct {
	bounds  Bounds
	rate    func(t float64) float64       // jobs a second that come
	time    func(n, t float64) float64    // how long one runs if n run at a time, in seconds
	class   func(t float64) string        // what they are; nil: alike
	decide  func(w *world, seen Seen) int // nil: the rule
	state   State
	workers int

	now     float64 // seconds
	waiting float64
	arrived []float64 // how many had come, at each tenth
	came    float64
	taken   float64

	worst   float64 // wait
	changes int
	most    int
	late    int // the largest step up after ten minutes
	said    []string

	busy float64
	runs map[string]Work
	left map[string]float64 // of jobs that have not ended
}

const tick = 0.1

var epoch = time.Unix(1_800_000_000, 0)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// run lets the world go on.
func (w *world) run(for_ float64) {
	if w.workers == 0 {
		w.workers = w.bounds.Min
	}
	if w.runs == nil {
		w.runs, w.left = make(map[string]Work), make(map[string]float64)
	}
	every := int(math.Round(w.bounds.Every().Seconds() / tick))
	for end := w.now + for_; w.now < end-tick/2; {
		w.now += tick
		w.came += w.rate(w.now) * tick
		w.arrived = append(w.arrived, w.came)
		w.waiting += w.rate(w.now) * tick
		n := float64(w.workers)
		took := w.time(n, w.now)
		could := n / took * tick
		if w.waiting < could { // fewer run, and perhaps faster
			n = min(n, w.waiting/tick*took)
			took = w.time(n, w.now)
			n = min(n, w.waiting/tick*took)
		}
		done := min(w.waiting, n/took*tick)
		w.waiting -= done
		w.taken += done
		w.busy += min(n, done/tick*took) * tick
		class := "Job"
		if w.class != nil {
			class = w.class(w.now)
		}
		w.left[class] += done
		whole := math.Floor(w.left[class] + 1e-9)
		w.left[class] -= whole
		of := w.runs[class]
		w.runs[class] = Work{of.Runs + int64(whole), of.Time + time.Duration(whole*took*float64(time.Second))}
		w.worst = max(w.worst, w.age())
		if int(math.Round(w.now/tick))%every == 0 {
			w.look()
		}
	}
}

// age is how long the job at the head waits.
func (w *world) age() float64 {
	if w.waiting < 1 {
		return 0
	}
	low, high := 0, len(w.arrived)
	for low < high {
		if mid := (low + high) / 2; w.arrived[mid] <= w.taken {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return w.now - float64(low+1)*tick
}

func (w *world) look() {
	every := w.bounds.Every()
	o := Seen{
		At: epoch.Add(seconds(w.now)), For: every, Workers: w.workers, Busy: w.busy / every.Seconds(), Takes: true,
		Waiting: int64(w.waiting), Age: seconds(w.age()), Work: w.runs,
	}
	w.busy, w.runs = 0, make(map[string]Work)
	var n int
	if w.decide != nil {
		n = w.decide(w, o)
	} else {
		var d Decision
		w.state, d = w.state.Next(w.bounds, o)
		n = d.Workers
		if n != w.workers {
			w.said = append(w.said, fmt.Sprintf("%6.0f s  %3d → %3d  waiting %.0f  %s", w.now, w.workers, n, w.waiting, d.Reason))
		}
	}
	if n != w.workers {
		w.changes++
	}
	if w.now > 600 {
		w.late = max(w.late, n-w.workers)
	}
	w.workers = n
	w.most = max(w.most, n)
}

func steady(rate float64) func(float64) float64 { return func(float64) float64 { return rate } }

// celery grows by what waits, and shrinks by what does not.
func celery(w *world, o Seen) int {
	if o.Waiting > 0 {
		return min(w.bounds.Max, o.Workers+int(o.Waiting))
	}
	return max(w.bounds.Min, int(o.Busy)+1)
}

// degrading is a database that serves so many at once. Of more, each makes all slower, so that less is done.
func degrading(base, most float64) func(n, t float64) float64 {
	return func(n, _ float64) float64 {
		if n <= most {
			return base
		}
		return base * (n / most) * (n / most)
	}
}

var usual = Bounds{Min: 5, Max: 50, Age: 10 * time.Second}

func fixed(seconds float64) func(n, t float64) float64 {
	return func(float64, float64) float64 { return seconds }
}

// check compares what became of a world with what may.
func (w *world) check(t *testing.T, workers [2]int, waiting, worst float64, changes int) {
	t.Helper()
	t.Logf("after %.0f s %d workers, %.0f jobs wait; the worst wait was %.0f s; %d changes, %d workers at most", w.now, w.workers, w.waiting, w.worst, w.changes, w.most)
	if w.workers < workers[0] || w.workers > workers[1] || w.waiting > waiting || w.worst > worst || w.changes > changes {
		t.Errorf("want %d to %d workers, at most %.0f jobs, %.0f s and %d changes", workers[0], workers[1], waiting, worst, changes)
		for _, line := range w.said {
			t.Log(line)
		}
	}
}

// from is a rate that is another from a time on.
func from(at, before, after float64) func(float64) float64 {
	return func(t float64) float64 {
		if t < at {
			return before
		}
		return after
	}
}

// From 10 to 120 jobs a second: careful growth needs half a minute, fast growth less.
func TestGrows(t *testing.T) {
	t.Parallel()
	w := world{bounds: usual, rate: from(60, 10, 120), time: fixed(0.25)}
	w.run(600)
	w.check(t, [2]int{30, 50}, 0, 40, 10)
	b := usual
	b.Fast = true
	w = world{bounds: b, rate: from(60, 10, 120), time: fixed(0.25)}
	w.run(600)
	w.check(t, [2]int{30, 50}, 0, 25, 8)
}

// A database does less when more than twenty use it. Jobs that grow by what waits bring it down, and it does not come up again, although
// it could do all of it. The rule finds about twenty, and clears what waits.
func TestDegradingDatabase(t *testing.T) {
	t.Parallel()
	rate := func(t float64) float64 {
		switch {
		case t < 60:
			return 10
		case t < 660:
			return 90
		}
		return 40
	}
	w := world{bounds: usual, rate: rate, time: degrading(0.25, 20)}
	w.run(3600)
	w.check(t, [2]int{5, 24}, 0, 200, 24)
	c := world{bounds: usual, rate: rate, time: degrading(0.25, 20), decide: celery}
	if c.run(3600); c.waiting < 20_000 {
		t.Errorf("growing by what waits is no worse: %.0f jobs wait", c.waiting)
	}
}

// A database that does as much for twenty as for fifty: what is of no use is given back.
func TestSaturated(t *testing.T) {
	t.Parallel()
	w := world{bounds: usual, rate: steady(100), time: func(n, _ float64) float64 { return 0.25 * max(1, n/20) }}
	w.run(1800)
	w.check(t, [2]int{18, 26}, math.Inf(1), math.Inf(1), 24)
	if w.most > 36 || w.late > 3 {
		t.Errorf("up to %d workers were tried, and later %d more at a time", w.most, w.late)
	}
}

// A database that served forty at once serves fifteen from a time on, and less if more use it. Not all workers are kept.
func TestDatabaseThatBecomesSlow(t *testing.T) {
	t.Parallel()
	w := world{bounds: usual, rate: from(1200, 110, 30), time: func(n, t float64) float64 {
		if t < 600 {
			return 0.4
		}
		return degrading(0.4, 15)(n, t)
	}}
	w.run(900)
	if w.workers > 25 {
		t.Errorf("%d workers use it", w.workers)
	}
	w.run(2700)
	w.check(t, [2]int{10, 20}, 60_000, math.Inf(1), 40)
}

// Load that comes and goes each minute changes the number a few times, not each minute.
func TestSawtooth(t *testing.T) {
	t.Parallel()
	rate := func(t float64) float64 {
		if math.Mod(t, 120) < 60 {
			return 20
		}
		return 60
	}
	w := world{bounds: usual, rate: rate, time: fixed(0.25)}
	w.run(3600)
	w.check(t, [2]int{10, 25}, 0, 30, 8)
	c := world{bounds: usual, rate: rate, time: fixed(0.25), decide: celery}
	if c.run(3600); c.changes < 10*w.changes {
		t.Errorf("growing by what waits changes it %d times", c.changes)
	}
}

// Jobs of fifteen seconds: a new worker ends its first one after that, and is judged all the same.
func TestLongJobs(t *testing.T) {
	t.Parallel()
	w := world{bounds: usual, rate: steady(2), time: fixed(15)}
	w.run(3600)
	w.check(t, [2]int{30, 50}, 0, 200, 8)
}

// While workers are tried, other jobs come: ten times as long. That says nothing about the number of workers.
func TestJobsThatChange(t *testing.T) {
	t.Parallel()
	long := func(t float64) bool { return t > 20 }
	w := world{bounds: usual, rate: func(t float64) float64 {
		if long(t) {
			return 12
		}
		return 120
	}, time: func(_, t float64) float64 {
		if long(t) {
			return 2.5
		}
		return 0.25
	}, class: func(t float64) string {
		if long(t) {
			return "Long"
		}
		return "Short"
	}}
	w.run(1200)
	w.check(t, [2]int{30, 50}, 12, 140, 6)
}

// Jobs of eight seconds that ended after new workers began are of the time before, at first: the trial is judged by later ones.
func TestSettles(t *testing.T) {
	t.Parallel()
	var s State
	var d Decision
	n, since := 10, -1
	for look := range 20 {
		took := 8 * time.Second
		if since >= 0 && look > since+2 {
			took = 12 * time.Second
		}
		o := busy(n, func(o *Seen) { o.Work = map[string]Work{"Job": {Runs: 100, Time: 100 * took}} })(look)
		if s, d = s.Next(usual, o); d.Workers > n {
			since = look
		}
		if d.Workers < n {
			break
		}
		n = d.Workers
	}
	if n != 15 || d.Workers != 10 {
		t.Errorf("of %d workers %d are left: %s", n, d.Workers, d.Reason)
	}
}

// After the load has gone the number goes down to the least, by a quarter a minute.
func TestShrinks(t *testing.T) {
	t.Parallel()
	w := world{bounds: usual, rate: from(300, 150, 0.5), time: fixed(0.25)}
	w.run(330)
	if w.workers < 38 {
		t.Errorf("%d workers", w.workers)
	}
	w.run(1500)
	w.check(t, [2]int{5, 6}, 0, math.Inf(1), 24)
}

// busy are observations of a process that should have more workers, one after the other.
func busy(workers int, change func(o *Seen)) func(look int) Seen {
	return func(look int) Seen {
		o := Seen{
			At: epoch.Add(time.Duration(look) * 5 * time.Second), For: 5 * time.Second, Workers: workers, Busy: float64(workers), Takes: true, Waiting: 100, Age: time.Minute,
			Work: map[string]Work{"Job": {Runs: 100, Time: 100 * time.Second}},
		}
		change(&o)
		return o
	}
}

// What keeps the number from growing although jobs wait.
func TestNoGrowth(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(o *Seen)
		want   string
	}{
		"nothing does":            {func(o *Seen) {}, ""},
		"memory":                  {func(o *Seen) { o.Memory = 0.9 }, "memory is at 90 %"},
		"processors":              {func(o *Seen) { o.CPU = 0.96 }, "processors are 96 % busy"},
		"idle workers":            {func(o *Seen) { o.Busy = 7 }, "7.0 of 10 workers are busy"},
		"jobs that wait shortly":  {func(o *Seen) { o.Age = 9 * time.Second }, "no job waits longer than 10s"},
		"no jobs that wait":       {func(o *Seen) { o.Waiting, o.Age = 0, -1 }, "no job waits"},
		"nobody knows how many":   {func(o *Seen) { o.Waiting = -1 }, "not known"},
		"nobody knows how long":   {func(o *Seen) { o.Age = -1 }, "not known"},
		"a pause":                 {func(o *Seen) { o.Takes = false }, "takes no jobs"},
		"the bounds":              {func(o *Seen) { o.Workers, o.Busy = 50, 50 }, "50 are the most"},
		"an operator's new bound": {func(o *Seen) { o.Workers, o.Busy = 60, 60 }, "50 at most"},
	} {
		var s State
		var d Decision
		see := busy(10, tt.change)
		most := 0
		for look := range 12 {
			o := see(look)
			s, d = s.Next(Bounds{Min: 50 - 40, Max: 50, Age: 10 * time.Second}, o)
			if d.Workers > o.Workers {
				most = d.Workers
			}
		}
		if grew := most > 0; grew != (tt.want == "") || tt.want != "" && !strings.Contains(d.Reason, tt.want) {
			t.Errorf("%s: %d workers, %q", name, most, d.Reason)
		}
	}
}

// Whatever is seen, the number stays within the bounds, and does not grow where memory or processors are used up.
func TestBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 27))
		b := Bounds{Min: 1 + r.IntN(10), Age: time.Duration(1+r.IntN(30)) * time.Second, Fast: r.IntN(4) == 0}
		b.Max = b.Min + r.IntN(50)
		var s State
		n, at := r.IntN(80), epoch
		weird := []float64{0, -1, math.NaN(), math.Inf(1), 1e300, 0.5}
		number := func(usual float64) float64 {
			if r.IntN(20) == 0 {
				return weird[r.IntN(len(weird))]
			}
			return usual
		}
		for range 400 {
			every := time.Duration(1+r.IntN(6000)) * time.Millisecond
			at = at.Add(every)
			o := Seen{
				At: at, For: every, Workers: n, Busy: number(float64(n) * min(1, 1.3*r.Float64())), Takes: r.IntN(30) > 0, Waiting: int64(r.IntN(300)) - 2,
				Age: time.Duration(r.IntN(60)-1) * time.Second, Memory: number(r.Float64() * 0.95), CPU: number(r.Float64()), Work: make(map[string]Work),
			}
			for class := range r.IntN(4) {
				o.Work[fmt.Sprint(class)] = Work{Runs: int64(r.IntN(100)), Time: time.Duration(r.IntN(100_000)-10) * time.Millisecond}
			}
			if r.IntN(50) == 0 {
				at = at.Add(-time.Hour) // the clock was set
			}
			var d Decision
			s, d = s.Next(b, o)
			if d.Workers < b.Min || d.Workers > b.Max || d.Reason == "" {
				t.Fatalf("seed %d: %+v of %+v for %+v", seed, d, b, o)
			}
			if d.Workers > max(n, b.Min) && guard(o) != "" {
				t.Fatalf("seed %d: it grows to %d for %+v", seed, d.Workers, o)
			}
			if n = d.Workers; r.IntN(40) == 0 {
				n = r.IntN(80) // an operator
			}
		}
	}
}

// What the rule is given is not changed, and the same gives the same.
func TestNextIsPure(t *testing.T) {
	t.Parallel()
	w := world{bounds: usual, rate: from(60, 10, 120), time: degrading(0.25, 20)}
	var states []State
	var seen []Seen
	w.decide = func(w *world, o Seen) int {
		states, seen = append(states, w.state), append(seen, o)
		var d Decision
		w.state, d = w.state.Next(w.bounds, o)
		return d.Workers
	}
	w.run(900)
	var s State
	for i, o := range seen {
		if !reflect.DeepEqual(s, states[i]) {
			t.Fatalf("look %d: %+v, and then %+v", i, states[i], s)
		}
		s, _ = s.Next(usual, o)
	}
}
