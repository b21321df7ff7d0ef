package goworker

import (
	"encoding/json"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// DelayedJob is a job that waits for its time.
type DelayedJob struct {
	At    time.Time // when it is due; of a plain job a whole second, rounded up
	Queue string
	Class string
	Args  []json.RawMessage
	ID    string // of a job enqueued by EnqueueWith

	// Plain says that it waits where resque-scheduler has its jobs, and Ruby's tools
	// see it. Others wait in the daemons' own schedule.
	Plain bool

	// Payload is what its queue will get, Raw what stands in the schedule, and Invalid
	// says why nothing but Raw and At is known, where that is no job. At its time it is
	// filed as a failure.
	Payload json.RawMessage
	Raw     []byte
	Invalid error

	delayed resque.Delayed
}

// DelayedList is a view of all delayed jobs, those of resque-scheduler and our own. It
// holds nothing: each call asks Redis. It is safe for concurrent use.
//
// Remove, Enqueue and Reschedule act on exactly the jobs they are given, as they were
// listed: one that has been moved, cancelled or delayed anew since is left alone and
// not counted. Each job is moved as one; a call with more than a thousand is not.
type DelayedList struct{ d *Daemon }

// Delayed returns the delayed jobs.
func (d *Daemon) Delayed() *DelayedList { return &DelayedList{d} }

// Count returns how many jobs are delayed.
func (l *DelayedList) Count() (int64, error) {
	return query(l.d, func(s resque.Store, c redis.Conn) (int64, error) {
		own, plain, err := s.DelayedCount(c)
		return own + plain, err
	})
}

// List returns jobs that are due at a time or later, in the order of their times: at
// most count, after leaving out the first skip. A negative count means all that follow.
// From the zero time it begins with the first of all. It reads what it skips; to go
// through many, start each page at the time of the last job that was listed, and skip
// those of that time.
func (l *DelayedList) List(from time.Time, skip, count int) ([]DelayedJob, error) {
	return l.read(func(s resque.Store, c redis.Conn) ([]resque.Delayed, error) {
		return s.DelayedPage(c, from, max(skip, 0), count)
	})
}

// Like returns the delayed jobs equal to this one, in the order of their times: of the
// same queue and class, and whose arguments are exactly the bytes that Enqueue would
// write; nil are none. Those that Ruby and node-resque delayed are among them.
//
// Plain jobs are found at once. Our own schedule is looked through, about a second for
// each million of its jobs, while Redis serves others in between.
func (l *DelayedList) Like(job *Job) ([]DelayedJob, error) {
	bulk, err := l.d.sought(job)
	if err != nil {
		return nil, err
	}
	return l.read(func(s resque.Store, c redis.Conn) ([]resque.Delayed, error) { return s.DelayedLike(c, bulk) })
}

// Find returns the jobs with an id that EnqueueWith delayed. Given the time to which it
// did, it looks there only; with the zero time it looks through all, as Like does.
func (l *DelayedList) Find(id string, at time.Time) ([]DelayedJob, error) {
	return l.read(func(s resque.Store, c redis.Conn) ([]resque.Delayed, error) { return s.DelayedByID(c, id, at) })
}

func (l *DelayedList) read(ask func(s resque.Store, c redis.Conn) ([]resque.Delayed, error)) ([]DelayedJob, error) {
	found, err := query(l.d, ask)
	if err != nil {
		return nil, err
	}
	jobs := make([]DelayedJob, len(found))
	for i, f := range found {
		jobs[i] = DelayedJob{At: f.At, Queue: f.Queue, Plain: f.Plain(), Payload: f.Payload, Raw: f.Raw, Invalid: f.Err, delayed: f}
		if f.Err != nil {
			continue
		}
		p, err := payload.Parse(f.Payload)
		if err != nil {
			jobs[i].Invalid = err
			continue
		}
		jobs[i].Class, jobs[i].Args, jobs[i].ID = p.Class, p.Args, p.ID
	}
	return jobs, nil
}

// Remove cancels listed jobs and returns how many there still were.
func (l *DelayedList) Remove(jobs ...DelayedJob) (removed int, err error) {
	return l.change(jobs, resque.Store.RemoveDelayed)
}

// Enqueue puts listed jobs into their queues now and returns how many there still were.
// What is no job stays.
func (l *DelayedList) Enqueue(jobs ...DelayedJob) (enqueued int, err error) {
	return l.change(jobs, resque.Store.RunDelayed)
}

// Reschedule delays listed jobs to another time and returns how many there still were.
func (l *DelayedList) Reschedule(t time.Time, jobs ...DelayedJob) (rescheduled int, err error) {
	return l.change(jobs, func(s resque.Store, c redis.Conn, listed []resque.Delayed) (int, error) {
		return s.Redelay(c, listed, t)
	})
}

func (l *DelayedList) change(jobs []DelayedJob, to func(s resque.Store, c redis.Conn, listed []resque.Delayed) (int, error)) (int, error) {
	listed := make([]resque.Delayed, 0, len(jobs))
	for _, j := range jobs {
		if j.delayed.Raw != nil { // else it was not listed
			listed = append(listed, j.delayed)
		}
	}
	return query(l.d, func(s resque.Store, c redis.Conn) (int, error) { return to(s, c, listed) })
}

// Clear removes all delayed jobs, those of Ruby too, as Ruby's reset_delayed_queue.
func (l *DelayedList) Clear() error {
	return l.d.withConn(func(s resque.Store, c redis.Conn) error { return s.ClearDelayed(c) })
}
