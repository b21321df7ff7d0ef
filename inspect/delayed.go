package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
)

// DelayedJob is a job that waits for its time.
type DelayedJob struct {
	At    time.Time // when it is due; of a plain job a whole second, rounded up
	Queue string
	Class string
	Args  []json.RawMessage
	ID    string // of a job that has one

	Attempt   int // which run it waits for, and why the last one failed, as in an Entry
	LastError string

	// Plain says that the job is in resque-scheduler's schedule, where Ruby's tools
	// see it. Others wait in the daemons' own schedule.
	Plain bool

	// Payload is what its queue will get, and Raw the entry in the schedule. If the entry is no job,
	// Invalid says why, and only Raw and At are set. At its time it is
	// filed as a failure.
	Payload json.RawMessage
	Raw     []byte
	Invalid error

	Shard string // of several Redises, the one where it is

	delayed delayed.Job
	shard   int
}

// DelayedList is a view of all delayed jobs, those of resque-scheduler and our own. It
// holds nothing: each call asks Redis. It is safe for concurrent use.
//
// Find of Inspector looks through the schedules in bounded pages, and can change what it finds.
//
// Remove, Enqueue and Reschedule act on exactly the given jobs, as they were
// listed. A job that was moved, cancelled or delayed again since stays and does
// not count. Each job changes in one step; a call with more than 500 takes several.
type DelayedList struct{ in *Inspector }

// Delayed returns the delayed jobs.
func (i *Inspector) Delayed() *DelayedList { return &DelayedList{i} }

// Count returns how many jobs are delayed.
func (l *DelayedList) Count(ctx context.Context) (int64, error) {
	if l.in.several() {
		return over(l.in, sum[int64], func(one *Inspector) (int64, error) { return one.Delayed().Count(ctx) })
	}
	return query(ctx, l.in, func(s resque.Store, c redis.Conn) (int64, error) {
		own, plain, err := delayed.New(s).Count(c)
		return own + plain, err
	})
}

// List returns jobs that are due at a time or later, in the order of their times: at
// most count, without the first skip. A negative count means all that follow.
// From the zero time it begins with the first of all. It reads the jobs it skips. To go
// through many, start each page at the time of the last listed job, and skip
// those of that time.
func (l *DelayedList) List(ctx context.Context, from time.Time, skip, count int) ([]DelayedJob, error) {
	skip = max(skip, 0)
	if l.in.several() {
		most := -1 // of each shard
		if count >= 0 {
			most = skip + min(count, math.MaxInt-skip)
		}
		jobs, err := l.over(func(one *Inspector) ([]DelayedJob, error) { return one.Delayed().List(ctx, from, 0, most) })
		jobs = jobs[min(skip, len(jobs)):]
		if count >= 0 {
			jobs = jobs[:min(count, len(jobs))]
		}
		return jobs, err
	}
	return l.read(ctx, func(s resque.Store, c redis.Conn) ([]delayed.Job, error) {
		return delayed.New(s).Page(c, from, skip, count)
	})
}

// Like returns the delayed jobs equal to this one, in the order of their times; see Job for what is
// equal. Jobs that Ruby and node-resque delayed are among them.
//
// It finds plain jobs at once, as resque-scheduler and node-resque write them. It reads all of our own
// schedule, about a second for each million of its jobs; Redis serves other clients in between.
func (l *DelayedList) Like(ctx context.Context, job *Job) ([]DelayedJob, error) {
	if l.in.several() {
		return l.over(func(one *Inspector) ([]DelayedJob, error) { return one.Delayed().Like(ctx, job) })
	}
	bulk, err := l.in.sought(job)
	if err != nil {
		return nil, err
	}
	jobs, err := l.read(ctx, func(s resque.Store, c redis.Conn) ([]delayed.Job, error) { return delayed.New(s).Like(c, bulk) })
	return slices.DeleteFunc(jobs, func(d DelayedJob) bool { return job.ID != "" && d.ID != job.ID }), err
}

// Find returns the jobs with an id that goworker delayed. With their time it reads
// the jobs of that time only; with the zero time it reads all, as Like does.
func (l *DelayedList) Find(ctx context.Context, id string, at time.Time) ([]DelayedJob, error) {
	if l.in.several() {
		return l.over(func(one *Inspector) ([]DelayedJob, error) { return one.Delayed().Find(ctx, id, at) })
	}
	return l.read(ctx, func(s resque.Store, c redis.Conn) ([]delayed.Job, error) { return delayed.New(s).ByID(c, id, at) })
}

// over merges the jobs of all shards in the order of their times.
func (l *DelayedList) over(ask func(one *Inspector) ([]DelayedJob, error)) ([]DelayedJob, error) {
	jobs, err := over(l.in, func(a, b []DelayedJob) []DelayedJob { return append(a, b...) }, ask)
	slices.SortStableFunc(jobs, func(a, b DelayedJob) int { return a.At.Compare(b.At) })
	return jobs, err
}

func (l *DelayedList) read(ctx context.Context, ask func(s resque.Store, c redis.Conn) ([]delayed.Job, error)) ([]DelayedJob, error) {
	found, err := query(ctx, l.in, ask)
	if err != nil {
		return nil, err
	}
	jobs := make([]DelayedJob, len(found))
	for i, f := range found {
		jobs[i] = DelayedJob{At: f.At, Queue: f.Queue, Plain: f.Plain(), Payload: f.Payload, Raw: f.Raw, Invalid: f.Err, delayed: f, Shard: l.in.shard(), shard: l.in.number}
		if f.Err != nil {
			continue
		}
		p, err := payload.Parse(f.Payload)
		if err != nil {
			jobs[i].Invalid = err
			continue
		}
		jobs[i].Class, jobs[i].Args, jobs[i].ID = p.Class, p.Args, p.ID
		jobs[i].Attempt, jobs[i].LastError = ran(&p)
	}
	return jobs, nil
}

// removedDelayed is the name of Remove in the record.
const removedDelayed = "Delayed.Remove"

// Remove cancels listed jobs and returns how many were still there.
func (l *DelayedList) Remove(ctx context.Context, jobs ...DelayedJob) (removed int, err error) {
	return l.change(ctx, removedDelayed, jobs, delayed.Store.Take, removal.document)
}

// Promote puts listed jobs into their queues now and returns how many were still there.
// An entry that is no job stays.
func (l *DelayedList) Promote(ctx context.Context, jobs ...DelayedJob) (enqueued int, err error) {
	run := func(s delayed.Store, c redis.Conn, listed []delayed.Job) ([]bool, error) {
		return s.Enqueue(c, listed, false)
	}
	return l.change(ctx, "Delayed.Enqueue", slices.DeleteFunc(slices.Clone(jobs), func(d DelayedJob) bool { return d.delayed.Err != nil }), run,
		func(e Entry, d *resque.DocumentChange) { d.Queue = e.Queue })
}

// Reschedule delays listed jobs to another time and returns how many were still there.
func (l *DelayedList) Reschedule(ctx context.Context, t time.Time, jobs ...DelayedJob) (rescheduled int, err error) {
	redelay := func(s delayed.Store, c redis.Conn, listed []delayed.Job) ([]bool, error) {
		return s.Redelay(c, listed, t)
	}
	return l.change(ctx, "Delayed.Reschedule", jobs, redelay, func(e Entry, d *resque.DocumentChange) { d.Queue, d.Due = e.Queue, t })
}

// change changes listed jobs. document says what the document of each says then.
func (l *DelayedList) change(ctx context.Context, name string, jobs []DelayedJob,
	to func(s delayed.Store, c redis.Conn, listed []delayed.Job) ([]bool, error), document func(e Entry, d *resque.DocumentChange)) (int, error) {
	if l.in.several() {
		return over(l.in, sum[int], func(one *Inspector) (int, error) {
			mine := slices.DeleteFunc(slices.Clone(jobs), func(d DelayedJob) bool { return d.shard != one.number })
			if len(mine) == 0 {
				return 0, nil
			}
			return one.Delayed().change(ctx, name, mine, to, document)
		})
	}
	listed := make([]delayed.Job, 0, len(jobs))
	on := ""
	for _, j := range jobs {
		if j.delayed.Raw != nil { // else it was not listed
			listed = append(listed, j.delayed)
			on = fmt.Sprintf("%s for queue %s", j.Class, j.Queue)
		}
	}
	there, err := query(ctx, l.in, func(s resque.Store, c redis.Conn) ([]bool, error) { return to(delayed.New(s), c, listed) })
	n, _ := counted(there, nil)
	if n > 1 {
		on = fmt.Sprintf("%d jobs, the last %s", n, on)
	}
	var documents []resque.DocumentChange
	var removed []gone
	for at, was := range there {
		if was && name == removedDelayed {
			removed = append(removed, gone{listed[at].Queue, listed[at].Payload})
		}
		if d, ok := resque.DocumentChangeOf(listed[at].Payload); was && ok {
			document(Entry{Queue: listed[at].Queue}, &d)
			documents = append(documents, d)
		}
	}
	err = errors.Join(err, l.in.document(ctx, documents), l.in.fail(ctx, removed))
	return n, l.in.record(ctx, name, on, int64(n), err)
}

// Clear removes all delayed jobs, those of Ruby too, as Ruby's reset_delayed_queue. It reads none of them: a wait for the
// result of one goes on, as after RemoveQueue. While there are workflows it reads all, and the steps among them fail.
func (l *DelayedList) Clear(ctx context.Context) error {
	return l.in.each(func(one *Inspector) error {
		err := one.failAll(ctx, Query{Places: []Place{Delayed}})
		if err == nil {
			err = one.do(ctx, func(s resque.Store, c redis.Conn) error { return delayed.New(s).Clear(c) })
		}
		return one.record(ctx, "Delayed.Clear", "all delayed jobs", once(err == nil), err)
	})
}

// DelayedUntil returns the times to which jobs equal to this one are delayed, in their
// order, one for each job; see Job for what is equal. A job in resque-scheduler's schedule has
// the next whole second.
func (i *Inspector) DelayedUntil(ctx context.Context, job *Job) ([]time.Time, error) {
	jobs, err := i.Delayed().Like(ctx, job)
	var times []time.Time
	for _, j := range jobs {
		times = append(times, j.At)
	}
	return times, err
}

// RemoveDelayed cancels all delayed jobs equal to this one and returns how many there
// were. See Job for what is equal, and DelayedList.Like for what it costs.
func (i *Inspector) RemoveDelayed(ctx context.Context, job *Job) (removed int, err error) {
	jobs, err := i.Delayed().Like(ctx, job)
	if err != nil {
		return 0, err
	}
	return i.Delayed().Remove(ctx, jobs...)
}

// RemoveDelayedFrom is RemoveDelayed for jobs delayed to one time.
func (i *Inspector) RemoveDelayedFrom(ctx context.Context, t time.Time, job *Job) (removed int, err error) {
	jobs, err := i.Delayed().Like(ctx, job)
	if err != nil {
		return 0, err
	}
	var there []DelayedJob
	for _, j := range jobs {
		if j.delayed.Is(t) {
			there = append(there, j)
		}
	}
	return i.Delayed().Remove(ctx, there...)
}

// PromoteDelayed enqueues all delayed jobs equal to this one now instead of at their
// times, and returns how many there were.
func (i *Inspector) PromoteDelayed(ctx context.Context, job *Job) (enqueued int, err error) {
	jobs, err := i.Delayed().Like(ctx, job)
	if err != nil {
		return 0, err
	}
	return i.Delayed().Promote(ctx, jobs...)
}

// sought is the job to look for, encoded.
func (i *Inspector) sought(job *Job) (*resque.Bulk, error) {
	settings, err := i.all()[0].redis.Settings()
	switch {
	case err != nil:
		return nil, err
	case job == nil:
		return nil, errNoJob
	case job.Queue == "":
		return nil, errors.New("goworker: the job to look for names no queue; set Job.Queue")
	case job.Class == "":
		return nil, errors.New("goworker: the job to look for names no class; set Job.Payload.Class")
	}
	if err := i.hidden(job); err != nil {
		return nil, err
	}
	bulk := resque.Bulk{Style: settings.Style, Most: settings.MaxPayload}
	if err := bulk.Add(job.Queue, job.Class, job.Args); err != nil {
		return nil, prefix.Errorf("looking for delayed %s: %w", job.Class, err)
	}
	return &bulk, nil
}
