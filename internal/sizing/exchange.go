package sizing

import (
	"maps"
	"math"
	"slices"
	"time"
)

// The kinds that have a name elsewhere.
const (
	Plain  = "plain"
	Result = "result"
)

// kind is what the commands of a kind of job are.
type kind struct {
	// alone is how many commands with a script processes send for a job that comes while nothing else does.
	alone float64
	lanes bool // its jobs are sorted into lanes
}

// plainAlone are those of a plain job: one exchange reserves it, one commits it.
const plainAlone = 2

var kinds = map[string]kind{
	Plain:      {alone: plainAlone},
	"expiring": {alone: 2},
	"unique":   {alone: 2},
	Result:     {alone: 2},
	"rated":    {alone: 4, lanes: true},
	"fair":     {alone: 4, lanes: true},
	"limited":  {alone: 4, lanes: true},
	"keyed":    {alone: 4, lanes: true},
	"delayed":  {alone: 6}, // with the looks of the process that moves it
	"retried":  {alone: 7}, // with both of its runs
}

// Kinds are the names of the kinds of jobs that the model knows.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Alone is how many commands with a script processes send for a job of a kind that comes while nothing else does.
func Alone(kind string) float64 { return kinds[kind].alone }

// Exchanges is how many exchanges a process makes for a plain job, at so many a second. A job alone needs two: one reserves it, one
// commits it. What comes while an exchange is under way shares the next one. So a process makes an exchange in the time of a round
// trip at most, and one for two jobs a worker at least, since it reserves one job ahead for each.
func Exchanges(rate float64, workers int, trip time.Duration) float64 {
	busy := rate * trip.Seconds() // jobs in the time of an exchange
	return min(plainAlone, max(1/(busy+math.Exp(-plainAlone*busy)/plainAlone), 1/(2*float64(workers))))
}

// A process that a push woke for nothing looks later the next time: after a random time up to 4 ms for each process of the fleet,
// within these bounds.
const (
	perProcess = 4 * time.Millisecond
	leastPause = 50 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// Woken is how many commands find no job, for each job that comes to a fleet whose workers wait: a push wakes all of its processes,
// and one gets the job.
func Woken(rate float64, processes int) float64 {
	pause := min(max(leastPause, time.Duration(processes)*perProcess), mostPause)
	return float64(processes-1) / (1 + rate*pause.Seconds()/2)
}
