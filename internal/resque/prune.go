package resque

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

var (
	pruneScript  = script("prune")
	unlockScript = script("unlock")
)

// Ruby Resque's intervals: a worker sends a heartbeat each 60 s and counts as
// dead when the last one is more than 300 s old.
const (
	PruneAfter       = 300 * time.Second
	pruneLockSeconds = 60
)

// Expired is a worker whose heartbeat is too old.
type Expired struct {
	ID   string
	beat string
}

// Expired reads all heartbeats and returns the workers that are dead by them,
// and those whose heartbeat has no form we know.
func (s Store) Expired(c redis.Conn, now time.Time) (expired []Expired, unreadable []string, err error) {
	beats, err := redis.StringMap(c.Do("HGETALL", s.heartbeats()))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the heartbeats: %w", err)
	}
	for id, beat := range beats {
		at, err := time.Parse(time.RFC3339, beat)
		switch {
		case err != nil:
			unreadable = append(unreadable, id)
		case now.Unix()-at.Unix() > int64(PruneAfter/time.Second):
			expired = append(expired, Expired{ID: id, beat: beat})
		}
	}
	return expired, unreadable, nil
}

// LockPruning takes the lock under which Ruby's workers prune. It ends after a
// minute at the latest.
func (s Store) LockPruning(c redis.Conn, worker string) (bool, error) {
	_, err := redis.String(c.Do("SET", s.pruneLock(), worker, "EX", pruneLockSeconds, "NX"))
	if errors.Is(err, redis.ErrNil) {
		return false, nil
	}
	return err == nil, err
}

// UnlockPruning releases the lock. Ruby lets it expire, so that a Ruby worker which
// starts in between does not prune.
func (s Store) UnlockPruning(c redis.Conn, worker string) error {
	var a Call
	a.Key(s.pruneLock())
	a.Arg(worker)
	_, err := a.Do(c, unlockScript)
	return err
}

// Prune removes a dead worker as Ruby does: a job it had in hand becomes a
// failure. It returns false if the worker turned out to live.
func (s Store) Prune(c redis.Conn, w Expired, now time.Time, multiQueue bool) (bool, error) {
	value, err := redis.Bytes(c.Do("GET", s.worker(w.ID)))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return false, fmt.Errorf("reading what worker %s does: %w", w.ID, err)
	}
	var record []byte
	var queue string
	if len(value) > 0 {
		f := prunedFailure(w.ID, value, now)
		if f.Payload != nil {
			record, queue = f.Encode(), f.Queue
		}
	}
	list, member := s.FailureListFor(queue, multiQueue)
	var a Call
	a.Key(s.heartbeats())
	a.Key(s.worker(w.ID))
	a.Key(s.workers())
	a.Key(s.started(w.ID))
	a.Key(s.workerStat("processed", w.ID))
	a.Key(s.workerStat("failed", w.ID))
	a.Key(list)
	a.Key(s.KeyOfFailureLists())
	a.Arg(w.ID, w.beat, value, record, member)
	pruned, err := redis.Bool(a.Do(c, pruneScript))
	if err != nil {
		return false, fmt.Errorf("pruning worker %s: %w", w.ID, err)
	}
	return pruned, nil
}

// prunedFailure is Ruby's record of the job that a dead worker had in hand; without a
// payload there was no job. Text that is not a job is kept as an invalid payload.
func prunedFailure(worker string, value []byte, now time.Time) payload.Failure {
	f := payload.Failure{
		FailedAt:  payload.FailedAt(now),
		Exception: "Resque::PruneDeadWorkerDirtyExit",
		Worker:    worker,
	}
	class := "<Unknown Job>"
	var work struct {
		Queue   string          `json:"queue"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(value, &work); err != nil {
		f.Payload = payload.Invalid(value)
	} else if len(work.Payload) > 0 && string(work.Payload) != "null" {
		f.Queue = work.Queue
		f.Payload = work.Payload
		if p, err := payload.Parse(work.Payload); err == nil {
			class = p.Class
		} else {
			f.Payload = payload.Invalid(work.Payload)
		}
	}
	f.Error = fmt.Sprintf("Worker %s did not gracefully exit while processing %s", worker, class)
	return f
}
