package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/groups"
)

// AggregateGroup is a group of aggregated jobs that waits for more items or for its time.
type AggregateGroup struct {
	Queue string
	Class string
	Key   []json.RawMessage // the arguments that all items have in common
	Items int
	Bytes int       // of the items
	Began time.Time // when the first item came
	Due   time.Time // when its job is made if no item comes; a later item may put that off, up to its class's MaxWait
}

// AggregateGroups returns the groups of aggregated jobs that wait, in the order in which they are due, and at most as many of
// each Redis. Items of a group are in no queue. A group that becomes a job meanwhile is left out.
func (i *Inspector) AggregateGroups(ctx context.Context, most int) ([]AggregateGroup, error) {
	if most < 1 {
		return nil, fmt.Errorf("goworker: at most %d groups were asked for; give a positive number", most)
	}
	if i.several() {
		all, err := over(i, func(a, b []AggregateGroup) []AggregateGroup { return append(a, b...) }, func(one *Inspector) ([]AggregateGroup, error) {
			return one.AggregateGroups(ctx, most)
		})
		slices.SortStableFunc(all, func(a, b AggregateGroup) int { return a.Due.Compare(b.Due) })
		return all, err
	}
	found, err := query(ctx, i, func(s resque.Store, c redis.Conn) ([]groups.Group, error) { return groups.New(s).List(c, most) })
	var all []AggregateGroup
	for _, g := range found {
		all = append(all, AggregateGroup{Queue: g.Queue, Class: g.Class, Key: g.Keys, Items: g.Items, Bytes: g.Bytes, Began: g.Began, Due: g.Due})
	}
	return all, err
}

// ErrNoGroup is returned by FlushGroup for a group that does not wait.
var ErrNoGroup = prefix.New("no such group of aggregated jobs waits")

// FlushGroup makes the job of a group of aggregated jobs now, of the items that it has, and pushes it to the tail of its queue: the
// group of a class in a queue whose items share these arguments, as AggregateGroups shows them. The error is ErrNoGroup if there is none.
// Over shards it is made on each that has such a group.
func (i *Inspector) FlushGroup(ctx context.Context, queue, class string, key []json.RawMessage) error {
	there := false
	err := i.each(func(one *Inspector) error {
		var items int64
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error {
			g := groups.New(s)
			ids, err := g.Find(c, queue, class, key)
			if err != nil {
				return err
			}
			flushed, err := g.Flush(c, true, ids)
			for _, f := range flushed {
				there = there || f.Items > 0 || f.Err != nil
				items += int64(f.Items)
				err = errors.Join(err, f.Err)
			}
			return err
		})
		text, _ := json.Marshal(key)
		return one.record(ctx, "FlushGroup", fmt.Sprintf("the group %s of class %s in queue %s", text, class, queue), items, err)
	})
	if err == nil && !there {
		err = prefix.Errorf("%w: class %s in queue %s", ErrNoGroup, class, queue)
	}
	return err
}
