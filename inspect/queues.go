package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// Queues returns the names of all queues, sorted. A queue stays when it becomes
// empty, until it is removed.
func (i *Inspector) Queues(ctx context.Context) ([]string, error) {
	return query(ctx, i, resque.Store.Queues)
}

// QueueSize returns how many jobs wait in a queue. A queue that does not exist
// has none.
func (i *Inspector) QueueSize(ctx context.Context, queue string) (int64, error) {
	return query(ctx, i, func(s resque.Store, c redis.Conn) (int64, error) { return s.QueueSize(c, queue) })
}

// RemoveQueue removes a queue with all the jobs that wait in it. Workers keep
// looking at the queue, and the next job pushed to it brings it back.
func (i *Inspector) RemoveQueue(ctx context.Context, queue string) error {
	return i.do(ctx, func(s resque.Store, c redis.Conn) error {
		return errors.Join(s.RemoveQueue(c, queue), s.RemoveLanes(c, queue))
	})
}

// Dequeue removes from job.Queue every waiting job equal to this one and returns
// how many there were. It does not touch a job that a worker has reserved.
//
// With Args nil it removes all jobs of the class, as Resque.dequeue does with
// the class only; it then reads the whole queue. Otherwise class and arguments are encoded
// as Enqueue encodes them, and jobs of exactly these bytes are removed. A job with further
// fields, such as an id, differs. So does one whose producer prints numbers or escapes in
// another way. Arguments that are empty but not nil mean a job without arguments.
func (i *Inspector) Dequeue(ctx context.Context, job *Job) (removed int, err error) {
	settings, err := i.redis.Settings()
	switch {
	case err != nil:
		return 0, err
	case job == nil:
		return 0, errors.New("goworker: Dequeue was given no job")
	case job.Queue == "":
		return 0, errors.New("goworker: the job to dequeue names no queue; set Job.Queue")
	case job.Class == "":
		return 0, errors.New("goworker: the job to dequeue names no class; set Job.Payload.Class")
	}
	if job.Args == nil {
		return query(ctx, i, func(s resque.Store, c redis.Conn) (int, error) {
			return s.DequeueClass(c, job.Queue, job.Class)
		})
	}
	raw, err := payload.Encode(job.Class, job.Args, settings.Style)
	if err != nil {
		return 0, prefix.Errorf("dequeueing %s: %w", job.Class, err)
	}
	return query(ctx, i, func(s resque.Store, c redis.Conn) (int, error) {
		return s.Dequeue(c, job.Queue, raw)
	})
}

// PauseQueue keeps all processes of the fleet from taking jobs of a queue until
// ResumeQueue. Jobs that were taken run. The processes stop at once if Redis can notify
// them, else within their interval. Ruby's workers do not know of it: for them there is the
// key pause-all-workers, which stops all workers. A pattern or an exclusion, as in lists of
// queues, is refused: name each queue.
func (i *Inspector) PauseQueue(ctx context.Context, queue string) error {
	if err := i.redis.Usable(); err != nil {
		return err
	}
	if queue == "" {
		return errNoQueueToPause
	}
	if !queues.PlainName(queue) {
		return fmt.Errorf("goworker: %q is not one queue but a pattern or an exclusion, by which nothing can be paused; pause each queue by its name", queue)
	}
	return i.do(ctx, func(s resque.Store, c redis.Conn) error { return s.PauseQueue(c, queue) })
}

// ResumeQueue ends PauseQueue. A pattern or an exclusion is refused, unless PausedQueues
// contains exactly this text.
func (i *Inspector) ResumeQueue(ctx context.Context, queue string) error {
	if err := i.redis.Usable(); err != nil {
		return err
	}
	if queue == "" {
		return errNoQueueToPause
	}
	resumed, err := query(ctx, i, func(s resque.Store, c redis.Conn) (bool, error) { return s.ResumeQueue(c, queue) })
	if err == nil && !resumed && !queues.PlainName(queue) {
		err = fmt.Errorf("goworker: %q is not one queue but a pattern or an exclusion, and nothing is paused by it; resume each queue by its name", queue)
	}
	return err
}

var errNoQueueToPause = errors.New("goworker: the queue to pause or resume has no name; give it one")

// PausedQueues returns the names of the queues that are paused, sorted.
func (i *Inspector) PausedQueues(ctx context.Context) ([]string, error) {
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
	lanes, err := query(ctx, i, func(s resque.Store, c redis.Conn) ([]resque.WaitingLane, error) { return s.WaitingIn(c, queue) })
	infos := make([]WaitingInfo, 0, len(lanes))
	for _, l := range lanes {
		info := WaitingInfo{Jobs: l.Jobs, Turn: time.UnixMicro(l.Turn)}
		for _, limit := range l.Limits() {
			name := limit.Name
			if limit.Keyed {
				name += "=" + limit.Key
			}
			info.Limits = append(info.Limits, name)
		}
		info.Key = l.Key()
		infos = append(infos, info)
	}
	return infos, err
}
