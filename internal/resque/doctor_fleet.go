package resque

import (
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// Page is some of the members of one key.
type Page struct {
	Items []string // of a hash: each field and its value
	Next  uint64   // where the next page begins; 0: this was the last one
}

// pageSize is how many members Redis looks at for one page.
const pageSize = 1000

func readPage(c redis.Conn, command string, args ...any) (p Page, err error) {
	r, err := redis.Values(c.Do(command, args...))
	if err == nil && len(r) != 2 {
		err = ErrAnswer
	}
	if err == nil {
		p.Next, err = redis.Uint64(r[0], nil)
	}
	if err == nil {
		p.Items, err = redis.Strings(r[1], nil)
	}
	return p, Explain(err)
}

// WorkerPage reads a page of the set of workers.
func (s Store) WorkerPage(c redis.Conn, cursor uint64) (Page, error) {
	p, err := readPage(c, "SSCAN", s.workers(), cursor, "COUNT", pageSize)
	if err != nil {
		err = fmt.Errorf("reading the set of workers: %w", err)
	}
	return p, err
}

// HeartbeatPage reads a page of the heartbeats: a worker's id and its heartbeat, in turn.
func (s Store) HeartbeatPage(c redis.Conn, cursor uint64) (Page, error) {
	p, err := readPage(c, "HSCAN", s.heartbeats(), cursor, "COUNT", pageSize)
	if err != nil {
		err = fmt.Errorf("reading the heartbeats: %w", err)
	}
	return p, err
}

// CountWorkers returns how many workers and how many heartbeats there are.
func (s Store) CountWorkers(c redis.Conn) (workers, beats int, err error) {
	b := Batch{Conn: c}
	b.Send("SCARD", s.workers())
	b.Send("HLEN", s.heartbeats())
	replies, err := b.Receive()
	for i, n := range []*int{&workers, &beats} {
		if err == nil {
			*n, err = redis.Int(Answer(replies[i]))
		}
	}
	if err != nil {
		err = fmt.Errorf("counting the workers: %w", Explain(err))
	}
	return workers, beats, err
}

// WorkerOf takes a worker's id apart.
func WorkerOf(id string) Worker { return parseWorkerID(id) }

// ProcessRecord is what a process says of itself, and the fields that are not resque.Process's.
type ProcessRecord struct {
	Process
	Fields map[string]string
}

// ProcessRecords reads the records of processes. One that is missing has only its ID.
func (s Store) ProcessRecords(c redis.Conn, ids []string) ([]ProcessRecord, error) {
	all := make([]ProcessRecord, 0, len(ids))
	for chunk := range slices.Chunk(ids, 100) {
		b := Batch{Conn: c}
		for _, id := range chunk {
			b.Send("HGETALL", s.process(id))
		}
		replies, err := b.Receive()
		for i, id := range chunk {
			var f map[string]string
			if err == nil {
				f, err = redis.StringMap(Answer(replies[i]))
			}
			if err != nil {
				return nil, fmt.Errorf("reading the record of process %s: %w", id, Explain(err))
			}
			all = append(all, ProcessRecord{processOf(id, f), f})
		}
	}
	return all, nil
}

// QueueLengths returns how many jobs wait in the lists of queues, in their order. A key that is no list has -1.
func (s Store) QueueLengths(c redis.Conn, queues []string) ([]int64, error) {
	b := Batch{Conn: c}
	for _, q := range queues {
		b.Send("LLEN", s.KeyOfQueue(q))
	}
	replies, err := b.Receive()
	lengths := make([]int64, len(queues))
	for i := range lengths {
		if err == nil {
			lengths[i], err = redis.Int64(Answer(replies[i]))
		}
		if IsWrongType(err) {
			lengths[i], err = -1, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("reading the lengths of the queues: %w", Explain(err))
	}
	return lengths, err
}
