package drain

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// schedule moves the jobs of our own schedule to resque-scheduler's, and those that are due to their
// queues, in the order of their times.
func (d *drain) schedule() error {
	key := d.store.KeyOfSchedule()
	stays, broken := 0, 0 // how many jobs at the start were read and are still there; those that are no jobs
	refused := make(map[string]int)
	next, largest, idle := firstPiece, 1, 0
	for done := false; !done; {
		err := d.do(func(c redis.Conn) error {
			all, err := d.store.ReadScheduled(c, stays, next)
			if done = len(all) == 0; err != nil || done {
				return err
			}
			var move []resque.DrainedJob
			for _, j := range all {
				largest = max(largest, len(j.Member))
				job, err := d.drained(j)
				if err != nil {
					broken++
					stays++
					continue
				}
				move = append(move, job)
			}
			next = piece(largest)
			if d.DryRun {
				stays += len(move)
				d.count(move, nil)
				return nil
			}
			if len(move) == 0 {
				return nil
			}
			n, keys, err := d.store.DrainScheduled(c, move, d.Style)
			if err != nil {
				return err
			}
			for _, k := range keys {
				refused[k.Key]++
				stays++
			}
			d.count(move, keys)
			return idles(&idle, n+len(keys), key)
		})
		if resque.IsWrongType(err) {
			d.leave(key, 0, err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	if broken > 0 {
		d.leave(key, broken, "members that are no jobs; look at them with ZRANGE, and ZREM them")
	}
	for name, n := range refused {
		d.leave(key, n, fmt.Sprintf("Redis refuses the key %s, where these jobs go: it holds another type than Resque gives it; rename or remove it, and drain again", name))
	}
	return nil
}

// drained says where a job of our schedule goes.
func (d *drain) drained(j resque.Scheduled) (resque.DrainedJob, error) {
	job := resque.DrainedJob{Scheduled: j}
	if j.Queue == "" {
		return job, errors.New("it names no queue")
	}
	if _, err := payload.Parse(j.Payload); err != nil {
		return job, err
	}
	if d.Now || j.At.MS <= d.now.UnixMilli() {
		return job, nil
	}
	var err error
	job.Plain, err = payload.ForRetry(j.Payload, false)
	return job, err
}

// count counts the jobs of a piece that moved. Redis names one key for each that did not.
func (d *drain) count(jobs []resque.DrainedJob, refused []resque.KeyError) {
	keys := make(map[string]bool)
	for _, k := range refused {
		keys[k.Key] = true
	}
	for _, j := range jobs {
		if j.Plain == nil {
			if !keys[d.store.KeyOfRubys(j.Queue)] {
				d.Queued++
				count(d.Ignored, j.Payload)
			}
			continue
		}
		item := payload.Item(j.Plain, j.Queue, d.Style)
		if !keys[d.store.KeyOfSecond(j.At.Second())] && !keys[d.store.KeyOfJobSeconds(string(item))] {
			d.Delayed++
			count(d.Dropped, j.Payload)
		}
	}
}
