package resque

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

var forgetScript = script("forget")

// KeyOfWorkers is the set of the workers' ids, and KeyOfHeartbeats the hash of their heartbeats.
func (s Store) KeyOfWorkers() string    { return s.workers() }
func (s Store) KeyOfHeartbeats() string { return s.heartbeats() }

// KeyOfWorker is the string that says which job a worker has in hand.
func (s Store) KeyOfWorker(id string) string { return s.worker(id) }

// WorkerValues returns what is written of the jobs that workers have in hand, in their order: nil for an idle one.
func (s Store) WorkerValues(c redis.Conn, ids []string) ([][]byte, error) {
	b := Batch{Conn: c}
	b.askWorkers(ids, func(id string) []any { return []any{s.worker(id)} })
	replies, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("reading what the workers do: %w", err)
	}
	values, err := workerValues(replies)
	if err == nil && len(values) != len(ids) {
		err = fmt.Errorf("reading what the workers do: %w", ErrAnswer)
	}
	return values, err
}

// ForgetWorker takes an id out of the set of workers and out of the heartbeats. If the worker is dead by its heartbeat, a job
// that it had in hand becomes a failure, as where Ruby's workers prune it.
func (s Store) ForgetWorker(c redis.Conn, id string, now time.Time, multiQueue bool) (bool, error) {
	beat, err := redis.String(c.Do("HGET", s.heartbeats(), id))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return false, fmt.Errorf("reading the heartbeat of worker %s: %w", id, Explain(err))
	}
	if at := ParseTime(beat); !at.IsZero() && now.Sub(at) > PruneAfter {
		if pruned, err := s.Prune(c, Expired{ID: id, beat: beat}, now, multiQueue); pruned || err != nil {
			return pruned, err
		}
	}
	b := Batch{Conn: c}
	b.Send("SREM", s.workers(), id)
	b.Send("HDEL", s.heartbeats(), id)
	replies, err := b.Receive()
	for _, reply := range replies {
		if err == nil {
			_, err = Answer(reply)
		}
	}
	if err != nil {
		return false, fmt.Errorf("removing worker %s: %w", id, Explain(err))
	}
	return !slices.Equal(replies, []any{int64(0), int64(0)}), nil
}

// ForgetWork removes what is written of the job that a worker has in hand, provided that it is still this.
func (s Store) ForgetWork(c redis.Conn, id string, value []byte) (bool, error) {
	var a Call
	a.Key(s.worker(id))
	a.Arg(value)
	removed, err := redis.Bool(a.Do(c, unlockScript))
	if err != nil {
		return false, fmt.Errorf("removing the job of worker %s: %w", id, Explain(err))
	}
	return removed, nil
}

// ForgetHeartbeat removes the heartbeat of a worker, provided that it is still this.
func (s Store) ForgetHeartbeat(c redis.Conn, id, beat string) (bool, error) {
	var a Call
	a.Key(s.heartbeats())
	a.Arg(id, beat)
	removed, err := redis.Bool(a.Do(c, forgetScript))
	if err != nil {
		return false, fmt.Errorf("removing the heartbeat of worker %s: %w", id, Explain(err))
	}
	return removed, nil
}
