package groups

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque/failures"
)

// Find returns the failures with these IDs that are there, in the order of the IDs, read now. It reads them where the Index saw them. Only
// where the Index does not know all failures yet, or leaves some out, it looks for the others in the lists, and reads these once. An ID that is given twice means
// two failures. Of several with one ID those that were not retried come first.
func (x *Index) Find(ctx context.Context, ids ...string) (found []inspect.Failure, err error) {
	var left []string
	for try := range 2 {
		if found, _, err = x.read(ctx, x.byID(ids)); err != nil {
			return nil, err
		}
		if left = without(ids, found); len(left) == 0 {
			return inOrder(found, ids), nil
		}
		if try == 0 { // they have moved, or are new
			if _, err := x.Refresh(ctx, time.Second); err != nil {
				return nil, err
			}
		}
	}
	if p := x.Progress(); p.Done && p.Older == 0 {
		return inOrder(found, ids), nil
	}
	// Of these the lists are asked for all, so that none is found twice.
	short := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(left, id) })
	found = slices.DeleteFunc(found, func(f inspect.Failure) bool { return slices.Contains(left, f.ID) })
	var errs []error
	for _, s := range x.shards {
		if len(short) == 0 {
			break
		}
		older, err := s.door.Inspector().Failures().ByID(ctx, short...)
		errs = append(errs, err)
		found = append(found, older...)
		short = without(short, older)
	}
	return inOrder(found, ids), errors.Join(errs...)
}

// byID are the places of failures with these IDs, as many of each as it is given.
func (x *Index) byID(ids []string) (all []ref) {
	wanted := make(map[failures.BinaryID]int)
	for _, id := range ids {
		if failures.CheckID(id) == nil {
			wanted[binary(id)]++
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, s := range x.shards {
		for _, l := range s.lists {
			for n := l.count() - 1; n >= 0; n-- {
				if e := l.at(n); wanted[e.id] > 0 {
					all = append(all, ref{*e, s, l.name, l.base + int64(n)})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ref) int { return cmp.Compare(a.kind&retried, b.kind&retried) })
	return slices.DeleteFunc(all, func(r ref) bool {
		wanted[r.id]--
		return wanted[r.id] < 0
	})
}

func binary(id string) (b failures.BinaryID) {
	_, _ = hex.Decode(b[:], []byte(id)) // CheckID has looked at it
	return b
}

// without are the IDs of which no failure was found.
func without(ids []string, found []inspect.Failure) []string {
	left := slices.Clone(ids)
	for _, f := range found {
		if n := slices.Index(left, f.ID); n >= 0 {
			left = slices.Delete(left, n, n+1)
		}
	}
	return left
}

// inOrder sorts failures as their IDs were given.
func inOrder(found []inspect.Failure, ids []string) []inspect.Failure {
	slices.SortStableFunc(found, func(a, b inspect.Failure) int { return cmp.Compare(slices.Index(ids, a.ID), slices.Index(ids, b.ID)) })
	return found
}

// Retried notes that failures were retried, for a program that has done so. A later Refresh corrects it where it is wrong.
func (x *Index) Retried(ids ...string) {
	x.turn.Lock()
	defer x.turn.Unlock()
	refs := x.byID(ids)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range refs {
		for _, l := range r.shard.lists {
			if n := int(r.pos - l.base); l.name == r.list && n >= 0 && n < l.count() && l.at(n).id == r.id {
				l.at(n).kind |= retried
			}
		}
	}
}

// Neighbour is a failure that happened shortly before or after another one.
type Neighbour struct {
	ID        string
	Group     string // see Group.ID
	Class     string
	Exception string
	Queue     string
	At        time.Time
	Retried   bool
}

// Near returns the known failures that match and happened last before the one with an ID, and first after it: at most n of each, in the order of
// time. Of those in one second of one list the place decides. There are none of a failure that the Index does not know, or whose time is not readable. It asks no Redis.
func (x *Index) Near(id string, f Filter, n int) (before, after []Neighbour) {
	if failures.CheckID(id) != nil {
		return nil, nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	of, list, place := binary(id), -1, 0
	var at uint32
	for number, l := range x.all() {
		for p := l.count() - 1; p >= 0 && list < 0; p-- {
			if e := l.at(p); e.id == of {
				at, list, place = e.at, number, p
			}
		}
	}
	if list < 0 || at == 0 {
		return nil, nil
	}
	type spot struct {
		at          uint32
		list, place int
		*entry
	}
	order := func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.list, b.list), cmp.Compare(a.place, b.place))
	}
	c, middle := x.choose(f), spot{at, list, place, nil}
	var sides [2][]spot // before, the last first; after, the first first
	for number, l := range x.all() {
		for p := range l.count() {
			e := l.at(p)
			one := spot{e.at, number, p, e}
			if _, ok := c.group(e); !ok || e.at == 0 {
				continue
			}
			side, turn := 0, -1
			switch order(one, middle) {
			case 0:
				continue
			case 1:
				side, turn = 1, 1
			}
			to := sides[side]
			if len(to) >= n && turn*order(one, to[len(to)-1]) >= 0 {
				continue
			}
			where, _ := slices.BinarySearchFunc(to, one, func(a, b spot) int { return turn * order(a, b) })
			if to = slices.Insert(to, where, one); len(to) > n {
				to = to[:n]
			}
			sides[side] = to
		}
	}
	neighbour := func(s spot) Neighbour {
		kind, _ := s.group()
		k := x.kinds.all[kind]
		return Neighbour{
			ID: s.id.String(), Group: k.key.String(), Class: k.class, Exception: k.exception, Queue: x.queues.all[s.queue], At: timeOf(s.at), Retried: s.kind&retried != 0,
		}
	}
	for _, s := range slices.Backward(sides[0]) {
		before = append(before, neighbour(s))
	}
	for _, s := range sides[1] {
		after = append(after, neighbour(s))
	}
	return before, after
}
