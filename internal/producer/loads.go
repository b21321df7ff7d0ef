package producer

import (
	"errors"
	"sync"

	"github.com/goworker/goworker/internal/resque"
)

// Loads are the jobs of one call, divided among several Redises. J is the caller's type of a job.
type Loads[J any] struct {
	loads []load[J] // by Redis
	empty resque.Bulk
	jobs  int // of the call
}

// load is the jobs for one Redis.
type load[J any] struct {
	jobs []J
	bulk resque.Bulk
}

// NewLoads returns the loads of so many Redises for a call with so many jobs. Each starts with a copy of
// an empty bulk.
func NewLoads[J any](redises, jobs int, empty resque.Bulk) *Loads[J] {
	return &Loads[J]{loads: make([]load[J], redises), empty: empty, jobs: jobs}
}

// Add adds a job to the load of the i-th Redis. encode writes it into the bulk.
func (l *Loads[J]) Add(i int, job J, encode func(*resque.Bulk) error) error {
	to := &l.loads[i]
	if len(to.jobs) == 0 {
		to.bulk = l.empty
	}
	if err := encode(&to.bulk); err != nil {
		return err
	}
	if to.jobs = append(to.jobs, job); len(to.jobs) == 1 {
		to.bulk.Grow(l.jobs / len(l.loads))
	}
	return nil
}

// Send calls send for all loads that have jobs, at the same time, and joins the errors.
func (l *Loads[J]) Send(send func(i int, jobs []J, bulk *resque.Bulk) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(l.loads))
	for i := range l.loads {
		if to := &l.loads[i]; len(to.jobs) > 0 {
			wg.Go(func() { errs[i] = send(i, to.jobs, &to.bulk) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}
