// Package timelimit gives one job a time limit of its own, in place of that of its class. The payload
// carries it.
package timelimit

import (
	"math"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
)

// Field is the field of a payload with the limit in ms; 0 is no limit.
const Field = "timeout_ms"

// Limit is the option of one job: how long each of its runs may take. 0 is no limit, also where the class
// has one.
type Limit time.Duration

// most is how many milliseconds a time.Duration can hold.
const most = math.MaxInt64 / int64(time.Millisecond)

// New makes the feature.
func New(outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "time limit", Enqueue: enqueue}
}

// enqueue writes the limit into the payload, rounded up to a millisecond.
func enqueue(p *outcome.Push) error {
	if limit, ok := outcome.Get[Limit](p.Options); ok {
		ms := time.Duration(limit).Milliseconds()
		if time.Duration(limit)%time.Millisecond > 0 {
			ms++
		}
		p.Fields = append(p.Fields, payload.NumberField(Field, min(ms, most)))
	}
	return nil
}

// Of returns the limit of a job that has one of its own. Anything else than a number of milliseconds is
// another program's field, and no limit.
func Of(j *outcome.Job) (limit time.Duration, ok bool) {
	raw := j.Parsed.Field(Field)
	if raw == nil {
		return 0, false
	}
	ms, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || ms < 0 || ms > most {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}
