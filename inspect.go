package goworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/drain"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
)

// Package inspect answers the questions of an operator. The methods of Daemon and of the
// lists below are those of inspect, without a context, on the daemon's connections.

type (
	// Failure is the record of a job that failed; see inspect.Failure.
	Failure = inspect.Failure
	// FailureFilter chooses failures: those that fit every field that is set; see
	// inspect.FailureFilter.
	FailureFilter = inspect.FailureFilter
	// FailureGroup counts the failures of one class that failed with one kind of error; see
	// inspect.FailureGroup.
	FailureGroup = inspect.FailureGroup
	// DelayedJob is a job that waits for its time; see inspect.DelayedJob.
	DelayedJob = inspect.DelayedJob
	// WorkerInfo describes a registered worker; see inspect.WorkerInfo.
	WorkerInfo = inspect.WorkerInfo
	// WorkingInfo is the job that a worker runs; see inspect.WorkingInfo.
	WorkingInfo = inspect.WorkingInfo
	// FleetInfo is the state of a whole Resque, as Ruby's Resque.info gives it; see
	// inspect.FleetInfo.
	FleetInfo = inspect.FleetInfo
	// WaitingInfo is a lane: the jobs of a queue that wait, in order, for the same limits or
	// the turn of the same key. See inspect.WaitingInfo.
	WaitingInfo = inspect.WaitingInfo
	// DrainReport is what DrainToResque did; see inspect.DrainReport.
	DrainReport = inspect.DrainReport
)

var (
	// ErrNoFailure is returned for a failure that is not in its list any more: it was
	// retried, removed or cleared since it was listed.
	ErrNoFailure = inspect.ErrNoFailure
	// ErrRetried is returned by RetryID for a failure that has been retried before, so
	// that two operators who press the button enqueue one job. To run the job once more,
	// Get the failure and Retry it.
	ErrRetried = inspect.ErrRetried
)

func (d *Daemon) inspect() *inspect.Inspector { return inspect.New(lender{d.endpoint}) }

// wanted returns a job as package inspect takes it.
func wanted(job *Job) *inspect.Job {
	if job == nil {
		return nil
	}
	return &inspect.Job{Queue: job.Queue, Class: job.Payload.Class, Args: job.Payload.Args}
}

// Dequeue removes from job.Queue every waiting job equal to this one and returns how many
// there were. With Payload.Args nil it removes all jobs of the class. See inspect.Job for
// what is equal.
//
// Deprecated: Use Client().Inspect().Dequeue, which takes a context.
func (d *Daemon) Dequeue(job *Job) (removed int, err error) {
	return d.inspect().Dequeue(context.Background(), wanted(job))
}

// RemoveQueue removes a queue with all the jobs that wait in it. Workers keep
// looking at the queue, and the next job pushed to it brings it back.
//
// Deprecated: Use Client().Inspect().RemoveQueue, which takes a context.
func (d *Daemon) RemoveQueue(queue string) error {
	return d.unknown(d.inspect().RemoveQueue(context.Background(), queue))
}

// unknown logs that nothing knows a name. Package inspect returns that as an error, the older methods do
// not: a script may pause or remove a queue before there is one.
func (d *Daemon) unknown(err error) error {
	if !errors.Is(err, inspect.ErrUnknownQueue) && !errors.Is(err, inspect.ErrUnknownSchedule) {
		return err
	}
	if client, closed := d.init(false); closed == nil {
		client.log.Warn("a name was given that nothing knows", "error", err)
	}
	return nil
}

// Queues returns the names of all queues, sorted. A queue stays when it becomes
// empty, until it is removed.
//
// Deprecated: Use Client().Inspect().Queues, which takes a context.
func (d *Daemon) Queues() ([]string, error) { return d.inspect().Queues(context.Background()) }

// QueueSize returns how many jobs wait in a queue: none if it does not exist.
//
// Deprecated: Use Client().Inspect().QueueSize, which takes a context.
func (d *Daemon) QueueSize(queue string) (int64, error) {
	return d.inspect().QueueSize(context.Background(), queue)
}

// PauseQueue keeps all processes of the fleet from taking jobs of a queue until
// ResumeQueue; see inspect.Inspector.PauseQueue. Ruby's workers do not know of it.
//
// Deprecated: Use Client().Inspect().PauseQueue, which takes a context.
func (d *Daemon) PauseQueue(queue string) error {
	return d.unknown(d.inspect().PauseQueue(context.Background(), queue))
}

// ResumeQueue ends PauseQueue. A pattern or an exclusion is refused, unless it is among
// the PausedQueues as it stands.
//
// Deprecated: Use Client().Inspect().ResumeQueue, which takes a context.
func (d *Daemon) ResumeQueue(queue string) error {
	return d.unknown(d.inspect().ResumeQueue(context.Background(), queue))
}

// PausedQueues returns the names of the queues that are paused, sorted.
//
// Deprecated: Use Client().Inspect().PausedQueues, which takes a context.
func (d *Daemon) PausedQueues() ([]string, error) {
	return d.inspect().PausedQueues(context.Background())
}

// Waiting returns the lanes of a queue whose jobs have limits or take turns, the lane
// whose turn is next first. Ruby's tools do not see these jobs. It costs one command for
// each lane.
//
// Deprecated: Use Client().Inspect().Waiting, which takes a context.
func (d *Daemon) Waiting(queue string) ([]WaitingInfo, error) {
	return d.inspect().Waiting(context.Background(), queue)
}

// Workers returns the workers of the whole fleet, sorted by id. A goworker worker
// that runs a job shorter than about 100 ms is shown as idle.
//
// Deprecated: Use Client().Inspect().Workers, which takes a context.
func (d *Daemon) Workers() ([]WorkerInfo, error) { return d.inspect().Workers(context.Background()) }

// Info counts queues, jobs, workers and failures.
//
// Deprecated: Use Client().Inspect().Fleet, which takes a context.
func (d *Daemon) Info() (FleetInfo, error) { return d.inspect().Fleet(context.Background()) }

// StatsText returns the counts as resque-web serves them at /stats.txt, for monitoring.
//
// Deprecated: Use Client().Inspect().StatsText, which takes a context.
func (d *Daemon) StatsText() (string, error) { return d.inspect().StatsText(context.Background()) }

// ScheduledAt returns the times to which jobs equal to this one are delayed, in order. A
// job in resque-scheduler's schedule is shown at the next whole second.
//
// Deprecated: Use Client().Inspect().DelayedUntil, which takes a context.
func (d *Daemon) ScheduledAt(job *Job) ([]time.Time, error) {
	return d.inspect().DelayedUntil(context.Background(), wanted(job))
}

// RemoveDelayed cancels all delayed jobs equal to this one and returns how many there
// were. See inspect.Job for what is equal, and DelayedList.Like for what it costs.
//
// Deprecated: Use Client().Inspect().RemoveDelayed, which takes a context.
func (d *Daemon) RemoveDelayed(job *Job) (removed int, err error) {
	return d.inspect().RemoveDelayed(context.Background(), wanted(job))
}

// RemoveDelayedFrom is RemoveDelayed for those delayed to one time.
//
// Deprecated: Use Client().Inspect().RemoveDelayedFrom, which takes a context.
func (d *Daemon) RemoveDelayedFrom(t time.Time, job *Job) (removed int, err error) {
	return d.inspect().RemoveDelayedFrom(context.Background(), t, wanted(job))
}

// EnqueueDelayed enqueues the delayed jobs equal to this one now and returns how many.
//
// Deprecated: Use Client().Inspect().PromoteDelayed, which takes a context.
func (d *Daemon) EnqueueDelayed(job *Job) (enqueued int, err error) {
	return d.inspect().PromoteDelayed(context.Background(), wanted(job))
}

// FailureList is a view of the failures that Resque's tools show and retry. It
// holds nothing: each call asks Redis. It is safe for concurrent use. Its methods are
// those of inspect.FailureList, where each says what it costs.
//
// There is one list, unless WorkerSettings.FailureBackend gives each queue its own.
// Then the view is of all lists, as if each continued the one before. In narrows it to
// one.
//
// Deprecated: Use inspect.FailureList, whose calls take a context.
type FailureList struct{ l *inspect.FailureList }

// Failures returns the failures.
//
// Deprecated: Use Client().Inspect().Failures, whose calls take a context.
func (d *Daemon) Failures() *FailureList { return &FailureList{d.inspect().Failures()} }

// In returns the view of one queue's own failure list, whichever backend the daemon is
// set to use. If the queue has no name, the methods of its list return an error.
func (l *FailureList) In(queue string) *FailureList { return &FailureList{l.l.In(queue)} }

// KeepPayload returns the view itself.
//
// Deprecated: all retries keep the payload; see inspect.FailureList.Retry.
func (l *FailureList) KeepPayload() *FailureList { return &FailureList{l.l.KeepPayload()} }

// Count returns how many failures there are, retried ones included.
func (l *FailureList) Count() (int64, error) { return l.l.Count(context.Background()) }

// List returns at most count failures from position start on; 0 is the oldest. A negative
// start counts from the end, a negative count means all that follow.
func (l *FailureList) List(start, count int) ([]Failure, error) {
	return l.l.List(context.Background(), start, count)
}

// Get returns the failure with this ID, the newest of several, or ErrNoFailure.
func (l *FailureList) Get(id string) (Failure, error) { return l.l.Get(context.Background(), id) }

// Search returns at most count of the failures that fit, the newest first. after is ""
// for the first page, and then the next of the page before.
func (l *FailureList) Search(filter FailureFilter, after string, count int) (found []Failure, next string, err error) {
	return l.l.Search(context.Background(), filter, after, count)
}

// Groups counts the failures that fit by class and exception, most first.
func (l *FailureList) Groups(filter FailureFilter) ([]FailureGroup, error) {
	return l.l.Groups(context.Background(), filter)
}

// Retry pushes the job of a listed failure to the tail of its queue again, with its whole payload, and marks
// the record as retried, as one. Of two that retry it at a time the later gets ErrNoFailure.
func (l *FailureList) Retry(f Failure) error { return l.l.Retry(context.Background(), f) }

// RetryAll retries, oldest first, the failures not retried before and returns how many.
func (l *FailureList) RetryAll() (retried int, err error) { return l.l.RetryAll(context.Background()) }

// RetryID retries failures by their IDs, with their whole payloads, and returns their
// number. The error joins one for each ID that was not retried.
func (l *FailureList) RetryID(ids ...string) (retried int, err error) {
	return l.l.RetryID(context.Background(), ids...)
}

// RetryWhere is RetryID for all failures that fit and have not been retried before, or,
// with filter.Retried, for those that have: the oldest first.
func (l *FailureList) RetryWhere(filter FailureFilter) (retried int, err error) {
	return l.l.RetryWhere(context.Background(), filter)
}

// Remove removes a listed failure, wherever in its list it has moved.
func (l *FailureList) Remove(f Failure) error { return l.l.Remove(context.Background(), f) }

// RemoveID removes failures by their IDs, one for each, and returns how many it did. The
// error joins ErrNoFailure for each ID that is not there.
func (l *FailureList) RemoveID(ids ...string) (removed int, err error) {
	return l.l.RemoveID(context.Background(), ids...)
}

// RemoveWhere removes, for good, the failures that fit and returns how many these were.
func (l *FailureList) RemoveWhere(filter FailureFilter) (removed int, err error) {
	return l.l.RemoveWhere(context.Background(), filter)
}

// Clear removes all failures. Their jobs are gone for good.
func (l *FailureList) Clear() error { return l.l.Clear(context.Background()) }

// ClearRetried removes the failures that were retried and returns how many these were.
func (l *FailureList) ClearRetried() (removed int, err error) {
	return l.l.ClearRetried(context.Background())
}

// DelayedList is a view of all delayed jobs, those of resque-scheduler and goworker's
// own. It holds nothing: each call asks Redis. It is safe for concurrent use. Its
// methods are those of inspect.DelayedList, where each says what it costs.
//
// Deprecated: Use inspect.DelayedList, whose calls take a context.
type DelayedList struct{ l *inspect.DelayedList }

// Delayed returns the delayed jobs.
//
// Deprecated: Use Client().Inspect().Delayed, whose calls take a context.
func (d *Daemon) Delayed() *DelayedList { return &DelayedList{d.inspect().Delayed()} }

// Count returns how many jobs are delayed.
func (l *DelayedList) Count() (int64, error) { return l.l.Count(context.Background()) }

// List returns jobs that are due at a time or later, in the order of their times. It
// leaves out the first skip and returns at most count. A negative count means all that
// follow.
func (l *DelayedList) List(from time.Time, skip, count int) ([]DelayedJob, error) {
	return l.l.List(context.Background(), from, skip, count)
}

// Like returns the delayed jobs equal to this one, in the order of their times; see
// inspect.Job for what is equal. It searches goworker's own schedule, a second for each
// million of its jobs.
func (l *DelayedList) Like(job *Job) ([]DelayedJob, error) {
	return l.l.Like(context.Background(), wanted(job))
}

// Find returns the jobs with an id that goworker delayed. With the time of the job
// it looks there only; with the zero time it searches all, as Like does.
func (l *DelayedList) Find(id string, at time.Time) ([]DelayedJob, error) {
	return l.l.Find(context.Background(), id, at)
}

// Remove cancels listed jobs and returns how many there still were.
func (l *DelayedList) Remove(jobs ...DelayedJob) (removed int, err error) {
	return l.l.Remove(context.Background(), jobs...)
}

// Enqueue puts listed jobs into their queues now and returns how many there still were.
// An entry that is no job stays.
func (l *DelayedList) Enqueue(jobs ...DelayedJob) (enqueued int, err error) {
	return l.l.Promote(context.Background(), jobs...)
}

// Reschedule delays listed jobs to another time and returns how many there still were.
func (l *DelayedList) Reschedule(t time.Time, jobs ...DelayedJob) (rescheduled int, err error) {
	return l.l.Reschedule(context.Background(), t, jobs...)
}

// Clear removes all delayed jobs, those of Ruby too, as Ruby's reset_delayed_queue.
func (l *DelayedList) Clear() error { return l.l.Clear(context.Background()) }

// StuckJobs returns the jobs that run in this process past their time limit by more than
// StuckAfter, the oldest first. Each is logged once, with the place where its handler
// is. A job that ends after all leaves the list, and its outcome counts.
func (d *Daemon) StuckJobs() []StuckJob { return d.registry.stuckJobs() }

// StuckJobs returns the jobs of all shards that run past their time limit; see
// Daemon.StuckJobs.
func (s *Shards) StuckJobs() []StuckJob { return s.handlers.stuckJobs() }

// stuckJobs lists the jobs that run past their time limit.
func (r *registry) stuckJobs() []StuckJob {
	var jobs []StuckJob
	for _, j := range r.stuck.List() {
		jobs = append(jobs, StuckJob(j))
	}
	return jobs
}

// ErrProcessesAlive is returned by DrainToResque while a process of goworker holds a lease: its jobs
// are its own. The error names the processes.
var ErrProcessesAlive = drain.ErrAlive

// DrainOption is a setting of Client.DrainToResque:
//
//   - DrainNow: delayed jobs go to their queues
//   - DrainDryRun: write nothing
type DrainOption func(*drain.Config)

// DrainNow puts delayed jobs into their queues at once, for a fleet without resque-scheduler.
func DrainNow() DrainOption { return func(c *drain.Config) { c.Now = true } }

// DrainDryRun writes nothing and reports what a drain would do.
func DrainDryRun() DrainOption { return func(c *drain.Config) { c.DryRun = true } }

// DrainToResque moves the jobs that only goworker understands into keys that Ruby reads: those of
// dead processes, of lanes, of goworker's own schedule and the payloads that were kept. Then it
// releases the locks of unique jobs and removes the keys that hold no job.
//
// It returns ErrProcessesAlive while another process of goworker is alive; stop all processes first.
// A process that was killed counts as dead 8 seconds later. It moves at most 500 jobs in one step,
// and each step proves that no process is alive. So if it ends with an error, or with the context,
// no job is lost or doubled, and the next call goes on. Its report is valid then too. It may be
// called again at any time, and a daemon may start again afterwards.
//
// With shards it drains one after the other. The report is of all of them together, and names the
// shard where that matters.
func (c *Client) DrainToResque(ctx context.Context, opts ...DrainOption) (total DrainReport, err error) {
	for i, e := range c.redises {
		one, err := e.init(false)
		if err != nil {
			return total, prefix.Of(err)
		}
		report, err := one.drainToResque(ctx, e.registry, opts...)
		shard := ""
		if len(c.names) > 0 {
			shard = c.names[i]
		}
		drain.Add(&total, shard, report)
		if err != nil {
			return total, prefix.Of(err)
		}
	}
	return total, nil
}

func (c *client) drainToResque(ctx context.Context, r *registry, opts ...DrainOption) (DrainReport, error) {
	set := outcome.New(outcome.Deps{
		Base: part.Base{Log: c.log, Outages: logging.NewOutages(c.log, clock.System), Store: c.Store, Dialer: c.dialer, Clock: clock.System},
		Time: clock.System, Exceptions: exceptionOf, Do: c.Pool.Do,
		Settings: outcome.Settings{MaxPayload: c.config.MaxPayload, MultiQueueFailures: c.config.multiQueueFailures},
	}, r, r.features(r.limits)...)
	defer set.Close()
	config := drain.Config{
		Redis: c, Clock: clock.System, Ends: set, Style: c.config.style, RecoverLimit: c.config.RecoverLimit,
		LockPrefix: c.config.SchedulerLockPrefix, NodeScheduler: c.config.NodeScheduler,
	}
	for _, o := range opts {
		if o != nil {
			o(&config)
		}
	}
	report, err := drain.Run(ctx, config)
	if err != nil && !errors.Is(err, ErrProcessesAlive) {
		err = fmt.Errorf("draining to Resque, at %s: %w; call DrainToResque again to go on", report.StoppedAt, err)
	}
	return report, err
}
