package goworker

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/setting"
	"github.com/goworker/goworker/internal/stamp"
	"github.com/goworker/goworker/internal/stuck"
)

// Job is one unit of work: its queue and the payload that Resque stores there. Literals
// without field names, Job{"mail", Payload{"SendEmail", args}}, stay valid: neither
// this type nor Payload will ever get another field. The id, attempt and raw bytes of a
// running job are in its Delivery.
type Job struct {
	// Queue is the queue's name without namespace and "queue:" prefix.
	Queue string
	// Payload is stored in the queue.
	Payload Payload
}

// Payload is the content of a job as Resque writes it, {"class":…,"args":[…]}.
type Payload struct {
	// Class names the handler. Ruby's workers take it for a Ruby class name.
	Class string `json:"class"`
	// Args are the arguments in order. In a received job they have the types of
	// encoding/json: string, bool, nil, []interface{}, map[string]interface{}, and
	// float64 or, with UseNumber, json.Number.
	Args []interface{} `json:"args"`
}

// Delivery is one run of one job. Middleware gets it as an argument, any other handler
// through FromContext. It belongs to that run. Only middleware may change it, before it
// calls the next handler, and then only Args and Result. Goroutines that the handler
// started may read it.
type Delivery struct {
	// Queue is the queue the job was taken from, without namespace.
	Queue string

	// Class is the class the handler was found by. For a job written by Rails'
	// ActiveJob it is that job's own class, not the wrapper's. A class that was found by an
	// Alias has its own name here; Raw has the alias.
	Class string

	// ID is the job's id if its producer wrote one: ActiveJob's job_id, or the
	// payload's top-level "id", which PHP and goworker's own features write. Jobs
	// enqueued with plain Ruby Resque have none.
	ID string

	// Attempt is the number of this run; the first is 1. It counts runs that ended in a
	// retry, but not runs that ended because their process died: see Recovered.
	Attempt int

	// RetriesLeft is how often the job is retried at most if this run fails; NoLimit if
	// its class, or the job itself, says so. Without Retry it is 0.
	RetriesLeft int

	// Recovered is how often this job was found running in a process that had died.
	// Above 0, part of its work may be done already.
	Recovered int

	// Worker is the id of the worker that runs the job, as Resque's tools show it.
	Worker string

	// Args are the job's arguments, each as JSON. For an ActiveJob they are its
	// arguments with ActiveJob's own encoding taken off. Treat them as read-only.
	Args []json.RawMessage

	// Meta is the job's metadata, nil if it has none; see WithMeta. Treat it as read-only.
	Meta map[string]string

	// Workflow says which step of which workflow the job is; nil: it is none.
	Workflow *WorkflowStep

	// ReservedAt is when this process took the job from its queue.
	ReservedAt time.Time

	// Result is the value that the handler returned beside a nil error; of a function with
	// several it is a []any of them in order. It is nil until then, and if the handler
	// returns only an error. Middleware may read it after the handler.
	Result any

	raw       []byte
	handler   Handler
	timeout   time.Duration
	limit     time.Duration    // after it and StuckAfter the run is stuck; 0: never
	stuck     *stuck.Jobs      // lists the run when it is stuck
	logger    *slog.Logger     // of the daemon; nil outside one
	daemon    string           // the daemon's identity, for the child of an isolated job
	children  *isolate.Keeper  // of the daemon's run; nil outside one
	file      *setting.Content // the daemon's configuration file, for the same
	reach     any              // a reach: the Redis that the job came from; nil: it came from none
	useNumber bool

	// decode guards job: several goroutines of one handler may ask for it.
	decode sync.Once
	job    *Job

	// self is the run's context. It lives here so that a run costs no allocation
	// of its own for it.
	self deliveryContext
}

// Raw returns a copy of the payload's bytes as they lay in the queue, or as JSON from a MessagePack queue, with every
// field its producer wrote. It is nil for a Delivery made by hand.
func (d *Delivery) Raw() []byte { return bytes.Clone(d.raw) }

// Waited returns how long the job waited in its queue: from when it was put there, or was due there, until this process took it.
// It is false where the payload does not say that. Those of Rails' ActiveJob up to 16 KiB, of php-resque and of jobs over HTTP
// do, and those of Stamp; plain ones of Resque do not, nor do those of retries.
func (d *Delivery) Waited() (time.Duration, bool) { return stamp.Waited(d.raw, d.ReservedAt) }

// Job returns the job with its arguments decoded. Numbers are float64. They are
// json.Number if the class or the settings have UseNumber, or if a float64 cannot hold
// the number at all. The first call decodes the job; all calls of one run return the
// same Job.
func (d *Delivery) Job() *Job {
	d.decode.Do(func() {
		values := make([]interface{}, len(d.Args))
		for i, raw := range d.Args {
			v, err := args.Any(raw, d.useNumber)
			if err != nil {
				v, _ = args.Any(raw, true)
			}
			values[i] = v
		}
		d.job = &Job{Queue: d.Queue, Payload: Payload{Class: d.Class, Args: values}}
	})
	return d.job
}

// FromContext returns the run that ctx belongs to: the context a handler got, or
// one derived from it. It is nil outside a job.
func FromContext(ctx context.Context) *Delivery {
	d, _ := ctx.Value(deliveryKey{}).(*Delivery)
	return d
}

// NewContext returns a context FromContext finds d in. The daemon calls it for every
// job. Programs need it only to test a handler without a daemon.
func NewContext(ctx context.Context, d *Delivery) context.Context {
	return &deliveryContext{Context: ctx, delivery: d}
}

type deliveryKey struct{}

type deliveryContext struct {
	context.Context
	delivery *Delivery
}

func (c *deliveryContext) Value(key any) any {
	if key == (deliveryKey{}) {
		return c.delivery
	}
	return c.Context.Value(key)
}

// GlobalID names a Rails model instance, gid://app/Model/1. ActiveJob passes
// models as these; a parameter of this type takes one apart, a string parameter
// gets it whole. In JSON it is the string.
type GlobalID struct {
	// App is the Rails application's name.
	App string
	// Model is the class, "User" or "Admin::User".
	Model string
	// ID is the primary key, unescaped. The parts of a composite key are joined
	// with "/".
	ID string
}

// String returns the gid:// form.
func (g GlobalID) String() string { return args.FormatGlobalID(g.App, g.Model, g.ID) }

// MarshalText returns the gid:// form.
func (g GlobalID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads the gid:// form. It drops parameters behind a question mark: Rails'
// locator loads the model by them.
func (g *GlobalID) UnmarshalText(text []byte) error {
	app, model, id, err := args.ParseGlobalID(string(text))
	if err == nil {
		*g = GlobalID{App: app, Model: model, ID: id}
	}
	return err
}
