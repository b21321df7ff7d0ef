package lanes

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// sorter moves jobs from the heads of sorted queues into their lanes, some hundreds at a time and
// whether workers are idle or not. Ten jobs that one tenant pushes behind another's million must
// be found before these have run. It has a connection of its own, and starts when the process
// first has work for it. The poller's goroutine calls its methods.
type sorter struct {
	base      part.Base
	classes   Classes
	line      conn.Line
	loop      *part.Loop
	namesLost func()                                         // Redis had lost the names of lanes with jobs
	sorted    func(queue string, lanes []resque.Lane)        // jobs were moved into these lanes
	lanesOf   func(few *resque.Sorting, lanes []resque.Lane) // of jobs that the next exchange may move
	took      func(queue string, n int)                      // so many left a queue for lanes
	started   bool

	watched atomic.Bool // Redis notifies when a sorted queue fills, and no job is left to be sorted
	due     atomic.Bool // a turn is taken even so

	mu       sync.Mutex
	queues   []string                       // to sort
	stuck    []string                       // limits whose holders are to be checked
	process  string                         // the one that checks them
	gone     []resque.Lanes                 // for the fleet to forget
	lost     map[resque.Lanes][]resque.Lane // to be put back if they have jobs
	unplaced *resque.Sorting                // jobs to find lanes for; nil: there are none
	sizes    map[string]int                 // how many jobs of a queue to read at once

	// of the goroutine
	next time.Time // when queues are sorted that nothing watches
	said logging.Once
	seen map[resque.Lane]bool // room for lanes
	like map[string][]byte    // of queues whose last batch was of one class and one lane: a job of it
}

const (
	// sortMost is how many jobs one step sorts at most.
	sortMost = 1000

	// stepBatches is how many batches of a queue are sorted before the next queue has its turn.
	stepBatches = 8

	// sortBytes is how much of them is in memory at most.
	sortBytes = 1 << 20

	// sortEvery is how often the sorter looks at queues that nothing watches, because all workers
	// are busy.
	sortEvery = time.Second
)

func newSorter(b part.Base, c Classes, namesLost func(), sorted func(string, []resque.Lane), lanesOf func(*resque.Sorting, []resque.Lane), took func(string, int)) *sorter {
	s := &sorter{base: b, classes: c, line: b.Line(0), namesLost: namesLost, sorted: sorted, lanesOf: lanesOf, took: took, sizes: make(map[string]int), seen: make(map[resque.Lane]bool), like: make(map[string][]byte)}
	s.loop = part.NewLoop(b, "sorter", s.turn)
	s.loop.End = s.line.Close
	return s
}

// sort sets the queues to sort.
func (s *sorter) sort(queues []string) {
	if slices.Equal(queues, s.queues) {
		return
	}
	s.mu.Lock()
	s.queues = queues
	s.mu.Unlock()
	s.start()
}

// check frees slots of these limits whose holders have no such job any more. Slots are given back
// with their jobs, so this happens only after our keys were removed.
func (s *sorter) check(process string, limits []string) {
	if len(limits) == 0 {
		return
	}
	s.mu.Lock()
	s.process, s.stuck = process, limits
	s.mu.Unlock()
	s.start()
}

// forget has the fleet forget lanes that are still empty.
func (s *sorter) forget(gone []resque.Lanes) {
	if len(gone) == 0 {
		return
	}
	s.mu.Lock()
	s.gone = gone
	s.mu.Unlock()
	s.start()
}

// lookFor puts lanes back that have jobs and that no key names any more.
func (s *sorter) lookFor(lost map[resque.Lanes][]resque.Lane) {
	s.addLost(lost)
	s.start()
}

func (s *sorter) addLost(lost map[resque.Lanes][]resque.Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = make(map[resque.Lanes][]resque.Lane)
	}
	for set, lanes := range lost {
		s.lost[set] = append(s.lost[set], lanes...)
	}
}

// looked is called after each look at lanes: whether jobs are left to be sorted, and whether Redis
// notifies of the next one.
func (s *sorter) looked(unsorted, watched bool) {
	s.watched.Store(watched)
	if unsorted {
		s.wake()
	}
}

// changed is called when a sorted queue may have filled.
func (s *sorter) changed() {
	s.watched.Store(false)
	s.wake()
}

func (s *sorter) start() {
	if !s.started {
		s.started = true
		s.loop.Start(context.Background())
	}
	s.wake()
}

func (s *sorter) wake() {
	s.due.Store(true)
	s.loop.Wake()
}

func (s *sorter) stop() { s.loop.Stop(context.Background()) }

// turn sorts until no job is left, unless Redis will notify of the next one.
func (s *sorter) turn(ctx context.Context) (time.Duration, error) {
	placed, now := s.findLanes(), s.base.Clock.Now()
	due := s.due.Swap(false)
	if !due && s.watched.Load() {
		return sortEvery, nil
	}
	if wait := s.next.Sub(now); placed && !due && wait > 0 {
		return wait, nil
	}
	s.next = now.Add(sortEvery)
	err := s.line.Do(ctx, func(c redis.Conn) error { return s.sortAll(ctx, c) })
	if err != nil {
		s.due.Store(true)
	}
	return sortEvery, err
}

// sortAll does what the poller has asked for, and then sorts, a step of each queue in turn.
func (s *sorter) sortAll(ctx context.Context, c redis.Conn) error {
	s.mu.Lock()
	queues, stuck, process, gone, lost := s.queues, s.stuck, s.process, s.gone, s.lost
	s.stuck, s.gone, s.lost = nil, nil, nil
	s.mu.Unlock()
	if err := s.putBack(c, lost); err != nil {
		return err
	}
	for _, lanes := range gone {
		if err := s.base.Store.ForgetLanes(c, lanes); err != nil {
			return err
		}
	}
	for _, name := range stuck {
		n, err := s.base.Store.FreeLost(c, resque.ParseLimit(name), process)
		if err != nil {
			return err
		}
		if n > 0 {
			s.base.Log.Warn("freed slots of a limit that jobs held which are not running any more", "limit", name, "slots", n)
		}
	}
	for len(queues) > 0 && ctx.Err() == nil {
		var more []string
		for _, q := range queues {
			s.findLanes()
			left, err := s.step(ctx, c, q)
			if refused := redis.Error(""); errors.As(err, &refused) && !conn.MustRedial(err) {
				if s.said.News(q, err.Error()) { // a key is broken; the other queues go on
					s.base.Log.Error("the jobs of a queue cannot be sorted by their limits", "queue", q, "error", err)
				}
				continue
			}
			if err != nil {
				return err
			}
			s.said.Over(q)
			if left {
				more = append(more, q)
			}
		}
		queues = more
	}
	return nil
}

// lostLanes is what the log of this sorter says of lanes that cannot be put back. No queue has
// this name.
const lostLanes = "\x00lost"

// putBack puts lanes back that no key names any more although they have jobs. While a key has
// another type it tries again.
func (s *sorter) putBack(c redis.Conn, lost map[resque.Lanes][]resque.Lane) error {
	n, err := s.base.Store.Relane(c, lost)
	if n > 0 {
		s.base.Log.Warn("Redis had lost the names of lanes in which jobs wait; they are put back", "lanes", n)
		s.namesLost() // there may be others that this process has not seen
	}
	if err == nil {
		return nil
	}
	s.addLost(lost)
	if refused := redis.Error(""); !errors.As(err, &refused) || conn.MustRedial(err) {
		return err
	}
	if s.said.News(lostLanes, err.Error()) {
		s.base.Log.Error("lanes in which jobs wait cannot be put back; trying again", "error", err)
	}
	s.due.Store(true) // in the next turn
	return nil
}

// step sorts jobs of a queue, a few batches at most, and reports whether there may be more. Payloads may be large, so
// the first batch is one. While Redis sorts a batch, the sorter finds the lanes of the next one, and with the same round trip it reads the
// one behind that.
func (s *sorter) step(ctx context.Context, c redis.Conn, queue string) (more bool, err error) {
	if more, err = s.stepAlike(ctx, c, queue); more || err != nil {
		return more, err
	}
	n := s.size(queue)
	jobs, err := s.base.Store.Peek(c, queue, 0, 2*n)
	if err != nil || len(jobs) == 0 {
		return false, err
	}
	now, next := s.batchOf(queue, jobs[:min(n, len(jobs))]), jobs[min(n, len(jobs)):]
	for range stepBatches {
		s.learn(queue, now)
		now, next, err = s.sortBatch(ctx, c, queue, now, next)
		if err != nil || len(now.jobs) == 0 || s.like[queue] != nil || ctx.Err() != nil {
			break
		}
	}
	return err == nil, err
}

// learn keeps a job of a batch whose jobs are all like it. After a few jobs there seldom are more, and another call would find none.
func (s *sorter) learn(queue string, b batch) {
	delete(s.like, queue)
	if len(b.distinct) == 1 && len(b.jobs) >= fewJobs {
		of, some := s.classes.Alike(queue, b.jobs[0])
		other := func(job []byte) bool { return !bytes.HasPrefix(job, of.Begin) }
		if some && !slices.ContainsFunc(b.jobs, other) {
			s.like[queue] = slices.Clone(b.jobs[0])
		}
	}
}

// stepAlike sorts jobs as those of the last batch were, without reading them: a few batches at most. More says that there may be more such jobs.
func (s *sorter) stepAlike(ctx context.Context, c redis.Conn, queue string) (more bool, err error) {
	for range stepBatches {
		job := s.like[queue]
		of, some := s.classes.Alike(queue, job) // their limits may have changed
		if !some || ctx.Err() != nil {
			break
		}
		n := s.size(queue)
		moved, size, err := s.base.Store.SortAlike(c, of, n)
		if err != nil {
			return false, err
		}
		if moved > 0 {
			s.took(queue, moved)
			s.sorted(queue, []resque.Lane{of.Lane})
			s.resize(queue, moved, size)
		}
		if more = moved == n; !more {
			delete(s.like, queue)
			break
		}
	}
	return more, nil
}

// batch is jobs of a queue and their lanes.
type batch struct {
	jobs            [][]byte
	lanes, distinct []resque.Lane
}

// batchOf finds the lanes of jobs that were read, and says how many to read at once from now on.
func (s *sorter) batchOf(queue string, jobs [][]byte) batch {
	lanes, distinct, size := s.lanes(queue, jobs)
	s.resize(queue, len(jobs), size)
	return batch{jobs, lanes, distinct}
}

// resize says how many jobs of a queue to sort at once from now on: so many were sorted, and have so many bytes.
func (s *sorter) resize(queue string, jobs, size int) {
	switch n := s.size(queue); {
	case size > sortBytes:
		s.setSize(queue, n*sortBytes/size)
	case jobs >= n:
		s.setSize(queue, min(8*n, sortMost, max(n, n*sortBytes/max(size, 1))))
	}
}

// sortBatch sorts a batch. It returns the next one, whose jobs were read before, and the jobs behind it: none where another process
// sorts the queue too.
func (s *sorter) sortBatch(ctx context.Context, c redis.Conn, queue string, now batch, read [][]byte) (next batch, behind [][]byte, err error) {
	moved, behind, err := s.base.Store.Sort(c, queue, now.jobs, now.lanes, resque.Next{
		Skip: len(read), Most: s.size(queue), Meanwhile: func() { next = s.batchOf(queue, read) },
	})
	if err != nil {
		return batch{}, nil, err
	}
	if moved > 0 {
		s.took(queue, moved)
		s.sorted(queue, now.distinct)
	} else { // another process sorts it
		s.pause(ctx, rand.N(10*time.Millisecond))
	}
	if moved < len(now.jobs) {
		return batch{}, nil, nil
	}
	return next, behind, nil
}

// size is how many jobs of a queue to read at once.
func (s *sorter) size(queue string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(1, s.sizes[queue])
}

func (s *sorter) setSize(queue string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes[queue] = n
}

// sorts reports whether a queue is sorted.
func (s *sorter) sorts(queue string) bool { return slices.Contains(s.queues, queue) }

// few is how many jobs of a queue a look may return.
func (s *sorter) few(queue string) int { return min(fewMost, s.size(queue)) }

// place finds lanes for jobs that the next exchange may move.
func (s *sorter) place(queue string, jobs [][]byte) {
	s.mu.Lock()
	s.unplaced = &resque.Sorting{Queue: queue, Jobs: jobs}
	s.mu.Unlock()
	s.loop.Wake()
}

// findLanes finds the lanes of the jobs that place was given. It reports whether there were some.
func (s *sorter) findLanes() bool {
	s.mu.Lock()
	few := s.unplaced
	s.unplaced = nil
	s.mu.Unlock()
	if few == nil {
		return false
	}
	var distinct []resque.Lane
	few.Lanes, distinct, _ = s.lanes(few.Queue, few.Jobs)
	s.lanesOf(few, distinct)
	return true
}

// lanes returns the lane of each job, each lane once, and how many bytes the jobs have.
func (s *sorter) lanes(queue string, jobs [][]byte) (lanes, distinct []resque.Lane, size int) {
	lanes = s.classes.Lanes(queue, jobs)
	for i, lane := range lanes {
		size += len(jobs[i])
		if (i == 0 || lane != lanes[i-1]) && !s.seen[lane] {
			s.seen[lane] = true
			distinct = append(distinct, lane)
		}
	}
	clear(s.seen)
	return lanes, distinct, size
}

// pause waits for a time, or until the sorter stops.
func (s *sorter) pause(ctx context.Context, d time.Duration) {
	timer := s.base.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
