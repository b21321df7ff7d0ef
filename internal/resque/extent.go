package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// Extent is about how many jobs there are in some places. Of resque-scheduler's schedule it counts the seconds, each of
// which has one job or more. A key of another type counts as empty.
type Extent struct {
	Delayed bool // both schedules
	Queues  []string
	Lists   []string // of failures
	Leased  bool     // jobs that clients hold over HTTP
}

// Count counts with a few commands, in two round trips.
func (e Extent) Count(s Store, c redis.Conn) (n int64, err error) {
	b := Batch{Conn: c}
	if e.Delayed {
		b.Send("ZCARD", s.KeyOfSchedule())
		b.Send("ZCARD", s.KeyOfSeconds())
	}
	if e.Leased {
		b.Send("HLEN", s.KeyOfLeased())
	}
	replies, err := b.Receive()
	if err != nil {
		return 0, fmt.Errorf("counting jobs: %w", err)
	}
	var keys []string
	for _, q := range e.Queues {
		keys = append(keys, s.KeyOfQueue(q))
	}
	for _, list := range e.Lists {
		keys = append(keys, s.KeyOfFailures(list))
	}
	sizes, err := lengths(c, keys)
	if err != nil {
		return 0, fmt.Errorf("counting jobs: %w", Explain(err))
	}
	for _, size := range sizes {
		n += size
	}
	for _, reply := range replies {
		size, err := redis.Int64(Answer(reply))
		if err != nil && !IsWrongType(err) {
			return 0, fmt.Errorf("counting jobs: %w", Explain(err))
		}
		n += size
	}
	return n, nil
}
