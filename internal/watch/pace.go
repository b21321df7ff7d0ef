package watch

import "time"

// Pace measures handlers against the way to Redis. From both it decides whether the poller may
// prefetch a job for each worker. If a handler is shorter than a round trip, a worker would wait
// for its next job longer than it works. Both figures are exponential averages; each new value
// weighs one eighth.
type Pace struct {
	Allowed bool // by the settings

	run  time.Duration // of a handler
	trip time.Duration // of an exchange
	runs int           // how many handlers have run, up to paceRuns
}

// paceRuns is how many handlers must have run before their average counts.
const paceRuns = 8

// longestTrip is the longest round trip that counts. A server that stood still for seconds is not
// far away, and jobs must not be kept for it.
const longestTrip = 50 * time.Millisecond

// Ran is called with the time that each handler took.
func (p *Pace) Ran(d time.Duration) {
	p.run += (d - p.run) / 8
	if p.runs < paceRuns {
		p.runs++
	}
}

// Trip is called with the time that each exchange took.
func (p *Pace) Trip(d time.Duration) { p.trip += (min(d, longestTrip) - p.trip) / 8 }

// Ahead reports whether jobs may be prefetched.
func (p *Pace) Ahead() bool { return p.Allowed && p.runs >= paceRuns && p.run < p.trip }

// Patience is how long a prefetched job may wait for a worker: four round trips, and 10 ms at
// least. Then it goes back to its queue, where other processes can take it.
func (p *Pace) Patience() time.Duration { return max(10*time.Millisecond, 4*p.trip) }

// Waited reports whether a job that was reserved at a time has waited longer than Patience. If so
// it stops prefetching until handlers prove short again.
func (p *Pace) Waited(now, reserved time.Time) bool {
	if now.Sub(reserved) < p.Patience() {
		return false
	}
	p.runs = 0
	p.run = max(p.run, p.Patience())
	return true
}
