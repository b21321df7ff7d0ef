// Package await waits until jobs are over. A process has one Watcher for each Redis. It has one pair of connections for
// any number of waiters: on one it reads the documents of their jobs, and on the other Redis notifies it of
// those that changed since.
package await

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"sync"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// Linger is how long the connections stay after the last waiter has left.
	Linger = time.Minute

	// PollEvery is how often documents are read whose server cannot notify us.
	PollEvery = 250 * time.Millisecond

	// WatchPause is the least time between two Statuses of one Watch.
	WatchPause = 100 * time.Millisecond
)

// Watcher waits for the jobs of one Redis. Its goroutine and its connections come with the first waiter, and go a while
// after the last. All methods are safe for concurrent use.
type Watcher struct {
	base   part.Base
	track  bool
	linger time.Duration
	signal chan struct{} // there is something to read
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	said   logging.Once // of the goroutine

	mu      sync.Mutex
	jobs    map[string]*job
	due     []string // ids of jobs to read, in order; some have no waiter any more
	running bool     // a goroutine serves the waiters
	away    error    // why Redis cannot be asked now; nil: it can
	closed  error    // Close was called
}

// job is a job that has waiters.
type job struct {
	waits []*wait
	due   bool // its id is in due
}

// wait is one waiter.
type wait struct {
	every   bool        // it wants each change and the progress, not only the end
	asked   bool        // a read was sent since it came: answers to earlier ones may be older than it
	read    bool        // its job's document was found
	answers chan answer // has room for one, and holds the latest
}

type answer struct {
	resque.Document
	err error
}

// New returns the Watcher of a Redis. Track says whether to ask for notifications. It has no connection before the
// first waiter.
func New(b part.Base, track bool) *Watcher {
	w := &Watcher{base: b, track: track, linger: Linger, signal: make(chan struct{}, 1), jobs: make(map[string]*job)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Close ends all waits with an error, closes the connections and waits for the goroutine.
func (w *Watcher) Close(why error) {
	w.mu.Lock()
	if w.closed == nil {
		w.closed = why
		w.end(func(*wait) bool { return true }, why)
	}
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
}

// Wait waits until a job is over, and returns its Status then. The error matches inspect.ErrNoResult if Redis keeps nothing of the
// job, or does not any more. If Redis cannot be reached at the beginning, it is why; later Wait goes on through an outage. The end
// of the context ends it at once.
func (w *Watcher) Wait(ctx context.Context, id string) (inspect.Status, error) {
	return w.once(ctx, id, false)
}

// Now returns the Status of a job as it is.
func (w *Watcher) Now(ctx context.Context, id string) (inspect.Status, error) {
	return w.once(ctx, id, true)
}

func (w *Watcher) once(ctx context.Context, id string, every bool) (inspect.Status, error) {
	x, err := w.join(id, every)
	if err != nil {
		return inspect.Status{}, err
	}
	defer w.leave(id, x)
	a := w.next(ctx, id, x)
	if a.err != nil {
		return inspect.Status{}, a.err
	}
	return inspect.StatusOf(a.Document), nil
}

// Watch returns the Status of a job now, and after each change, at most ten a second. It ends after the Status
// with which the job is over, or with an error.
func (w *Watcher) Watch(ctx context.Context, id string) iter.Seq2[inspect.Status, error] {
	return func(yield func(inspect.Status, error) bool) {
		x, err := w.join(id, true)
		if err != nil {
			yield(inspect.Status{}, err)
			return
		}
		defer w.leave(id, x)
		pause := w.base.Clock.NewTimer(0)
		defer pause.Stop()
		for last := (resque.Document{}); ; {
			a := w.next(ctx, id, x)
			if a.err == nil && reflect.DeepEqual(a.Document, last) {
				continue
			}
			if last = a.Document; a.err != nil {
				yield(inspect.Status{}, a.err)
				return
			}
			if !yield(inspect.StatusOf(last), nil) || resque.Over(last.State) {
				return
			}
			pause.Reset(WatchPause)
			select {
			case <-pause.C():
			case <-ctx.Done():
			}
		}
	}
}

// next returns the next answer to a waiter.
func (w *Watcher) next(ctx context.Context, id string, x *wait) answer {
	if ctx.Err() == nil {
		select {
		case a := <-x.answers:
			return a
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	away := w.away
	w.mu.Unlock()
	if away != nil {
		return answer{err: prefix.Errorf("waiting for job %s: %w; Redis could not be asked: %w", id, conn.WhyEnded(ctx), away)}
	}
	return answer{err: prefix.Errorf("waiting for job %s: %w", id, conn.WhyEnded(ctx))}
}

// join adds a waiter.
func (w *Watcher) join(id string, every bool) (*wait, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		return nil, w.closed
	}
	x := &wait{every: every, answers: make(chan answer, 1)}
	j := w.jobs[id]
	if j == nil {
		j = new(job)
		w.jobs[id] = j
	}
	j.waits = append(j.waits, x)
	w.mark(id, j)
	if !w.running {
		w.running = true
		w.wg.Go(w.run)
	}
	w.wake()
	return x, nil
}

// leave removes a waiter.
func (w *Watcher) leave(id string, x *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[id]; j != nil {
		w.keep(id, j, func(of *wait) bool { return of != x })
	}
}

// keep removes the waiters of a job that are not to be kept.
func (w *Watcher) keep(id string, j *job, kept func(*wait) bool) {
	left := j.waits[:0]
	for _, x := range j.waits {
		if kept(x) {
			left = append(left, x)
		}
	}
	clear(j.waits[len(left):])
	if j.waits = left; len(left) == 0 {
		delete(w.jobs, id)
	}
}

// end ends waits with an error.
func (w *Watcher) end(which func(*wait) bool, err error) {
	for id, j := range w.jobs {
		w.keep(id, j, func(x *wait) bool {
			if which(x) {
				x.say(answer{err: err})
				return false
			}
			return true
		})
	}
}

// say gives the waiter the latest answer in place of one that it has not taken. The caller holds mu.
func (x *wait) say(a answer) {
	select {
	case <-x.answers:
	default:
	}
	x.answers <- a
}

func (w *Watcher) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// mark has a job read. The caller holds mu.
func (w *Watcher) mark(id string, j *job) {
	if !j.due {
		j.due = true
		w.due = append(w.due, id)
	}
}

// changed has jobs read, or all.
func (w *Watcher) changed(ids []string, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if j := w.jobs[id]; j != nil {
			w.mark(id, j)
		}
	}
	if all {
		for id, j := range w.jobs {
			w.mark(id, j)
		}
	}
}

// take returns at most so many jobs that are to be read.
func (w *Watcher) take(most int) (asks []resque.DocumentAsk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.due) > 0 && len(asks) < most {
		id := w.due[0]
		w.due = w.due[1:]
		j := w.jobs[id]
		if j == nil || !j.due {
			continue
		}
		j.due = false
		ask := resque.DocumentAsk{ID: id}
		for _, x := range j.waits {
			x.asked = true
			ask.Progress = ask.Progress || x.every
		}
		asks = append(asks, ask)
	}
	if len(w.due) == 0 {
		w.due = nil
	}
	return asks
}

// give gives the waiters of a job what was read.
func (w *Watcher) give(id string, r resque.DocumentRead) {
	a := answer{r.Document, prefix.Of(r.Err)}
	if r.Err == nil && !r.There {
		a.err = inspect.NoResult(id)
	}
	over := a.err != nil || resque.Over(r.State)
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[id]
	if j == nil {
		return
	}
	w.keep(id, j, func(x *wait) bool {
		if !x.asked {
			return true
		}
		x.read = true
		if over || x.every {
			x.say(a)
		}
		return !over
	})
}

// attempted is called after an attempt to ask Redis, with the reason if it failed. Waits that have just begun end with it
// if no connection was made.
func (w *Watcher) attempted(err error, dialing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = err
	if err != nil && dialing && !conn.Elsewhere(err) {
		w.end(func(x *wait) bool { return !x.read }, prefix.Of(err))
	}
}

// idle reports whether there is no waiter. Then the goroutine ends, and the next waiter starts another.
func (w *Watcher) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.jobs) > 0 {
		return false
	}
	w.running, w.due, w.away = false, nil, nil
	return true
}

// waiters returns how many jobs have a waiter, and whether some are to be read.
func (w *Watcher) waiters() (jobs int, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs), len(w.due) > 0
}

var errIdle = errors.New("there is no waiter")
