package lanes

import "github.com/goworker/goworker/internal/resque"

// This file is how a few jobs come into their lanes that were pushed to a queue which was sorted. The look that finds them returns them,
// the sorter finds their lanes, and the next exchange moves them there before it takes jobs. That is two round trips less than by the
// sorter's connection. The sorter's goroutine calls the program's functions: a slow one does not delay the poller.

// fewMost is how many jobs a look returns at most.
const fewMost = 16

// found is called with all jobs of a queue that are not sorted.
func (l *Lanes) found(q *queue, jobs [][]byte) {
	l.placing, q.unsorted, q.look = q.name, 0, true
	l.sorter.place(q.name, jobs)
}

// sortNext has the next exchange move jobs into their lanes, each of which is named once in lanes.
func (l *Lanes) sortNext(few *resque.Sorting, lanes []resque.Lane) {
	if l.placing == few.Queue {
		l.few = few
		l.sorted(few.Queue, lanes)
	}
}

// Sorting adds jobs to the exchange that it moves into their lanes.
func (l *Lanes) Sorting(x *resque.Exchange) {
	few := l.few
	switch l.few = nil; {
	case few == nil:
	case l.sorter.sorts(few.Queue):
		x.Sorting = few
	default:
		l.placing = "" // jobs of this process go back there first
	}
}

// placed is called when an exchange has moved so many jobs. Where it moved none, the sorter finds out why.
func (l *Lanes) placed(few *resque.Sorting, moved int) {
	l.placing = ""
	q := l.queues[few.Queue]
	switch {
	case moved == 0 && q != nil:
		q.unsorted = 1
		l.sorter.wake()
	case moved > 0 && l.Took != nil:
		l.Took(few.Queue, moved)
	}
}
