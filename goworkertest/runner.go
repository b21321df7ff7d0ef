package goworkertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/trial"
)

// Runner runs the jobs of a daemon in a test: on a Redis inside the test, by a clock that stands still until the test
// moves it. Between its calls nothing runs, and no goroutine waits.
//
//	r := goworkertest.New(t, d)
//	r.Client().Enqueue(ctx, job, goworker.ProcessIn(time.Hour))
//	r.Drain()            // nothing is due
//	r.Advance(time.Hour) // runs the job
//
// It is for the goroutine of the test, except for Client, Now and Jobs, which handlers may use too.
type Runner struct {
	t        testing.TB
	daemon   *goworker.Daemon
	schedule *trial.Schedule
	clock    *trial.Trial
	redis    *server
	jobs     recorder

	workers  int
	most     int
	patience time.Duration

	mu      sync.Mutex // the workers write what follows
	results []*Result
	lines   bytes.Buffer
	ended   int // jobs since the call began
	stop    context.CancelCauseFunc
}

// The defaults of the options of New.
const (
	DefaultMostJobs = 10_000
	DefaultPatience = 30 * time.Second
)

// RunnerOption is a setting of New: StartAt, Concurrency, MostJobs and Patience.
type RunnerOption func(*Runner)

// StartAt sets the clock. The default is this machine's present time, to the millisecond.
func StartAt(now time.Time) RunnerOption { return func(r *Runner) { r.clock.Set(now) } }

// Concurrency is how many jobs run at a time. By default it is one, whatever the daemon's settings say: then jobs run in
// the order of their queues.
func Concurrency(n int) RunnerOption { return func(r *Runner) { r.workers = n } }

// MostJobs is how many runs one Drain or Advance may take before it ends the test: it finds jobs that enqueue
// themselves for ever. The default is DefaultMostJobs.
func MostJobs(n int) RunnerOption { return func(r *Runner) { r.most = n } }

// Patience is for how long, of this machine's time, one Drain may last before it ends the test: it finds handlers that
// hang. The default is DefaultPatience.
func Patience(d time.Duration) RunnerOption { return func(r *Runner) { r.patience = d } }

// New puts a daemon into the test, as its program makes it: with its handlers, middleware, hooks, schedules, parts and settings.
// The daemon must not have run or enqueued yet. New replaces its Redis, its log and its Concurrency. Whatever uses the daemon's
// Client then reaches the Redis of the test. A daemon without queues serves all.
//
// Workflows run as any jobs do: the end of a step puts what follows into the queues of the test.
//
// Limits do not hold jobs up: MaxRunning, RateLimit, FairBy and LimitQueue. An Isolated class runs in this process. The daemon's parts
// and the hook Shutdown start and stop with each Drain that finds jobs.
func New(t testing.TB, d *goworker.Daemon, opts ...RunnerOption) *Runner {
	t.Helper()
	r := &Runner{
		t: t, daemon: d, clock: trial.New(clock.System.Now().Truncate(time.Millisecond)),
		workers: 1, most: DefaultMostJobs, patience: DefaultPatience,
	}
	for _, opt := range opts {
		opt(r)
	}
	if r.workers < 1 || r.most < 1 || r.patience <= 0 {
		t.Fatalf("goworkertest: Concurrency(%d), MostJobs(%d), Patience(%s): each must be positive", r.workers, r.most, r.patience)
	}
	r.clock.Sent, r.clock.Ended = r.jobs.sent, r.end
	r.redis = startServer(t, r.clock)
	x := goworker.Trial(r.clock)
	x.Daemon(d, r.adjust, scheme, r.redis.open)
	t.Cleanup(d.Close)
	schedule, err := x.Schedule(d)
	if err != nil {
		t.Fatal(err)
	}
	r.schedule = schedule
	return r
}

// adjust replaces the settings that are the test's.
func (r *Runner) adjust(s *goworker.WorkerSettings) {
	if len(s.Queues) == 0 && s.QueuesString == "" {
		s.QueuesString = "*"
	}
	s.URI, s.ExitOnComplete, s.Concurrency, s.WaitReplicas = scheme+":", true, r.workers, 0
	s.SkipTLSVerify, s.TLSCertPath, s.TLSClientCertPath, s.TLSClientKeyPath = false, "", "", ""
	s.Logger = slog.New(slog.NewTextHandler(writer{r}, nil))
}

// writer is the daemon's log.
type writer struct{ *Runner }

func (w writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines.Write(line)
}

// Client returns the daemon's Client.
func (r *Runner) Client() *goworker.Client { return r.daemon.Client() }

// Inspect answers questions about the queues, delayed jobs and failures of the test.
func (r *Runner) Inspect() *inspect.Inspector { return r.daemon.Client().Inspect() }

// Now returns the time by the Runner's clock. What a handler reads by time.Now is this machine's.
func (r *Runner) Now() time.Time { return r.clock.Now() }

// Jobs returns the jobs that the daemon's Client has enqueued, in order, those of handlers too. Recurring schedules and retries
// do not go through it.
func (r *Runner) Jobs() []Job { return r.jobs.all() }

// Results returns all runs so far, in the order in which they ended.
func (r *Runner) Results() []*Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.results)
}

// ResultsOf returns those of one class.
func (r *Runner) ResultsOf(class string) []*Result {
	return slices.DeleteFunc(r.Results(), func(one *Result) bool { return one.Class != class })
}

// Log returns what the daemon has logged so far.
func (r *Runner) Log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.String()
}

// Delayed returns the jobs that wait for their time, retries too, in the order of their times.
func (r *Runner) Delayed() []inspect.DelayedJob {
	r.t.Helper()
	jobs, err := r.Inspect().Delayed().List(context.Background(), time.Time{}, 0, -1)
	if err != nil {
		r.t.Fatal(err)
	}
	return jobs
}

// Failed returns the failures, the oldest first.
func (r *Runner) Failed() []inspect.Failure {
	r.t.Helper()
	all, err := r.Inspect().Failures().List(context.Background(), 0, -1)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// Drain runs the jobs that are in the daemon's queues, delayed jobs and schedules that are due by the clock, and the jobs that these enqueue, until
// none is left. It returns the runs in the order in which they ended. Jobs that are due later wait for Advance.
func (r *Runner) Drain() []*Result {
	r.t.Helper()
	return r.do(r.Now())
}

// Advance moves the clock, and drains at each moment at which something is due, as if that time had passed. It returns the runs.
func (r *Runner) Advance(d time.Duration) []*Result {
	r.t.Helper()
	if d < 0 {
		r.t.Fatalf("goworkertest: Advance(%s): the clock does not go back", d)
	}
	return r.do(r.Now().Add(d))
}

// AdvanceTo is Advance until a time.
func (r *Runner) AdvanceTo(until time.Time) []*Result {
	r.t.Helper()
	return r.Advance(until.Sub(r.Now()))
}

// do drains until a time.
func (r *Runner) do(until time.Time) []*Result {
	r.t.Helper()
	r.mu.Lock()
	before := len(r.results)
	r.ended = 0
	r.mu.Unlock()
	for {
		next, err := r.drain()
		if err != nil {
			r.t.Fatal(err)
		}
		now := r.Now()
		if next.IsZero() || next.After(until) {
			if !now.Before(until) {
				break
			}
			next = until
		}
		if !next.After(now) {
			next = now.Add(time.Millisecond)
		}
		r.clock.Set(next)
		r.redis.set(r.clock)
	}
	return r.Results()[before:]
}

// drain runs what is due now, and returns when there is something to do again.
func (r *Runner) drain() (next time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), r.patience, fmt.Errorf(
		"goworkertest: after %s of real time, jobs still run or wait; does a handler hang, or is a queue paused? See Patience", r.patience))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	r.stop = stop
	r.mu.Unlock()
	for {
		if next, err = r.schedule.Step(ctx); err != nil {
			return next, whyEnded(ctx, err)
		}
		waits, err := r.waits(ctx)
		if err != nil {
			return next, whyEnded(ctx, err)
		}
		if !waits {
			return next, nil
		}
		before := r.runs()
		if err = whyEnded(ctx, r.daemon.Run(ctx)); err != nil || r.runs() == before {
			return next, err
		}
	}
}

// whyEnded returns why a context has ended instead of what came of that. A connection finds a deadline before its context does.
func whyEnded(ctx context.Context, err error) error {
	if until, ok := ctx.Deadline(); err != nil && ok && !clock.System.Now().Before(until) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// waits reports whether a queue has jobs.
func (r *Runner) waits(ctx context.Context) (bool, error) {
	queues, err := r.Inspect().Queues(ctx)
	for _, queue := range queues {
		n, sizeErr := r.Inspect().QueueSize(ctx, queue)
		if err = errors.Join(err, sizeErr); n > 0 {
			return true, err
		}
	}
	return false, err
}

func (r *Runner) runs() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.results)
}

// end records a job that has ended. A worker calls it.
func (r *Runner) end(j *outcome.Job, o *outcome.Outcome) {
	if o.State == outcome.Passed {
		return // it waits on
	}
	one := resultOf(j, o, r.clock.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, one)
	if r.ended++; r.ended == r.most {
		r.stop(fmt.Errorf("goworkertest: %d jobs have run and there is no end, the last of them %s; does it enqueue itself? See MostJobs", r.most, one))
	}
}
