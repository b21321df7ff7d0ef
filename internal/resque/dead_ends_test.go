package resque

import (
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/payload"
)

// deadEnds returns the effects of a dead process's jobs, as the features of a daemon do together: a
// poison job is filed as failed and releases all that it holds, any other goes back.
func deadEnds(s Store, multi bool, now time.Time) func(DeadJob) []Effect {
	return func(d DeadJob) (effects []Effect) {
		p, err := payload.Parse(d.Payload)
		if d.Lane != nil {
			effects = s.LeaveLane(nil, d.Process, d.Reserved, d.Started)
		}
		status := payload.PHPWaiting
		if d.Poison > 0 {
			status = payload.PHPFailed
		}
		if err == nil && d.Started && p.PHP != nil {
			effects = append(effects, s.PHPStatus(p.PHP, status, d.Poison > 0, now))
		}
		switch {
		case d.Poison > 0:
		case d.Lane != nil:
			return append(s.ToLane(d.Reserved, *d.Lane), effects...)
		default:
			return append(s.Head(d.Reserved), effects...)
		}
		if err == nil {
			effects = append(effects, deadKeys(s, p)...)
		}
		return append(effects, s.FileFailure(d.Queue, deadFailure(d, now).Encode(), multi)...)
	}
}

// deadKeys removes the keys of a job that is over, whatever its class: its lock, and
// resque-retry's keys in both spellings.
func deadKeys(s Store, p payload.Payload) (effects []Effect) {
	if _, lock, _ := ParseLock(p.Unique); lock != "" {
		effects = append(effects, s.Release(lock, p.ID))
	}
	keys := []RetryKey{NewRetryKey(p.Class, p.Args, false), NewRetryKey(p.Class, p.Args, true)}
	for _, key := range slices.Compact(keys) {
		effects = append(effects, s.DropCount(key, true)...)
	}
	return effects
}

func deadFailure(d DeadJob, now time.Time) payload.Failure {
	return payload.Failure{
		FailedAt:  payload.FailedAt(now),
		Payload:   payload.Safe(d.Payload),
		Exception: "Resque::DirtyExit",
		Error: fmt.Sprintf("The job was running in %d processes that died, the last of them %s; it is not run again by itself.",
			d.Poison, d.Process),
		Worker: d.Worker,
		Queue:  d.Queue,
	}
}
