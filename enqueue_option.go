package goworker

import (
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// EnqueueOption is something a job is told when it is enqueued by EnqueueWith.
type EnqueueOption interface{ enqueue(*enqueueOptions) }

type enqueueOptions struct {
	id     string
	at     time.Time      // zero: now
	fields []resque.Field // what the payload gets beside class and args
}

// enqueueOption is an EnqueueOption that is a function.
type enqueueOption func(*enqueueOptions)

func (o enqueueOption) enqueue(to *enqueueOptions) { o(to) }

// WithID gives the job an id of the program's own, which its handler finds in
// Delivery.ID. Nothing keeps two jobs from having the same.
func WithID(id string) EnqueueOption {
	return enqueueOption(func(o *enqueueOptions) { o.id = id })
}

// Receipt says what became of a job given to EnqueueWith.
type Receipt struct {
	// ID is the job's id.
	ID string
}

// EnqueueWith is Enqueue for a job that is told more than its class and arguments.
// Such a job has an id, made up where WithID does not give one; it stands in the
// payload beside class and args, where Ruby's workers pass over it. Ruby's
// Resque.dequeue, which compares whole payloads, does not find the job.
func (d *Daemon) EnqueueWith(job *Job, opts ...EnqueueOption) (Receipt, error) {
	var o enqueueOptions
	for _, opt := range opts {
		opt.enqueue(&o)
	}
	if o.id == "" {
		o.id = resque.NewID()
	}
	client, err := d.init(false)
	if err != nil {
		return Receipt{}, err
	}
	bulk := client.config.bulk()
	if err := addJob(&bulk, job, append(o.fields, resque.TextField("id", o.id))...); err != nil {
		return Receipt{}, unsent(err, 0, 1)
	}
	if err := client.put(&bulk, o.at); err != nil {
		return Receipt{}, err
	}
	return Receipt{ID: o.id}, nil
}
