package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
)

const (
	// soakKept is how many times as long as its workflows are kept after their end a soak takes.
	soakKept = 12
	// soakStep is how many of them are started, and reported, at a time.
	soakStep = 100
	// keysLook is how often the keys are counted.
	keysLook = 50 * time.Millisecond
)

// kept is how long the workflows of a soak are kept: five seconds of a minute.
func (t trial) kept() time.Duration { return t.bench.opts.soak / soakKept }

// keysGone is how much longer than that keys may stay: 20 seconds of a minute.
func (t trial) keysGone() time.Duration { return t.bench.opts.soak / 3 }

// soak starts so many workflows a second for a while, and counts Redis's keys before, meanwhile, and when the time of
// the last workflow is over.
func (t trial) soak(ctx context.Context, s *server, worker *process) (figures, time.Duration, error) {
	if err := sleep(ctx, t.kept()+time.Second); err != nil { // until the first workflow's are gone
		return nil, 0, err
	}
	before, err := s.keys()
	if err != nil {
		return nil, 0, err
	}
	p, err := t.c.start(ctx, t.bench.dir, t.flows(probe.Start, s.addr))
	if err != nil {
		return nil, 0, err
	}
	defer p.kill()
	stop, highest := make(chan struct{}), make(chan int, 1)
	go func() { highest <- s.mostKeys(stop) }()
	got, err := t.soaked(ctx, p, worker)
	close(stop)
	most := <-highest
	if err != nil {
		return nil, 0, err
	}
	after, err := s.keys()
	for over := time.Now().Add(t.kept() + t.keysGone()); err == nil && after > before && time.Now().Before(over); {
		if err = sleep(ctx, keysLook); err == nil {
			after, err = s.keys()
		}
	}
	if err != nil {
		return nil, 0, err
	}
	if worker.surplus("extra") {
		return nil, 0, worker.failed(errTwice)
	}
	took := time.Duration(got["took"])
	return figures{
		"workflows_per_s": float64(got["started"]) / took.Seconds(),
		"keys_at_start":   float64(before), "keys_highest": float64(most), "keys_at_end": float64(after),
	}, took, nil
}

// soaked waits until each workflow that was started has had its callback, and returns the producer's reports.
func (t trial) soaked(ctx context.Context, p, worker *process) (map[string]int64, error) {
	type end struct {
		got map[string]int64
		err error
	}
	limit := t.bench.opts.soak + trialLimit
	ended := make(chan end, 1)
	go func() {
		got, err := p.until(ctx, "started", limit)
		ended <- end{got, err}
	}()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	var started map[string]int64
	for called := int64(0); started == nil || called < started["started"]; {
		select {
		case r, ok := <-worker.reports:
			n, err := r.number()
			switch {
			case !ok || err != nil:
				return nil, worker.failed(fmt.Errorf("ended after %d callbacks", called))
			case r.key == "flows":
				called = max(called, n)
			case r.key == "wrong", r.key == "extra":
				return nil, worker.failed(fmt.Errorf("the callback of workflow %d was %s", n, r.key))
			}
		case e := <-ended:
			if e.err != nil {
				return nil, e.err
			}
			started = e.got
		case <-timeout.C:
			return nil, worker.failed(fmt.Errorf("ran %d callbacks within %s", called, limit))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return started, nil
}

// keys is how many there are.
func (s *server) keys() (int, error) { return redis.Int(s.conn.Do("DBSIZE")) }

// mostKeys counts them now and then until stop is closed, and returns the highest number.
func (s *server) mostKeys(stop <-chan struct{}) (most int) {
	for ticker := time.NewTicker(keysLook); ; {
		n, _ := s.keys()
		most = max(most, n)
		select {
		case <-stop:
			ticker.Stop()
			return most
		case <-ticker.C:
		}
	}
}
