package goworker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// sorter moves jobs from the heads of sorted queues into their lanes, some hundreds at
// a time and whether workers are idle or not: the ten jobs that somebody pushed behind
// another's million must be found before these have run. It has a connection of its
// own, and runs from when the process first knows of such a queue.
type sorter struct {
	p      *poller
	line   conn.Line
	now    chan struct{}
	stopCh chan struct{}
	ended  chan struct{} // nil: it does not run

	// watched is whether Redis tells when a sorted queue fills, and nothing is left to
	// be sorted.
	watched atomic.Bool

	mu      sync.Mutex
	queues  []string
	stuck   []string // limits whose holders are to be checked
	process string   // for whom
	gone    []resque.Lanes
	lost    map[resque.Lanes][]resque.Lane // to be put back if they have jobs

	// of the goroutine
	sizes map[string]int    // how many jobs of a queue to read at once
	said  map[string]string // what was already said about a queue
	retry part.Backoff
}

const (
	// sortMost is how many jobs are sorted in one step.
	sortMost = 1000

	// sortBytes bounds how much of them is in memory.
	sortBytes = 1 << 20

	// sortEvery is how often queues are looked at while all workers are busy, and
	// so nobody is told that they have filled.
	sortEvery = time.Second
)

func newSorter(p *poller) *sorter {
	return &sorter{p: p, line: conn.Line{Dialer: p.d.dialer}, now: make(chan struct{}, 1), stopCh: make(chan struct{}), sizes: make(map[string]int), said: make(map[string]string)}
}

// sort has these queues sorted from now on. Only the poller's goroutine calls it.
func (s *sorter) sort(queues []string) {
	if slices.Equal(queues, s.queues) {
		return
	}
	s.mu.Lock()
	s.queues = queues
	s.mu.Unlock()
	s.start()
}

// check frees slots of these limits that nobody holds any more. They are given back
// with their jobs, so there are some only where somebody removed records of ours.
func (s *sorter) check(process string, limits []string) {
	s.mu.Lock()
	s.process, s.stuck = process, limits
	s.mu.Unlock()
	s.start()
}

// forget has the fleet forget lanes, if they still are empty.
func (s *sorter) forget(gone []resque.Lanes) {
	s.mu.Lock()
	s.gone = gone
	s.mu.Unlock()
	s.start()
}

// lookFor puts lanes back that have jobs and that nothing names any more.
func (s *sorter) lookFor(lost map[resque.Lanes][]resque.Lane) {
	s.mu.Lock()
	s.addLost(lost)
	s.mu.Unlock()
	s.start()
}

// addLost is called with the mutex held.
func (s *sorter) addLost(lost map[resque.Lanes][]resque.Lane) {
	if s.lost == nil {
		s.lost = make(map[resque.Lanes][]resque.Lane)
	}
	for set, lanes := range lost {
		s.lost[set] = append(s.lost[set], lanes...)
	}
}

func (s *sorter) start() {
	if s.ended == nil {
		s.ended = make(chan struct{})
		go s.run()
	}
	s.hurry()
}

func (s *sorter) hurry() {
	select {
	case s.now <- struct{}{}:
	default:
	}
}

// stop ends the sorting. The poller calls it when it ends.
func (s *sorter) stop() {
	close(s.stopCh)
	if s.ended != nil {
		<-s.ended
	}
}

func (s *sorter) run() {
	defer close(s.ended)
	defer s.line.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-s.stopCh
		cancel()
	}()
	tick := time.NewTicker(sortEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stopCh:
			return
		case <-s.now:
		case <-tick.C:
			if s.watched.Load() {
				continue
			}
		}
		if err := s.line.Do(ctx, func(c redis.Conn) error { return s.sortAll(ctx, c) }); err != nil && ctx.Err() == nil {
			s.p.d.outages.Fail("sorter", err)
			select {
			case <-s.stopCh:
				return
			case <-time.After(s.retry.Next()):
				s.hurry()
			}
			continue
		}
		s.retry.Reset()
		s.p.d.outages.OK("sorter")
	}
}

// sortAll sorts until nothing is left, a step of each queue in turn.
func (s *sorter) sortAll(ctx context.Context, c redis.Conn) error {
	s.mu.Lock()
	queues, stuck, process, gone, lost := s.queues, s.stuck, s.process, s.gone, s.lost
	s.stuck, s.gone, s.lost = nil, nil, nil
	s.mu.Unlock()
	if err := s.putBack(c, lost); err != nil {
		return err
	}
	for _, lanes := range gone {
		if err := s.p.store.ForgetLanes(c, lanes); err != nil {
			return err
		}
	}
	for _, name := range stuck {
		n, err := s.p.store.FreeLost(c, resque.ParseLimit(name), process)
		if err != nil {
			return err
		}
		if n > 0 {
			s.p.log.Warn("freed slots of a limit that jobs held which are not running any more", "limit", name, "slots", n)
		}
	}
	for len(queues) > 0 && ctx.Err() == nil {
		var more []string
		for _, q := range queues {
			left, err := s.step(c, q)
			if refused := redis.Error(""); errors.As(err, &refused) && !conn.MustRedial(err) {
				if s.said[q] != err.Error() { // a key is broken; the others go on
					s.said[q] = err.Error()
					s.p.log.Error("the jobs of a queue cannot be sorted by their limits", "queue", q, "error", err)
				}
				continue
			}
			if err != nil {
				return err
			}
			delete(s.said, q)
			if left {
				more = append(more, q)
			}
		}
		queues = more
	}
	return nil
}

// putBack puts lanes back that nothing names any more although they have jobs. A key that is of
// another type meanwhile is tried again.
func (s *sorter) putBack(c redis.Conn, lost map[resque.Lanes][]resque.Lane) error {
	n, err := s.p.store.Relane(c, lost)
	if n > 0 {
		s.p.log.Warn("Redis had lost the names of lanes in which jobs wait; they are put back", "lanes", n)
		s.p.d.lease.Sweep() // there may be others that this process has not seen
	}
	if err == nil {
		return nil
	}
	s.mu.Lock()
	s.addLost(lost)
	s.mu.Unlock()
	if refused := redis.Error(""); !errors.As(err, &refused) || conn.MustRedial(err) {
		return err
	}
	if about := "lost lanes"; s.said[about] != err.Error() {
		s.said[about] = err.Error()
		s.p.log.Error("lanes in which jobs wait cannot be put back; trying again", "error", err)
	}
	time.AfterFunc(sortEvery, s.hurry)
	return nil
}

// step sorts some jobs, and reports whether there may be more. Payloads may be large, so
// it begins with one.
func (s *sorter) step(c redis.Conn, queue string) (more bool, err error) {
	store := s.p.store
	n := max(1, s.sizes[queue])
	jobs, err := store.Peek(c, queue, 0, n)
	if err != nil || len(jobs) == 0 {
		return false, err
	}
	bytes := 0
	lanes := make([]resque.Lane, len(jobs))
	for i, raw := range jobs {
		bytes += len(raw)
		lanes[i], _ = s.p.d.registry.limits.Lane(queue, raw)
	}
	moved, err := store.Sort(c, queue, jobs, lanes)
	if err != nil {
		return false, err
	}
	if moved == 0 { // somebody else sorts it
		time.Sleep(rand.N(10 * time.Millisecond))
		return true, nil
	}
	switch {
	case bytes > sortBytes:
		s.sizes[queue] = n * sortBytes / bytes
	case len(jobs) == n:
		s.sizes[queue] = min(8*n, sortMost, max(n, n*sortBytes/max(bytes, 1)))
	}
	s.p.ask(func() { s.p.watch.lanes.sorted(queue, lanes) })
	return true, nil
}
