package drain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// remove releases locks and removes the keys that hold no job. What still holds jobs stays, with
// the keys that lead to them.
func (d *drain) remove() error {
	return d.pages(func(keys []resque.OwnKey) error {
		var locks, others []string
		for _, k := range keys {
			switch {
			case k.Is.Fate == resque.FateReleased:
				locks = append(locks, k.Name)
			case k.Is.Builder == "own":
				d.leave(k.Name, 0, "this version of goworker does not know what it holds")
			case k.Is.Fate != resque.FateRemoved:
			case d.lanesLeft && (k.Is.Builder == "lanes" || k.Is.Builder == "turns"):
			case d.leasedLeft && k.Is.Builder == "KeyOfLeases":
			case d.groupsLeft && k.Is.Builder == "GroupsKey":
			case d.processesLeft && (k.Is.Builder == "processes" || k.Is.Builder == "process"):
			default:
				others = append(others, k.Name)
			}
		}
		if err := d.removeKeys(locks, &d.Locks); err != nil {
			return err
		}
		return d.removeKeys(others, &d.Removed)
	})
}

func (d *drain) removeKeys(keys []string, total *int) error {
	if d.DryRun {
		*total += len(keys)
		return nil
	}
	for chunk := range slices.Chunk(keys, pieceJobs) {
		if err := d.do(func(c redis.Conn) error {
			n, err := d.store.RemoveOwn(c, chunk)
			*total += n
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// notes says what Ruby does not know.
func (d *drain) notes() error {
	note := func(format string, args ...any) { d.Notes = append(d.Notes, fmt.Sprintf(format, args...)) }
	if d.Delayed > 0 {
		note("resque-scheduler moves delayed jobs: start one, or drain with DrainNow where there is none")
	}
	return d.do(func(c redis.Conn) error {
		u, err := d.store.Unruly(c)
		for _, q := range u.Paused {
			note("queue %s is paused, and Ruby's workers take from it: stop them, or set pause-all-workers", q)
		}
		for _, s := range u.PausedSchedules {
			note("the recurring schedule %s is paused, and resque-scheduler fires it: take it out of its file", s)
		}
		for _, s := range u.Fired {
			note("the recurring schedule %s is in a program of goworker only: write it into resque-scheduler's file", s)
		}
		for _, l := range slices.Sorted(maps.Keys(u.Limits)) {
			note("the limit %s (%s) holds for no Ruby worker", l, u.Limits[l])
		}
		if n, err := workflows.New(d.store).Count(c); err != nil && !resque.IsWrongType(err) {
			return err
		} else if n > 0 {
			note("Ruby does not send the waiting steps of %s: let these end before, or cancel them", resque.Plural(n, "workflow"))
		}
		if resque.IsWrongType(err) {
			note("%v", err)
			return nil
		}
		return err
	})
}
