package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/goworker/goworker/bench/probe"
)

const (
	recoveryJobs   = 10
	recoveryTrials = 3
	recoveryLimit  = 60 * time.Second
)

// recovery kills a process that is running ten jobs, as kill -9 does, and times
// until a second process runs all ten. goworker and the limit have nothing to
// measure here: they never run them again.
func (b *bench) recovery(ctx context.Context, s *server, c contender) error {
	config := work{}.config(probe.Work, s.addr, recoveryJobs, 0)
	victim, err := c.start(ctx, b.dir, config)
	if err != nil {
		return err
	}
	defer victim.kill()
	for i := range recoveryJobs {
		if err := s.push("Hold", strconv.Itoa(i)); err != nil {
			return err
		}
	}
	if err := held(ctx, victim, recoveryJobs, startLimit); err != nil {
		return err
	}

	// One worker more than there are jobs to recover: its first job, which no
	// worker of the victim is free for, shows that it is up.
	config.Workers++
	survivor, err := c.start(ctx, b.dir, config)
	if err != nil {
		return err
	}
	defer survivor.kill()
	if err := s.push("Hold", "up"); err != nil {
		return err
	}
	if err := held(ctx, survivor, 1, startLimit); err != nil {
		return err
	}
	// Anywhere in the lease's period, not always just after a start.
	if err := sleep(ctx, 5*time.Second+rand.N(3*time.Second)); err != nil {
		return err
	}

	killed := time.Now()
	victim.kill()
	if err := held(ctx, survivor, recoveryJobs, recoveryLimit); err != nil {
		return err
	}
	b.results.Add(c.name, "hold", recoveryJobs, "recovery_s", time.Since(killed).Seconds())
	return nil
}

// held waits until the process has started n more Hold jobs of different ids.
func held(ctx context.Context, p *process, n int, within time.Duration) error {
	deadline := time.Now().Add(within)
	seen := map[string]bool{}
	for len(seen) < n {
		r, err := p.next(ctx, "hold", time.Until(deadline))
		if err != nil {
			return fmt.Errorf("%d of %d held jobs had started: %w", len(seen), n, err)
		}
		seen[r.value] = true
	}
	return nil
}
