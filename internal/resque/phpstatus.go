package resque

import (
	"time"

	"github.com/goworker/goworker/internal/payload"
)

// phpKeep is for how many seconds php-resque keeps the status of a job that has ended.
const phpKeep = 24 * 60 * 60

var phpRunningScript = script("phprunning")

func (s Store) phpStatus(j *payload.PHPJob) string { return s.ns + j.String() }

// phpEnded writes the status with the end of a job's run. A job that was discarded or has
// expired is complete: php-resque writes the same for a job that its hooks keep from being
// performed, and a failed status would point to a failure record that does not exist.
func (s Store) phpEnded(j *payload.PHPJob, fate Fate, now time.Time) Effect {
	status := payload.PHPComplete
	switch fate {
	case GoesOn:
		status = payload.PHPWaiting
	case Failed:
		status = payload.PHPFailed
	}
	args := []any{j.Status(status, now), "XX"}
	if fate != GoesOn {
		args = append(args, "EX", phpKeep)
	}
	return effect("SET", anyKey(s.phpStatus(j)), args...).soft()
}

// phpBegun are the arguments of phprunning.lua for a job that runs.
func (s Store) phpBegun(w Work, j *payload.PHPJob) (a call) {
	a.key(s.inflight(w.Process))
	a.key(s.phpStatus(j))
	a.arg(w.Ticket, j.Status(payload.PHPRunning, w.Now))
	return a
}
