package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/flush"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/scheduler"
	"github.com/goworker/goworker/internal/sweep"
)

// Schedule is the pump, the ticker, the sweep and the flusher of a daemon, one step at a time, in the goroutine of the test.
type Schedule struct {
	Pump    *scheduler.Pump
	Ticker  *scheduler.Ticker
	Sweep   *sweep.Sweep
	Flusher *flush.Flusher
	Do      func(ctx context.Context, f func(resque.Store, redis.Conn) error) error
}

// mostSteps bounds the steps in which due jobs move. Each moves hundreds of jobs.
const mostSteps = 10_000

// Sweeps is how the sweep of a trial waits. Its clock jumps over hours, and no worker loses a step: so it looks at workflows
// seldom, and for a year not for steps that are lost. Deadlines and what is to be sent are looks of their own.
func Sweeps() sweep.Config {
	const year = 365 * 24 * time.Hour
	return sweep.Config{Every: 24 * time.Hour, StallAfter: year, Again: time.Hour, Idle: year}
}

// Step fires the recurring schedules that are due, looks at the workflows that are due, makes jobs of groups, and moves the delayed jobs that are
// due to their queues.
// next is when there is something to do again; zero: never, as far as is known.
func (s *Schedule) Step(ctx context.Context) (next time.Time, err error) {
	err = s.Do(ctx, func(store resque.Store, c redis.Conn) error {
		tick, err := s.Ticker.Step(c)
		if err != nil {
			return err
		}
		look, err := s.Sweep.Step(c)
		if err != nil {
			return err
		}
		flush, err := s.Flusher.Step(c)
		if err != nil {
			return err
		}
		for range mostSteps {
			due, err := store.Due(c, false)
			if err != nil {
				return err
			}
			wait := s.Pump.Waits(due)
			if wait <= 0 {
				if err := s.Pump.Step(c, due); err != nil {
					return err
				}
				continue
			}
			if next = tick; wait != resque.Never && (next.IsZero() || due.Now.Add(wait).Before(next)) {
				next = due.Now.Add(wait)
			}
			if at := due.Now.Add(look); look != resque.Never && (next.IsZero() || at.Before(next)) {
				next = at
			}
			if at := due.Now.Add(flush); flush != resque.Never && (next.IsZero() || at.Before(next)) {
				next = at
			}
			return nil
		}
		return fmt.Errorf("delayed jobs stay due after %d steps; does Redis refuse a key of theirs?", mostSteps)
	})
	return next, err
}

// Fleet is the one process of a trial.
type Fleet struct{}

// Self returns the process. Scripts know by the last eight digits that a holder of the lock is no Ruby scheduler.
func (Fleet) Self() string { return "goworkertest:1:00000000" }

// Worker returns its worker.
func (Fleet) Worker() string { return "goworkertest:1-0:*" }

// Leads returns true: there is no other process.
func (Fleet) Leads() bool { return true }

// Alive returns false for all others.
func (Fleet) Alive(process string) bool { return process == Fleet{}.Self() }
