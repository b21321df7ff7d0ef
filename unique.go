package goworker

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// DefaultLockAtMost is how long a lock stays whose job nobody was seen to end, and that
// nobody else wanted meanwhile.
const DefaultLockAtMost = 7 * 24 * time.Hour

// minLock is the shortest time Redis can keep a lock.
const minLock = time.Millisecond

// Uniqueness is what Unique makes: an Option and an EnqueueOption.
type Uniqueness struct {
	hold    resque.Hold
	most    time.Duration     // unless it is HoldTime
	elapsed time.Duration     // HoldTime's
	bounded bool              // LockAtMost was given
	key     func(*Job) string // nil: class and arguments
	replace bool
	wrong   mistakes
}

// UniqueOption is a setting of Unique. Mistakes are reported by Register and EnqueueWith;
// see Option.
type UniqueOption func(*Uniqueness)

// Unique makes jobs unique: one that is enqueued while another holds its lock is refused
// with a *DuplicateError. Unless it is told otherwise, the lock is named by class and
// arguments, and is the job's until it is done or has failed for good.
//
// Given to Register it holds for every job of the class that this daemon enqueues; given
// to EnqueueWith, for that job. What others enqueue, Ruby's clients too, has no lock.
//
// A lock is given up in the same step of Redis in which its job ends. If the job ends
// elsewhere, by a Ruby worker or because somebody removed it from its queue, whoever wants
// the lock 8 s later has it.
func Unique(opts ...UniqueOption) Uniqueness {
	u := Uniqueness{most: DefaultLockAtMost}
	for _, opt := range opts {
		if opt == nil {
			u.wrong.wrong("Unique: a nil UniqueOption was given; leave it out")
		} else {
			opt(&u)
		}
	}
	if u.hold == "" {
		u.hold = resque.HoldDone
	}
	return u
}

// until tells when the lock ends.
func (u *Uniqueness) until(hold resque.Hold, option string) {
	u.wrong.once("when a unique job's lock ends", option)
	u.hold = hold
}

// lasts is how long the lock may stay.
func (u Uniqueness) lasts() time.Duration {
	if u.hold == resque.HoldTime {
		return u.elapsed
	}
	return u.most
}

// UntilDone has a job keep its lock until it is done or has failed for good; over retries
// and the death of its process too. This is the default.
func UntilDone() UniqueOption { return func(u *Uniqueness) { u.until(resque.HoldDone, "UntilDone") } }

// UntilStart has a job keep its lock until its handler is about to run: while it runs,
// one more may wait. The job needs one more round trip to Redis before it runs.
func UntilStart() UniqueOption {
	return func(u *Uniqueness) { u.until(resque.HoldStart, "UntilStart") }
}

// UntilElapsed has a job keep its lock for a time from when it was enqueued, whatever
// becomes of it: at most one job of a lock is enqueued in any such time. It is at least a
// millisecond.
func UntilElapsed(d time.Duration) UniqueOption {
	return func(u *Uniqueness) {
		u.until(resque.HoldTime, fmt.Sprintf("UntilElapsed(%s)", d))
		u.elapsed = d
	}
}

// ByKey names the lock by a key in place of class and arguments. Jobs of different
// classes with the same key exclude each other. It must not be empty.
func ByKey(key string) UniqueOption {
	return func(u *Uniqueness) {
		u.named(fmt.Sprintf("ByKey(%q)", key), func(*Job) string { return key })
		if key == "" {
			u.wrong.wrong(`ByKey(""): the key by which a job is to be unique is empty; give one, or leave it out`)
		}
	}
}

// ByKeyOf is ByKey with a key for each job. The function is called by whoever enqueues,
// from any goroutine.
func ByKeyOf(key func(job *Job) string) UniqueOption {
	return func(u *Uniqueness) {
		u.named("ByKeyOf", key)
		if key == nil {
			u.wrong.wrong("ByKeyOf: a nil function was given; leave it out")
		}
	}
}

// named tells what the lock is named by.
func (u *Uniqueness) named(option string, key func(*Job) string) {
	u.wrong.once("what a unique job's lock is named by", option)
	u.key = key
}

// ReplaceWaiting has a new job take the place of the one that holds the lock, if that
// still waits: in the same queue its very place, else the one the new job would have got.
// The old one is gone. One that runs, is about to, or waits for a Limit cannot be
// replaced: then the new one is refused. Redis looks through the queue for the old one.
func ReplaceWaiting() UniqueOption {
	return func(u *Uniqueness) {
		u.wrong.once("what becomes of the one before", "ReplaceWaiting")
		u.replace = true
	}
}

// LockAtMost bounds how long a lock may stay: DefaultLockAtMost unless it is told, and
// counted anew when its job is retried and each time somebody is refused and the job was
// looked for. Choose it longer than jobs ever wait and run: after it, a second one is let
// in, and the first goes on without a lock. Locks of jobs that ended elsewhere, and that
// nobody wanted since, need memory until then. A job for later, or for its next try, has
// its time to wait in addition. It does not go with UntilElapsed, which says the time.
func LockAtMost(d time.Duration) UniqueOption {
	return func(u *Uniqueness) {
		u.wrong.once("how long a unique job's lock may stay", fmt.Sprintf("LockAtMost(%s)", d))
		u.most, u.bounded = d, true
	}
}

// DuplicateError says that a job was not enqueued because another holds its lock.
type DuplicateError struct {
	Class  string    // of the job that was refused
	Holder string    // the id of the job that has the lock; see Receipt.ID
	Queue  string    // the holder's
	Since  time.Time // when the holder was enqueued, or its last retry was, by Redis's clock
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("goworker: this job of class %s is unique, and job %s in queue %s has had its lock since %s; nothing was enqueued",
		e.Class, e.Holder, e.Queue, e.Since.UTC().Format(time.RFC3339))
}

func (u Uniqueness) register(to *options) { to.onEnqueue(u) }

func (u Uniqueness) enqueue(to *enqueueOptions) {
	to.once("how the job is unique", "Unique")
	to.add(u.check())
	to.unique = &u
}

func (u Uniqueness) check() error {
	switch {
	case u.wrong.first != nil:
		return u.wrong.first
	case u.hold == resque.HoldTime && u.bounded:
		return errors.New("UntilElapsed and LockAtMost both say how long a unique job's lock lasts; leave one out")
	case u.lasts() < minLock:
		return fmt.Errorf("a unique job's lock is to last %s; give it a millisecond or more", u.lasts())
	}
	return nil
}

var errToldAmongMany = errors.New("Register told its class something about jobs that are enqueued, which Ruby's schedule has no place for; delay each by itself, with EnqueueAt")

var errUniqueAmongMany = errors.New("jobs of its class are unique, and of several jobs at once it could not be said which are duplicates; enqueue it with Enqueue")

// enqueueUnique is what EnqueueWith does for a job that is to have a lock.
func (c *client) enqueueUnique(job *Job, o enqueueOptions) (Receipt, error) {
	j, err := o.unique.job(c.config, job, o)
	if err != nil {
		return Receipt{}, unsent(err, 0, 1)
	}
	var holder *resque.Holder
	receipt := Receipt{ID: o.id}
	err = c.send(func(conn redis.Conn) (err error) {
		holder, receipt.Replaced, err = c.store.EnqueueUnique(conn, j)
		return err
	})
	if holder != nil {
		return Receipt{}, &DuplicateError{job.Payload.Class, holder.ID, holder.Queue, holder.Since}
	}
	return receipt, err
}

// told is how long the lock may stay, for whoever runs the job and moves the lock; 0: as
// long as it does unless it is told.
func (u Uniqueness) told() time.Duration {
	if u.hold == resque.HoldStart || u.most == DefaultLockAtMost {
		return 0
	}
	return u.most
}

// job encodes a job with its lock.
func (u Uniqueness) job(c config, job *Job, o enqueueOptions) (j resque.UniqueJob, err error) {
	if job == nil || job.Queue == "" || job.Payload.Class == "" {
		return j, errNoJob
	}
	key := ""
	if u.key != nil {
		if key = u.key(job); key == "" {
			return j, fmt.Errorf("the key by which a job of class %s is to be unique is empty", job.Payload.Class)
		}
	}
	raw, err := payload.Encode(job.Payload.Class, job.Payload.Args, c.style)
	named := raw // producers that escape otherwise must name the lock alike
	if err == nil && c.style != payload.Plain {
		named, err = payload.Encode(job.Payload.Class, job.Payload.Args, payload.Plain)
	}
	j = resque.UniqueJob{Lock: resque.LockName(named, key), ID: o.id, Hold: u.hold, Most: u.lasts(), Queue: job.Queue, At: o.at, Replace: u.replace}
	fields := o.fields
	if u.hold != resque.HoldTime {
		fields = append(fields, payload.TextField("unique", resque.LockField(u.hold, j.Lock, u.told())))
	}
	if err == nil {
		j.Payload, err = payload.SetFields(raw, append(fields, payload.TextField("id", o.id))...)
	}
	if err == nil {
		err = payload.CheckSize(j.Payload, c.MaxPayload)
	}
	if err != nil {
		return j, fmt.Errorf("enqueueing %s: %w", job.Payload.Class, err)
	}
	return j, nil
}
