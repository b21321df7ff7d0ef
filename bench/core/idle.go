package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// idleWorkers is the daemon's default concurrency, which waits for a job.
const idleWorkers = 25

// idlePlan is how often an idle contender is asked.
type idlePlan struct {
	sessions, samples int
	gapMin, gapMax    time.Duration // from one job's start to the next one's sending
}

// idlePlanFor takes into account that goworker sleeps for 5 s when it finds no
// job: jobs are sent at a random moment of that sleep, and there are few.
func idlePlanFor(contender string) idlePlan {
	if contender == "goworker" {
		return idlePlan{sessions: 1, samples: 10, gapMax: 5 * time.Second}
	}
	return idlePlan{sessions: 3, samples: 200, gapMin: 20 * time.Millisecond, gapMax: 60 * time.Millisecond}
}

const (
	// idleSettle passes before idle commands are counted: the contender has just had jobs.
	idleSettle = 2 * time.Second
	idleCount  = 10 * time.Second
	// startLimit is how long an idle contender may take to start a job.
	startLimit = 20 * time.Second
)

// idle measures one contender that has nothing to do: how long a job waits to be
// started, and what waiting costs Redis.
func idle(ctx context.Context, s *server, c contender, into *results) error {
	if err := s.reset(0); err != nil {
		return err
	}
	p, err := c.start(ctx, s, idleWorkers, 0, false)
	if err != nil {
		return err
	}
	defer p.kill()
	if _, err := sample(ctx, s, p); err != nil { // it is up when it has run a job
		return err
	}

	plan := idlePlanFor(c.name)
	for range plan.sessions {
		latencies := make([]float64, 0, plan.samples)
		for range plan.samples {
			gap := plan.gapMin + rand.N(plan.gapMax-plan.gapMin)
			if err := sleep(ctx, gap); err != nil {
				return err
			}
			latency, err := sample(ctx, s, p)
			if err != nil {
				return err
			}
			latencies = append(latencies, float64(latency)/float64(time.Millisecond))
		}
		slices.Sort(latencies)
		into.add(c.name, "idle", idleWorkers, "idle_latency_p50_ms", percentile(latencies, 50))
		into.add(c.name, "idle", idleWorkers, "idle_latency_p99_ms", percentile(latencies, 99))
	}

	if err := sleep(ctx, idleSettle); err != nil {
		return err
	}
	m, err := s.monitor()
	if err != nil {
		return err
	}
	if err := sleep(ctx, idleCount); err != nil {
		m.conn.Close()
		return err
	}
	count, err := s.stopMonitor(m)
	if err != nil {
		return err
	}
	into.add(c.name, "idle", idleWorkers, "idle_commands_per_s", float64(count.sent)/idleCount.Seconds())
	return nil
}

// sample sends one job that carries the time and returns how long it waited.
func sample(ctx context.Context, s *server, p *process) (time.Duration, error) {
	if err := s.push("Stamp", strconv.FormatInt(time.Now().UnixNano(), 10)); err != nil {
		return 0, err
	}
	r, err := p.next(ctx, "latency", startLimit)
	if err != nil {
		return 0, err
	}
	ns, err := r.number()
	return time.Duration(ns), err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
