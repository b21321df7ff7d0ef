package goworker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Old names, and calls without a context. They go on to work.

// Enqueue pushes a job to the tail of its queue, as Resque.enqueue does.
//
// Deprecated: Use Client.Enqueue, which takes a context.
func (d *Daemon) Enqueue(job *Job) error { return d.Client().enqueueAll([]*Job{job}) }

// Enqueue pushes a job to the tail of its queue, on the shard of that queue.
//
// Deprecated: Use Client.Enqueue, which takes a context.
func (s *Shards) Enqueue(job *Job) error { return s.Client().enqueueAll([]*Job{job}) }

// EnqueueAll is Client.EnqueueMany for jobs without options. The error joins a
// *DuplicateError for each job whose lock another one holds: only these were not enqueued.
//
// Deprecated: Use Client.EnqueueMany, which takes a context.
func (d *Daemon) EnqueueAll(jobs ...*Job) error { return d.Client().enqueueAll(jobs) }

// EnqueueAll is Client.EnqueueMany for jobs without options; see Daemon.EnqueueAll.
//
// Deprecated: Use Client.EnqueueMany, which takes a context.
func (s *Shards) EnqueueAll(jobs ...*Job) error { return s.Client().enqueueAll(jobs) }

// EnqueueWith is Client.Enqueue, and the job always gets an id.
//
// Deprecated: Use Client.Enqueue, which takes a context.
func (d *Daemon) EnqueueWith(job *Job, opts ...EnqueueOption) (Receipt, error) {
	return d.Client().enqueueNamed(job, opts)
}

// EnqueueWith is Client.Enqueue, and the job always gets an id.
//
// Deprecated: Use Client.Enqueue, which takes a context.
func (s *Shards) EnqueueWith(job *Job, opts ...EnqueueOption) (Receipt, error) {
	return s.Client().enqueueNamed(job, opts)
}

// EnqueueAt enqueues a job at a time, as resque-scheduler's enqueue_at does; see
// ResqueScheduler.
//
// Deprecated: Use Client.Enqueue with ProcessAt and ResqueScheduler.
func (d *Daemon) EnqueueAt(t time.Time, job *Job) error {
	return d.Client().enqueueAll([]*Job{job}, ProcessAt(t), ResqueScheduler())
}

// EnqueueAt enqueues a job at a time; see Daemon.EnqueueAt.
//
// Deprecated: Use Client.Enqueue with ProcessAt and ResqueScheduler.
func (s *Shards) EnqueueAt(t time.Time, job *Job) error {
	return s.Client().enqueueAll([]*Job{job}, ProcessAt(t), ResqueScheduler())
}

// EnqueueIn is EnqueueAt after a duration, from now on.
//
// Deprecated: Use Client.Enqueue with ProcessIn and ResqueScheduler.
func (d *Daemon) EnqueueIn(in time.Duration, job *Job) error {
	return d.EnqueueAt(clock.System.Now().Add(in), job)
}

// EnqueueIn is EnqueueAt after a duration, from now on.
//
// Deprecated: Use Client.Enqueue with ProcessIn and ResqueScheduler.
func (s *Shards) EnqueueIn(in time.Duration, job *Job) error {
	return s.EnqueueAt(clock.System.Now().Add(in), job)
}

// EnqueueAllAt is EnqueueAll for a later time. The jobs are moved to their queues in the order
// given here.
//
// Deprecated: Use Client.EnqueueMany with ProcessAt and ResqueScheduler.
func (d *Daemon) EnqueueAllAt(t time.Time, jobs ...*Job) error {
	return d.Client().enqueueAll(jobs, ProcessAt(t), ResqueScheduler())
}

func (c *Client) enqueueNamed(job *Job, opts []EnqueueOption) (Receipt, error) {
	return c.Enqueue(context.Background(), job, append(slices.Clip(opts), withID)...)
}

func (c *Client) enqueueAll(jobs []*Job, opts ...EnqueueOption) error {
	items := make([]Item, len(jobs))
	for i, job := range jobs {
		items[i] = Item{job, opts}
	}
	receipts, err := c.EnqueueMany(context.Background(), items...)
	for _, r := range receipts {
		if r.Duplicate != nil {
			err = errors.Join(err, r.Duplicate)
		}
	}
	return err
}

// Concurrency is MaxRunning.
//
// Deprecated: Use MaxRunning. WorkerSettings.Concurrency is something else: the workers of a
// process.
func Concurrency(n int, opts ...LimitOption) Limit { return MaxRunning(n, opts...) }

// InProcess is PerProcess.
//
// Deprecated: Use PerProcess.
func InProcess() LimitOption { return PerProcess() }

// Arg is ByArg.
//
// Deprecated: Use ByArg.
func Arg(index int, path ...string) KeyFunc { return ByArg(index, path...) }

// Fair is FairBy.
//
// Deprecated: Use FairBy.
func Fair(key KeyFunc) Option { return FairBy(key) }

// With is WithMiddleware.
//
// Deprecated: Use WithMiddleware.
func With(mw ...Middleware) Option { return WithMiddleware(mw...) }

// Fail is FailNow.
//
// Deprecated: Use FailNow.
func Fail(err error) error { return FailNow(err) }

// At is ProcessAt.
//
// Deprecated: Use ProcessAt.
func At(t time.Time) EnqueueOption { return ProcessAt(t) }

// In is ProcessIn.
//
// Deprecated: Use ProcessIn.
func In(d time.Duration) EnqueueOption { return ProcessIn(d) }

// Stuck is StuckJobs.
//
// Deprecated: Use StuckJobs.
func (d *Daemon) Stuck() []StuckJob { return d.StuckJobs() }

// Stuck is StuckJobs.
//
// Deprecated: Use StuckJobs.
func (s *Shards) Stuck() []StuckJob { return s.StuckJobs() }

// Stuck is StuckJobs.
//
// Deprecated: Use StuckJobs.
func Stuck() []StuckJob { return std().Stuck() }
