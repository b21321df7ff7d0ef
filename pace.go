package goworker

import "time"

// pace measures handlers against the way to Redis, and so decides whether a job a
// worker may be reserved ahead: where a handler is shorter than a round trip, the
// worker would wait for its next job longer than it works.
//
// Both figures are exponential averages, each new value weighing one eighth.
type pace struct {
	allowed bool
	run     time.Duration // of a handler
	round   time.Duration // of an exchange
	runs    int
}

// paceRuns is how many handlers must have run before their average counts.
const paceRuns = 8

// longestTrip bounds what counts as the way to Redis. A server that stood still for
// seconds is not far away, and jobs must not be kept for it.
const longestTrip = 50 * time.Millisecond

func (p *pace) ran(d time.Duration) {
	p.run += (d - p.run) / 8
	if p.runs < paceRuns {
		p.runs++
	}
}

func (p *pace) trip(d time.Duration) { p.round += (min(d, longestTrip) - p.round) / 8 }

// ahead reports whether jobs may be reserved ahead.
func (p *pace) ahead() bool { return p.allowed && p.runs >= paceRuns && p.run < p.round }

// patience is how long a job reserved ahead may wait for a worker before it goes
// back to its queue, where others can take it: a few round trips, 10 ms at least.
func (p *pace) patience() time.Duration { return max(10*time.Millisecond, 4*p.round) }

// waited reports whether a job reserved then has waited too long, and if so stops
// looking ahead until the handlers prove short again.
func (p *pace) waited(now, reserved time.Time) bool {
	if now.Sub(reserved) < p.patience() {
		return false
	}
	p.runs = 0
	p.run = max(p.run, p.patience())
	return true
}
