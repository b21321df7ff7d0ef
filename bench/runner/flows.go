package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/bench/probe"
)

const (
	// flowWorkers run the members of workflows.
	flowWorkers = 25
	// flowProducers start workflows at the same time.
	flowProducers = 8
	// pairs is how many members each of many small workflows has.
	pairs = 2
)

var errTwice = errors.New("a callback ran more than once")

// flows is what a contender is asked to do with jobs members, or that many workflows.
func (t trial) flows(mode, addr string) probe.Config {
	c := t.w.config(mode, addr, flowWorkers, t.jobs)
	c.Producers, c.Shape, c.Flows, c.Members = flowProducers, t.w.shape, 1, t.jobs
	if t.w.pairs {
		c.Flows, c.Members = t.jobs, pairs
	}
	if t.w.soak {
		c.Rate, c.For, c.Every, c.Keep = t.jobs, t.bench.opts.soak, soakStep, t.kept()
		c.Flows = int(float64(c.Rate) * c.For.Seconds())
	}
	return c
}

// flow times workflows from the call that starts the first to the end of the last one's callback, while the workers
// have nothing else to do. A callback that runs twice, or without the results of its members, fails the trial.
func (t trial) flow(ctx context.Context, s *server) (figures, time.Duration, error) {
	if t.w.shape == probe.Batch {
		return t.streamed(ctx, s)
	}
	worker, err := t.warm(ctx, s)
	if err != nil {
		return nil, 0, err
	}
	defer worker.kill()
	if t.w.soak {
		return t.soak(ctx, s, worker)
	}
	before, err := s.usage()
	if err != nil {
		return nil, 0, err
	}
	p, err := t.c.start(ctx, t.bench.dir, t.flows(probe.Start, s.addr))
	if err != nil {
		return nil, 0, err
	}
	defer p.kill()
	began, err := p.next(ctx, "began", trialLimit)
	if err != nil {
		return nil, 0, err
	}
	start, err := began.number()
	if err != nil {
		return nil, 0, p.failed(err)
	}
	if _, err := p.until(ctx, "started", t.limit()); err != nil {
		return nil, 0, err
	}
	got, err := t.ended(ctx, worker)
	if err != nil {
		return nil, 0, err
	}
	after, err := s.usage()
	if err != nil {
		return nil, 0, err
	}
	took := time.Duration(got["called"] - start)
	members := float64(t.members())
	f := figures{
		"workflow_s":           took.Seconds(),
		"members_per_s":        members / took.Seconds(),
		"redis_cpu_us_per_job": micros(after.cpu-before.cpu) / members,
		"bytes_per_job":        float64(after.bytes-before.bytes) / members,
	}
	if t.w.shape == probe.Chain {
		f["step_ms"] = took.Seconds() * 1000 / members
	}
	return f, took, nil
}

// members is how many jobs the trial's workflows have beside their callbacks; of a chain, all.
func (t trial) members() int {
	if t.w.pairs {
		return pairs * t.jobs
	}
	return t.jobs
}

// warm starts the workers and lets them run a first workflow.
func (t trial) warm(ctx context.Context, s *server) (*process, error) {
	worker, err := t.c.start(ctx, t.bench.dir, t.flows(probe.Work, s.addr))
	if err != nil {
		return nil, err
	}
	config := t.flows(probe.Start, s.addr)
	config.Warm = true
	p, err := t.c.start(ctx, t.bench.dir, config)
	if err != nil {
		worker.kill()
		return nil, err
	}
	defer p.kill()
	if _, err := p.until(ctx, "started", trialLimit); err != nil {
		worker.kill()
		return nil, err
	}
	if _, err := worker.next(ctx, "warm", trialLimit); err != nil {
		worker.kill()
		return nil, err
	}
	return worker, nil
}

// ended waits for the last callback, and makes sure that each member ran once.
func (t trial) ended(ctx context.Context, worker *process) (map[string]int64, error) {
	got, err := worker.until(ctx, "called", t.limit())
	if n, ok := got["wrong"]; ok {
		return nil, worker.failed(fmt.Errorf("the callback of workflow %d had other results than its members'", n))
	}
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, err
	}
	n := int64(t.members())
	if t.w.shape == probe.Chain {
		n-- // the last is the callback
	}
	if got["ran"] != n || got["sum"] != n*(n-1)/2 {
		return nil, worker.failed(fmt.Errorf("of %d members it ran %d, and not each of them once", n, got["ran"]))
	}
	if worker.surplus("extra") {
		return nil, worker.failed(errTwice)
	}
	return got, nil
}

// streamed times a batch that is added from a sequence while nobody works it, weighs it in Redis, and then lets it run.
func (t trial) streamed(ctx context.Context, s *server) (figures, time.Duration, error) {
	light, err := s.memory()
	if err != nil {
		return nil, 0, err
	}
	p, err := t.c.start(ctx, t.bench.dir, t.flows(probe.Start, s.addr))
	if err != nil {
		return nil, 0, err
	}
	defer p.kill()
	got, err := p.until(ctx, "started", t.limit())
	if err != nil {
		return nil, 0, err
	}
	if err := sleep(ctx, settle); err != nil { // until the client's connections are gone
		return nil, 0, err
	}
	heavy, err := s.memory()
	if err != nil {
		return nil, 0, err
	}
	worker, err := t.c.start(ctx, t.bench.dir, t.flows(probe.Work, s.addr))
	if err != nil {
		return nil, 0, err
	}
	defer worker.kill()
	if _, err := t.ended(ctx, worker); err != nil {
		return nil, 0, err
	}
	took := time.Duration(got["took"])
	return figures{
		"added_per_s":            float64(t.jobs) / took.Seconds(),
		"rss_mb":                 float64(got["rss"]) / 1024,
		"redis_bytes_per_member": float64(heavy-light) / float64(t.jobs),
	}, took, nil
}
