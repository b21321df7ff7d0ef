package goworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/priority"
	"github.com/goworker/goworker/internal/feature/queued"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/setting"
)

// NewJob returns a job for Enqueue. The arguments are those of the class's handler, in order.
func NewJob(queue, class string, args ...any) *Job {
	return &Job{Queue: queue, Payload: Payload{Class: class, Args: args}}
}

// Item is one job of EnqueueMany with its options.
type Item struct {
	Job     *Job
	Options []EnqueueOption
}

// Receipt says what became of one job.
type Receipt struct {
	// ID is the job's id. A job that was given no option, and whose class has none, is
	// enqueued as Ruby does and has none.
	ID string

	// Replaced is the id of the job that made room for this one; see ReplaceWaiting.
	Replaced string

	// Buffered is set if the job waits in the memory of this program, because Redis is away;
	// see WithBuffer.
	Buffered bool

	// Duplicate is set if the job was not enqueued because another one holds its lock.
	Duplicate *DuplicateError
}

// EnqueueFunc enqueues jobs: it is what EnqueueMiddleware wraps.
type EnqueueFunc func(ctx context.Context, items []Item) ([]Receipt, error)

// EnqueueMiddleware wraps the calls that enqueue, as Middleware wraps handlers. It may add
// options to items, such as WithMeta with what the context holds, leave items out, or
// return an error in place of enqueueing. It gets a slice of its own, which it may change.
// Jobs that a schedule enqueues and retries do not pass through it.
type EnqueueMiddleware func(next EnqueueFunc) EnqueueFunc

// enqueueChain is the middleware around the calls that enqueue. It is safe for concurrent use.
type enqueueChain struct {
	write sync.Mutex
	all   atomic.Pointer[[]EnqueueMiddleware] // nil: none
}

func (c *enqueueChain) add(mw ...EnqueueMiddleware) {
	if slices.ContainsFunc(mw, func(m EnqueueMiddleware) bool { return m == nil }) {
		panic("goworker: a nil EnqueueMiddleware was given; leave it out")
	}
	c.write.Lock()
	defer c.write.Unlock()
	var all []EnqueueMiddleware
	if before := c.all.Load(); before != nil {
		all = *before
	}
	all = slices.Concat(all, mw)
	c.all.Store(&all)
}

// enqueue calls send within the middleware.
func (c *enqueueChain) enqueue(ctx context.Context, items []Item, send EnqueueFunc) ([]Receipt, error) {
	all := c.all.Load()
	if all == nil {
		return send(ctx, items)
	}
	for _, mw := range slices.Backward(*all) {
		send = mw(send)
	}
	own := slices.Clone(items)
	for i := range own {
		own[i].Options = slices.Clip(own[i].Options)
	}
	return send(ctx, own)
}

// EnqueueOption is a setting of one enqueued job:
//
//   - WithID: an id of the program's own
//   - ProcessAt, ProcessIn: run it later
//   - ResqueScheduler: wait for that in resque-scheduler's keys, where Ruby sees it
//   - Unique: enqueue it only if no other job holds its lock
//   - ExpireAfter, ExpiresAt: do not run it after that
//   - Retry, Timeout: in place of what its class has
//   - Priority: run it before others of its queue
//   - Stamp: the payload says when it came
//   - WithMeta: texts beside the arguments
//   - WithTrace: texts of its trace
//   - WithResult, CaptureLogs: keep what becomes of it, and its log lines
//   - Named, After, Immutable, Spread, Inline, Ignored, External: for steps of workflows alone; see StepOption
//
// The call returns an error, and enqueues nothing, if one is out of its range, given
// twice, or contradicts another; see Option.
type EnqueueOption interface{ enqueue(*enqueueOptions) }

// enqueueOptions are the options of one job, or those for all enqueued jobs of a class.
type enqueueOptions struct {
	setting.Mistakes
	option EnqueueOption    // that is being added
	to     outcome.Optioned // gets the options of the features
	class  *outcome.Class   // of a job whose class is not registered here
	named  bool             // the job gets an id
	id     string
	at     time.Time // zero: now
	in     time.Duration
	resque bool   // at is for resque-scheduler's schedule
	traced bool   // the job carries a trace, unless that schedule has it
	step   asStep // nil: the job is no step of a workflow
}

// asStep is what a job has as a step of a workflow. check returns why the options cannot be those of a step.
type asStep interface {
	check(o *enqueueOptions, p *outcome.Push) error
}

// enqueueOption is an EnqueueOption that is a function.
type enqueueOption func(*enqueueOptions)

func (o enqueueOption) enqueue(to *enqueueOptions) {
	to.named = true
	o(to)
}

// withID gives a job a random id that has no other option.
var withID EnqueueOption = enqueueOption(func(*enqueueOptions) {})

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

// push fills in a job for the producer. classOf finds the class of a name, and o is room for the job's options. What p and o have of the job
// before, which is in its call, is overwritten.
func push(classOf func(name string) *outcome.Class, item *Item, p *outcome.Push, o *enqueueOptions) error {
	if item.Job == nil {
		return producer.ErrNoJob
	}
	job := item.Job.Payload
	p.Reset()
	p.Queue, p.Name, p.Args, p.Class, p.View = item.Job.Queue, job.Class, job.Args, classOf(job.Class), item.Job
	if len(item.Options) > 0 {
		return pushWith(item.Options, p, o, nil)
	}
	if p.Queue == "" {
		p.Queue = queueOf(p.Class)
	}
	if _, ofClass := outcome.Get[*enqueueOptions](p.Class); ofClass {
		p.MakeID()
	}
	return nil
}

// queueOf returns the queue of a class that is defined with one.
func queueOf(class *outcome.Class) string {
	queue, _ := outcome.Get[onQueue](class)
	return string(queue)
}

// pushWith is push for a job with options, or for a step.
func pushWith(opts []EnqueueOption, p *outcome.Push, o *enqueueOptions, step asStep) error {
	p.Options = p.NewOptions()
	o.Reset()
	*o = enqueueOptions{Mistakes: o.Mistakes, to: p.Options, step: step}
	for i, opt := range opts {
		if o.option = opt; opt == nil {
			return producer.About(p.Name, fmt.Errorf("option %d of the job is nil; leave it out", i+1))
		}
		opt.enqueue(o)
	}
	if step == nil && p.Options.Empty() {
		p.Options = nil
	}
	if p.Step = step != nil; p.Class == nil {
		p.Class = o.class
	}
	if p.Queue == "" {
		p.Queue = queueOf(p.Class)
	}
	o.named = o.named || o.traced && !o.resque
	_, ofClass := outcome.Get[*enqueueOptions](p.Class)
	p.At, p.In, p.ID, p.Chosen, p.Ruby = o.at, o.in, o.id, o.id != "", o.resque && !ofClass
	switch {
	case step != nil && o.First != nil:
		return o.First // the caller names the step
	case step != nil:
		return step.check(o, p)
	case o.First != nil:
		return producer.About(p.Name, o.First)
	case o.resque && o.named:
		return producer.About(p.Name, errors.New("ResqueScheduler: its schedule has no place for an id, or for an option other than ProcessAt and ProcessIn; leave these out"))
	case o.named || ofClass || !o.at.IsZero() && !p.Ruby:
		p.MakeID()
	}
	return nil
}

// onQueue is the queue of a class.
type onQueue string

// OnQueue says to which queue jobs of the class go that name none, as Ruby's @queue does. It
// is for Define and Register: a Job of the class with an empty Queue goes there.
func OnQueue(queue string) Option {
	return option(func(o *options) {
		o.Once("the queue of the class", fmt.Sprintf("OnQueue(%q)", queue))
		if queue == "" {
			o.Wrong(`OnQueue(""): the queue has no name; give it one`)
		}
		outcome.Put(o.class, onQueue(queue))
	})
}

// PriorityLevel is a priority of jobs within their queue; see Priority.
type PriorityLevel int

// The priorities of jobs, the lowest first.
const (
	Normal PriorityLevel = iota
	High
	Urgent
)

// Priority puts a job in front of the jobs of its queue with a lower priority, and behind those
// that wait with its own. It stays one queue: Ruby's workers take from its head too. A delayed job
// has its priority when it is due, and a limited one within its lane.
//
// While jobs with a priority wait, no other job of the queue is started. So it is for few jobs:
// if more than 1,000 with a priority wait, the order among them is open.
func Priority(level PriorityLevel) JobOption { return level }

func (l PriorityLevel) register(to *options) { to.onEnqueue(l) }

func (l PriorityLevel) enqueue(to *enqueueOptions) {
	to.named = true
	option := fmt.Sprintf("Priority(%d)", l)
	to.Once("the job's priority within its queue", option)
	if l < Normal || l > Urgent {
		to.Wrong("%s: it must be Normal (%d), High (%d) or Urgent (%d)", option, Normal, High, Urgent)
	}
	outcome.Put(to.to, priority.Level(l))
}

// Stamp has the payload of a job say when the job was put into its queue, or was due there, so that operators see exactly how long
// it waits: see Delivery.Waited. It is not for jobs that Ruby's dequeue removes by their arguments: it compares whole payloads.
func Stamp() JobOption { return stamped{} }

type stamped struct{}

func (s stamped) register(to *options) { to.onEnqueue(s) }

func (stamped) enqueue(to *enqueueOptions) {
	to.named = true
	to.Once("that the job says when it came", "Stamp")
	outcome.Put(to.to, queued.Stamped(true))
}

// NewID returns a random id, such as a job gets that has options but no id.
func NewID() string { return payload.NewID() }

// ProcessAt makes the job run at a time, not before. Until then it waits in a schedule that
// only daemons know, since Ruby's scheduler would drop the job's id and its other options.
// Daemons move it to its queue at the millisecond by Redis's clock. Of jobs for one
// millisecond the order is open. A time that is not after now, by this machine's clock,
// enqueues at once. The zero time is an error, since it comes from a forgotten field.
func ProcessAt(t time.Time) EnqueueOption {
	return due(t, 0, fmt.Sprintf("ProcessAt(%s)", t.Format(time.RFC3339Nano)))
}

// ProcessIn is ProcessAt after a duration, from now on. Zero or less enqueues at once.
func ProcessIn(d time.Duration) EnqueueOption {
	return due(clock.System.Now().Add(d), d, fmt.Sprintf("ProcessIn(%s)", d))
}

func due(t time.Time, in time.Duration, option string) EnqueueOption {
	return delayOption(func(o *enqueueOptions) {
		o.Once("when the job is due", option)
		if t.IsZero() {
			o.Wrong("%s: the time is the zero time.Time, so it was probably never set; give the present time to enqueue at once", option)
		}
		o.at, o.in = t, in
	})
}

// ResqueScheduler makes ProcessAt and ProcessIn delay the job as resque-scheduler's enqueue_at
// does. The job waits where Ruby's tools see it and may cancel it. A daemon or a Ruby
// scheduler of the fleet then moves it to its queue: a daemon at the millisecond, a Ruby
// scheduler within some seconds, since it sees the time rounded up to a whole second.
//
// That schedule keeps only class and arguments. So the job has no id, and other options
// contradict this one. If its class has an option for enqueued jobs, such as Unique, the
// job waits in goworker's own schedule.
func ResqueScheduler() EnqueueOption {
	return delayOption(func(o *enqueueOptions) {
		o.Once("in which schedule the job waits", "ResqueScheduler")
		o.resque = true
	})
}

// delayOption is an EnqueueOption for which resque-scheduler's schedule has a place.
type delayOption func(*enqueueOptions)

func (o delayOption) enqueue(to *enqueueOptions) { o(to) }

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
// to Client.Enqueue, for that job. Zero is no limit, also where the class has one; it must not
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
	to.named = true
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
