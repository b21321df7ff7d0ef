package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
)

const (
	// delayPace is how many jobs a second every contender's client delays at least.
	delayPace = 10_000
	// delayStart is what a client has for its start, one of Node three times as much.
	delayStart = time.Second
	// farAway is when the first of the jobs is due that never are.
	farAway = 1000 * time.Hour
	// moved is how many jobs a trial lets a pump move.
	moved = 100_000
)

// dueSoon is a whole second, since not everyone knows fractions, by when so many jobs
// are there if the contender's client is half as fast as it was when last seen.
func (t trial) dueSoon(jobs int) time.Time {
	each := time.Second / delayPace
	if last, ok := t.bench.pushes.Load(t.c.name); ok {
		each = 2 * last.(time.Duration)
	}
	start := delayStart
	if t.c.node {
		start *= 3
	}
	pushed := time.Now().Add(start + time.Duration(jobs)*each)
	return pushed.Truncate(time.Second).Add(time.Second)
}

// delay pushes jobs that are all due at the moment it returns.
func (t trial) delay(ctx context.Context, config probe.Config) (time.Time, error) {
	due := t.dueSoon(config.Jobs)
	config.At = due.UnixNano()
	if _, err := t.produce(ctx, config); err != nil {
		return due, err
	}
	if late := time.Since(due); late > 0 {
		return due, fmt.Errorf("delaying %d jobs took %s longer than there was until they were due", config.Jobs, late)
	}
	return due, nil
}

// schedule times the contender's client while it delays jobs to a far time, one each
// second, and weighs them in Redis. Then it lets goworker's daemon move others beside
// them.
func (t trial) schedule(ctx context.Context, s *server) (figures, time.Duration, error) {
	config := t.w.config(probe.Push, s.addr, 0, t.workers)
	config.At, config.Step = time.Now().Add(farAway).Truncate(time.Second).UnixNano(), time.Second
	t.jobs = t.workers
	before, err := s.usage()
	if err != nil {
		return nil, 0, err
	}
	light, err := s.memory()
	if err != nil {
		return nil, 0, err
	}
	got, err := t.produce(ctx, config)
	if err != nil {
		return nil, 0, err
	}
	after, err := s.usage()
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
	waiting, err := redis.Int(s.conn.Do("ZCARD", t.c.later))
	if err != nil {
		return nil, 0, err
	}
	if waiting != t.jobs {
		return nil, 0, fmt.Errorf("delayed %d jobs, and %d wait", t.jobs, waiting)
	}
	took := time.Duration(got["pushed"])
	f := t.figures(got, before, after, took)
	f["redis_bytes_per_job"] = float64(heavy-light) / float64(t.jobs)
	if t.c.program == "ours" {
		err = t.move(ctx, s, f)
	}
	return f, took, err
}

// move adds how many due jobs a second one daemon, which has nothing else to do, moves
// to a queue without workers, beside those that wait, and what that costs Redis.
func (t trial) move(ctx context.Context, s *server, f figures) error {
	due, err := t.delay(ctx, work{class: "Noop", delayed: true}.config(probe.Push, s.addr, 0, moved))
	if err != nil {
		return err
	}
	config := work{delayed: true}.config(probe.Work, s.addr, 1, 0)
	config.Queues = []string{"other"}
	p, err := t.c.start(ctx, t.bench.dir, config)
	if err != nil {
		return err
	}
	defer p.kill()
	if err := sleep(ctx, time.Until(due)); err != nil {
		return err
	}
	before, err := s.usage()
	if err != nil {
		return err
	}
	var first time.Time
	var early int // moved by then
	for there := 0; there < moved; {
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
		if there, err = redis.Int(s.conn.Do("LLEN", t.c.depth)); err != nil {
			return err
		}
		if there > 0 && first.IsZero() {
			first, early = time.Now(), there
		}
		if time.Since(due) > trialLimit {
			return p.failed(fmt.Errorf("of %d due jobs it has moved %d", moved, there))
		}
	}
	f["moved_per_s"] = float64(moved-early) / time.Since(first).Seconds()
	after, err := s.usage()
	f["redis_cpu_us_per_moved"] = micros(after.cpu-before.cpu) / moved
	return err
}
