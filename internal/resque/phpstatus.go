package resque

import (
	"time"

	"github.com/goworker/goworker/internal/payload"
)

// phpKeep is for how many seconds php-resque keeps the status of a job that has ended.
const phpKeep = 24 * 60 * 60

var phpRunningScript = script("phprunning")

func (s Store) phpStatus(j *payload.PHPJob) string { return s.ns + j.String() }

// PHPStatus writes the status of a job. php-resque keeps the status of an ended job for a day.
func (s Store) PHPStatus(j *payload.PHPJob, status payload.PHPStatus, over bool, now time.Time) Effect {
	args := []any{j.Status(status, now), "XX"}
	if over {
		args = append(args, "EX", phpKeep)
	}
	return effect("SET", anyKey(s.phpStatus(j)), args...).Soft()
}

// phpBegun are the arguments of phprunning.lua for a job that runs.
func (s Store) phpBegun(w Work, j *payload.PHPJob) (a Call) {
	a.Key(s.inflight(w.Process))
	a.Key(s.phpStatus(j))
	a.Arg(w.Ticket, j.Status(payload.PHPRunning, w.Now))
	return a
}
