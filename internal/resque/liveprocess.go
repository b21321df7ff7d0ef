package resque

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// processFields are the fields of a process's record that say how it is. What else the record has, as the names of its classes, may be
// large.
var processFields = []any{"host", "pid", "version", "queues", "concurrency", "started", "vitals", "stuck", "bridges", "name", "control", "app"}

// fieldsOf reads the answer to HMGET of these fields. A field that is missing is missing in the map too.
func fieldsOf(names []any, reply any, err error) (map[string]string, error) {
	values, err := redis.Values(reply, err)
	if err == nil && len(values) != len(names) {
		err = ErrAnswer
	}
	fields := make(map[string]string, len(names))
	for i := range values {
		if text, ok := values[i].([]byte); ok && err == nil {
			fields[names[i].(string)] = string(text)
		}
	}
	return fields, err
}

// askProcesses asks in one script how processes are and how many jobs they have. refused gets what Redis refused, and nil for what
// it did not.
func (s Store) askProcesses(t *trip, all []LiveProcess, refused func(what string, err error)) {
	records, inflight := make([]string, len(all)), make([]string, len(all))
	for i, p := range all {
		records[i], inflight[i] = s.process(p.ID), s.inflight(p.ID)
	}
	var ask together
	ask.each(func(i int, reply any, err error) {
		fields, err := fieldsOf(processFields, reply, err)
		p := &all[i]
		refused("the record of process "+p.ID, err)
		p.Process = processOf(p.ID, fields)
		p.Vitals, p.Stuck = readVitals(fields)
		p.Bridges = readBridges(fields)
	}, records, "HMGET", processFields...)
	ask.each(func(i int, reply any, err error) {
		n, err := redis.Int64(reply, err)
		refused("the in-flight record of process "+all[i].ID, err)
		all[i].Jobs = n
	}, inflight, "HLEN")
	ask.each(func(i int, reply any, _ error) { all[i].Jobs = jobsOf(all[i].Jobs, reply) }, inflight, "HMGET", markField, apartField)
	ask.on(t)
}

// MostProcesses is how many leases of processes a page is chosen from: those that end first.
const MostProcesses = 2000

// PageOfProcesses returns the processes behind an id, sorted by their ids, count of them at most, how many there are, and
// Redis's time. It takes two round trips. Of a process whose record is no hash only the lease is known.
func (s Store) PageOfProcesses(c redis.Conn, after string, count int) (page []LiveProcess, of int64, now time.Time, err error) {
	b := Batch{Conn: c}
	b.Send("TIME")
	b.Send("ZCARD", s.processes())
	b.Send("ZRANGE", s.processes(), 0, MostProcesses-1, "WITHSCORES")
	replies, err := b.Receive()
	if err != nil {
		return nil, 0, now, fmt.Errorf("reading which processes there are: %w", err)
	}
	if now, err = timeOfAnswer(Answer(replies[0])); err != nil {
		return nil, 0, now, err
	}
	if of, err = redis.Int64(Answer(replies[1])); err == nil {
		var leases []string
		leases, err = redis.Strings(Answer(replies[2]))
		for i := 0; i+1 < len(leases); i += 2 {
			if leases[i] > after {
				page = append(page, liveProcess(Lease{leases[i], leases[i+1]}))
			}
		}
	}
	if err != nil {
		return nil, 0, now, fmt.Errorf("reading which processes there are: %w", Explain(err))
	}
	slices.SortFunc(page, func(a, b LiveProcess) int { return strings.Compare(a.ID, b.ID) })
	page = page[:min(len(page), count)]
	return page, of, now, s.readProcesses(c, page)
}

// readProcesses reads how processes are, in one round trip.
func (s Store) readProcesses(c redis.Conn, all []LiveProcess) error {
	t := &trip{c: c}
	var refused error
	for part := range slices.Chunk(all, recordsTogether) {
		s.askProcesses(t, part, func(what string, err error) {
			if err != nil && !IsWrongType(err) && refused == nil { // one key of another type must not hide the other processes
				refused = fmt.Errorf("reading %s: %w", what, Explain(err))
			}
		})
	}
	if len(t.takes) == 0 {
		return nil
	}
	if err := t.run(); err != nil {
		return fmt.Errorf("reading the records of processes: %w", Explain(err))
	}
	return refused
}

// LiveProcessOf returns a process, and Redis's time. There reports whether it has a lease.
func (s Store) LiveProcessOf(c redis.Conn, id string) (p LiveProcess, there bool, now time.Time, err error) {
	b := Batch{Conn: c}
	b.Send("TIME")
	b.Send("ZSCORE", s.processes(), id)
	replies, err := b.Receive()
	if err != nil {
		return p, false, now, fmt.Errorf("reading the lease of process %s: %w", id, err)
	}
	if now, err = timeOfAnswer(Answer(replies[0])); err != nil {
		return p, false, now, err
	}
	lease, err := redis.String(Answer(replies[1]))
	if err != nil {
		if err = ignoreNil(err); err != nil {
			err = fmt.Errorf("reading the lease of process %s: %w", id, Explain(err))
		}
		return p, false, now, err
	}
	one := []LiveProcess{liveProcess(Lease{id, lease})}
	err = s.readProcesses(c, one)
	return one[0], true, now, err
}
