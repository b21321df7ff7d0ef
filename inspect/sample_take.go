package inspect

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Sample looks at the Resque once.
func (i *Inspector) Sample(ctx context.Context, options ...SampleOption) (Sample, error) {
	var o sampleOptions
	for _, option := range options {
		option(&o)
	}
	fleet, err := i.Fleet(ctx)
	if err != nil {
		return Sample{}, err
	}
	s := Sample{At: time.Now(), Processed: exactly(fleet.Processed), Waiting: exactly(fleet.Pending), Failures: exactly(fleet.Failed)}
	for _, name := range slices.Sorted(maps.Keys(fleet.QueueSizes)) {
		s.Queues = append(s.Queues, SampleQueue{Name: name, Waiting: exactly(fleet.QueueSizes[name])})
	}
	return s, nil
}
