package httpclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// The defaults of a Consumer.
const (
	DefaultTTR         = time.Minute
	DefaultConcurrency = 1
	DefaultStopTimeout = 20 * time.Second
)

const (
	// pollFor is how long one request waits for jobs.
	pollFor = 30 * time.Second

	mostReserved = 100
	mostAcks     = 500
	minTTR       = time.Second
	maxNack      = time.Hour
)

// Consumer runs a function for each job of some queues. Its fields are set before Run.
type Consumer struct {
	Client  *Client
	Queues  []string // in their order: the first that has a job gives it
	Handler func(ctx context.Context, job *Job) error

	// TTR is the lease of each job. While a handler runs its job is touched each half of it; so it bounds not how long a
	// handler may run, but how long it takes until the job of a consumer that died is delivered again. 0: DefaultTTR.
	TTR time.Duration

	// Concurrency is how many handlers run at a time. 0: DefaultConcurrency.
	Concurrency int

	// Backoff is after how long a job whose handler failed is delivered again. nil: 1 s, 2 s, 4 s … up to an hour, each up to
	// a quarter longer.
	Backoff func(attempt int) time.Duration

	// StopTimeout is how long handlers may run on after Run was asked to stop. Then their contexts end, and their jobs go
	// back to the heads of their queues. 0: DefaultStopTimeout.
	StopTimeout time.Duration

	// Log gets what goes wrong outside of handlers. nil: slog.Default().
	Log *slog.Logger
}

// Discard is the error of a handler whose job is not to be tried again: it is a dead letter at once.
func Discard(err error) error { return &discarded{err} }

type discarded struct{ err error }

func (d *discarded) Error() string { return d.err.Error() }
func (d *discarded) Unwrap() error { return d.err }

// Run takes jobs and runs the Handler until the context ends. A handler that returns nil has its job acknowledged; after an
// error the job is delivered again while it has tries, and then it is a dead letter. A panic is an error.
//
// The context of a handler ends when its lease is lost, with the cause ErrLeaseLost: another consumer has the job then.
// When Run is to stop it takes no more jobs, and handlers have StopTimeout.
//
// Run goes on through errors of the network and of the server. It returns an error only if the server refuses what it asks for, as
// without a token. Jobs that it has then are ended as at a stop.
func (c *Consumer) Run(ctx context.Context) error {
	r, err := c.prepare()
	if err != nil {
		return err
	}
	defer r.end()
	return r.take(ctx)
}

// prepare checks the fields and fills in the defaults.
func (c *Consumer) prepare() (*run, error) {
	r := &run{Consumer: *c, ended: make(chan *Job, mostAcks), done: make(chan struct{})}
	if r.TTR == 0 {
		r.TTR = DefaultTTR
	}
	if r.Concurrency == 0 {
		r.Concurrency = DefaultConcurrency
	}
	if r.StopTimeout == 0 {
		r.StopTimeout = DefaultStopTimeout
	}
	if r.Backoff == nil {
		r.Backoff = backoff
	}
	if r.Log == nil {
		r.Log = slog.Default()
	}
	switch {
	case r.Client == nil:
		return nil, errors.New("httpclient: Consumer.Client is nil; make one with New")
	case r.Handler == nil:
		return nil, errors.New("httpclient: Consumer.Handler is nil; give the function that runs a job")
	case len(r.Queues) == 0:
		return nil, errors.New("httpclient: Consumer.Queues names no queue")
	case r.TTR < minTTR:
		return nil, fmt.Errorf("httpclient: Consumer.TTR is %s, and the shortest lease is %s", r.TTR, minTTR)
	case r.Concurrency < 0 || r.StopTimeout < 0:
		return nil, errors.New("httpclient: Consumer.Concurrency or StopTimeout is negative; leave it out for its default")
	}
	r.free = make(chan struct{}, r.Concurrency)
	for range r.Concurrency {
		r.free <- struct{}{}
	}
	// What ends jobs lives on when Run is to stop, and then for so long.
	r.running, r.abandon = context.WithCancelCause(context.Background())
	go r.acknowledge()
	return r, nil
}

// backoff doubles with each attempt.
func backoff(attempt int) time.Duration {
	d := min(time.Second<<min(max(attempt-1, 0), 12), maxNack)
	return d + rand.N(d/4+1)
}

// run is one Run of a Consumer.
type run struct {
	Consumer
	free    chan struct{} // one for each handler that may begin
	running context.Context
	abandon context.CancelCauseFunc
	workers sync.WaitGroup
	ended   chan *Job     // jobs to be acknowledged
	done    chan struct{} // the last acknowledgement was sent
}

var errStopping = errors.New("httpclient: the consumer stops")

// end waits for the handlers and for what is left to acknowledge.
func (r *run) end() {
	stop := time.AfterFunc(r.StopTimeout, func() { r.abandon(errStopping) })
	r.workers.Wait()
	stop.Stop()
	close(r.ended)
	<-r.done
	r.abandon(nil)
}

// take reserves jobs while handlers are free.
func (r *run) take(ctx context.Context) error {
	for failures := 0; ; {
		var slots int
		select {
		case <-r.free:
			slots = 1 + r.more()
		case <-ctx.Done():
			return nil
		}
		jobs, err := r.Client.Reserve(ctx, Reservation{Queues: r.Queues, Count: slots, TTR: r.TTR, Wait: pollFor})
		began := time.Now()
		for _, j := range jobs {
			slots--
			r.workers.Go(func() {
				defer func() { r.free <- struct{}{} }()
				r.work(&held{Job: j, since: began})
			})
		}
		for range slots {
			r.free <- struct{}{}
		}
		var p *Problem
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failures = 0
			continue
		case errors.As(err, &p) && p.Status < 500 && p.Status != http.StatusTooManyRequests && p.Status != http.StatusRequestTimeout:
			return err
		}
		failures++
		pause := min(firstPause<<min(failures, 10), mostPause)
		r.Log.Warn("reserving jobs failed; trying again", "error", err, "in", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// more takes the other free handlers, as many as one request may ask for.
func (r *run) more() (n int) {
	for n < mostReserved-1 {
		select {
		case <-r.free:
			n++
		default:
			return n
		}
	}
	return n
}

// held is a job while its handler runs. The goroutine that touches it and the one that ends it take turns.
type held struct {
	*Job
	since time.Time // when the lease that is known began; it lasts TTR from there at least
}

// work runs the handler of a job and ends the job.
func (r *run) work(h *held) {
	ctx, cancel := context.WithCancelCause(r.running)
	touching := make(chan struct{})
	go func() {
		defer close(touching)
		r.touch(ctx, h, cancel)
	}()
	err := r.call(ctx, h.Job)
	lost := errors.Is(context.Cause(ctx), ErrLeaseLost)
	cancel(nil)
	<-touching
	if lost {
		r.Log.Warn("the lease of a job was lost while its handler ran", "queue", h.Queue, "job", h.ID)
		return
	}
	r.finish(h, err)
}

// call calls the handler. A panic is an error.
func (r *run) call(ctx context.Context, j *Job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.Log.Error("a handler panicked", "queue", j.Queue, "job", j.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return r.Handler(ctx, j)
}

// touch prolongs the lease each half of it until the handler has returned. If the lease is lost the handler's context ends.
func (r *run) touch(ctx context.Context, h *held, lost context.CancelCauseFunc) {
	timer := time.NewTimer(r.TTR / 2)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		sent := time.Now()
		err := r.Client.Touch(ctx, h.Job, r.TTR)
		next := r.TTR / 2
		switch {
		case err == nil:
			h.since = sent
		case ctx.Err() != nil:
			h.Lease = "" // the touch may have been done
			return
		case errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrNotFound) || time.Since(h.since) >= r.TTR:
			lost(ErrLeaseLost)
			return
		default:
			// The touch may have been done, and then the lease has another name. Until the old one ends the job is still
			// this consumer's, so the id alone names it.
			h.Lease = ""
			next = max(r.TTR/10, 50*time.Millisecond)
		}
		timer.Reset(next)
	}
}

// finish ends the job of a handler that has returned.
func (r *run) finish(h *held, err error) {
	if h.Lease == "" && time.Since(h.since) >= r.TTR {
		r.Log.Warn("the lease of a job was lost while its handler ran", "queue", h.Queue, "job", h.ID)
		return
	}
	if err == nil && h.result == nil {
		r.ended <- h.Job
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.running), r.TTR)
	defer cancel()
	var no *discarded
	switch {
	case err == nil:
		err = r.Client.Ack(ctx, h.Job, h.result)
	case errors.Is(context.Cause(r.running), errStopping):
		err = r.Client.Release(ctx, h.Job)
	case errors.As(err, &no):
		err = r.Client.Fail(ctx, h.Job, err.Error())
	default:
		err = r.Client.Nack(ctx, h.Job, max(0, r.Backoff(h.Attempt)), err.Error())
	}
	if err != nil {
		r.Log.Warn("the end of a job was not accepted; it is delivered again when its lease ends", "queue", h.Queue, "job", h.ID, "error", err)
	}
}

// acknowledge sends what has come since the last acknowledgement, until there are no more.
func (r *run) acknowledge() {
	defer close(r.done)
	for j := range r.ended {
		jobs := []*Job{j}
	more:
		for len(jobs) < mostAcks {
			select {
			case j, open := <-r.ended:
				if !open {
					break more
				}
				jobs = append(jobs, j)
			default:
				break more
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), max(r.TTR, r.StopTimeout))
		words, err := r.Client.Acks(ctx, jobs...)
		cancel()
		if err != nil {
			r.Log.Warn("jobs that are done were not acknowledged; they are delivered again when their leases end", "jobs", len(jobs), "error", err)
			continue
		}
		for i, word := range words {
			if word == LeaseLost {
				r.Log.Warn("a job was acknowledged after its lease was lost; it runs a second time", "queue", jobs[i].Queue, "job", jobs[i].ID)
			}
		}
	}
}
