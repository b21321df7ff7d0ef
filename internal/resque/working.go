package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// ProcessOf returns what a process says of itself. One that says nothing has only its id.
func (s Store) ProcessOf(c redis.Conn, id string) (Process, error) {
	fields, err := redis.StringMap(c.Do("HGETALL", s.process(id)))
	if err != nil && !IsWrongType(err) {
		return Process{ID: id}, fmt.Errorf("reading the record of process %s: %w", id, Explain(err))
	}
	return processOf(id, fields), nil
}

// WorkingIn returns what the workers of a process show as their jobs.
func (s Store) WorkingIn(c redis.Conn, p Process) (all []Working, err error) {
	b := Batch{Conn: c}
	b.askWorkers(p.WorkerIDs(), func(id string) []any { return []any{s.worker(id)} })
	replies, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("reading what the workers of process %s do: %w", p.ID, err)
	}
	values, err := workerValues(replies)
	for _, v := range values {
		if w := parseWorking(v); w != nil {
			all = append(all, *w)
		}
	}
	return all, err
}
