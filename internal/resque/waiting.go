package resque

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

var unlaneScript = script("unlane")

// WaitingLane is a lane in which jobs wait.
type WaitingLane struct {
	Lane
	Jobs int64
	Turn int64 // when its turn came or will come, in µs by Redis's clock
}

// WaitingIn returns the lanes of a queue in which jobs wait, in the order of their turns. It
// sends a command for each lane.
func (s Store) WaitingIn(c redis.Conn, queue string) ([]WaitingLane, error) {
	return s.WaitingFirst(c, queue, 0)
}

// WaitingFirst is WaitingIn for the first lanes of each set of lanes, at most so many; 0: all of them.
func (s Store) WaitingFirst(c redis.Conn, queue string, most int) ([]WaitingLane, error) {
	all, err := s.lanesOf(c, queue)
	if err != nil {
		return nil, err
	}
	var waiting []WaitingLane
	for _, l := range all {
		turns, err := redis.Values(c.Do("ZRANGE", s.turns(l), 0, most-1, "WITHSCORES"))
		if err != nil {
			return nil, fmt.Errorf("reading the lanes of queue %s: %w", queue, Explain(err))
		}
		b := Batch{Conn: c}
		var lanes []WaitingLane
		for i := 0; i+1 < len(turns); i += 2 {
			own, _ := redis.String(turns[i], nil)
			turn, _ := redis.Float64(turns[i+1], nil)
			lane := WaitingLane{Lane: Lane{l.Queue, l.Shared, own}, Turn: int64(turn)}
			lanes = append(lanes, lane)
			b.Send("LLEN", s.lane(lane.Lane))
		}
		sizes, err := b.Receive()
		for i := range lanes {
			if err == nil {
				lanes[i].Jobs, err = redis.Int64(Answer(sizes[i]))
			}
			if lanes[i].Jobs > 0 {
				waiting = append(waiting, lanes[i])
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reading the lanes of queue %s: %w", queue, Explain(err))
		}
	}
	slices.SortFunc(waiting, func(a, b WaitingLane) int { return cmp.Compare(a.Turn, b.Turn) })
	return waiting, nil
}

// addWaiting adds the jobs that wait in lanes to their queues' counts.
func (s Store) addWaiting(c redis.Conn, info *Info) error {
	sorted, err := redis.Strings(c.Do("SMEMBERS", s.lanes()))
	if err != nil && !IsWrongType(err) {
		return fmt.Errorf("reading which queues are sorted: %w", Explain(err))
	}
	seen := make(map[string]bool)
	for _, l := range parseLanes(sorted) {
		at := slices.IndexFunc(info.Queues, func(q QueueInfo) bool { return q.Name == l.Queue })
		if at < 0 || seen[l.Queue] {
			continue
		}
		seen[l.Queue] = true
		lanes, err := s.WaitingIn(c, l.Queue)
		if err != nil {
			return err
		}
		for _, lane := range lanes {
			info.Queues[at].Size += lane.Jobs
			info.Pending += lane.Jobs
		}
	}
	return nil
}

// RemoveLanes removes all lanes of a queue with their jobs, and the queue from the sorted ones.
// Lanes into which jobs are sorted meanwhile may stay.
func (s Store) RemoveLanes(c redis.Conn, queue string) error {
	all, err := s.lanesOf(c, queue)
	if err != nil {
		return err
	}
	for _, l := range all {
		names, err := redis.Strings(c.Do("ZRANGE", s.turns(l), 0, -1))
		if err != nil {
			return fmt.Errorf("reading the lanes of queue %s: %w", queue, Explain(err))
		}
		for len(names) > removedTogether {
			if err := s.removeLanes(c, l, names[:removedTogether]); err != nil {
				return err
			}
			names = names[removedTogether:]
		}
		if err := s.removeLanes(c, l, names); err != nil {
			return err
		}
	}
	return nil
}

// ForgetLanes removes lanes of a queue from the fleet's, unless jobs wait in them.
func (s Store) ForgetLanes(c redis.Conn, l Lanes) error { return s.removeLanes(c, l, nil) }

// removedTogether is how many lanes are removed in one step.
const removedTogether = 1000

func (s Store) removeLanes(c redis.Conn, l Lanes, names []string) error {
	var a Call
	a.Key(s.lanes())
	a.Key(s.turns(l))
	a.Arg(l.member())
	for _, own := range names {
		a.Key(s.lane(Lane{l.Queue, l.Shared, own}))
		a.Arg(own)
	}
	if _, err := a.Do(c, unlaneScript); err != nil {
		return fmt.Errorf("removing lanes of queue %s: %w", l.Queue, Explain(err))
	}
	return nil
}
