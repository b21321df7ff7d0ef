package resque

import (
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// PauseQueue adds a queue to those from which no process takes.
func (s Store) PauseQueue(c redis.Conn, queue string) error {
	if _, err := c.Do("SADD", s.paused(), queue); err != nil {
		return fmt.Errorf("pausing queue %s: %w", queue, Explain(err))
	}
	return nil
}

// ResumeQueue removes a queue from the paused ones, and reports whether it was paused.
func (s Store) ResumeQueue(c redis.Conn, queue string) (bool, error) {
	removed, err := redis.Bool(c.Do("SREM", s.paused(), queue))
	if err != nil {
		return false, fmt.Errorf("resuming queue %s: %w", queue, Explain(err))
	}
	return removed, nil
}

// PausedQueues returns the names of the paused queues, sorted.
func (s Store) PausedQueues(c redis.Conn) ([]string, error) {
	names, err := redis.Strings(c.Do("SMEMBERS", s.paused()))
	if err != nil {
		return nil, fmt.Errorf("reading which queues are paused: %w", Explain(err))
	}
	slices.Sort(names)
	return names, nil
}
