package unique

import (
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
)

// Shortest is the shortest TTL that Redis can give a lock.
const Shortest = time.Millisecond

// Options say how a job is unique.
type Options struct {
	Hold    resque.Hold
	Most    time.Duration // the TTL, except with resque.HoldTime
	Elapsed time.Duration // the TTL with resque.HoldTime
	Bounded bool          // the program gave Most
	Replace bool          // the job replaces a holder that waits
}

// Check returns what is wrong with the options.
func (o Options) Check() error {
	switch {
	case o.Hold == resque.HoldTime && o.Bounded:
		return errors.New("UntilElapsed and LockAtMost both say how long a unique job's lock lasts; leave one out")
	case o.ttl() < Shortest:
		return fmt.Errorf("a unique job's lock is to last %s; give it a millisecond or more", o.ttl())
	}
	return nil
}

func (o Options) ttl() time.Duration {
	if o.Hold == resque.HoldTime {
		return o.Elapsed
	}
	return o.Most
}

// field returns the TTL to write into the payload, for the process that runs the job and moves the lock.
// It is 0 for the usual TTL.
func (o Options) field() time.Duration {
	if o.Hold == resque.HoldStart || o.Most == AtMost {
		return 0
	}
	return o.Most
}

// Job is a job that is to have a lock.
type Job struct {
	producer.Job
	ID     string
	Key    string // names the lock; "": class and arguments do
	At     time.Time
	Fields []payload.Field // of the payload, besides those of the lock
}

// Encode returns the job with its lock. Its payload has at most so many bytes.
func (o Options) Encode(j Job, style payload.Style, most int) (u resque.UniqueJob, err error) {
	if err := j.Check(); err != nil {
		return u, err
	}
	raw, err := payload.Encode(j.Class, j.Args, style)
	named := raw // producers that escape otherwise must name the lock alike
	if err == nil && style != payload.Plain {
		named, err = payload.Encode(j.Class, j.Args, payload.Plain)
	}
	u = resque.UniqueJob{Lock: resque.LockName(named, j.Key), ID: j.ID, Hold: o.Hold, Most: o.ttl(), Queue: j.Queue, At: j.At, Replace: o.Replace}
	fields := j.Fields
	if o.Hold != resque.HoldTime {
		fields = append(fields, payload.TextField("unique", resque.LockField(o.Hold, u.Lock, o.field())))
	}
	if err == nil {
		u.Payload, err = payload.SetFields(raw, append(fields, payload.TextField("id", j.ID))...)
	}
	if err == nil {
		err = payload.CheckSize(u.Payload, most)
	}
	return u, j.Wrap(err)
}
