package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
	"github.com/goworker/goworker/bench/slowlink"
)

// A trial is one run of one contender at one work, on a server of its own.
type trial struct {
	bench   *bench
	c       contender
	w       work
	workers int
	jobs    int
}

const (
	// trialLimit ends a run that hangs.
	trialLimit = 40 * time.Second
	// settle is waited after the last job: for its commit, which the server's
	// figures are to hold, and for jobs that run once too often.
	settle = 50 * time.Millisecond
)

func (t trial) limit() time.Duration {
	if t.w.apart || t.w.shape == probe.Batch {
		return 15 * trialLimit
	}
	return trialLimit
}

// figures are what a trial measured.
type figures map[string]float64

// run does the trial and returns its figures and how long its jobs took.
func (t trial) run(ctx context.Context) (figures, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*t.limit()+t.bench.opts.soak)
	defer cancel()
	s, err := startServer(t.bench.opts.redisServer, t.bench.dir)
	if err != nil {
		return nil, 0, err
	}
	defer s.stop()
	f, took, err := t.measure(ctx, s)
	return f, took, s.explain(err)
}

func (t trial) measure(ctx context.Context, s *server) (figures, time.Duration, error) {
	switch {
	case t.w.pushed:
		return t.push(ctx, s)
	case t.w.called:
		return t.call(ctx, s)
	case t.w.awaited:
		return t.waiters(ctx, s)
	case t.w.shape != "":
		return t.flow(ctx, s)
	case t.w.weights != nil:
		return t.shares(ctx, s)
	case t.w.far():
		return t.schedule(ctx, s)
	}
	return t.drain(ctx, s)
}

// drain times the contender from its first job's start to its last job's end, the
// jobs being queued before it starts.
func (t trial) drain(ctx context.Context, s *server) (figures, time.Duration, error) {
	weight, err := t.queued(ctx, s)
	if err != nil {
		return nil, 0, err
	}
	addr := s.addr
	if t.w.link {
		link, err := slowlink.Start(s.addr, linkDelay)
		if err != nil {
			return nil, 0, err
		}
		defer link.Close()
		addr = link.Addr()
	}
	got, before, err := t.toEnd(ctx, s, addr)
	if err != nil {
		return nil, 0, err
	}
	after, err := s.usage()
	if err != nil {
		return nil, 0, err
	}
	took := time.Duration(got["last"] - got["first"])
	f := t.figures(got, before, after, took)
	maps.Copy(f, weight)
	return f, took, nil
}

// queued fills the queue, and returns what a job takes there where the work is weighed.
func (t trial) queued(ctx context.Context, s *server) (figures, error) {
	if !t.w.weighed {
		return nil, t.fill(ctx, s)
	}
	light, err := s.memory()
	if err != nil {
		return nil, err
	}
	if err := t.fill(ctx, s); err != nil {
		return nil, err
	}
	if err := sleep(ctx, settle); err != nil { // until the client's connections are gone
		return nil, err
	}
	heavy, err := s.memory()
	if err != nil {
		return nil, err
	}
	item, err := redis.Bytes(s.conn.Do("LINDEX", t.c.depth, -1))
	if err != nil {
		return nil, fmt.Errorf("read a job in %s: %w", t.c.depth, err)
	}
	return figures{"redis_bytes_per_job": float64(heavy-light) / float64(t.jobs), "item_bytes": float64(len(item))}, nil
}

// toEnd runs the contender until all jobs are done, makes sure that each was run
// exactly once, and ends it. It returns the reports, and what the server had spent
// when the first job started.
func (t trial) toEnd(ctx context.Context, s *server, addr string) (map[string]int64, usage, error) {
	before, err := s.usage()
	if err != nil {
		return nil, before, err
	}
	p, err := t.c.start(ctx, t.bench.dir, t.w.config(probe.Work, addr, t.workers, t.jobs))
	if err != nil {
		return nil, before, err
	}
	defer p.kill()
	first, err := p.next(ctx, "first", trialLimit)
	if err != nil {
		return nil, before, err
	}
	heard, err := t.listen(ctx, s)
	if err != nil {
		return nil, before, err
	}
	defer heard.cancel()
	if t.w.fixed == 0 { // else there may be no more jobs than workers, and all are with them by now
		if before, err = s.usage(); err != nil {
			return nil, before, err
		}
	}
	got, err := p.until(ctx, "last", trialLimit)
	if err != nil {
		return nil, before, err
	}
	if got["first"], err = first.number(); err != nil {
		return nil, before, err
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, before, err
	}
	if err := heard.stop(t, time.Duration(got["last"]-got["first"])); err != nil {
		return nil, before, p.failed(err)
	}
	n := int64(t.jobs)
	if got["ran"] != n || got["sum"] != n*(n-1)/2 {
		return nil, before, p.failed(fmt.Errorf("of %d jobs it ran %d, and not each of them once", n, got["ran"]))
	}
	if p.surplus("extra") {
		return nil, before, p.failed(fmt.Errorf("ran more than the %d jobs there were", n))
	}
	return got, before, nil
}

// fill queues the trial's jobs, by the contender's own client unless they are
// plain bytes on Resque's wire.
func (t trial) fill(ctx context.Context, s *server) error {
	config := t.w.config(probe.Push, s.addr, t.workers, t.jobs)
	if t.w.begins {
		first := config
		first.Jobs, first.Class = 1, "Begin"
		if _, err := t.produce(ctx, first); err != nil {
			return err
		}
	}
	switch {
	case t.w.delayed:
		due, err := t.delay(ctx, config)
		if err != nil {
			return err
		}
		return sleep(ctx, time.Until(due))
	case t.c.bytes && !t.w.own:
		return s.fill(config)
	}
	_, err := t.produce(ctx, config)
	return err
}

// produce lets the contender's own client push what the config says, in the fastest
// way it has, and returns its reports.
func (t trial) produce(ctx context.Context, config probe.Config) (map[string]int64, error) {
	config.Producers = 8
	if t.c.bulk > 0 {
		config.Bulk, config.Producers = t.c.bulk, 1
	}
	p, err := t.c.start(ctx, t.bench.dir, config)
	if err != nil {
		return nil, err
	}
	defer p.kill()
	got, err := p.until(ctx, "pushed", t.limit())
	if err == nil && config.Jobs >= 1000 {
		t.bench.pushes.Store(t.c.name, time.Duration(got["pushed"])/time.Duration(config.Jobs))
	}
	return got, err
}

// push times the contender's client.
func (t trial) push(ctx context.Context, s *server) (figures, time.Duration, error) {
	config := t.w.config(probe.Push, s.addr, t.workers, t.jobs)
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
	got, err := p.until(ctx, "pushed", trialLimit)
	if err != nil {
		return nil, 0, err
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, 0, err
	}
	depth, err := redis.Int(s.conn.Do("LLEN", t.c.depth))
	if err != nil {
		return nil, 0, err
	}
	if depth != t.jobs {
		return nil, 0, p.failed(fmt.Errorf("pushed %d jobs, and %d were there", t.jobs, depth))
	}
	after, err := s.usage()
	if err != nil {
		return nil, 0, err
	}
	took := time.Duration(got["pushed"])
	return t.figures(got, before, after, took), took, nil
}

func (t trial) figures(got map[string]int64, before, after usage, took time.Duration) figures {
	n := float64(t.jobs)
	f := figures{
		"jobs_per_s":            n / took.Seconds(),
		"redis_cpu_us_per_job":  micros(after.cpu-before.cpu) / n,
		"worker_cpu_us_per_job": float64(got["cpu"]) / n,
		"bytes_per_job":         float64(after.bytes-before.bytes) / n,
	}
	if kib, ok := got["rss"]; ok {
		f["rss_mb"] = float64(kib) / 1024
	}
	if mallocs, ok := got["mallocs"]; ok {
		f["allocations_per_job"] = float64(mallocs) / n
	}
	return f
}

// count tells a client's commands from those inside scripts. It is a run of its
// own because MONITOR slows the server down.
func (t trial) count(ctx context.Context) (commandCount, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*trialLimit)
	defer cancel()
	s, err := startServer(t.bench.opts.redisServer, t.bench.dir)
	if err != nil {
		return commandCount{}, err
	}
	defer s.stop()
	if err := t.fill(ctx, s); err != nil {
		return commandCount{}, err
	}
	m, err := s.monitor()
	if err != nil {
		return commandCount{}, err
	}
	_, _, err = t.toEnd(ctx, s, s.addr)
	count, monitorErr := s.stopMonitor(m)
	if err == nil {
		err = monitorErr
	}
	return count, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
