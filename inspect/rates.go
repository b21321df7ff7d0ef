package inspect

import (
	"slices"
	"strings"
	"time"
)

// Rates returns what happened between an earlier Sample of the same Resque and this one. What came to each queue and went
// is known where goworker counts it. Elsewhere it takes the option SampleAfter, which looks for the job that was the last one in the queue
// before: then they are bounds from below, because a job that came and went between the two Samples is seen by neither, and
// of equal jobs nobody knows which is which.
func (s Sample) Rates(before Sample) Rates {
	r := Rates{For: s.At.Sub(before.At), Queues: make(map[string]QueueRates, len(s.Queues))}
	if r.For <= 0 {
		return r
	}
	r.Processed = r.of(before.Processed, s.Processed)
	r.Failed = r.of(before.Failed, s.Failed)
	for _, q := range s.Queues {
		at, there := slices.BinarySearchFunc(before.Queues, q.Name, func(q SampleQueue, name string) int { return strings.Compare(q.Name, name) })
		if !there {
			continue
		}
		r.Queues[q.Name] = r.queue(before.Queues[at], q)
	}
	return r
}

// of is how fast a total rises. A total that fell was reset.
func (r Rates) of(before, now Count) Rate {
	if before.Bound != Exact || now.Bound != Exact || now.N < before.N {
		return Rate{}
	}
	return Rate{float64(now.N-before.N) / r.For.Seconds(), Exact}
}

func (r Rates) queue(before, now SampleQueue) (q QueueRates) {
	if before.Waiting.Bound == Exact && now.Waiting.Bound == Exact {
		q.Growth = Rate{float64(now.Waiting.N-before.Waiting.N) / r.For.Seconds(), Exact}
	}
	switch {
	case now.rates != nil && now.rates.in >= 0 && now.rates.out >= 0:
		q.In, q.Out = Rate{now.rates.in, Exact}, Rate{now.rates.out, Exact}
		q.Growth = Rate{now.rates.in - now.rates.out, Exact}
	case q.Growth.Known():
		q.In, q.Out = Rate{max(0, q.Growth.PerSecond), AtLeast}, Rate{max(0, -q.Growth.PerSecond), AtLeast}
		if pushed := now.pushedSince(before); pushed >= 0 {
			in := float64(pushed) / r.For.Seconds()
			q.In, q.Out = Rate{max(in, q.In.PerSecond), AtLeast}, Rate{max(in-q.Growth.PerSecond, q.Out.PerSecond), AtLeast}
		}
	}
	rests := q.Out.Bound == Exact && float64(now.Waiting.N) <= q.Out.PerSecond*atRest.Seconds()
	if now.Waiting.N == 0 || !q.Growth.Known() || rests {
		return q
	}
	if q.Never = q.Growth.PerSecond >= 0; !q.Never {
		q.EmptyIn = time.Duration(min(float64(now.Waiting.N)/-q.Growth.PerSecond*float64(time.Second), float64(longest)))
	}
	return q
}

// atRest is for how long jobs may wait in a queue that is at rest, although some wait at any time: they are taken within it.
const atRest = time.Second

// longest is the longest time that EmptyIn says.
const longest = 100 * 365 * 24 * time.Hour

// pushedSince is how many jobs came to the queue since an earlier Sample, all shards together; -1: nobody knows.
func (q SampleQueue) pushedSince(before SampleQueue) (n int64) {
	if len(q.ends) == 0 {
		return -1
	}
	for mark, ends := range q.ends {
		if _, there := before.ends[mark]; !there || ends.pushed < 0 {
			return -1
		}
		n += ends.pushed
	}
	return n
}
