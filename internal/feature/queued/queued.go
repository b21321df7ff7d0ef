// Package queued has jobs say when they were put into their queue, where their producer asks for it.
package queued

import (
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/stamp"
)

// Stamped is the option of a job or a class whose payload says when it was put into its queue.
type Stamped bool

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "stamp", EnqueueAll: d.Settings.Stamp, Enqueue: func(p *outcome.Push) error {
		if asked, _ := outcome.Option[Stamped](p); !bool(asked) && !d.Settings.Stamp || p.Ruby || p.Step {
			return nil // resque-scheduler's schedule has no place for it, and of a step it is not known yet
		}
		at := d.Time.Now()
		if p.At.After(at) {
			at = p.At
		}
		p.Fields = append(p.Fields, stamp.Of(at))
		return nil
	}}
}
