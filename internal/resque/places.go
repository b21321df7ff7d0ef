package resque

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// KeyOfLane is the list of a lane's jobs.
func (s Store) KeyOfLane(l Lane) string { return s.lane(l) }

// KeyOfLanes is the set of the sets of lanes.
func (s Store) KeyOfLanes() string { return s.lanes() }

// KeyOfTurns is the sorted set of the lanes of a set.
func (s Store) KeyOfTurns(l Lanes) string { return s.turns(l) }

// SortedQueues returns the sets of lanes of one queue, or of all queues for "", in a stable order.
func (s Store) SortedQueues(c redis.Conn, queue string) ([]Lanes, error) {
	members, err := redis.Strings(c.Do("SMEMBERS", s.lanes()))
	if err != nil {
		return nil, fmt.Errorf("reading which queues are sorted: %w", Explain(err))
	}
	slices.Sort(members)
	return slices.DeleteFunc(parseLanes(members), func(l Lanes) bool { return queue != "" && l.Queue != queue }), nil
}

// ScanLanes reads a page of the lanes of a set, in no order, and returns the cursor of the next one.
// Both cursors are "0" at the ends. A lane that is there all the time is not missed, and may be returned
// twice. Redis returns up to 128 lanes of a small set at once, else about twenty.
func (s Store) ScanLanes(c redis.Conn, l Lanes, cursor string) (lanes []Lane, next string, err error) {
	r, err := redis.Values(c.Do("ZSCAN", s.turns(l), cursor, "COUNT", 20))
	if err == nil && len(r) != 2 {
		err = ErrAnswer
	}
	var names []string
	if err == nil {
		next, _ = redis.String(r[0], nil)
		names, err = redis.Strings(r[1], nil)
	}
	if err == nil && (len(names)%2 != 0 || next == "") {
		err = ErrAnswer
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the lanes of queue %s: %w", l.Queue, Explain(err))
	}
	for i := 0; i < len(names); i += 2 {
		lanes = append(lanes, Lane{l.Queue, l.Shared, names[i]})
	}
	return lanes, next, nil
}

// ProcessIDs returns the ids of all processes that have a lease, sorted.
func (s Store) ProcessIDs(c redis.Conn) ([]string, error) {
	ids, err := redis.Strings(c.Do("ZRANGE", s.processes(), 0, -1))
	if err != nil {
		return nil, fmt.Errorf("reading which processes there are: %w", Explain(err))
	}
	slices.Sort(ids)
	return ids, nil
}

// Tickets returns the tickets of a process's in-flight record, rising.
func (s Store) Tickets(c redis.Conn, process string) ([]int64, error) {
	fields, err := redis.Strings(c.Do("HKEYS", s.inflight(process)))
	if err != nil {
		return nil, fmt.Errorf("reading the in-flight record of process %s: %w", process, Explain(err))
	}
	return parseTickets(fields), nil
}

// LiveProcess is a process of the fleet and its lease.
type LiveProcess struct {
	Process
	Ends time.Time // when the lease ends. If the process counts as dead: since when
	Dead bool
	Jobs int64 // in its in-flight record

	Bridges []Bridge // to other libraries
	Vitals  Vitals   // zero: its release does not say how it is
	Stuck   []StuckJob
}

// LiveProcesses returns the processes that have a lease, in the order of their ids, and Redis's time.
func (s Store) LiveProcesses(c redis.Conn) ([]LiveProcess, time.Time, error) {
	now, err := s.Now(c)
	if err != nil {
		return nil, now, err
	}
	leases, err := redis.Strings(c.Do("ZRANGE", s.processes(), 0, -1, "WITHSCORES"))
	if err != nil {
		return nil, now, fmt.Errorf("reading which processes there are: %w", Explain(err))
	}
	b := Batch{Conn: c}
	var all []LiveProcess
	for i := 0; i+1 < len(leases); i += 2 {
		p := liveProcess(Lease{leases[i], leases[i+1]})
		all = append(all, p)
		b.Send("HGETALL", s.process(p.ID))
		b.Send("HLEN", s.inflight(p.ID))
		b.Send("HMGET", s.inflight(p.ID), markField, apartField)
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, now, fmt.Errorf("reading the records of processes: %w", err)
	}
	for i := range all {
		// A key of the wrong type must not hide the other processes.
		if fields, err := redis.StringMap(Answer(replies[3*i])); err == nil {
			all[i].Process = processOf(all[i].ID, fields)
			all[i].Vitals, all[i].Stuck = readVitals(fields)
			all[i].Bridges = readBridges(fields)
		}
		fields, _ := redis.Int64(Answer(replies[3*i+1]))
		all[i].Jobs = jobsOf(fields, replies[3*i+2])
	}
	slices.SortFunc(all, func(a, b LiveProcess) int { return strings.Compare(a.ID, b.ID) })
	return all, now, nil
}

// liveProcess is the process of a lease.
func liveProcess(lease Lease) LiveProcess {
	p := LiveProcess{Process: Process{ID: lease.Process}, Dead: lease.Fenced(), Ends: time.UnixMilli(lease.at())}
	if p.Dead {
		p.Ends = time.UnixMilli(-lease.at())
	}
	return p
}

// KnowsQueue reports whether anything knows a queue: it is in the set of queues, has jobs or lanes, is
// paused, or a registered worker names it without a pattern.
func (s Store) KnowsQueue(c redis.Conn, queue string) (bool, error) {
	b := Batch{Conn: c}
	b.Send("SISMEMBER", s.KeyOfNames(queue), queue)
	b.Send("EXISTS", s.KeyOfQueue(queue))
	b.Send("SISMEMBER", s.paused(), queue)
	b.Send("SMEMBERS", s.workers())
	replies, err := b.Receive()
	if err != nil {
		return false, fmt.Errorf("looking for queue %s: %w", queue, err)
	}
	for _, reply := range replies[:3] {
		if there, err := redis.Bool(Answer(reply)); err == nil && there {
			return true, nil
		}
	}
	workers, _ := redis.Strings(Answer(replies[3])) // of a wrong type: the others have answered
	for _, id := range workers {
		parts := strings.SplitN(id, ":", 3)
		if slices.Contains(strings.Split(parts[len(parts)-1], ","), queue) {
			return true, nil
		}
	}
	lanes, err := s.SortedQueues(c, queue)
	return len(lanes) > 0, err
}

// KnowsSchedule reports whether Redis knows a recurring schedule: it is kept there, has fired, or is
// paused.
func (s Store) KnowsSchedule(c redis.Conn, name string) (bool, error) {
	b := Batch{Conn: c}
	for _, key := range []string{s.persistentSchedules(), s.ticks(), s.lastEnqueuedAt(), s.pausedSchedules()} {
		b.Send("HEXISTS", key, name)
	}
	replies, err := b.Receive()
	if err != nil {
		return false, fmt.Errorf("looking for the recurring schedule %s: %w", name, err)
	}
	for _, reply := range replies {
		there, refused := redis.Bool(Answer(reply))
		if there {
			return true, nil
		}
		if err == nil {
			err = Explain(refused)
		}
	}
	return false, err
}
