package part

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Restart says how often a failed part is restarted, and how long each restart waits. A zero field means
// the default.
type Restart struct {
	Min, Max time.Duration
	Most     int
	Within   time.Duration
}

// The defaults of a Restart.
const (
	RestartMin    = time.Second
	RestartMax    = time.Minute
	RestartMost   = 5
	RestartWithin = 10 * time.Minute
)

// check returns an error for values that make no sense.
func (r Restart) check() error {
	if r.Min < 0 || r.Max < 0 || r.Most < 0 || r.Within < 0 {
		return errors.New("its Restart has a negative field: each is positive, or zero for its default")
	}
	return nil
}

func (r Restart) orDefaults() Restart {
	if r.Min == 0 {
		r.Min = RestartMin
	}
	if r.Max == 0 {
		r.Max = max(RestartMax, r.Min)
	}
	if r.Most == 0 {
		r.Most = RestartMost
	}
	if r.Within == 0 {
		r.Within = RestartWithin
	}
	return r
}

// restarts counts the restarts of one part. Only one goroutine uses it.
type restarts struct {
	Restart
	past []time.Time // within the last Within
}

// next returns how long to wait before the next restart. Again is false after too many restarts. The wait
// begins with Min and doubles with each restart that is not longer ago than Within. A
// quarter of it is random, so that the parts of a fleet do not return to a service all at once.
func (r *restarts) next(now time.Time) (wait time.Duration, again bool) {
	for len(r.past) > 0 && now.Sub(r.past[0]) >= r.Within {
		r.past = r.past[1:]
	}
	if len(r.past) >= r.Most {
		return 0, false
	}
	wait = r.Min
	for range r.past {
		if wait = 2 * wait; wait >= r.Max || wait <= 0 {
			wait = r.Max
			break
		}
	}
	r.past = append(r.past, now)
	return min(r.Max, wait+rand.N(wait/4+1)), true
}
