package goworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Enqueue pushes a job to the tail of its queue, as Resque.enqueue does, and
// returns every error Redis gives. It needs no queues in the settings, and makes
// the connections when it is first called.
//
// When the connection breaks before Redis has answered, it is unknown whether the
// job is in its queue.
//
// A job whose class was registered here with an option for jobs that are enqueued, such
// as Unique, is enqueued as by EnqueueWith.
func (d *Daemon) Enqueue(job *Job) error {
	if d.registry.told(job) {
		_, err := d.EnqueueWith(job)
		return err
	}
	return d.enqueue(job)
}

// EnqueueAll pushes any number of jobs, for any queues, in one round trip. With nil
// all of them are in their queues, each queue's in the order given here, and no
// worker saw some of them without the others. With an error none is, and nothing
// was sent if it says that a job cannot be encoded. As with Enqueue, only when the
// connection breaks before Redis has answered is it unknown which of the two holds.
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

func (d *Daemon) enqueue(jobs ...*Job) error {
	client, err := d.init(false)
	if err != nil {
		return err
	}
	bulk, err := d.encodeJobs(client.config, jobs)
	if err != nil {
		return err
	}
	return client.push(bulk)
}

func (d *Daemon) encodeJobs(c config, jobs []*Job) (*resque.Bulk, error) {
	bulk := c.bulk()
	for i, job := range jobs {
		if i == 1 {
			bulk.Grow(len(jobs) - 1)
		}
		if err := d.addJob(&bulk, job); err != nil {
			return nil, unsent(err, i, len(jobs))
		}
	}
	return &bulk, nil
}

// unsent says of an error about one of so many jobs that it kept back all of them.
func unsent(err error, i, jobs int) error {
	if jobs > 1 {
		err = fmt.Errorf("job %d of %d: %w", i+1, jobs, err)
	}
	return fmt.Errorf("goworker: %w; nothing was enqueued", err)
}

var errNoJob = errors.New("a job to be enqueued needs a queue and a class")

// bulk is what jobs are collected in, empty.
func (c config) bulk() resque.Bulk { return resque.Bulk{Style: c.style, Most: c.MaxPayload} }

func addJob(bulk *resque.Bulk, job *Job, fields ...payload.Field) error {
	if job == nil || job.Queue == "" || job.Payload.Class == "" {
		return errNoJob
	}
	if err := bulk.Add(job.Queue, job.Payload.Class, job.Payload.Args, fields...); err != nil {
		return fmt.Errorf("enqueueing %s: %w", job.Payload.Class, err)
	}
	return nil
}

// EnqueueOption is a setting of one job, given to EnqueueWith: WithID, At, In, Unique,
// ExpireAfter and ExpiresAt. EnqueueWith returns an error, and enqueues nothing, if one is
// out of its range, given twice, or contradicts another; see Option.
type EnqueueOption interface{ enqueue(*enqueueOptions) }

type enqueueOptions struct {
	mistakes
	id     string
	at     time.Time       // zero: now
	fields []payload.Field // what the payload gets beside class and args
	unique *Uniqueness     // nil: it has no lock
	expiry Expiry
}

// allFields are the fields together with those that depend on the time.
func (o *enqueueOptions) allFields(d *Daemon) []payload.Field {
	if o.expiry.none() {
		return o.fields
	}
	from := d.now()
	if o.at.After(from) {
		from = o.at
	}
	return append(o.fields, o.expiry.fields(from)...)
}

// enqueueOption is an EnqueueOption that is a function.
type enqueueOption func(*enqueueOptions)

func (o enqueueOption) enqueue(to *enqueueOptions) { o(to) }

// WithID gives the job an id of the program's own, which its handler finds in
// Delivery.ID. Nothing keeps two jobs from having the same.
// The id must not be empty.
func WithID(id string) EnqueueOption {
	return enqueueOption(func(o *enqueueOptions) {
		o.once("the job's id", fmt.Sprintf("WithID(%q)", id))
		if id == "" {
			o.wrong(`WithID(""): the id is empty; give one, or leave it out to have one made up`)
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

// EnqueueWith is Enqueue for a job that is told more than its class and arguments.
// Such a job has an id, made up where WithID does not give one; it stands in the
// payload beside class and args, where Ruby's workers pass over it. Ruby's
// Resque.dequeue, which compares whole payloads, does not find the job.
//
// Options go before those that the class was registered with.
//
// The error is a *DuplicateError for a job that is refused by Unique. As with Enqueue,
// when the connection breaks before Redis has answered it is unknown whether the job is
// in its queue, and with ErrTooFewReplicas it is: the receipt then has its ID all the same.
func (d *Daemon) EnqueueWith(job *Job, opts ...EnqueueOption) (Receipt, error) {
	client, err := d.init(false)
	if err != nil {
		return Receipt{}, err
	}
	o := d.registry.enqueueOptions(job)
	for i, opt := range opts {
		if opt == nil {
			return Receipt{}, unsent(fmt.Errorf("option %d of EnqueueWith is nil; leave it out", i+1), 0, 1)
		}
		opt.enqueue(&o)
	}
	if o.first != nil && job != nil {
		return Receipt{}, unsent(fmt.Errorf("enqueueing %s: %w", job.Payload.Class, o.first), 0, 1)
	}
	if o.id == "" {
		o.id = payload.NewID()
	}
	o.fields = o.allFields(d)
	if o.unique != nil {
		return client.enqueueUnique(job, o)
	}
	bulk := client.config.bulk()
	if err := addJob(&bulk, job, append(o.fields, payload.TextField("id", o.id))...); err != nil {
		return Receipt{}, unsent(err, 0, 1)
	}
	return Receipt{ID: o.id}, client.put(&bulk, o.at)
}

// enqueueOptions are what the job's class was registered with for jobs that are enqueued.
func (r *registry) enqueueOptions(job *Job) (o enqueueOptions) {
	if r.told(job) {
		of, _ := outcome.Get[*enqueueOptions](r.Class(job.Payload.Class))
		o = *of
		o.mistakes = mistakes{} // options of the call go before these
	}
	return o
}

// told reports whether the job's class was registered with such options.
func (r *registry) told(job *Job) bool {
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
		of = new(enqueueOptions)
		outcome.Put(o.class, of)
	}
	option.enqueue(of)
	o.add(of.first)
}

// addJob is the function of that name, with what the job's class was registered with.
func (d *Daemon) addJob(bulk *resque.Bulk, job *Job) error {
	if !d.registry.told(job) {
		return addJob(bulk, job)
	}
	o := d.registry.enqueueOptions(job)
	if o.unique != nil {
		return fmt.Errorf("enqueueing %s: %w", job.Payload.Class, errUniqueAmongMany)
	}
	return addJob(bulk, job, o.allFields(d)...)
}

// Expiry is what ExpireAfter and ExpiresAt make: an Option and an EnqueueOption.
type Expiry struct {
	after time.Duration
	at    time.Time
	fixed bool // ExpiresAt made it
}

// ExpireAfter gives a job so long, from when it is enqueued or, if it is enqueued for
// later, from when it is due. If its handler was not called by then, retries included, it
// is not called any more: the job is dropped and counted in FleetInfo.Expired, or handed
// to the function of OnExpired. A handler that runs is not cut short; see Timeout.
//
// Given to Register it holds for every job of the class that this daemon enqueues; given
// to EnqueueWith, for that job. Zero is no limit, also where the class has one; it must not
// be negative.
//
// The time stands in the payload, by Redis's clock where the daemon is running and by
// this machine's where it only enqueues; workers compare it with Redis's. Ruby's workers
// pass over it and run the job.
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
	to.once("when the job expires", option)
	if e.after < 0 {
		to.wrong("%s: it must be positive, or 0 for no limit; a time that may be over is for ExpiresAt", option)
	}
	to.expiry = e
}

// none reports whether the job has all the time it takes.
func (e Expiry) none() bool { return e.after == 0 && e.at.IsZero() }

// fields are what the payload of a job gets that may start at a time.
func (e Expiry) fields(from time.Time) []payload.Field {
	at := e.at
	if e.after > 0 {
		at = from.Add(e.after)
	}
	if at.IsZero() {
		return nil
	}
	return []payload.Field{resque.ExpiresAt(at.UnixMilli())}
}

// OnExpired has a function run, in place of the class's handler and without its
// middleware, for jobs whose time is over. They are then jobs like any other: done with
// nil, failed with an error, and not counted as expired.
func OnExpired(f func(ctx context.Context, d *Delivery) error) Option {
	return option(func(o *options) {
		o.once("what runs for expired jobs", "OnExpired")
		if f == nil {
			o.wrong("OnExpired was given no function; leave it out")
		}
		outcome.Put(o.class, expiry.OnExpired{Handler: HandlerFunc(f)})
	})
}

// push pushes jobs as one. While Redis answers that another server takes them now,
// or soon will, which is to say that nothing was done, it is tried again: a
// fail-over or a slot that moves is over in seconds. That goes on for as long as
// connecting may take. An error after which the jobs may be there is returned at once.
func (c *client) push(bulk *resque.Bulk) error {
	return c.send(func(conn redis.Conn) error { return c.store.PushBulk(conn, bulk) })
}

// send is push for whatever Redis does as a whole or not at all.
func (c *client) send(do func(redis.Conn) error) error {
	giveUp := clock.System.Now().Add(c.config.dial().Options().ConnectTimeout)
	var retry part.Backoff
	for {
		err := c.sendOnce(do)
		if err == nil || !conn.Elsewhere(err) {
			return err
		}
		wait := retry.Next()
		if clock.System.Now().Add(wait).After(giveUp) {
			return err
		}
		clock.Sleep(clock.System, wait)
	}
}

func (c *client) sendOnce(do func(redis.Conn) error) error {
	lent, err := c.pool.Get(context.Background())
	if err != nil {
		return err
	}
	defer conn.PutBack(lent)
	return do(lent)
}

// store is what writes and reads the keys. Its pushes wait for replicas as long as
// the connection may wait for an answer, at most.
func (c config) store() resque.Store {
	within := min(ReplicaWait, c.dial().Options().ReadTimeout/2)
	return resque.New(c.Namespace).Replicated(c.WaitReplicas, within)
}

// ShardError says that a shard did not take its part of what EnqueueAll was given.
type ShardError struct {
	URI  string // of the shard, without a password
	Jobs []*Job // its part; none of it is there, unless the connection broke
	Err  error
}

func (e *ShardError) Error() string {
	return fmt.Sprintf("goworker: shard %s did not take %d of the jobs: %v", e.URI, len(e.Jobs), e.Err)
}

func (e *ShardError) Unwrap() error { return e.Err }

// EnqueueAt enqueues a job at a time, as resque-scheduler's enqueue_at does: it waits
// in Redis, where Ruby's tools see it and may cancel it, and some process of the fleet,
// a daemon or a Ruby scheduler, moves it to its queue. A time that is not after now, by
// this machine's clock, is Enqueue.
//
// Daemons move it at the millisecond by Redis's clock. A Ruby scheduler, where there
// is one, looks each five seconds and knows whole seconds only, so what it sees is the
// time rounded up to one. Nobody moves it before its time.
//
// When the connection breaks before Redis has answered, it is unknown whether the job
// is delayed.
//
// A job whose class was registered here with an option for jobs that are enqueued, such
// as Unique, is enqueued as by EnqueueWith and At.
func (d *Daemon) EnqueueAt(t time.Time, job *Job) error {
	if d.registry.told(job) {
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
	client, err := d.init(false)
	if err != nil {
		return err
	}
	for i, job := range jobs {
		if d.registry.told(job) {
			return unsent(fmt.Errorf("enqueueing %s: %w", job.Payload.Class, errToldAmongMany), i, len(jobs))
		}
	}
	bulk, err := d.encodeJobs(client.config, jobs)
	if err != nil {
		return err
	}
	if !t.After(clock.System.Now()) {
		return client.push(bulk)
	}
	return client.send(func(c redis.Conn) error { return client.store.Delay(c, bulk, t) })
}

// At makes EnqueueWith enqueue the job at a time. It waits in a schedule that only
// daemons know, since Ruby's scheduler would drop the job's id and what else it is told;
// see EnqueueAt for how exact that is. Of jobs for one millisecond the order is open.
// A time that is not after now enqueues at once.
func At(t time.Time) EnqueueOption { return due(t, fmt.Sprintf("At(%s)", t.Format(time.RFC3339Nano))) }

// In is At after a duration, from now on. Zero or less enqueues at once.
func In(d time.Duration) EnqueueOption {
	return due(clock.System.Now().Add(d), fmt.Sprintf("In(%s)", d))
}

func due(t time.Time, option string) EnqueueOption {
	return enqueueOption(func(o *enqueueOptions) {
		o.once("when the job is due", option)
		o.at = t
	})
}

// put enqueues what EnqueueWith has collected, now or at its time.
func (c *client) put(bulk *resque.Bulk, at time.Time) error {
	if !at.After(clock.System.Now()) {
		return c.push(bulk)
	}
	return c.send(func(conn redis.Conn) error { return c.store.Schedule(conn, bulk, at) })
}
