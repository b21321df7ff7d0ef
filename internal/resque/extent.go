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

// Count counts in one pipeline.
func (e Extent) Count(s Store, c redis.Conn) (n int64, err error) {
	b := Batch{Conn: c}
	if e.Delayed {
		b.Send("ZCARD", s.KeyOfSchedule())
		b.Send("ZCARD", s.KeyOfSeconds())
	}
	for _, q := range e.Queues {
		b.Send("LLEN", s.KeyOfQueue(q))
	}
	for _, list := range e.Lists {
		b.Send("LLEN", s.KeyOfFailures(list))
	}
	if e.Leased {
		b.Send("HLEN", s.KeyOfLeased())
	}
	replies, err := b.Receive()
	if err != nil {
		return 0, fmt.Errorf("counting jobs: %w", err)
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
