package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

// ErrUnknownQueue is returned for a name that nothing knows: no queue of that name is among Queues, has
// jobs, lanes or is paused, and no registered worker names it. It is mostly a slip of the finger.
var ErrUnknownQueue = prefix.New("nothing knows a queue of this name; see the list of queues")

// Queues returns the names of all queues, sorted. A queue stays when it becomes
// empty, until it is removed.
func (i *Inspector) Queues(ctx context.Context) ([]string, error) {
	if i.several() {
		return over(i, union, func(one *Inspector) ([]string, error) { return one.Queues(ctx) })
	}
	return query(ctx, i, resque.Store.Queues)
}

// QueueSize returns how many jobs wait in a queue, its lanes included. A queue that does not exist
// has none.
func (i *Inspector) QueueSize(ctx context.Context, queue string) (int64, error) {
	if i.several() {
		return over(i, sum[int64], func(one *Inspector) (int64, error) { return one.QueueSize(ctx, queue) })
	}
	return query(ctx, i, func(s resque.Store, c redis.Conn) (int64, error) { return s.QueueSize(c, queue) })
}

// KnowsQueue reports whether anything knows a queue: it is in Resque's set of queues, jobs wait in it or in its lanes, it is paused, or
// a registered worker names it without a pattern.
func (i *Inspector) KnowsQueue(ctx context.Context, queue string) (known bool, err error) {
	if err := i.usable(); err != nil {
		return false, err
	}
	err = i.each(func(one *Inspector) error {
		knows, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) { return s.KnowsQueue(c, queue) })
		known = known || knows
		return err
	})
	return known, err
}

// RemoveQueue removes a queue with all the jobs that wait in it. Workers keep
// looking at the queue, and the next job pushed to it brings it back. If nothing knows the
// queue, the error is ErrUnknownQueue: a script that removes it at any rate passes over that.
//
// It reads no jobs. What is known of those that were enqueued with a result says pending until its time is over, and
// a wait for one goes on. RemoveWhere with the queue writes of each job that it was cancelled. While there are workflows it
// reads the queue, about a second for a million jobs, and the steps in it fail.
func (i *Inspector) RemoveQueue(ctx context.Context, queue string) error {
	if err := i.known(ctx, "removing", queue); err != nil {
		return err
	}
	return i.each(func(one *Inspector) error {
		var size int64
		if i.who != "" { // for the record only
			size, _ = one.QueueSize(ctx, queue)
		}
		if err := one.failAll(ctx, Query{Queue: queue, Places: []Place{Queued, InLane}}); err != nil {
			return err
		}
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error {
			return errors.Join(s.RemoveQueue(c, queue), s.RemoveLanes(c, queue))
		})
		return one.record(ctx, "RemoveQueue", fmt.Sprintf("queue %s with %d jobs", queue, size), once(err == nil), err)
	})
}

// known returns ErrUnknownQueue if no shard knows the queue.
func (i *Inspector) known(ctx context.Context, doing, queue string) error {
	known, err := i.KnowsQueue(ctx, queue)
	if err == nil && !known {
		err = prefix.Errorf("%s queue %s: %w", doing, queue, ErrUnknownQueue)
	}
	return err
}

// Dequeue removes from job.Queue every waiting job equal to this one, in its lanes too, and returns
// how many there were; see Job for what is equal. It does not touch a job that a worker has reserved.
// With Args nil it removes all jobs of the class, as Resque.dequeue does.
//
// Jobs without further fields, as Ruby writes them, are removed in one step, as Resque.dequeue does. For
// the others, and for a class, it looks through the queue a page at a time and removes at most 500 in one
// step. A job that is pushed meanwhile may stay.
func (i *Inspector) Dequeue(ctx context.Context, job *Job) (removed int, err error) {
	if err := i.usable(); err != nil {
		return 0, err
	}
	switch {
	case job == nil:
		return 0, errors.New("goworker: Dequeue was given no job")
	case job.Queue == "":
		return 0, errors.New("goworker: the job to dequeue names no queue; set Job.Queue")
	case job.Class == "":
		return 0, errors.New("goworker: the job to dequeue names no class; set Job.Payload.Class")
	}
	if err := i.hidden(job); err != nil {
		return 0, err
	}
	if i.several() {
		return over(i, sum[int], func(one *Inspector) (int, error) { return one.Dequeue(ctx, job) })
	}
	q := Query{Queue: job.Queue, Class: job.Class, Args: job.Args, ID: job.ID, Places: []Place{Queued, InLane}}
	settings, err := i.redis.Settings()
	if err != nil {
		return 0, err
	}
	raw, err := payload.Encode(job.Class, job.Args, settings.Style)
	if err != nil {
		return 0, prefix.Errorf("dequeueing %s: %w", job.Class, err)
	}
	if job.Args != nil && job.ID == "" {
		removed, err = query(ctx, i, func(s resque.Store, c redis.Conn) (int, error) { return s.Dequeue(c, job.Queue, raw) })
		if err = i.record(ctx, "Dequeue", fmt.Sprintf("%s of queue %s", job.Class, job.Queue), int64(removed), err); err != nil {
			return removed, err
		}
	}
	for after := ""; ; {
		done, err := i.where(ctx, "Dequeue", q, after, removal, func(Entry) bool { return true })
		removed += done.Changed
		if err = errors.Join(append(done.Refused, err)...); err != nil || done.Next == "" {
			return removed, err
		}
		after = done.Next
	}
}

// PauseQueue keeps all processes of the fleet from taking jobs of a queue until
// ResumeQueue. Jobs that were taken run. The processes stop at once if Redis can notify
// them, else within their interval. Ruby's workers do not know of it: for them there is the
// key pause-all-workers, which stops all workers. A pattern or an exclusion, as in lists of
// queues, is refused: name each queue.
//
// A queue that nothing knows yet is paused too, and the error is ErrUnknownQueue. So an operator sees a
// slip of the finger, and a deploy script that pauses a queue before its first job passes over it.
func (i *Inspector) PauseQueue(ctx context.Context, queue string) error {
	return i.PauseQueueFor(ctx, queue, 0)
}

// PauseQueueFor is PauseQueue with an end: after this time the processes take from the queue again; 0: until ResumeQueue. They do so
// by themselves, so it needs no program to end the pause. Processes of older releases take again once a process of this one has taken
// the queue out of the paused ones, which is two seconds later at most.
func (i *Inspector) PauseQueueFor(ctx context.Context, queue string, d time.Duration) error {
	if err := i.usable(); err != nil {
		return err
	}
	if queue == "" {
		return errNoQueueToPause
	}
	if !queues.PlainName(queue) {
		return fmt.Errorf("goworker: %q is not one queue but a pattern or an exclusion, by which nothing can be paused; pause each queue by its name", queue)
	}
	if d < 0 {
		return errNoEnd
	}
	unknown := i.known(ctx, "pausing", queue)
	r, name := ruling{what: "PauseQueue", on: "queue " + queue + holds(d), lasts: d}, control.RuleName(control.PauseRule, queue)
	if d > 0 {
		r.rules = map[string]control.Value{name: {Value: "1"}}
	} else {
		r.ended, r.changes = []string{name}, []control.Change{control.PauseQueue(queue)}
	}
	err := i.each(func(one *Inspector) error {
		_, err := one.rule(ctx, r)
		return err
	})
	if err == nil && unknown != nil {
		err = fmt.Errorf("%w; it is paused all the same, ResumeQueue ends that", unknown)
	}
	return err
}

// ResumeQueue ends PauseQueue. A pattern or an exclusion is refused, unless PausedQueues
// contains exactly this text. A queue that is not paused stays as it is; if nothing knows it, the error
// is ErrUnknownQueue.
func (i *Inspector) ResumeQueue(ctx context.Context, queue string) error {
	if err := i.usable(); err != nil {
		return err
	}
	if queue == "" {
		return errNoQueueToPause
	}
	resumed := false
	err := i.each(func(one *Inspector) error {
		paused, err := one.PausedQueues(ctx)
		if err != nil || !slices.Contains(paused, queue) {
			return err
		}
		resumed = true
		_, err = one.rule(ctx, ruling{
			what: "ResumeQueue", on: "queue " + queue, ended: []string{control.RuleName(control.PauseRule, queue)}, changes: []control.Change{control.ResumeQueue(queue)},
		})
		return err
	})
	switch {
	case err != nil || resumed:
		return err
	case !queues.PlainName(queue):
		return fmt.Errorf("goworker: %q is not one queue but a pattern or an exclusion, and nothing is paused by it; resume each queue by its name", queue)
	}
	return i.known(ctx, "resuming", queue)
}

var errNoQueueToPause = errors.New("goworker: the queue to pause or resume has no name; give it one")

// PausedQueues returns the names of the queues that are paused, sorted.
func (i *Inspector) PausedQueues(ctx context.Context) ([]string, error) {
	if i.several() {
		return over(i, union, func(one *Inspector) ([]string, error) { return one.PausedQueues(ctx) })
	}
	return query(ctx, i, resque.Store.PausedQueues)
}

// WaitingInfo is a lane: jobs of a queue that wait, in order, for the same limits or for
// the turn of the same key.
type WaitingInfo struct {
	Limits []string // the names of the limits they are held to, each with its key: SendEmail/key=acme
	Key    string   // the key of Fair, if they take turns by one
	Jobs   int64
	Turn   time.Time // when its turn came. If it waits for a rate, when a process looks at that: within a minute
}

// Waiting returns the lanes of a queue whose jobs have limits or take turns, the next
// lane first. Ruby's tools do not see these jobs. It sends a command for each lane.
func (i *Inspector) Waiting(ctx context.Context, queue string) ([]WaitingInfo, error) {
	return i.WaitingFirst(ctx, queue, 0)
}

// WaitingFirst is Waiting for the lanes whose turn comes first: at most so many of each combination of limits that all jobs of the queue,
// or of a class, share; 0: all lanes.
func (i *Inspector) WaitingFirst(ctx context.Context, queue string, most int) ([]WaitingInfo, error) {
	if most < 0 {
		return nil, fmt.Errorf("goworker: at most %d lanes were asked for; give a positive number, or 0 for all", most)
	}
	if i.several() {
		all, err := over(i, func(a, b []WaitingInfo) []WaitingInfo { return append(a, b...) },
			func(one *Inspector) ([]WaitingInfo, error) { return one.WaitingFirst(ctx, queue, most) })
		slices.SortStableFunc(all, func(a, b WaitingInfo) int { return a.Turn.Compare(b.Turn) })
		return all, err
	}
	lanes, err := query(ctx, i, func(s resque.Store, c redis.Conn) ([]resque.WaitingLane, error) {
		return s.WaitingFirst(c, queue, most)
	})
	infos := make([]WaitingInfo, 0, len(lanes))
	for _, l := range lanes {
		infos = append(infos, WaitingInfo{Jobs: l.Jobs, Turn: time.UnixMicro(l.Turn), Limits: limitNames(l.Lane), Key: l.Key()})
	}
	return infos, err
}

// limitNames are the limits of a lane, each with its key.
func limitNames(l resque.Lane) (names []string) {
	for _, limit := range l.Limits() {
		name := limit.Name
		if limit.Keyed {
			name += "=" + limit.Key
		}
		names = append(names, name)
	}
	return names
}

// ErrUnknownSchedule is returned for a recurring schedule that Redis does not know: it is not kept there, has
// never fired, and is not paused. It may be one that a process has and that has had no tick yet.
var ErrUnknownSchedule = prefix.New("nothing in Redis knows a recurring schedule of this name")

// PauseSchedule makes the ticks of a recurring schedule pass without a job, in the whole fleet and
// until ResumeSchedule. They are not fired later. Ruby schedulers do not know of it. A schedule that nothing knows
// yet is paused too, and the error is ErrUnknownSchedule.
func (i *Inspector) PauseSchedule(ctx context.Context, name string) error {
	known, err := i.changeSchedule(ctx, "PauseSchedule", name, func(s resque.Store, c redis.Conn) error {
		now, err := s.Now(c)
		if err != nil {
			return err
		}
		return s.PauseSchedule(c, name, now)
	})
	if err == nil && !known {
		err = prefix.Errorf("pausing schedule %s: %w; it is paused all the same, ResumeSchedule ends that", name, ErrUnknownSchedule)
	}
	return err
}

// ResumeSchedule ends PauseSchedule, from the next tick on. A schedule that is not paused stays as it is; if
// nothing knows it, the error is ErrUnknownSchedule.
func (i *Inspector) ResumeSchedule(ctx context.Context, name string) error {
	known, err := i.changeSchedule(ctx, "ResumeSchedule", name, func(s resque.Store, c redis.Conn) error {
		return s.ResumeSchedule(c, name)
	})
	if err == nil && !known {
		err = prefix.Errorf("resuming schedule %s: %w", name, ErrUnknownSchedule)
	}
	return err
}

// changeSchedule changes a recurring schedule on every shard, and reports whether one of them knew it before.
func (i *Inspector) changeSchedule(ctx context.Context, what, name string, change func(s resque.Store, c redis.Conn) error) (known bool, err error) {
	err = i.each(func(one *Inspector) error {
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error {
			knows, err := s.KnowsSchedule(c, name)
			if err != nil {
				return err
			}
			known = known || knows
			return change(s, c)
		})
		return one.record(ctx, what, "schedule "+name, once(err == nil), err)
	})
	return known, err
}
