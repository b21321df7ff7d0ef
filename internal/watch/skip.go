package watch

import "time"

// MostPassed is how many jobs of a queue this process puts to its tail in an interval. In a longer
// queue of jobs of unknown classes the jobs behind them move up by as many each interval.
const MostPassed = 1000

// skipList is the queues in which this process lately left jobs for processes that know their
// class. Each such job goes to the tail of its queue. Once the poller has come round to the first of
// them again, the queue is skipped until the interval is over.
type skipList map[string]*round

// round is one way through a queue: from the first job that was put to its tail until that job
// would come again.
type round struct {
	until    time.Time // the end of the interval
	passed   int       // how many jobs were put to the tail
	ahead    int       // how many jobs still stand before the first of these; −1: Redis was not asked yet
	returned int       // how many jobs went back to the head before Redis was asked
}

// passed is called before a job of a queue is put to its tail. The queue is then asked for no more
// jobs until Redis has reported its length.
func (l skipList) passed(queue string, now time.Time, interval time.Duration) {
	r := l[queue]
	if r == nil || !now.Before(r.until) {
		r = &round{until: now.Add(interval), ahead: -1}
		l[queue] = r
	}
	r.passed++
}

// unmeasured returns the queues whose length must be asked for.
func (l skipList) unmeasured() (queues []string) {
	for queue, r := range l {
		if r.ahead < 0 {
			queues = append(queues, queue)
		}
	}
	return queues
}

// measured takes the lengths of queues that were asked for.
func (l skipList) measured(queues []string, sizes []int) {
	for i, queue := range queues[:min(len(queues), len(sizes))] {
		if r := l[queue]; r != nil && r.ahead < 0 {
			r.ahead = max(0, sizes[i]) + r.returned
		}
	}
}

// took is called when jobs were reserved from a queue.
func (l skipList) took(queue string, n int) {
	if r := l[queue]; r != nil && r.ahead > 0 {
		r.ahead = max(0, r.ahead-n)
	}
}

// returned is called when a job has gone back to the head of a queue, so that it is reserved once more. A length that was not
// reported yet may have been read before that: it is too small then, and at worst one job is looked at twice.
func (l skipList) returned(queue string) {
	switch r := l[queue]; {
	case r == nil:
	case r.ahead < 0:
		r.returned++
	default:
		r.ahead++
	}
}

// skips reports whether a queue is not to be asked now.
func (l skipList) skips(queue string, now time.Time) bool {
	r := l[queue]
	return r != nil && now.Before(r.until) && (r.ahead <= 0 || r.passed >= MostPassed)
}

// seen reports whether the process has looked at all jobs of a queue, so that only jobs for other
// processes are left.
func (l skipList) seen(queue string) bool {
	r := l[queue]
	return r != nil && r.ahead == 0
}

// tick drops rounds whose interval is over.
func (l skipList) tick(now time.Time) {
	for queue, r := range l {
		if !now.Before(r.until) {
			delete(l, queue)
		}
	}
}

// next returns when the first of the intervals is over; zero if the list is empty.
func (l skipList) next() (at time.Time) {
	for _, r := range l {
		if at.IsZero() || r.until.Before(at) {
			at = r.until
		}
	}
	return at
}
