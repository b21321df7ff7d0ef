package isolate

import "time"

// Limits are how the jobs of a class are isolated.
type Limits struct {
	Hard       time.Duration // from a job's start to the end of its context; 0: none
	Grace      time.Duration // from then until its processes are killed
	AtShutdown time.Duration // the most that Grace is at a shutdown
	Memory     int64         // bytes that its processes may hold; 0: no limit
	Reuse      int           // how many jobs a child runs at most; below 2: one
	Env        []string      // added to its environment, as "NAME=value"
}

// Deadline is how long after its start a job has certainly ended, unless its process cannot be
// killed; 0 if it has no limit.
func (l Limits) Deadline() time.Duration {
	if l.Hard == 0 {
		return 0
	}
	return l.Hard + l.Grace
}

// memoryEvery is how often the memory of a child is measured.
const memoryEvery = 100 * time.Millisecond
