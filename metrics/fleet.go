package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

const (
	// lookEvery is how often Redis is looked at, however many scrape.
	lookEvery = time.Second
	// moreEvery is how often limits, schedules and workflows are, which take some round trips more.
	moreEvery = 15 * time.Second
	// lookWithin bounds a look.
	lookWithin = 5 * time.Second
)

// fleet looks at the Redis, and collects what it saw. It is safe for concurrent use.
type fleet struct {
	of    Inspects
	names names

	mu     sync.Mutex // held during a look: those who come meanwhile get its result
	sample inspect.Sample
	took   time.Duration
	at     time.Time // of the sample; zero: there is none
	tried  time.Time // when the last look began
	err    error     // of the last look

	limits    []inspect.LimitInfo
	schedules []inspect.ScheduleInfo
	open      int64 // workflows
	stalled   int64
	more      time.Time // when those were looked at
}

func newFleet(of Inspects) *fleet { return &fleet{of: of} }

// look returns what the last look saw. It looks again if that is a second ago.
func (f *fleet) look(ctx context.Context) (s inspect.Sample, at time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh(ctx)
	return f.sample, f.at, f.err
}

// refresh looks if it is time. The mutex is held.
func (f *fleet) refresh(ctx context.Context) {
	now := clock.System.Now()
	if now.Sub(f.tried) < lookEvery && !f.tried.IsZero() {
		return
	}
	f.tried = now
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	in := f.of.Inspect()
	var options []inspect.SampleOption
	if !f.at.IsZero() {
		options = append(options, inspect.SampleAfter(f.sample))
	}
	s, err := in.Sample(ctx, options...)
	if f.err = err; err != nil && len(s.Servers) == 0 {
		return
	}
	f.sample, f.at, f.took = s, clock.System.Now(), clock.Since(clock.System, now)
	if now.Sub(f.more) < moreEvery {
		return
	}
	f.more = now
	// What cannot be read, for lack of a permission, has no metrics.
	f.limits, _ = in.Limits(ctx)
	f.schedules, _ = in.Schedules(ctx)
	f.open, f.stalled = 0, 0
	for _, door := range in.Doors() {
		err := door.Do(ctx, func(s resque.Store, c redis.Conn) error {
			open, err := workflows.New(s).Count(c)
			if err != nil {
				return err
			}
			stalled, err := workflows.New(s).Stalled(c)
			f.open, f.stalled = f.open+int64(open), f.stalled+stalled
			return err
		})
		if err != nil {
			f.open, f.stalled = -1, -1
			break
		}
	}
}

// Describe sends the rows of this scope.
func (f *fleet) Describe(to chan<- *prometheus.Desc) { describe(OfFleet, to) }

// Collect looks at the Redis.
func (f *fleet) Collect(to chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh(context.Background())
	to <- redisUp.is(number(f.err == nil))
	if f.at.IsZero() {
		return
	}
	if f.err != nil && clock.Since(clock.System, f.at) > time.Minute {
		return // numbers that are so old mislead
	}
	to <- lookSeconds.is(f.took.Seconds())
	to <- lookAge.is(clock.Since(clock.System, f.at).Seconds())
	f.ofQueues(to)
	f.ofTotals(to)
	f.ofRedis(to)
	f.ofMore(to)
}

// ofQueues sends the queues. Those without a label of their own are one.
func (f *fleet) ofQueues(to chan<- prometheus.Metric) {
	type sum struct {
		waiting, limited           float64
		paused                     bool
		workers                    [3]float64
		oldest                     inspect.Age
		pushed, taken              float64
		counted, knows, knowsOwner bool
	}
	sums := make(map[string]*sum)
	for _, q := range f.sample.Queues {
		label := f.names.label("queue", q.Name, MostQueues)
		s := sums[label]
		if s == nil {
			s = &sum{counted: label != Other}
			sums[label] = s
		}
		if q.Waiting.Known() {
			s.knows = true
			s.waiting += float64(q.Waiting.N - min(q.InLanes.N, q.Waiting.N))
			s.limited += float64(q.InLanes.N)
		}
		s.paused = s.paused || q.Paused
		for n, c := range []inspect.Count{q.Go, q.Other, q.HTTP} {
			if c.Known() {
				s.workers[n], s.knowsOwner = max(s.workers[n], float64(c.N)), true
			}
		}
		if q.Oldest.Known() && (q.Oldest.For >= s.oldest.For || !s.oldest.Known()) {
			s.oldest = q.Oldest
		}
		s.counted = s.counted && q.Counted
		s.pushed, s.taken = s.pushed+float64(q.Pushed), s.taken+float64(q.Taken)
	}
	for name, s := range sums {
		if s.knows {
			to <- queueJobs.is(s.waiting, name, "waiting")
			to <- queueJobs.is(s.limited, name, "limited")
			method := s.oldest.Method
			if !s.oldest.Known() && s.waiting+s.limited == 0 {
				method = inspect.AgeExact // nothing waits
			}
			if method != inspect.AgeUnknown {
				to <- queueOldest.is(s.oldest.For.Seconds(), name, string(method))
			}
		}
		to <- queuePaused.is(number(s.paused), name)
		if s.knowsOwner {
			to <- queueWorkers.is(s.workers[0], name, "goworker")
			to <- queueWorkers.is(s.workers[1], name, "other")
			to <- queueWorkers.is(s.workers[2], name, "http")
		}
		if s.counted {
			to <- queuePushed.is(s.pushed, name)
			to <- queueTaken.is(s.taken, name)
		}
	}
}

// ofTotals sends what concerns all queues.
func (f *fleet) ofTotals(to chan<- prometheus.Metric) {
	s := &f.sample
	count := func(r *Row, c inspect.Count, labels ...string) {
		if c.Known() {
			to <- r.is(float64(c.N), labels...)
		}
	}
	count(queueCount, s.QueueCount)
	count(delayed, s.Delayed, "all")
	count(delayed, s.Retrying, "retrying")
	if s.Late.Known() {
		to <- delayedLate.is(s.Late.For.Seconds())
	}
	count(failedJobs, s.Failures)
	count(leasedJobs, s.Leased)
	count(processed, s.Processed)
	count(failed, s.Failed)
	alive := 0
	for _, p := range s.Processes {
		if !p.Dead {
			alive++
		}
	}
	to <- fleetProcesses.is(float64(alive), "worker")
	to <- fleetProcesses.is(float64(len(s.Servings)), "http")
	count(fleetWorkers, s.Workers.Go, "goworker")
	other := s.Workers.Other
	other.N = max(0, other.N-s.Workers.Dead.N)
	count(fleetWorkers, other, "other")
	count(fleetWorkers, s.Workers.Dead, "dead")
	count(fleetBusy, s.Workers.Busy)
	to <- fleetLooked.is(float64(s.Workers.Looked))
	to <- fleetStuck.is(float64(len(s.Stuck)))
	to <- notExchanging.is(float64(checks.NotExchanging(*s)))
	to <- pausedAll.is(number(s.PausedAll))
}

// ofRedis sends how the servers are.
func (f *fleet) ofRedis(to chan<- prometheus.Metric) {
	var memory, limit, clients int64
	var slowest time.Duration
	evicts := false
	for _, s := range f.sample.Servers {
		memory, limit = memory+s.Memory, limit+s.MaxMemory
		clients, slowest = max(clients, s.Clients), max(slowest, s.RoundTrip)
		evicts = evicts || s.Policy != "" && s.Policy != "noeviction"
	}
	to <- redisMemory.is(float64(memory))
	to <- redisMaxMemory.is(float64(limit))
	to <- redisClients.is(float64(clients))
	to <- redisRTT.is(slowest.Seconds())
	to <- redisEvicts.is(number(evicts))
}

// ofMore sends limits, schedules and workflows.
func (f *fleet) ofMore(to chan<- prometheus.Metric) {
	type sum struct {
		running, waiting, max float64
		hasMax                bool
	}
	limits := make(map[string]*sum)
	for _, l := range f.limits {
		label := f.names.label("limit", l.Spec, MostOthers)
		s := limits[label]
		if s == nil {
			s = new(sum)
			limits[label] = s
		}
		s.running, s.waiting = s.running+float64(l.Running), s.waiting+float64(l.Waiting)
		if l.Kind == inspect.LimitRunning && l.Invalid == nil && l.Text != "" && label != Other {
			s.max, s.hasMax = s.max+float64(l.Most), true
		}
	}
	for name, s := range limits {
		to <- limitRunning.is(s.running, name)
		to <- limitWaiting.is(s.waiting, name)
		if s.hasMax {
			to <- limitMax.is(s.max, name)
		}
	}
	last, next := make(map[string]time.Time), make(map[string]time.Time)
	for _, one := range f.schedules {
		label := f.names.label("schedule", one.Name, MostOthers)
		if label == Other { // times of different schedules have no sum
			continue
		}
		if at := later(one.LastTick, one.LastEnqueued); at.After(last[label]) {
			last[label] = at
		}
		if at := next[label]; !one.Next.IsZero() && (at.IsZero() || one.Next.Before(at)) {
			next[label] = one.Next
		}
	}
	for name, at := range last {
		to <- scheduleTick.is(seconds(at), name)
	}
	for name, at := range next {
		to <- scheduleNext.is(seconds(at), name)
	}
	if f.open >= 0 {
		to <- workflowsAll.is(float64(f.open), "open")
		to <- workflowsAll.is(float64(f.stalled), "stalled")
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// age is how long the oldest job of a queue has waited, and how many wait, for /scale.
func (f *fleet) scale(ctx context.Context, queue string) (answer Scale, there bool, err error) {
	s, at, err := f.look(ctx)
	if at.IsZero() {
		return answer, false, err
	}
	answer.Queue, answer.Age = strings.ToValidUTF8(queue, "\uFFFD"), clock.Since(clock.System, at).Seconds()
	for _, q := range s.Queues {
		if q.Name != queue {
			continue
		}
		answer.Waiting, answer.Limited = max(0, q.Waiting.N-q.InLanes.N), q.InLanes.N
		answer.Oldest, answer.Method = q.Oldest.For.Seconds(), string(q.Oldest.Method)
		answer.Paused, answer.Workers = q.Paused, q.Go.N+q.Other.N+q.HTTP.N
		there = true
	}
	if s.Workers.Busy.Known() && s.Workers.Looked > 0 {
		busy := float64(s.Workers.Busy.N) / float64(s.Workers.Looked)
		answer.Busy = &busy
	}
	return answer, there, err
}
