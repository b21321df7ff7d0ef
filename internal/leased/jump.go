package leased

import (
	"sync"
	"time"
)

// jumpFrom is how far Redis's clock must jump ahead to count: less is a difference between two clocks.
const jumpFrom = 2 * time.Second

// jumps finds out whether Redis's clock has jumped ahead: by hand, or by a fail-over to a machine with another time. It
// compares Redis's clock with this machine's monotonic one, which is never set. The zero value has seen nothing.
// It is safe for concurrent use.
type jumps struct {
	mu    sync.Mutex
	begun time.Time // from which this machine's clocks are measured
	redis time.Time // Redis's at the last comparison
	local clocks    // and this machine's
}

// clocks are this machine's monotonic clock and its wall clock, since the same time.
type clocks struct{ monotonic, wall time.Duration }

// saw takes what Redis's clock said between asked and now, by this machine's clock, and returns how far it has jumped ahead
// since the last comparison; 0: it has not.
func (j *jumps) saw(asked, now, redis time.Time) (ahead time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.begun.IsZero() {
		j.begun = asked
	}
	read := func(t time.Time) clocks { return clocks{t.Sub(j.begun), t.Round(0).Sub(j.begun.Round(0))} }
	return j.passed(redis, read(asked), read(now))
}

// passed is saw with this machine's clocks. An answer that was long on its way makes a jump smaller and never larger.
// Where the wall clock has jumped as far, the machine slept: its monotonic clock stood still meanwhile.
func (j *jumps) passed(redis time.Time, asked, now clocks) (ahead time.Duration) {
	if !j.redis.IsZero() {
		passed := max(now.monotonic-j.local.monotonic, now.wall-j.local.wall)
		if ahead = redis.Sub(j.redis) - passed; ahead <= jumpFrom {
			ahead = 0
		}
	}
	j.redis, j.local = redis, asked
	return ahead
}
