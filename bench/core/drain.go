package main

import (
	"context"
	"fmt"
	"time"
)

// jobsFor is how many no-op jobs make a run of one to two seconds: long enough
// that starting a process does not show, short enough for many rounds.
func jobsFor(contender string, workers int) int {
	switch {
	case contender == "goworker":
		return 30_000
	case workers < 10:
		return 40_000
	case workers < 50:
		return 200_000
	default:
		return 400_000
	}
}

// drainLimit ends a run that hangs.
const drainLimit = 90 * time.Second

// drain times one contender from its first job's start to its last job's end,
// the jobs being queued before the process starts. A contender that runs scripts
// is then run once more, shorter and untimed, to count its commands.
func drain(ctx context.Context, s *server, c contender, workers int, into *results) error {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	jobs := jobsFor(c.name, workers)

	if err := s.reset(jobs); err != nil {
		return err
	}
	if _, err := s.conn.Do("CONFIG", "RESETSTAT"); err != nil {
		return err
	}
	before, err := s.usage()
	if err != nil {
		return err
	}
	p, got, err := runToEnd(ctx, s, c, workers, jobs)
	if err != nil {
		return err
	}
	after, err := s.usage()
	if err != nil {
		return err
	}
	scripts, err := s.ranScripts()
	if err != nil {
		return err
	}

	n := float64(jobs)
	add := func(figure string, value float64) { into.add(c.name, "noop", workers, figure, value) }
	add("jobs_per_s", n/time.Duration(got["last"]-got["first"]).Seconds())
	add("redis_cpu_us_per_job", micros(after.cpu-before.cpu)/n)
	add("worker_cpu_us_per_job", micros(p.cpu())/n)
	if kib, ok := got["rss"]; ok {
		add("rss_mb", float64(kib)/1024)
	}
	if !scripts {
		// All commands came from clients; one of them was our own INFO.
		add("commands_per_job", float64(after.commands-before.commands-1)/n)
		add("inner_commands_per_job", 0)
		return nil
	}
	return countCommands(ctx, s, c, workers, jobs/2, into)
}

// countCommands tells a client's commands from those inside scripts. It runs
// untimed because MONITOR slows the server down.
func countCommands(ctx context.Context, s *server, c contender, workers, jobs int, into *results) error {
	if err := s.reset(jobs); err != nil {
		return err
	}
	m, err := s.monitor()
	if err != nil {
		return err
	}
	_, _, err = runToEnd(ctx, s, c, workers, jobs)
	count, monitorErr := s.stopMonitor(m)
	if err != nil {
		return err
	}
	if monitorErr != nil {
		return monitorErr
	}
	into.add(c.name, "noop", workers, "commands_per_job", float64(count.sent)/float64(jobs))
	into.add(c.name, "noop", workers, "inner_commands_per_job", float64(count.inner)/float64(jobs))
	return nil
}

// runToEnd runs a contender until it finds its queue empty, and makes sure that
// it has really run every job.
func runToEnd(ctx context.Context, s *server, c contender, workers, jobs int) (*process, map[string]int64, error) {
	p, err := c.start(ctx, s, workers, jobs, true)
	if err != nil {
		return nil, nil, err
	}
	got, err := p.wait(ctx)
	if err != nil {
		return nil, nil, err
	}
	if got["ran"] < int64(jobs) || got["last"] == 0 {
		return nil, nil, p.failed(fmt.Errorf("ran %d of %d jobs", got["ran"], jobs))
	}
	return p, got, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
