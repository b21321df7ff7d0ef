package resque

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// InFlight returns how many jobs the in-flight records of processes hold, in their order.
func (s Store) InFlight(c redis.Conn, processes []string) ([]int64, error) {
	b := Batch{Conn: c}
	for _, p := range processes {
		b.Send("HLEN", s.inflight(p))
		b.Send("HMGET", s.inflight(p), markField, apartField)
	}
	replies, err := b.Receive()
	jobs := make([]int64, len(processes))
	for i := range processes {
		if err == nil {
			jobs[i], err = redis.Int64(Answer(replies[2*i]))
		}
		if err == nil {
			_, err = Answer(replies[2*i+1])
		}
		if IsWrongType(err) {
			jobs[i], err = 0, nil
		}
		if err == nil {
			jobs[i] = jobsOf(jobs[i], replies[2*i+1])
		}
	}
	if err != nil {
		err = fmt.Errorf("counting the jobs of processes: %w", Explain(err))
	}
	return jobs, err
}

// OwnWork is how many jobs wait where only goworker finds them.
type OwnWork struct {
	Scheduled int64 // delayed, with more than class and arguments
	Leased    int64 // held by clients over HTTP
	Over      int64 // of these, how many leases ended longer ago than asked
	Workflows int64
	Groups    int64
	Pulse     time.Time // when a process last renewed its lease; zero: longer ago than Redis knows
}

// OwnWork counts them. Jobs in lanes and in goworker's own queues are found by their keys.
func (s Store) OwnWork(c redis.Conn, now time.Time, over time.Duration) (w OwnWork, err error) {
	b := Batch{Conn: c}
	b.Send("ZCARD", s.KeyOfSchedule())
	b.Send("HLEN", s.KeyOfLeased())
	b.Send("ZCOUNT", s.KeyOfLeases(), "-inf", now.Add(-over).UnixMilli())
	b.Send("ZCARD", s.workflows())
	b.Send("ZCARD", s.groups())
	b.Send("GET", s.pulse())
	replies, err := b.Receive()
	for i, n := range []*int64{&w.Scheduled, &w.Leased, &w.Over, &w.Workflows, &w.Groups} {
		if err == nil {
			*n, err = redis.Int64(Answer(replies[i]))
		}
	}
	var pulse string
	if err == nil {
		pulse, err = redis.String(Answer(replies[5]))
	}
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	if _, last, ok := strings.Cut(pulse, " "); ok {
		if ms, err := strconv.ParseInt(last, 10, 64); err == nil {
			w.Pulse = time.UnixMilli(ms)
		}
	}
	if err != nil {
		err = fmt.Errorf("counting the jobs that only goworker moves: %w", Explain(err))
	}
	return w, err
}

// LaneLengths returns how many jobs the lanes with these names in their keys have in all.
func (s Store) LaneLengths(c redis.Conn, lanes []string) (jobs int64, err error) {
	b := Batch{Conn: c}
	for _, lane := range lanes {
		b.Send("LLEN", s.ns+"go:lane:"+lane)
	}
	replies, err := b.Receive()
	for _, reply := range replies {
		n, refused := redis.Int64(Answer(reply))
		if err == nil && refused != nil && !IsWrongType(refused) {
			err = refused
		}
		jobs += n
	}
	if err != nil {
		err = fmt.Errorf("counting the jobs in lanes: %w", Explain(err))
	}
	return jobs, err
}

// SlotPage reads a page of the jobs that run under a limit, by the name of the limit's key behind go:slots:.
func (s Store) SlotPage(c redis.Conn, limit string, cursor uint64) (Page, error) {
	p, err := readPage(c, "SSCAN", s.slots(limit), cursor, "COUNT", pageSize)
	if err != nil {
		err = fmt.Errorf("reading who holds limit %s: %w", limit, err)
	}
	return p, err
}

// LostSlots returns those holders of slots that have no such job.
func (s Store) LostSlots(c redis.Conn, holders []string) (lost []string, err error) {
	b := Batch{Conn: c}
	for _, h := range holders {
		at := max(0, strings.LastIndexByte(h, '/'))
		b.Send("HEXISTS", s.inflight(h[:at]), strings.TrimPrefix(h[at:], "/"))
	}
	replies, err := b.Receive()
	for i, reply := range replies {
		held, refused := redis.Bool(Answer(reply))
		if err == nil && refused != nil && !IsWrongType(refused) {
			err = refused
		}
		if !held {
			lost = append(lost, holders[i])
		}
	}
	if err != nil {
		err = fmt.Errorf("looking for the jobs that hold a limit: %w", Explain(err))
	}
	return lost, err
}
