package goworker

import (
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

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
		o = r.lookup(job.Payload.Class).options.enqueue
		o.mistakes = mistakes{} // options of the call go before these
	}
	return o
}

// told reports whether the job's class was registered with such options.
func (r *registry) told(job *Job) bool {
	if job == nil || !r.enqueues.Load() {
		return false
	}
	e := r.lookup(job.Payload.Class)
	return e != nil && e.options.enqueue.given()
}

// given reports whether there are any.
func (o *enqueueOptions) given() bool { return len(o.said) > 0 }

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
