package checks

import (
	"slices"
	"time"

	"github.com/goworker/goworker/inspect"
)

// leastUsual is how many rows say what is usual: two hours of ten minutes.
const leastUsual = 12

// MovingOption is an option of Moving: Usually.
type MovingOption func(*moving)

// Usually has Moving know what is usual: the history of the last day, ten minutes a row. A queue in which nearly all jobs wait for long then waits too long
// only if its oldest job has waited ten times as long. Without a history of two hours of a queue, what is usual there is not known.
func Usually(h inspect.History) MovingOption { return func(m *moving) { m.usual = h } }

// usually is how long the oldest job of a queue has waited in 95 of 100 rows, in those before a time: what jobs wait now says nothing of what is usual.
func usually(h inspect.History, queue string, before time.Time) (p95 time.Duration, known bool) {
	var waits []time.Duration
	for _, row := range h.Rows {
		q, there := row.Queues[queue]
		switch {
		case !there || row.Open || row.At.Add(h.Step).After(before):
		case q.Age.Looks > 0:
			waits = append(waits, q.Age.Most)
		case q.Depth.Looks > 0 && q.Depth.Most == 0:
			waits = append(waits, 0)
		}
	}
	if len(waits) < leastUsual {
		return 0, false
	}
	slices.Sort(waits)
	return waits[(len(waits)*95+99)/100-1], true
}

// long returns whether a queue waits too long, and what to say of what is usual there.
func (m *moving) long(q inspect.SampleQueue) (usual words, long bool) {
	bound := waitsLong.Bound.Duration()
	if !q.Oldest.Known() || q.Oldest.For <= bound {
		return "", false
	}
	p95, known := usually(m.usual, q.Name, m.after.At.Add(-q.Oldest.For))
	if !known {
		return "", true
	}
	return words(", usually up to " + duration(p95)), q.Oldest.For > time.Duration(waitsLong.More[0].Value*float64(p95))
}
