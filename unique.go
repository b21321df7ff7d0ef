package goworker

import (
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/setting"
)

// DefaultLockAtMost is how long a lock stays whose job was not seen to end, if no other
// job asks for the lock.
const DefaultLockAtMost = unique.AtMost

// Uniqueness is what Unique makes: an Option and an EnqueueOption.
type Uniqueness struct {
	options unique.Options
	wrong   setting.Mistakes
}

// UniqueOption is a setting of Unique:
//
//   - UntilDone, UntilStart, UntilElapsed: how long a job holds its lock
//   - ByKey, ByKeyOf: the key of the lock, in place of class and arguments
//   - ReplaceWaiting: take the place of a job that still waits
//   - LockAtMost: when Redis drops a lock in any case
//
// Mistakes are reported by Register and by the calls that enqueue; see Option.
type UniqueOption func(*Uniqueness)

// Unique makes jobs unique: one that is enqueued while another holds its lock is refused
// with a *DuplicateError. By default class and arguments name the lock, and the job keeps
// it until it is done or has failed for good.
//
// Given to Register it holds for every job of the class that this daemon enqueues; given
// to Client.Enqueue, for that job. Jobs from other producers, Ruby's clients too, have no lock.
//
// Redis releases a lock in the same step in which its job ends. A job may also end
// elsewhere: a Ruby worker runs it, or an operator removes it from its queue. Its lock is
// free for another job 8 s later.
func Unique(opts ...UniqueOption) Uniqueness {
	if len(opts) == 0 {
		return Uniqueness{options: unique.Options{Hold: resque.HoldDone, Most: DefaultLockAtMost}}
	}
	u := Uniqueness{options: unique.Options{Most: DefaultLockAtMost}}
	for _, opt := range opts {
		if opt == nil {
			u.wrong.Wrong("Unique: a nil UniqueOption was given; leave it out")
		} else {
			opt(&u)
		}
	}
	if u.options.Hold == "" {
		u.options.Hold = resque.HoldDone
	}
	return u
}

// until sets when the lock ends.
func (u *Uniqueness) until(hold resque.Hold, option string) {
	u.wrong.Once("when a unique job's lock ends", option)
	u.options.Hold = hold
}

// UntilDone makes a job keep its lock until it is done or has failed for good, over retries
// and the death of its process too. This is the default.
func UntilDone() UniqueOption { return func(u *Uniqueness) { u.until(resque.HoldDone, "UntilDone") } }

// UntilStart makes a job keep its lock until its handler is about to run: while it runs,
// one more may wait. The job needs one more round trip to Redis before it runs.
func UntilStart() UniqueOption {
	return func(u *Uniqueness) { u.until(resque.HoldStart, "UntilStart") }
}

// UntilElapsed makes a job keep its lock for a time from when it was enqueued, also when
// it ends before. So at most one job of a lock is enqueued in any such time. It is at
// least a millisecond.
func UntilElapsed(d time.Duration) UniqueOption {
	return func(u *Uniqueness) {
		u.until(resque.HoldTime, fmt.Sprintf("UntilElapsed(%s)", d))
		u.options.Elapsed = d
	}
}

// ByKey names the lock by a key in place of class and arguments. Jobs of different
// classes with the same key exclude each other. It must not be empty.
func ByKey(key string) UniqueOption {
	return func(u *Uniqueness) {
		u.named(fmt.Sprintf("ByKey(%q)", key), func(*Job) string { return key })
		if key == "" {
			u.wrong.Wrong(`ByKey(""): the key by which a job is to be unique is empty; give one, or leave it out`)
		}
	}
}

// ByKeyOf is ByKey with a key for each job. The producer calls the function, from any
// goroutine.
func ByKeyOf(key func(job *Job) string) UniqueOption {
	return func(u *Uniqueness) {
		u.named("ByKeyOf", key)
		if key == nil {
			u.wrong.Wrong("ByKeyOf: a nil function was given; leave it out")
		}
	}
}

// named sets the function that names the lock.
func (u *Uniqueness) named(option string, key func(*Job) string) {
	u.wrong.Once("what a unique job's lock is named by", option)
	u.options.Key = func(p *outcome.Push) string { return key(p.View.(*Job)) }
}

// ReplaceWaiting makes a new job replace the holder of the lock, if that still waits. In
// the same queue the new job takes its very place, elsewhere the place of any new job. The
// old job is gone. A job that runs, is about to, or waits for a Limit cannot be replaced: then
// the new one is refused. Redis searches the queue for the old one.
func ReplaceWaiting() UniqueOption {
	return func(u *Uniqueness) {
		u.wrong.Once("what becomes of the one before", "ReplaceWaiting")
		u.options.Replace = true
	}
}

// LockAtMost bounds how long a lock may stay; the default is DefaultLockAtMost. The time
// starts again when its job is retried, and when a duplicate is refused and Redis finds
// the job. A job for later, or for its next try, has its time to wait in addition.
//
// Choose it longer than jobs ever wait and run: after it, a second job is let in, and the
// first goes on without a lock. Until then, the locks of jobs that ended elsewhere need
// memory. It does not go with UntilElapsed, which says the time.
func LockAtMost(d time.Duration) UniqueOption {
	return func(u *Uniqueness) {
		u.wrong.Once("how long a unique job's lock may stay", fmt.Sprintf("LockAtMost(%s)", d))
		u.options.Most, u.options.Bounded = d, true
	}
}

func (u Uniqueness) register(to *options) { to.onEnqueue(u) }

func (u Uniqueness) enqueue(to *enqueueOptions) {
	to.named = true
	to.Once("how the job is unique", "Unique")
	to.Add(u.wrong.First)
	if u.wrong.First == nil {
		to.Add(u.options.Check())
	}
	outcome.Put(to.to, u.options)
}
