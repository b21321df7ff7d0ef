package resque

import (
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// PausedQueues returns the names of the paused queues, sorted.
func (s Store) PausedQueues(c redis.Conn) ([]string, error) {
	names, err := redis.Strings(c.Do("SMEMBERS", s.paused()))
	if err != nil {
		return nil, fmt.Errorf("reading which queues are paused: %w", Explain(err))
	}
	slices.Sort(names)
	return names, nil
}
