package autoscale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/argv"
	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/resque"
	wire "github.com/goworker/goworker/internal/resque/control"
)

// mostFor is the longest time of bounds that have an end.
const mostFor = 30 * 24 * time.Hour

// errShared is the answer of a process whose shards share the workers.
var errShared = errors.New("the shards of this process share their workers, and the number of shared workers does not change by itself")

// Verb is what operators change the bounds by: "5..50", or "off". Beyond usual workers, which the settings say, it needs the level
// full; beyond most none may be said.
func (s *Scaler) Verb(usual, most int) control.Verb {
	return control.Verb{Name: "autoscale", Level: control.On, Whole: true, Help: "Change how many jobs run at a time by itself: MIN..MAX, or off",
		Do: func(ctx context.Context, c *control.Call) (any, error) {
			var args struct {
				Bounds string  `json:"bounds"`
				For    float64 `json:"for"`
			}
			if err := c.Decode(&args); err != nil {
				return nil, err
			}
			lasts, err := control.For(args.For, mostFor)
			if err != nil {
				return nil, err
			}
			before, _ := s.Now()
			b := s.config.Bounds
			if b.Min, b.Max = 0, 0; args.Bounds != "off" {
				span, err := argv.ParseSpan(args.Bounds)
				if err != nil || span.Most > most {
					return nil, fmt.Errorf("bounds is %q: it must be off, or two numbers from 1 to %d, the smaller one first, as in 5..50", args.Bounds, most)
				}
				b.Min, b.Max = span.Least, span.Most
			}
			switch {
			case s.config.Shared:
				return nil, errShared
			case b.Max > usual && c.Full() != nil:
				return nil, c.Full()
			}
			if err := s.Set(b, lasts); err != nil {
				return nil, err
			}
			return wire.Rescaled{From: before.String(), To: b.String(), Settings: s.config.Bounds.String(), Workers: s.config.Lease.Wanted().Workers, For: lasts.Seconds()}, nil
		}}
}

// Answer is how the number changes, as operators are answered; nil: by itself it does not.
func (s *Scaler) Answer() *resque.Autoscale {
	b, d := s.Now()
	if b.Max == 0 {
		return nil
	}
	return &resque.Autoscale{Min: b.Min, Max: b.Max, Reason: d.Reason}
}
