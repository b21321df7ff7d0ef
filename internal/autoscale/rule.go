// Package autoscale decides how many jobs a process runs at a time, between two bounds. The rule is a function without a clock and
// without Redis: what was seen goes in, a number and its reason come out. A Scaler is the part that looks, and changes the number.
package autoscale

import (
	"fmt"
	"maps"
	"math"
	"time"
)

// Bounds are what the settings or an operator say.
type Bounds struct {
	Min, Max int
	Age      time.Duration // how long a job may wait before more workers are tried
	Fast     bool          // grow at once, and do not ask whether that helps
}

// Seen is what was seen of a process since the look before.
type Seen struct {
	At      time.Time
	For     time.Duration // since the look before
	Workers int           // how many jobs may run at a time
	Busy    float64       // how many ran, on average
	Takes   bool          // the process takes jobs: it is connected, and neither pauses nor stops
	Waiting int64         // jobs that wait and that it may take; negative: not known
	Age     time.Duration // how long the oldest of them waits, or how long it takes to do them all; negative: neither is known
	Work    map[string]Work
	Memory  float64 // of its limit, 1 is all of it; 0: not known
	CPU     float64
}

// Work is what jobs of a class did: how many ended, and how long they ran in all.
type Work struct {
	Runs int64
	Time time.Duration
}

// Decision is how many jobs are to run at a time, and why.
type Decision struct {
	Workers int
	Reason  string
}

// The numbers of the rule. Times are multiples of the unit: the Age of the bounds, ten seconds at most.
const (
	unitLeast = 200 * time.Millisecond
	unitMost  = 10 * time.Second
	looks     = 2  // in a unit
	calmFor   = 6  // units of idle workers before there are fewer
	restFor   = 12 // units after more workers were of no use before more are tried again; doubled each time
	restMost  = 48
	judgeMost = 12 // units until a trial is over in any case

	full     = 0.9  // of the workers are busy: all are
	idle     = 0.6  // of the workers are busy: fewer would do
	spare    = 1.25 // workers for each one that was busy, at least, when there are fewer
	keeps    = 0.25 // of what they would do if nothing slowed them: workers that do less are given back
	enough   = 50   // jobs, by which a trial is judged
	memory   = 200  // latest jobs of a class by which its run time is known
	slower   = 0.8  // of the speed at which so many workers were of use: perhaps they are not any more
	slowFor  = 3    // looks: then what is usual is of slow jobs only
	forgets  = 0.98 // of how busy it was, from one look to the next: half of it in three minutes
	step     = 0.5  // how many more workers are tried, for each one that is there
	fastStep = 1.0
	least    = 0.25 // fewer, when fewer are tried

	mostMemory = 0.9
	mostCPU    = 0.95
)

// State is what the rule remembers from one look to the next. The zero State remembers nothing.
type State struct {
	usual map[string]Work // run times with the present number of workers
	busy  float64         // workers that were busy at the last look at which all were; 0: there was none

	calm time.Time // since when fewer would do; zero: they would not
	peak float64   // how busy it was, of late

	trial   *trial
	proven  map[string]Work // run times when it was seen last that fewer do less; nil: it was not
	slow    int             // for how many looks jobs have been slower than that
	doubted time.Time       // when fewer were tried last
	ease    bool            // fewer did as much, so still fewer may
	rest    time.Time       // until then no other number is tried
	refused int             // how many trials of more were of no use, one after the other
	hasty   bool            // the last of them was compared with too few jobs: it does not count once there are enough
	why     string          // the reason of the last change
}

// trial is a number of workers that is tried.
type trial struct {
	from, to int
	usual    map[string]Work // before
	busy     float64         // before
	since    time.Time       // what was seen before is not of this number
	until    time.Time       // then it is judged by what is there

	work   map[string]Work
	worked time.Duration // of all workers together
	took   time.Duration
}

// Unit is the time of which the others are multiples. A program whose jobs may wait for a second is looked at more often.
func (b Bounds) Unit() time.Duration { return max(unitLeast, min(b.Age, unitMost)) }

// Every is how long to wait from one look to the next.
func (b Bounds) Every() time.Duration { return b.Unit() / looks }

// Next decides.
func (s State) Next(b Bounds, o Seen) (State, Decision) {
	n := o.Workers
	if s.trial != nil && (s.trial.to != n || !o.Takes) {
		s.trial = nil // an operator changed the number, or what is seen says nothing
	}
	switch {
	case n < b.Min:
		return State{}, Decision{b.Min, fmt.Sprintf("there are %d at least", b.Min)}
	case n > b.Max:
		return State{}, Decision{b.Max, fmt.Sprintf("there are %d at most", b.Max)}
	case !o.Takes:
		s.calm, s.busy = time.Time{}, 0
		return s, Decision{n, "the process takes no jobs"}
	case s.trial != nil:
		return s.judge(b, o)
	}
	return s.choose(b, o)
}

// choose decides while no number is tried.
func (s State) choose(b Bounds, o Seen) (State, Decision) {
	n := o.Workers
	all := o.Busy >= full*float64(n)
	if all {
		s.usual, s.busy = blend(s.usual, o.Work), o.Busy
		if s.hasty && ran(s.usual) >= enough {
			s.hasty, s.rest = false, time.Time{}
			s.refused--
		}
		if s.slow++; s.proven == nil || speed(s.proven, s.usual) >= slower {
			s.slow = 0
		}
	}
	if s.peak = max(o.Busy, forgets*s.peak); o.Busy < idle*float64(n) && o.Waiting <= 0 {
		return s.shrink(b, o)
	}
	s.calm = time.Time{}
	switch {
	case !all:
		return s, Decision{n, fmt.Sprintf("%.1f of %d workers are busy", o.Busy, n)}
	case o.Waiting < 0 || o.Waiting > 0 && o.Age < 0:
		return s, Decision{n, "all workers are busy, and it is not known how long jobs wait"}
	case o.Waiting == 0:
		return s, Decision{n, "all workers are busy, and no job waits"}
	case o.Age <= b.Age:
		return s, Decision{n, fmt.Sprintf("all workers are busy, and no job waits longer than %s", brief(b.Age))}
	case o.At.Before(s.rest):
		return s, Decision{n, s.why}
	case !b.Fast && n > b.Min && (s.ease || s.doubts(b, o)):
		return s.easeOff(b, o)
	case n == b.Max:
		return s, Decision{n, fmt.Sprintf("jobs wait, and %d are the most", n)}
	}
	if reason := guard(o); reason != "" {
		return s, Decision{n, reason}
	}
	return s.grow(b, o)
}

// doubts reports whether fewer workers may do as much: jobs have become slower since it was seen that they do less, or it was never
// seen.
func (s State) doubts(b Bounds, o Seen) bool {
	if !s.doubted.IsZero() && o.At.Sub(s.doubted) < restFor*b.Unit() {
		return false
	}
	if s.proven == nil {
		return s.refused > 0 || o.Workers == b.Max
	}
	return s.slow >= slowFor
}

// guard returns why there may not be more workers, whatever waits; "": there may be.
func guard(o Seen) string {
	switch {
	case o.Memory >= mostMemory:
		return fmt.Sprintf("jobs wait, and the memory is at %.0f %% of its limit", 100*o.Memory)
	case o.CPU > mostCPU:
		return fmt.Sprintf("jobs wait, and the processors are %.0f %% busy", 100*o.CPU)
	}
	return ""
}

// grow tries more workers, or with Fast takes them.
func (s State) grow(b Bounds, o Seen) (State, Decision) {
	n := o.Workers
	s.why = fmt.Sprintf("all %d are busy, and the wait is %s", n, brief(o.Age))
	if b.Fast {
		return s, Decision{min(b.Max, more(n, fastStep)), s.why}
	}
	by := step / float64(int(1)<<min(s.refused, 8)) // the number at which no more help is looked for in smaller steps
	return s.try(b, o, min(b.Max, more(n, by))), Decision{min(b.Max, more(n, by)), s.why}
}

// more is a number of workers and a part of them.
func more(n int, by float64) int { return max(n+1, int(math.Ceil(float64(n)*(1+by)))) }

// easeOff tries fewer workers.
func (s State) easeOff(b Bounds, o Seen) (State, Decision) {
	n := o.Workers
	fewer := max(b.Min, int(float64(n)*(1-least)))
	s.why = fmt.Sprintf("jobs wait, and have become slower: it is seen whether %d workers do as much", fewer)
	s.doubted = o.At
	return s.try(b, o, fewer), Decision{fewer, s.why}
}

// try begins a trial.
func (s State) try(b Bounds, o Seen, to int) State {
	settles := min(mean(s.usual), judgeMost*b.Unit()) // jobs that began before end
	if settles < o.For/4 {
		settles = 0
	}
	since := o.At.Add(settles)
	s.trial = &trial{from: o.Workers, to: to, usual: s.usual, busy: s.busy, since: since, until: since.Add(judgeMost * b.Unit())}
	return s
}

// judge decides while a number is tried. The rule is one for more workers and for fewer: workers are kept if they do a quarter of
// what they would do if nothing slowed them.
func (s State) judge(b Bounds, o Seen) (State, Decision) {
	t := *s.trial
	s.trial = &t
	if !o.At.Add(-o.For).Before(t.since) {
		t.work, t.took = sum(t.work, o.Work), t.took+o.For
		t.worked += time.Duration(o.Busy * float64(o.For))
	}
	if o.Waiting == 0 && o.Busy < full*float64(t.to) {
		s.trial, s.ease, s.usual, s.busy, s.proven = nil, false, nil, 0, nil // there is nothing to judge by, and no need of more
		return s.choose(b, o)
	}
	if t.took < b.Unit() || ran(t.work) < enough && o.At.Before(t.until) {
		return s, Decision{t.to, fmt.Sprintf("it is seen whether %d do more than %d", max(t.from, t.to), min(t.from, t.to))}
	}
	needed := t.gain() >= keeps
	s.trial = nil
	switch {
	case t.to > t.from && needed:
		s.usual, s.busy, s.proven = t.work, o.Busy, t.work
		s.refused, s.hasty, s.rest = 0, false, time.Time{}
		s.why = fmt.Sprintf("%d do more than %d", t.to, t.from)
		return s.choose(b, o) // jobs that wait need not wait for another look
	case t.to > t.from:
		s.usual, s.busy = t.usual, t.busy
		s.rest = o.At.Add(time.Duration(min(restFor<<min(s.refused, 8), restMost)) * b.Unit())
		s.refused++
		s.hasty = ran(t.usual) < enough
		s.why = fmt.Sprintf("saturated: %d did no more than %d", t.to, t.from)
		return s, Decision{t.from, s.why}
	case !needed:
		s.usual, s.busy, s.proven, s.ease = t.work, o.Busy, nil, true
		s.rest = o.At.Add(b.Unit())
		s.why = fmt.Sprintf("saturated: %d do as much as %d did", t.to, t.from)
		return s, Decision{t.to, s.why}
	}
	s.usual, s.busy, s.proven, s.ease = t.usual, t.busy, t.usual, false
	s.rest = o.At.Add(b.Unit())
	if s.why = guard(o); s.why != "" {
		return s, Decision{t.to, s.why}
	}
	s.why = fmt.Sprintf("%d did less than %d", t.to, t.from)
	return s, Decision{t.from, s.why}
}

// gain is what the workers by which the two numbers differ do: 1 is as much as the others each, 0 nothing, and less than 0 that they
// only slow the others.
//
// It goes by the run times of each class, before and now: a class whose jobs take twice as long now does half as much. So jobs that
// became others do not count for or against the number, and jobs that take minutes can be judged before the new workers have ended
// one.
func (t *trial) gain() float64 {
	busy := float64(t.worked) / float64(t.took)
	return (busy*speed(t.usual, t.work)/t.busy - 1) / (float64(t.to)/float64(t.from) - 1)
}

// speed is how fast jobs run now, where it was 1 before.
func speed(before, now map[string]Work) float64 {
	var expected, took float64 // of the jobs that ended, with the run times of before, and now
	for class, w := range now {
		if was := before[class]; was.Runs > 0 && w.Runs > 0 {
			expected += float64(w.Runs) * float64(was.Time) / float64(was.Runs)
			took += float64(w.Time)
		}
	}
	if took == 0 {
		return 1
	}
	return expected / took
}

// shrink has fewer workers after a while in which fewer would do.
func (s State) shrink(b Bounds, o Seen) (State, Decision) {
	n := o.Workers
	if s.calm.IsZero() {
		s.calm = o.At.Add(-o.For)
	}
	busy := fmt.Sprintf("%.1f of %d workers are busy", o.Busy, n)
	to := max(b.Min, int(math.Ceil(spare*s.peak)), int(float64(n)*(1-least)))
	if to >= n || o.At.Sub(s.calm) < calmFor*b.Unit() {
		return s, Decision{n, busy}
	}
	return State{peak: s.peak, why: busy}, Decision{to, fmt.Sprintf("%s, and for %s not many more were", busy, brief(o.At.Sub(s.calm)))}
}

// blend adds work to what is usual. Of many jobs the latest count.
func blend(usual, work map[string]Work) map[string]Work {
	all := sum(usual, work)
	for class, w := range all {
		if w.Runs > memory && w.Runs > work[class].Runs {
			most := max(memory, work[class].Runs)
			old := usual[class]
			share := float64(most-work[class].Runs) / float64(old.Runs)
			all[class] = Work{Runs: most, Time: work[class].Time + time.Duration(share*float64(old.Time))}
		}
	}
	return all
}

func sum(a, b map[string]Work) map[string]Work {
	all := maps.Clone(a)
	if all == nil {
		all = make(map[string]Work, len(b))
	}
	for class, w := range b {
		all[class] = Work{Runs: all[class].Runs + w.Runs, Time: all[class].Time + w.Time}
	}
	return all
}

// ran is how many jobs ended.
func ran(work map[string]Work) (runs int64) {
	for _, w := range work {
		runs += w.Runs
	}
	return runs
}

// mean is how long a job runs.
func mean(work map[string]Work) (mean time.Duration) {
	for _, w := range work {
		mean += w.Time
	}
	return mean / time.Duration(max(1, ran(work)))
}

// brief is a duration that an operator reads.
func brief(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
