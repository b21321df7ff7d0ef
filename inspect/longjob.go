package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// JobCursor is what a long job has left for its next run. It is empty if the job has left nothing, is done, or does
// not exist.
type JobCursor struct {
	Value json.RawMessage            // what goworker.Cursor kept; nil: nothing
	Once  map[string]json.RawMessage // what functions of goworker.Once returned, by name; a value that begins with ! says why it was not kept
}

// Cursor returns what a job has left for its next run. What a running job said within the last second may not be in it.
func (i *Inspector) Cursor(ctx context.Context, id string) (JobCursor, error) {
	shards := i.shards
	if !i.several() {
		shards = []*Inspector{i}
	}
	found, there, errs := make([]JobCursor, len(shards)), make([]bool, len(shards)), make([]error, len(shards))
	var wg sync.WaitGroup
	for n, one := range shards {
		wg.Go(func() {
			var left resque.JobCursor
			left, errs[n] = query(ctx, one, func(s resque.Store, c redis.Conn) (left resque.JobCursor, err error) {
				left, there[n], err = s.CursorOf(c, id)
				return left, err
			})
			found[n] = cursorOf(left)
		})
	}
	wg.Wait()
	for n, yes := range there {
		if yes {
			return found[n], nil
		}
	}
	for n, err := range errs {
		if err != nil && i.several() {
			errs[n] = i.shards[n].about(err)
		}
	}
	return JobCursor{}, errors.Join(errs...)
}

func cursorOf(left resque.JobCursor) JobCursor {
	var c JobCursor
	if left.Value != "" {
		c.Value = json.RawMessage(left.Value)
	}
	for name, value := range left.Once {
		if c.Once == nil {
			c.Once = make(map[string]json.RawMessage)
		}
		c.Once[name] = json.RawMessage(value)
	}
	return c
}
