package site

import (
	"time"

	"github.com/goworker/goworker/inspect"
)

// What a dashboard remembers of its own looks, for a Redis whose history nobody records.
const (
	trailStep  = time.Minute
	trailSteps = 120
	lately     = 10 * time.Second           // how long rates are smoothed over
	longest    = 100 * 365 * 24 * time.Hour // of what EmptyIn says
)

// Point is what was seen at one time, once a minute.
type Point struct {
	At               time.Time
	Processed        int64 // totals
	Failed           int64
	Waiting, Delayed int64
	Busy             int64
	Queues           map[string]int64 // jobs that waited
}

// trail is what the looks of the last two hours saw. It is lost with the dashboard, and 30 s after the last look.
type trail struct {
	points []Point
	rated  []inspect.Rates // of the last looks, the newest last
}

func (t *trail) add(b *Base) {
	if n := len(t.points); n > 0 && b.At.Sub(t.points[n-1].At) < trailStep {
		return
	}
	p := Point{
		At: b.At, Processed: b.Processed.N, Failed: b.Failed.N, Waiting: b.Waiting.N, Delayed: b.Delayed.N, Busy: b.Workers.Busy.N,
		Queues: make(map[string]int64, len(b.Queues)),
	}
	for _, q := range b.Queues {
		p.Queues[q.Name] = q.Waiting.N
	}
	t.points = append(t.points, p)
	if len(t.points) > trailSteps {
		t.points = t.points[len(t.points)-trailSteps:]
	}
}

// rates adds what happened between the last two looks to what happened in the ten seconds before, and returns the mean.
func (t *trail) rates(newest inspect.Rates, s inspect.Sample) inspect.Rates {
	if newest.For <= 0 {
		return newest
	}
	t.rated = append(t.rated, newest)
	var span time.Duration
	first := len(t.rated)
	for first > 0 && span < lately {
		first--
		span += t.rated[first].For
	}
	t.rated = t.rated[first:]
	mean := inspect.Rates{For: span, Queues: make(map[string]inspect.QueueRates, len(newest.Queues))}
	of := func(pick func(inspect.Rates) inspect.Rate) inspect.Rate {
		var sum float64
		out := inspect.Rate{Bound: inspect.Exact}
		for _, r := range t.rated {
			one := pick(r)
			switch {
			case one.Bound == inspect.Unknown:
				return pick(newest)
			case one.Bound != inspect.Exact:
				out.Bound = one.Bound
			}
			sum += one.PerSecond * r.For.Seconds()
		}
		out.PerSecond = sum / span.Seconds()
		return out
	}
	mean.Processed = of(func(r inspect.Rates) inspect.Rate { return r.Processed })
	mean.Failed = of(func(r inspect.Rates) inspect.Rate { return r.Failed })
	for _, q := range s.Queues {
		now, known := newest.Queues[q.Name]
		if !known {
			continue
		}
		all := inspect.QueueRates{
			In:     of(func(r inspect.Rates) inspect.Rate { return r.Queues[q.Name].In }),
			Out:    of(func(r inspect.Rates) inspect.Rate { return r.Queues[q.Name].Out }),
			Growth: of(func(r inspect.Rates) inspect.Rate { return r.Queues[q.Name].Growth }),
		}
		switch {
		case !all.Growth.Known() || !q.Waiting.Known() || q.Waiting.N == 0:
		case len(t.rated) == 1:
			all.EmptyIn, all.Never = now.EmptyIn, now.Never
		case all.Growth.PerSecond < 0:
			all.EmptyIn = time.Duration(min(float64(q.Waiting.N)/-all.Growth.PerSecond*float64(time.Second), float64(longest)))
		default:
			all.Never = true
		}
		mean.Queues[q.Name] = all
	}
	return mean
}

// Trail returns what the looks saw, the oldest first.
func (f *Fleet) Trail() []Point {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Point(nil), f.trail.points...)
}
