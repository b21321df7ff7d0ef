// Package priority puts jobs in front of others of their queue. The payload says so: the producer, the pump
// and the sorter of limited jobs put it into its place.
package priority

import "github.com/goworker/goworker/internal/outcome"

// Level is the option of a job or a class: jobs of a higher one are in front. 0 is none.
type Level int

// New makes the feature.
func New(outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "priority", Enqueue: func(p *outcome.Push) error {
		level, _ := outcome.Option[Level](p)
		p.Priority = int(level)
		return nil
	}}
}
