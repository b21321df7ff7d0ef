package goworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/setting"
)

// Enqueue pushes a job to the tail of its queue, as Resque.enqueue does, and
// returns every error Redis gives. It needs no queues in the settings, and makes
// the connections when it is first called.
//
// When the connection breaks before Redis has answered, it is unknown whether the
// job is in its queue.
//
// If its class was registered here with an option for jobs that are enqueued, such as
// Unique, it is enqueued as by EnqueueWith.
func (d *Daemon) Enqueue(job *Job) error {
	if d.registry.hasEnqueueOptions(job) {
		_, err := d.EnqueueWith(job)
		return err
	}
	return d.enqueue(job)
}

// EnqueueAll pushes any number of jobs, for any queues, in one round trip. With nil all
// of them are in their queues, each queue's in the order given here. No worker saw some
// of them without the others. With an error none is. If the error says that a job
// cannot be encoded, nothing was sent. As with Enqueue, only when the connection breaks
// before Redis has answered is it unknown which of the two holds.
//
// Redis does nothing else meanwhile: about half a millisecond for 1,000 jobs of 100
// bytes, fifty for 100,000. Larger batches are not faster, so divide what need not
// be one. More than 1,000,000 jobs or 256 MiB are refused, and so are jobs of a class
// that was registered here with Unique.
func (d *Daemon) EnqueueAll(jobs ...*Job) error {
	if len(jobs) == 0 {
		return d.usable()
	}
	return d.enqueue(jobs...)
}

func (d *Daemon) enqueue(jobs ...*Job) error { return d.enqueueAt(time.Time{}, jobs) }

// enqueueAt enqueues jobs for a time of resque-scheduler's schedule; the zero time is now.
func (d *Daemon) enqueueAt(t time.Time, jobs []*Job) error {
	client, err := d.init(false)
	if err != nil {
		return err
	}
	call := client.NewCall(client.set, len(jobs))
	for i, job := range jobs {
		if err := d.registry.addJob(call, job, t); err != nil {
			return producer.Unsent(err, i, len(jobs))
		}
	}
	_, err = client.Send(context.Background(), call)
	return err
}

// push returns a job as the producer takes it. For nil that is a job without a queue.
func (r *registry) push(job *Job) outcome.Push {
	if job == nil {
		return outcome.Push{}
	}
	class := r.Class(job.Payload.Class)
	return outcome.Push{Queue: job.Queue, Name: job.Payload.Class, Args: job.Payload.Args, Class: class, View: job}
}

// addJob adds a job with the options of its class, for a time of resque-scheduler's schedule.
func (r *registry) addJob(call *producer.Call, job *Job, at time.Time) error {
	p := r.push(job)
	if _, unique := outcome.Get[unique.Options](p.Class); unique {
		return producer.About(p.Name, errUniqueAmongMany)
	}
	p.At, p.Ruby = at, true
	return call.Add(&p)
}

// EnqueueOption is a setting of one job, given to EnqueueWith: WithID, At, In, Unique,
// ExpireAfter and ExpiresAt. EnqueueWith returns an error, and enqueues nothing, if one is
// out of its range, given twice, or contradicts another; see Option.
type EnqueueOption interface{ enqueue(*enqueueOptions) }

type enqueueOptions struct {
	setting.Mistakes
	id string
	at time.Time        // zero: now
	to outcome.Optioned // gets the options of the features
}

// enqueueOption is an EnqueueOption that is a function.
type enqueueOption func(*enqueueOptions)

func (o enqueueOption) enqueue(to *enqueueOptions) { o(to) }

// WithID gives the job an id of the program's own, which its handler finds in
// Delivery.ID. Nothing keeps two jobs from having the same. It must not be empty.
func WithID(id string) EnqueueOption {
	return enqueueOption(func(o *enqueueOptions) {
		o.Once("the job's id", fmt.Sprintf("WithID(%q)", id))
		if id == "" {
			o.Wrong(`WithID(""): the id is empty; give one, or leave it out to have one made up`)
		}
		o.id = id
	})
}

// Receipt says what became of a job given to EnqueueWith.
type Receipt struct {
	// ID is the job's id.
	ID string

	// Replaced is the id of the job that made room for this one; see ReplaceWaiting.
	Replaced string
}

// EnqueueWith is Enqueue with options. The job gets an id, a random one unless WithID
// gives one. The id stands in the payload beside class and args, where Ruby's workers
// ignore it. Ruby's Resque.dequeue compares whole payloads, so it does not find the job.
//
// Options go before those of the class's registration.
//
// The error is a *DuplicateError for a job that Unique refuses. As with Enqueue, when the
// connection breaks before Redis has answered, it is unknown whether the job is in its
// queue. With ErrTooFewReplicas it is there, and the receipt has its ID.
func (d *Daemon) EnqueueWith(job *Job, opts ...EnqueueOption) (Receipt, error) {
	client, err := d.init(false)
	if err != nil {
		return Receipt{}, err
	}
	p := d.registry.push(job)
	p.Options = new(outcome.Options)
	o := enqueueOptions{to: p.Options}
	for i, opt := range opts {
		if opt == nil {
			return Receipt{}, producer.Unsent(fmt.Errorf("option %d of EnqueueWith is nil; leave it out", i+1), 0, 1)
		}
		opt.enqueue(&o)
	}
	if o.First != nil && job != nil {
		return Receipt{}, producer.Unsent(producer.About(p.Name, o.First), 0, 1)
	}
	p.ID, p.At = cmp.Or(o.id, payload.NewID()), o.at
	receipts, err := client.Enqueue(context.Background(), client.set, []outcome.Push{p})
	if len(receipts) == 0 {
		return Receipt{}, err
	}
	var held *producer.Duplicate
	switch r := receipts[0]; {
	case errors.As(r.Err, &held):
		return Receipt{}, &DuplicateError{p.Name, held.ID, held.Queue, held.Since}
	case r.Err != nil:
		return Receipt{}, r.Err
	default:
		return Receipt{ID: r.ID, Replaced: r.Replaced}, err
	}
}

// hasEnqueueOptions reports whether the job's class was registered with options for enqueued jobs.
func (r *registry) hasEnqueueOptions(job *Job) bool {
	if job == nil {
		return false
	}
	_, has := outcome.Get[*enqueueOptions](r.Class(job.Payload.Class))
	return has
}

// onEnqueue registers an option for every job of a class that is enqueued here.
func (o *options) onEnqueue(option EnqueueOption) {
	of, ok := outcome.Get[*enqueueOptions](o.class)
	if !ok {
		of = &enqueueOptions{to: o.class}
		outcome.Put(o.class, of)
	}
	option.enqueue(of)
	o.Add(of.First)
}

// Expiry is what ExpireAfter and ExpiresAt make: an Option and an EnqueueOption.
type Expiry struct {
	after time.Duration
	at    time.Time
	fixed bool // ExpiresAt made it
}

// ExpireAfter gives a job so long from when it is enqueued or, if it is enqueued for later,
// from when it is due. After that its handler is not called any more, for a retry neither.
// The job is dropped and counted in FleetInfo.Expired, or passed to the function of
// OnExpired. A handler that runs is not cut short; see Timeout.
//
// Given to Register it holds for every job of the class that this daemon enqueues; given
// to EnqueueWith, for that job. Zero is no limit, also where the class has one; it must not
// be negative.
//
// The time stands in the payload. A daemon that runs takes it from Redis's clock, one that
// only enqueues from this machine's. Workers compare it with Redis's. Ruby's workers
// ignore it and run the job.
func ExpireAfter(d time.Duration) Expiry { return Expiry{after: d} }

// ExpiresAt is ExpireAfter with the time itself. The zero time is no limit. The two do not
// go together.
func ExpiresAt(t time.Time) EnqueueOption { return Expiry{at: t, fixed: true} }

func (e Expiry) register(to *options) { to.onEnqueue(e) }

func (e Expiry) enqueue(to *enqueueOptions) {
	option := fmt.Sprintf("ExpireAfter(%s)", e.after)
	if e.fixed {
		option = fmt.Sprintf("ExpiresAt(%s)", e.at.Format(time.RFC3339Nano))
	}
	to.Once("when the job expires", option)
	if e.after < 0 {
		to.Wrong("%s: it must be positive, or 0 for no limit; a time that may be over is for ExpiresAt", option)
	}
	outcome.Put(to.to, expiry.Limit{After: e.after, At: e.at})
}

// OnExpired makes a function run for jobs whose time is over, in place of the class's
// handler and without its middleware. They are then jobs like any other: done with nil,
// failed with an error, and not counted as expired.
func OnExpired(f func(ctx context.Context, d *Delivery) error) Option {
	return option(func(o *options) {
		o.Once("what runs for expired jobs", "OnExpired")
		if f == nil {
			o.Wrong("OnExpired was given no function; leave it out")
		}
		outcome.Put(o.class, expiry.OnExpired{Handler: HandlerFunc(f)})
	})
}

// store returns the Store of the settings. Its pushes wait for replicas at most half as
// long as the connection waits for an answer.
func (c config) store() resque.Store {
	within := min(ReplicaWait, c.dial().Options().ReadTimeout/2)
	return resque.New(c.Namespace).Replicated(c.WaitReplicas, within)
}

// ShardError says that a shard did not take its part of the jobs of an EnqueueAll.
type ShardError struct {
	URI  string // of the shard, without a password
	Jobs []*Job // its part; none of it is there, unless the connection broke
	Err  error
}

func (e *ShardError) Error() string {
	return fmt.Sprintf("goworker: shard %s did not take %d of the jobs: %s", e.URI, len(e.Jobs), prefix.Bare(e.Err))
}

func (e *ShardError) Unwrap() error { return e.Err }

// EnqueueAt enqueues a job at a time, as resque-scheduler's enqueue_at does. The job waits
// in Redis, where Ruby's tools see it and may cancel it. A daemon or a Ruby scheduler of
// the fleet then moves it to its queue. A time that is not after now, by this machine's
// clock, is Enqueue.
//
// Daemons move it at the millisecond by Redis's clock. A Ruby scheduler, where there
// is one, looks each five seconds and knows whole seconds only: it sees the time rounded
// up. No process moves the job before its time.
//
// When the connection breaks before Redis has answered, it is unknown whether the job
// is delayed.
//
// If its class was registered here with an option for jobs that are enqueued, such as
// Unique, it is enqueued as by EnqueueWith and At.
func (d *Daemon) EnqueueAt(t time.Time, job *Job) error {
	if d.registry.hasEnqueueOptions(job) {
		_, err := d.EnqueueWith(job, At(t))
		return err
	}
	return d.EnqueueAllAt(t, job)
}

// EnqueueIn is EnqueueAt after a duration, from now on.
func (d *Daemon) EnqueueIn(in time.Duration, job *Job) error {
	return d.EnqueueAt(clock.System.Now().Add(in), job)
}

// EnqueueAllAt delays any number of jobs, for any queues, to one time: all of them or,
// with an error, none, as EnqueueAll. They are moved in the order given here. Jobs whose
// class was registered here with an option for jobs that are enqueued are refused.
func (d *Daemon) EnqueueAllAt(t time.Time, jobs ...*Job) error {
	if len(jobs) == 0 {
		return d.usable()
	}
	if _, err := d.init(false); err != nil {
		return err
	}
	for i, job := range jobs {
		if d.registry.hasEnqueueOptions(job) {
			return producer.Unsent(producer.About(job.Payload.Class, errOptionsAmongMany), i, len(jobs))
		}
	}
	return d.enqueueAt(t, jobs)
}

var errOptionsAmongMany = errors.New("its class is registered with an option for enqueued jobs, for which Ruby's schedule has no place; delay each job by itself, with EnqueueAt")

// ProcessAt makes EnqueueWith enqueue the job at a time. It waits in a schedule that only
// daemons know, since Ruby's scheduler would drop the job's id and its other options.
// See EnqueueAt for how exact the time is. Of jobs for one millisecond the order is open.
// A time that is not after now enqueues at once.
func ProcessAt(t time.Time) EnqueueOption {
	return due(t, fmt.Sprintf("ProcessAt(%s)", t.Format(time.RFC3339Nano)))
}

// ProcessIn is ProcessAt after a duration, from now on. Zero or less enqueues at once.
func ProcessIn(d time.Duration) EnqueueOption {
	return due(clock.System.Now().Add(d), fmt.Sprintf("ProcessIn(%s)", d))
}

func due(t time.Time, option string) EnqueueOption {
	return enqueueOption(func(o *enqueueOptions) {
		o.Once("when the job is due", option)
		o.at = t
	})
}
