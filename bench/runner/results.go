package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
	"github.com/goworker/goworker/bench/result"
)

const (
	// callGap is the least time between two calls; the longest is three times as much.
	callGap = 10 * time.Millisecond
	// answering is how many workers give the results that many wait for.
	answering = 25
	// armed passes between the start of the waits and the first job: every wait has asked
	// Redis by then.
	armed = 2 * time.Second
)

// call times how long a result takes: from the call that pushes a job to the return of the
// wait for it, while the workers have nothing else to do.
func (t trial) call(ctx context.Context, s *server) (figures, time.Duration, error) {
	worker, err := t.c.start(ctx, t.bench.dir, t.w.config(probe.Work, s.addr, answering, 2*t.jobs))
	if err != nil {
		return nil, 0, err
	}
	defer worker.kill()
	config := t.w.config(probe.Call, s.addr, 0, t.jobs)
	if t.w.atOnce {
		return t.calls(ctx, s, config)
	}
	config.GapMin, config.GapMax = callGap, 3*callGap
	p, err := t.c.start(ctx, t.bench.dir, config)
	if err != nil {
		return nil, 0, err
	}
	defer p.kill()
	return awaited(ctx, p, t.jobs)
}

// calls lets many callers of one process call as fast as they can. What Redis spends includes the first call of each,
// which is not timed.
func (t trial) calls(ctx context.Context, s *server, config probe.Config) (figures, time.Duration, error) {
	config.Producers = t.workers
	before, err := s.usage()
	if err != nil {
		return nil, 0, err
	}
	p, err := t.c.start(ctx, t.bench.dir, config)
	if err != nil {
		return nil, 0, err
	}
	defer p.kill()
	f, took, err := awaited(ctx, p, t.jobs)
	if err != nil {
		return nil, 0, err
	}
	after, err := s.usage()
	if err != nil {
		return nil, 0, err
	}
	all := float64(t.jobs + t.workers)
	f["jobs_per_s"] = float64(t.jobs) / took.Seconds()
	f["redis_cpu_us_per_job"] = micros(after.cpu-before.cpu) / all
	f["bytes_per_job"] = float64(after.bytes-before.bytes) / all
	return f, took, nil
}

// waiters lets one process wait for all jobs at the same time, weighs that in Redis, and
// then starts a worker. A result is timed from the end of its handler to the end of its wait.
func (t trial) waiters(ctx context.Context, s *server) (figures, time.Duration, error) {
	config := t.w.config(probe.Push, s.addr, 0, t.jobs)
	config.Named = true
	if _, err := t.produce(ctx, config); err != nil {
		return nil, 0, err
	}
	if err := sleep(ctx, settle); err != nil { // until the client's connections are gone
		return nil, 0, err
	}
	light, err := s.memory()
	if err != nil {
		return nil, 0, err
	}
	config.Mode = probe.Await
	p, err := t.c.start(ctx, t.bench.dir, config)
	if err != nil {
		return nil, 0, err
	}
	defer p.kill()
	if _, err := p.next(ctx, "waiting", trialLimit); err != nil {
		return nil, 0, err
	}
	if err := sleep(ctx, armed); err != nil {
		return nil, 0, err
	}
	heavy, err := s.memory()
	if err != nil {
		return nil, 0, err
	}
	clients, err := redis.String(s.conn.Do("CLIENT", "LIST"))
	if err != nil {
		return nil, 0, err
	}
	worker, err := t.c.start(ctx, t.bench.dir, t.w.config(probe.Work, s.addr, answering, t.jobs))
	if err != nil {
		return nil, 0, err
	}
	defer worker.kill()
	f, took, err := awaited(ctx, p, t.jobs)
	if err != nil {
		return nil, 0, err
	}
	f["connections"] = float64(strings.Count(clients, "\n") - 1) // one is the runner's own
	f["redis_bytes_per_waiter"] = float64(heavy-light) / float64(t.jobs)
	return f, took, nil
}

// awaited gathers the latencies of a process that waits for results, and how long it took as a whole.
func awaited(ctx context.Context, p *process, n int) (figures, time.Duration, error) {
	latencies := make([]float64, 0, n)
	for len(latencies) < n {
		r, err := p.next(ctx, "latency", trialLimit)
		if err != nil {
			return nil, 0, err
		}
		ns, err := r.number()
		if err != nil {
			return nil, 0, p.failed(err)
		}
		latencies = append(latencies, float64(ns)/float64(time.Millisecond))
	}
	got, err := p.until(ctx, "awaited", trialLimit)
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(latencies)
	return figures{
		"await_latency_p50_ms": result.Percentile(latencies, 50),
		"await_latency_p99_ms": result.Percentile(latencies, 99),
		"await_latency_max_ms": latencies[n-1],
		"rss_mb":               float64(got["rss"]) / 1024,
	}, time.Duration(got["took"]), nil
}
