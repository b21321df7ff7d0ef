package outcome

import (
	"context"
	"iter"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/part"
)

// Feature is something a job may have. It is a package of its own below internal/feature and
// one line in the daemon's list of features. It imports this package and no other feature. What
// it does for one job is a Policy.
//
// The functions are called by many goroutines at a time. Those that are nil are not needed.
type Feature struct {
	// Name names the feature in errors. No two features have the same.
	Name string

	// Field is the field of a payload that has Open called; "": none.
	Field string

	// Also are further fields that do so.
	Also []string

	// Quiet says that the feature adds nothing to the end of a job that is done. A server acknowledges such a leased job
	// without reading it: see Set.Marks.
	Quiet bool

	// Open returns the policy of one job, nil if the feature does not apply to it. With a Field it is
	// called for jobs that have it. Without one it is called for jobs from a lane, for those whose class
	// is not registered here, and for those of dead processes. It goes before Bind.
	Open func(j *Job) Policy

	// Bind returns the policy of all jobs of a class, by the class's options; nil if there is none. It
	// is called once a class. Bind(nil) is for a job without any policy that did not end well, or that
	// was cancelled. It is also for the features that have no policy for a job that has others.
	Bind func(c *Class) Policy

	// Live returns a version, 0 while the feature is off. When it changes, Bind is called again for
	// every class. It is called for every job, so it only loads a number.
	Live func() uint64

	// Drops says that Admit does nothing but drop jobs that are not wanted any more. It is then asked about jobs for
	// clients too: see Set.Unwanted.
	Drops bool

	// Join returns the policy of one job whose handler asks for the feature while it runs, by the function Join;
	// nil: the job cannot have it. Of that policy only Settle is called. Join may add to Job.Fields, and else changes nothing.
	Join func(j *Job) Policy

	// Enqueue adds to a job that is about to be pushed. It is called for every job that has an option, or whose class has one, so it
	// first asks whether that is the feature's. With EnqueueNamed it is called for all others with an id too, and with EnqueueAll for all
	// others. With an error the job is not pushed.
	Enqueue                  func(p *Push) error
	EnqueueNamed, EnqueueAll bool

	// Watch are the keys whose changes the feature hears of, in a daemon.
	Watch []Watched

	// Close is called when the last job has ended.
	Close func()
}

// Watched is a key of Redis that a feature reads again whenever it has changed.
type Watched struct {
	// Key is the key's full name, with the namespace. A method of Store makes it.
	Key string

	// Read reads the key. The poller's goroutine calls it on its connection, so it sends few commands,
	// waits for nothing else, and leaves no answer unread. Redis watches the keys that its first
	// command or script reads. Read is called for each new connection before that takes a job, after
	// each change by another connection, and after each commit of this process with an effect on Key.
	// Where Redis does not report changes, it is called once a second while a worker has a job, and
	// else once an interval.
	//
	// An answer of Redis that is an error is logged once, and Read is called again after an interval.
	// An error of the connection loses it.
	Read func(redis.Conn) error
}

// Handler calls the handler of a job.
type Handler func(ctx context.Context, j *Job) error

// Policy is a feature as it applies to one job. Embed None and write what is needed. The policy of a
// class serves many jobs at a time: what belongs to one job stands in the Job.
type Policy interface {
	// Admit is called before the handler, in the features' order. The first that returns true decides:
	// the job does not run. It may also set Job.Err: then the job does not run, and fails.
	Admit(ctx context.Context, j *Job) (Outcome, bool)

	// Wrap returns a handler around the next one, or in its place. The first policy is the outermost.
	Wrap(next Handler) Handler

	// Running is called once when the handler has run for 100 ms, in another goroutine. It reads only
	// what was set before the handler was called.
	Running(j *Job)

	// Decide is called after an error, in the features' order, whether or not the handler was called
	// (see Job.Started). The first that returns true decides. If none does the job has failed.
	Decide(ctx context.Context, j *Job, err error) (Outcome, bool)

	// Settle adds effects to an end, whichever policy decided it. That may be an end in a dead process whose
	// reaper does not know the class. It uses the outcome and what stands in the payload.
	Settle(j *Job, o *Outcome)
}

// None is a policy that does nothing.
type None struct{}

// Admit lets the job run.
func (None) Admit(context.Context, *Job) (o Outcome, decided bool) { return o, false }

// Wrap returns next.
func (None) Wrap(next Handler) Handler { return next }

// Running does nothing.
func (None) Running(*Job) {}

// Decide leaves the decision to the next policy.
func (None) Decide(context.Context, *Job, error) (o Outcome, decided bool) { return o, false }

// Settle adds nothing.
func (None) Settle(*Job, *Outcome) {}

// Deps is what every feature is given. All of it is safe for concurrent use.
type Deps struct {
	part.Base

	Settings Settings

	// Time is the fleet's clock.
	Time Time

	// Exceptions names the error types of the package above for failure records.
	Exceptions failure.Names

	// Do runs f on a connection that the program's pool lends.
	Do func(ctx context.Context, f func(redis.Conn) error) error

	// Due tells the daemon that what a feature has written comes due after this time at the latest. nil: this program looks
	// at nothing that comes due, as in a client.
	Due func(after time.Duration)

	// Running yields the jobs that workers of this process have now, also those whose bytes are being
	// read. Job says what may be read of them. New makes one that yields none where no worker runs,
	// as in a client.
	Running iter.Seq[*Job]
}

// Settings is what features read of the daemon's settings.
type Settings struct {
	MaxPayload         int  // bytes; above it a job fails unread
	MultiQueueFailures bool // a failure list for each queue
	Stamp              bool // enqueued jobs say when they were put into their queues
	NoErrorInPayload   bool // a retried job's payload does not say why
	LeaveUnknown       bool // jobs of unknown classes are left to other processes
}
