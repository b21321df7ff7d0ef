package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
	"github.com/goworker/goworker/bench/result"
	"github.com/goworker/goworker/bench/slowlink"
)

// idleWorkers is the daemon's default concurrency, which waits for a job.
const idleWorkers = 25

// idlePlan is how often an idle contender is asked. Jobs are sent with random
// gaps, whatever became of the last one.
type idlePlan struct {
	work      string
	processes int
	workers   int // of each
	queues    int
	samples   int
	gapMin    time.Duration
	gapMax    time.Duration
	row       int // in the column of workers
	delayed   bool
	settle    time.Duration // after its last job and before its idle commands are counted
	count     time.Duration // of its idle commands
}

const (
	// idleSettle passes before idle commands are counted: the contender has just had jobs. Within idleSettleLong goworker also says with
	// the pack of each ten seconds, and folds, what became of them.
	idleSettle     = 2 * time.Second
	idleSettleLong = 15 * time.Second
	// idleCount is how long the idle commands of goworker are counted: it sends some each ten seconds and some each
	// half a minute, and processes that started together send them together. Peers send more, so that they are counted for idleCountShort.
	idleCount      = time.Minute
	idleCountShort = 10 * time.Second
	// startLimit is how long an idle contender may take to start a job.
	startLimit = 30 * time.Second
)

// idlePlans are the idle rows of a contender. Those who sleep for seconds when
// they find no job are sent few, with gaps longer than their sleep.
func (b *bench) idlePlans(c contender) []idlePlan {
	plan := idlePlan{
		work: "idle", processes: 1, workers: idleWorkers, queues: 1, row: idleWorkers,
		samples: b.opts.samples, gapMin: 20 * time.Millisecond, gapMax: 60 * time.Millisecond, settle: idleSettle, count: idleCountShort,
	}
	switch {
	case c.name == "ours" && !b.opts.quick:
		plan.settle, plan.count = idleSettleLong, idleCount
	case c.name == "asynq": // a second
		plan.samples, plan.gapMin, plan.gapMax = b.opts.samples/6, 500*time.Millisecond, 2500*time.Millisecond
	case c.slowIdle: // five seconds
		plan.samples, plan.gapMin, plan.gapMax = b.opts.samples/20, 2*time.Second, 10*time.Second
	}
	plans := []idlePlan{plan}
	if c.name != "ours" || b.opts.core {
		return plans
	}
	many, queues := plan, plan
	many.workers, many.row = 1000, 1000
	queues.work, queues.queues = "idle-200-queues", 200
	plans = append(plans, many, queues)
	for _, n := range []int{1, 10, 50, 200} {
		fleet := plan
		fleet.work, fleet.processes, fleet.row = "idle-processes", n, n
		plans = append(plans, fleet)
	}
	return plans
}

// duePlans are the rows of jobs that are delayed by one to three seconds, while the
// workers have nothing else to do.
func (b *bench) duePlans(c contender) []idlePlan {
	plan := idlePlan{
		work: "due", processes: 1, workers: idleWorkers, queues: 1, row: idleWorkers, delayed: true,
		samples: b.opts.samples / 2, gapMin: 50 * time.Millisecond, gapMax: 150 * time.Millisecond,
	}
	switch c.name {
	case "ours", "ours-plain", "bullmq":
	case "asynq": // it looks every five seconds
		plan.samples, plan.gapMin, plan.gapMax = b.opts.samples/10, 500*time.Millisecond, 2500*time.Millisecond
	case "machinery": // it moves a job every half second
		plan.samples, plan.gapMin, plan.gapMax = b.opts.samples/15, time.Second, 3*time.Second
	default:
		return nil
	}
	return []idlePlan{plan}
}

// idle measures a contender that has nothing to do: how long a job waits to be
// started, and what waiting costs Redis.
func (b *bench) idle(ctx context.Context, s *server, c contender, plan idlePlan) error {
	w := work{spread: plan.queues}
	config := w.config(probe.Work, s.addr, plan.workers, 0)
	if plan.delayed {
		config.Delayed, config.Whole = true, c.wholeSeconds
		config.DelayMin, config.DelayMax = time.Second, 3*time.Second
	}
	for _, name := range config.Queues {
		if _, err := s.conn.Do("SADD", "resque:queues", name); err != nil {
			return err
		}
	}
	// One pipe for all: the process that starts a job reports it.
	reports := make(chan report, plan.samples+1000)
	processes := make([]*process, plan.processes)
	for i := range processes {
		p, err := c.start(ctx, b.dir, config)
		if err != nil {
			return err
		}
		defer p.kill()
		processes[i] = p
		go func() {
			for r := range p.reports {
				reports <- r
			}
		}()
	}
	if err := sleep(ctx, time.Duration(plan.processes)*30*time.Millisecond); err != nil {
		return err
	}
	// It is up when it has run a job. The first ones find it starting, or just awake.
	_, err := b.stamps(ctx, s, c, config, reports, 1, 0, time.Millisecond)
	if err == nil && plan.gapMax < time.Second {
		_, err = b.stamps(ctx, s, c, config, reports, 10+2*plan.processes, plan.gapMin, plan.gapMax)
	}
	if err != nil {
		return processes[0].failed(err)
	}
	latencies, err := b.stamps(ctx, s, c, config, reports, plan.samples, plan.gapMin, plan.gapMax)
	if err != nil {
		return processes[0].failed(err)
	}
	slices.Sort(latencies)
	add := func(figure string, v float64) { b.results.Add(c.name, plan.work, plan.row, figure, v) }
	figure := "idle"
	if plan.delayed {
		figure = "due"
	}
	add(figure+"_latency_p50_ms", result.Percentile(latencies, 50))
	add(figure+"_latency_p99_ms", result.Percentile(latencies, 99))
	add(figure+"_latency_max_ms", latencies[len(latencies)-1])
	if plan.delayed {
		return nil
	}
	if plan.work == "idle-processes" {
		woken, err := b.woken(ctx, s, config.Queues)
		if err != nil {
			return err
		}
		add("woken_per_push", woken)
	}

	if err := sleep(ctx, plan.settle); err != nil {
		return err
	}
	m, err := s.monitor()
	if err != nil {
		return err
	}
	if err := sleep(ctx, plan.count); err != nil {
		m.conn.Close()
		return err
	}
	count, err := s.stopMonitor(m)
	if err != nil {
		return err
	}
	add("idle_commands_per_s", float64(count.sent)/plan.count.Seconds()/float64(plan.processes))
	return nil
}

// stamps sends jobs that carry the time, or that at which they are due, and returns
// by how many milliseconds each started later.
func (b *bench) stamps(ctx context.Context, s *server, c contender, config probe.Config, reports <-chan report, n int, gapMin, gapMax time.Duration) ([]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	if c.bytes && !config.Delayed {
		go func() { sent <- sendStamps(ctx, s, config.Queues, n, gapMin, gapMax) }()
	} else {
		config.Mode, config.Jobs, config.GapMin, config.GapMax = probe.Stamp, n, gapMin, gapMax
		p, err := c.start(ctx, b.dir, config)
		if err != nil {
			return nil, err
		}
		defer p.kill()
	}
	var latencies []float64
	timeout := time.After(time.Duration(n)*gapMax + config.DelayMax + startLimit)
	for len(latencies) < n {
		select {
		case r := <-reports:
			if r.key != "latency" {
				continue
			}
			ns, err := r.number()
			if err != nil {
				return nil, err
			}
			latencies = append(latencies, float64(ns)/float64(time.Millisecond))
		case err := <-sent:
			if err != nil {
				return nil, err
			}
		case <-timeout:
			return nil, fmt.Errorf("of %d jobs sent to idle workers %d have started", n, len(latencies))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return latencies, nil
}

func sendStamps(ctx context.Context, s *server, queues []string, n int, gapMin, gapMax time.Duration) error {
	for range n {
		if err := sleep(ctx, gapMin+rand.N(gapMax-gapMin)); err != nil {
			return nil
		}
		payload := fmt.Sprintf(`{"class":"Stamp","args":["%d",0]}`, time.Now().UnixNano())
		if _, err := s.conn.Do("RPUSH", "resque:queue:"+queues[rand.N(len(queues))], payload); err != nil {
			return err
		}
	}
	return nil
}

// roundTrips are those of a PING over the slow link, in milliseconds.
func roundTrips(b *bench) ([]float64, error) {
	s, err := startServer(b.opts.redisServer, b.dir)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	link, err := slowlink.Start(s.addr, linkDelay)
	if err != nil {
		return nil, err
	}
	defer link.Close()
	conn, err := redis.Dial("tcp", link.Addr())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var trips []float64
	for i := range 300 {
		start := time.Now()
		if _, err := conn.Do("ECHO", strconv.Itoa(i)); err != nil {
			return nil, err
		}
		trips = append(trips, float64(time.Since(start))/float64(time.Millisecond))
	}
	return trips, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
