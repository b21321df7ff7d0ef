package resque

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// This file removes a dead worker for an operator.

// WorkerLives says why a worker is not dead.
type WorkerLives struct {
	Beat    time.Time // its last heartbeat, if that is why
	Process string    // the process with a lease that it belongs to, if that is why
}

func (w *WorkerLives) Error() string {
	if w.Process != "" {
		return fmt.Sprintf("process %s, to which it belongs, holds a lease", w.Process)
	}
	return fmt.Sprintf("it sent a heartbeat at %s, which is not %v ago", w.Beat.UTC().Format(time.RFC3339), PruneAfter)
}

// ErrNoWorker is returned for a worker that is not registered.
var ErrNoWorker = errors.New("no such worker is registered")

// DeadWorker returns what was seen of a worker that is dead: its last heartbeat is older than PruneAfter, or it has none that can be
// read, and no process with a lease has it. The error is a *WorkerLives for any other.
func (s Store) DeadWorker(c redis.Conn, id string) (w Expired, beaten bool, err error) {
	now, err := s.Now(c)
	if err != nil {
		return w, false, err
	}
	b := Batch{Conn: c}
	b.Send("SISMEMBER", s.workers(), id)
	b.Send("HGET", s.heartbeats(), id)
	replies, err := b.Receive()
	if err != nil {
		return w, false, fmt.Errorf("reading worker %s: %w", id, err)
	}
	there, err := redis.Bool(Answer(replies[0]))
	if err != nil {
		return w, false, fmt.Errorf("reading the set of workers: %w", Explain(err))
	}
	beat, err := redis.String(Answer(replies[1]))
	if err = ignoreNil(err); err != nil {
		return w, false, fmt.Errorf("reading the heartbeats: %w", Explain(err))
	}
	if !there && beat == "" {
		return w, false, ErrNoWorker
	}
	if at, err := time.Parse(time.RFC3339, beat); err == nil {
		if beaten = true; now.Unix()-at.Unix() <= int64(PruneAfter/time.Second) {
			return w, true, &WorkerLives{Beat: at}
		}
	}
	live, _, err := s.LiveProcesses(c)
	if err != nil {
		return w, beaten, err
	}
	for _, p := range live {
		if !p.Dead && p.Owns(id) {
			return w, beaten, &WorkerLives{Process: p.ID}
		}
	}
	return Expired{ID: id, beat: beat}, beaten, nil
}
