package main

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// tickOf reads a job that a tick has enqueued.
func tickOf(payload string) (schedule string, at time.Time) {
	var job struct{ Args []string }
	if json.Unmarshal([]byte(payload), &job) != nil || len(job.Args) != 2 {
		return "", time.Time{}
	}
	at, _ = time.Parse(time.RFC3339Nano, job.Args[1])
	return job.Args[0], at
}

// checkTicks counts what recurring schedules have enqueued: each tick once, with none
// left out.
func (a *arena) checkTicks(r *result) {
	seen := map[string]map[int64]int{}
	for _, text := range a.list("LRANGE", "resque:queue:ticks", 0, -1) {
		name, at := tickOf(text)
		if at.IsZero() {
			a.problem("this is no job of a tick: %.100q", text)
			continue
		}
		if seen[name] == nil {
			seen[name] = map[int64]int{}
		}
		seen[name][at.Unix()]++
	}
	for name, ticks := range seen {
		first, last := int64(math.MaxInt64), int64(0)
		for at := range ticks {
			first, last = min(first, at), max(last, at)
		}
		for at := first; at <= last; at += int64(a.tickEvery) {
			r.pushed++
			switch n := ticks[at]; n {
			case 0:
				r.lost = append(r.lost, fmt.Sprintf("tick %s of schedule %s", time.Unix(at, 0).Format("04:05"), name))
			case 1:
				r.done++
			default:
				r.done++
				r.unexplained = append(r.unexplained, fmt.Sprintf("tick %s of schedule %s was fired %d times", time.Unix(at, 0).Format("04:05"), name, n))
			}
		}
	}
}
