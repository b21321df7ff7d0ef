package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// Slots are the places where the jobs of this process run, which the poller owns. Each method waits for the
// poller's goroutine, and returns an error if ctx ends before, or the poller has ended.
type Slots interface {
	// Limit makes jobs start on the slots below n only. Jobs on higher slots go on.
	Limit(ctx context.Context, n int) error

	// Occupied returns the slots on which a job runs that began before the last call with mark, or before
	// this call if mark is set. Lease.SlotFreed is called when one of them falls free.
	Occupied(ctx context.Context, mark bool) (map[int]bool, error)
}

// ErrStopped is returned by Change when the process leaves the fleet before the change is made.
var ErrStopped = errors.New("the daemon stops")

// registrar changes the workers of this process while it runs: how many there are, and the queues by which
// Resque's tools know them. At each moment the process's record covers all worker ids that are registered,
// so that a reaper leaves none of them behind:
//
//   - More workers: the record, the ids, and then the jobs.
//   - Fewer: the jobs, and when the upper slots are free the ids, and then the record.
//   - Other queues: the record with both lists, the new ids, the jobs, the old ids, the record with one list.
//     The id of a slot with a job stays until that job has ended.
//
// Each turn does what can be done, in this order, and may be repeated after an error at any step.
type registrar struct {
	base    part.Base
	lease   *Lease
	loop    *part.Loop
	line    conn.Line
	sending sync.Mutex   // held while worker ids are sent to Redis, by the registrar or with heartbeats
	limit   atomic.Int64 // jobs start on the slots below it; the loop writes it

	mu       sync.Mutex
	wanted   Wanted
	changes  int // how often wanted was changed
	requests []*request
	stopped  bool

	// These are for the loop's goroutine.
	session *Session
	worked  string // the list that the process works
	before  *names // the last that Redis's record covered for certain
	marked  bool   // the jobs on slots that began before the last change are marked
}

// Wanted is the workers that a process is to have.
type Wanted struct {
	Workers int
	Queues  string // as in their ids

	// Why is the reason that the log gives for the next change of Workers.
	Why string

	// Apply, unless nil, is called once the workers are registered under Queues. Its error undoes the list, unless the error says that
	// ctx has ended or is ErrStopped.
	Apply func(context.Context) error

	// Refused, unless nil, is called after the list was undone. It must not call the Lease.
	Refused func()
}

// applyError is an error of Apply.
type applyError struct{ error }

func (e applyError) Unwrap() error { return e.error }

// request is a call of Change that waits.
type request struct {
	queues bool // it changes Queues
	done   chan error
}

func newRegistrar(l *Lease) *registrar {
	r := &registrar{base: l.base, lease: l, line: l.base.Line(part.ReplyWithin)}
	r.wanted.Workers = l.config.Workers
	r.limit.Store(int64(l.config.Workers))
	r.loop = part.NewLoop(l.base, "worker ids", r.turn)
	r.loop.End = r.end
	return r
}

// Change changes the workers of this process, and waits until jobs may start on them. It removes the ids of
// workers that still have jobs later. If ctx ends before, the registrar still makes the change when Redis
// allows it. Only a permanent error of Redis, or an error of Apply, undoes the change: Change returns it.
func (l *Lease) Change(ctx context.Context, change func(*Wanted)) error {
	r := l.registrar
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return ErrStopped
	}
	before := r.wanted
	r.wanted.Apply = nil
	change(&r.wanted)
	r.changes++
	q := &request{queues: r.wanted.Queues != before.Queues || r.wanted.Apply != nil, done: make(chan error, 1)}
	if !q.queues {
		r.wanted.Apply = before.Apply
	}
	r.requests = append(r.requests, q)
	r.mu.Unlock()
	r.loop.Wake()
	select {
	case err := <-q.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the workers are not registered yet; the daemon goes on trying: %w", context.Cause(ctx))
	}
}

// Wanted returns which workers this process is to have.
func (l *Lease) Wanted() Wanted {
	l.registrar.mu.Lock()
	defer l.registrar.mu.Unlock()
	return l.registrar.wanted
}

// SlotFreed is called when a slot that Occupied has returned falls free.
func (l *Lease) SlotFreed() { l.registrar.loop.Wake() }

// identity makes a new identity with the workers that the process is to have, or has.
func (r *registrar) identity(distinct bool) resque.Process {
	p := r.lease.config.Process(distinct)
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Concurrency = max(r.wanted.Workers, int(r.limit.Load()))
	if r.wanted.Queues == "" {
		r.wanted.Queues = p.IDQueues
	}
	p.Queues, p.IDQueues = r.wanted.Queues, r.wanted.Queues
	return p
}

// end is called when the loop ends.
func (r *registrar) end() {
	r.line.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, q := range r.requests {
		q.done <- ErrStopped
	}
	r.requests = nil
}

// answer answers requests, and forgets them.
func (r *registrar) answer(requests []*request, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range requests {
		q.done <- err
	}
	r.requests = slices.DeleteFunc(r.requests, func(q *request) bool { return slices.Contains(requests, q) })
}

// refuse undoes a list of queues that failed, unless another list is wanted by now: then that one decides for all waiting calls.
func (r *registrar) refuse(list string, err error) {
	r.mu.Lock()
	if r.wanted.Queues != list {
		r.mu.Unlock()
		return
	}
	var requests []*request
	for _, q := range r.requests {
		if q.queues {
			requests = append(requests, q)
		}
	}
	if r.wanted.Refused != nil {
		r.wanted.Refused()
	}
	r.wanted.Queues, r.wanted.Apply, r.wanted.Refused = r.worked, nil, nil
	r.mu.Unlock()
	r.base.Log.Warn("the queues do not change", "from", r.worked, "to", list, "error", err)
	r.answer(requests, err)
}

func (r *registrar) turn(ctx context.Context) (wait time.Duration, err error) {
	r.mu.Lock()
	wanted, changes, requests := r.wanted, r.changes, slices.Clone(r.requests)
	r.mu.Unlock()
	s := r.lease.Session()
	if s != r.session {
		r.session, r.before, r.marked = s, s.names.Load(), false
	}
	if r.worked == "" {
		r.worked = s.Record().IDQueues
	}
	if len(requests) == 0 && s.settled(wanted) && r.limit.Load() == int64(wanted.Workers) {
		r.line.Close()
		return part.Never, nil
	}
	err = r.apply(ctx, s, wanted)
	var unworked applyError
	switch {
	case errors.Is(err, resque.ErrTaken), errors.Is(err, resque.ErrManyLists), errors.As(err, &unworked) && ctx.Err() == nil && !errors.Is(err, ErrStopped):
		r.refuse(wanted.Queues, err)
		return 0, nil
	case err == nil:
		r.worked = wanted.Queues
		r.mu.Lock()
		if r.changes == changes {
			r.wanted.Apply, r.wanted.Refused = nil, nil
		}
		r.mu.Unlock()
		r.answer(requests, nil)
		err = r.drop(ctx, s, wanted)
	}
	if errors.Is(err, ErrStopped) {
		return part.Never, nil // end answers the requests
	}
	if out(err) {
		return renewEvery, nil // the lease looks after it
	}
	return part.Never, err
}

// settled reports whether the session has exactly these workers.
func (s *Session) settled(w Wanted) bool {
	n := s.names.Load()
	return n.covered && n.record.Concurrency == w.Workers && n.record.IDQueues == w.Queues && len(n.record.Former) == 0 && len(n.registered) == w.Workers
}

// apply makes a change as far as jobs may start on the wanted workers.
func (r *registrar) apply(ctx context.Context, s *Session, w Wanted) error {
	if int64(w.Workers) < r.limit.Load() {
		if err := r.setLimit(ctx, w); err != nil {
			return err
		}
	}
	if err := r.cover(ctx, s, w); err != nil {
		return err
	}
	if err := r.register(ctx, s, w); err != nil {
		return err
	}
	if int64(w.Workers) > r.limit.Load() {
		if err := r.setLimit(ctx, w); err != nil {
			return err
		}
	}
	if w.Apply != nil {
		if err := w.Apply(ctx); err != nil {
			return applyError{err}
		}
	}
	return nil
}

func (r *registrar) setLimit(ctx context.Context, w Wanted) error {
	n, was := w.Workers, r.limit.Load()
	r.limit.Store(max(was, int64(n))) // so that another session has workers for all jobs that start meanwhile
	if err := r.lease.Slots.Limit(ctx, n); err != nil {
		return err
	}
	r.limit.Store(int64(n))
	r.marked = false
	if w.Why != "" {
		r.base.Log.Info("concurrency", "from", was, "to", n, "why", w.Why)
	} else {
		r.base.Log.Info("concurrency", "from", was, "to", n)
	}
	return nil
}

// cover makes the record cover the wanted and the present workers.
func (r *registrar) cover(ctx context.Context, s *Session, w Wanted) error {
	n := s.names.Load()
	record, err := n.record.With(w.Workers, w.Queues)
	if err != nil {
		return err
	}
	if n.covered && record.Concurrency == n.record.Concurrency && record.IDQueues == n.record.IDQueues {
		return nil
	}
	claim := ""
	if first := record.WorkerID(0); !slices.Contains(n.registered, first) && !slices.Contains(n.sent, first) {
		claim = first
	}
	if n.covered {
		r.before = n
	}
	next := *n
	next.record, next.covered = record, false
	s.names.Store(&next) // first: where Redis loses the record meanwhile, the poller writes this one
	if err := r.line.Do(ctx, func(c redis.Conn) error { return r.base.Store.Cover(c, record, claim) }); err != nil {
		if errors.Is(err, resque.ErrTaken) {
			s.names.Store(r.before) // not n, which has the list already if this is repeated after a lost answer
		}
		return err
	}
	covered := next
	covered.covered = true
	s.names.Store(&covered)
	return nil
}

// register registers the wanted workers, and makes jobs start under their ids.
func (r *registrar) register(ctx context.Context, s *Session, w Wanted) error {
	n := s.names.Load()
	workers := slices.Clone(n.workers)
	var missing []string
	for slot := range w.Workers {
		id := n.record.WorkerID(slot)
		if slot == len(workers) {
			workers = append(workers, "")
		}
		if workers[slot] = id; !slices.Contains(n.registered, id) {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		sent := *n
		sent.sent = append(slices.Clone(n.sent), missing...)
		n = &sent
		s.names.Store(n) // first: where the answer is lost, and the change is taken back, they must be unregistered
		if err := r.send(ctx, func(c redis.Conn) error {
			return r.base.Store.Register(c, n.record.ID, missing, n.record.Started, s.Now())
		}); err != nil {
			if conn.Classify(err) != conn.KindWait {
				return err
			}
			r.lease.lapsed.Store(true) // out of memory: the lease registers them when there is room
		}
	}
	if len(missing) > 0 || !slices.Equal(workers, n.workers) {
		next := *n
		next.workers, next.registered = workers, append(slices.Clone(n.registered), missing...)
		next.sent = slices.DeleteFunc(slices.Clone(n.sent), func(id string) bool { return slices.Contains(missing, id) })
		s.names.Store(&next)
		r.marked = false
	}
	return nil
}

// send sends worker ids while no heartbeat is sent.
func (r *registrar) send(ctx context.Context, f func(redis.Conn) error) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	return r.line.Do(ctx, f)
}

// drop unregisters the ids that no job can have any more, and then makes the record cover the remaining ids only.
func (r *registrar) drop(ctx context.Context, s *Session, w Wanted) error {
	n := s.names.Load()
	if s.settled(w) {
		return nil
	}
	occupied, err := r.lease.Slots.Occupied(ctx, !r.marked)
	if err != nil {
		return err
	}
	r.marked = true
	stays := make(map[string]bool) // ids that jobs have, or will have
	for slot := range w.Workers {
		stays[n.record.WorkerID(slot)] = true
	}
	for slot := range occupied {
		for _, queues := range append([]string{n.record.IDQueues}, n.record.Former...) {
			stays[n.record.WorkerUnder(slot, queues)] = true
		}
	}
	next := *n
	next.workers, next.registered, next.sent = slices.Clone(n.workers), nil, nil
	var gone []string
	for _, id := range n.registered {
		if stays[id] {
			next.registered = append(next.registered, id)
		} else {
			gone = append(gone, id)
		}
	}
	for _, id := range n.sent {
		if !stays[id] {
			gone = append(gone, id)
		}
	}
	for slot, id := range next.workers {
		if !stays[id] {
			next.workers[slot] = "" // the status writer writes nothing of it from now on
		}
	}
	if len(gone) > 0 {
		silent := *n
		silent.workers = next.workers
		s.names.Store(&silent)
		r.lease.Status.settle()
		r.sending.Lock() // until the next heartbeat cannot have them
		err := r.line.Do(ctx, func(c redis.Conn) error { return r.base.Store.Unregister(c, gone) })
		if err == nil {
			s.names.Store(&next)
		}
		r.sending.Unlock()
		if err != nil {
			return err
		}
	}
	if len(next.registered) > w.Workers {
		return nil // SlotFreed comes
	}
	last := next // next may be in use
	last.record.Concurrency, last.record.Former = w.Workers, nil
	if err := r.line.Do(ctx, func(c redis.Conn) error { return r.base.Store.Cover(c, last.record, "") }); err != nil {
		return err
	}
	last.workers = next.workers[:w.Workers]
	s.names.Store(&last)
	r.line.Close()
	return nil
}
