package inspect

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
)

// GoingOn returns the jobs that match, were cancelled and run all the same: their contexts have ended, and their handlers have not
// returned. It looks until there are none, for the time d at most, and once in any case. Of a query without Places all running jobs are
// meant. Jobs that clients hold over HTTP are not among them: a client hears of the cancel when it touches or ends its job.
func (i *Inspector) GoingOn(ctx context.Context, q Query, d time.Duration) (jobs []Entry, err error) {
	q.Places, q.inner = []Place{Running}, true
	for ends := clock.System.Now().Add(d); ; {
		if jobs, err = i.goesOn(ctx, q); err != nil || len(jobs) == 0 || clock.Until(clock.System, ends) <= 0 {
			return jobs, err
		}
		if err := sleep(ctx, min(goingEvery, max(1, clock.Until(clock.System, ends)))); err != nil {
			return jobs, err
		}
	}
}

// goingEvery is how often GoingOn looks.
const goingEvery = 100 * time.Millisecond

// goesOn looks once.
func (i *Inspector) goesOn(ctx context.Context, q Query) (jobs []Entry, err error) {
	err = i.each(func(one *Inspector) error {
		for job, err := range one.All(ctx, q) {
			switch {
			case err != nil:
				return err
			case job.Place != Running: // a client holds it over HTTP
				continue
			}
			names := []string{resque.CancelledTicket(job.Process, job.Ticket)}
			if job.ID != "" {
				names = append(names, resque.CancelledID(job.ID), resque.CancelledPlace(job.Queue, job.ID))
			}
			there, err := query(ctx, one, func(s resque.Store, c redis.Conn) ([]string, error) { return s.AreCancelled(c, names) })
			if err != nil {
				return err
			}
			if len(there) > 0 {
				jobs = append(jobs, job)
			}
		}
		return nil
	})
	return jobs, err
}
