package delayed

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

var swapScript = resque.LoadScript(scriptFiles, "swap")

// Swap changes the queue and payload of a listed job. The job stays in its schedule, with its time, and a
// unique job keeps its lock. It reports whether the job was there, and returns what it is then.
func (s Store) Swap(c redis.Conn, d Job, queue string, as []byte, style payload.Style) (bool, Job, error) {
	if !d.Plain() {
		own := unscheduling{Store: s}
		own.start()
		lock, _ := d.lock()
		member := resque.JobPrefix(queue) + string(as)
		if member == string(d.Raw) {
			member = "" // unchanged
		}
		own.toTime(d.Raw, resque.StampOf(d.At), moved{member, lock})
		out, err := own.do(c)
		for _, b := range out.broken {
			err = errors.Join(err, resque.Explain(redis.Error(b.Reason)))
		}
		if member != "" {
			d.Raw = []byte(member)
		}
		d.Queue, d.Payload, d.Err = queue, as, nil
		return out.found > 0, d, err
	}
	a, item := s.SwapCall(d, queue, as, style)
	there, err := redis.Bool(a.Do(c, swapScript))
	if err != nil {
		return false, d, fmt.Errorf("changing a job that is delayed to %s: %w", d.second, resque.Explain(err))
	}
	return there, plainJob(d.second, item), nil
}

// SwapCall is the call of swap.lua, or of the same in a step of an operation, for a job of resque-scheduler's, and the item
// as which that goes on.
func (s Store) SwapCall(d Job, queue string, as []byte, style payload.Style) (a resque.Call, item []byte) {
	item = payload.Item(as, queue, style)
	a.Key(s.store.KeyOfSecond(d.second))
	a.Key(s.store.KeyOfJobSeconds(string(d.Raw)))
	a.Key(s.store.KeyOfJobSeconds(string(item)))
	a.Arg(d.second, d.Raw, item)
	return a, item
}
