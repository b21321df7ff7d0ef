package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/goworker/goworker"
)

// tally counts and times the jobs by class. It is safe for concurrent use.
type tally struct {
	mu        sync.Mutex
	classes   map[string]*class
	processed int
	failed    int
	byHand    bool // jobs that end now were retried by hand
}

// class is the statistics of a class. The times are of the first
// run of each job only: a retried job has waited for a human.
type class struct {
	processed, failed, retried, cured int

	ran    []time.Duration // in the handler
	waited []time.Duration // from being enqueued to the handler's start
}

func newTally() *tally { return &tally{classes: make(map[string]*class)} }

// of returns the entry of a class. The caller holds the lock.
func (t *tally) of(name string) *class {
	c := t.classes[name]
	if c == nil {
		c = &class{}
		t.classes[name] = c
	}
	return c
}

// measure is middleware around all handlers. It removes the last argument, the
// time when the job was enqueued.
func (t *tally) measure(next goworker.Handler) goworker.Handler {
	return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
		start := time.Now()
		var enqueued int64
		if last := len(d.Args) - 1; last >= 0 && json.Unmarshal(d.Args[last], &enqueued) == nil {
			d.Args = d.Args[:last]
		}
		defer func() { // a panic passes through here too
			ran := time.Since(start)
			t.mu.Lock()
			defer t.mu.Unlock()
			if c := t.of(d.Class); !t.byHand {
				c.ran = append(c.ran, ran)
				c.waited = append(c.waited, start.Sub(time.UnixMicro(enqueued)))
			}
		}()
		return next.Perform(ctx, d)
	})
}

// hooks count how jobs end, including those that never reach a handler.
func (t *tally) hooks() goworker.Hooks {
	return goworker.Hooks{
		Success: func(_ context.Context, d *goworker.Delivery) { t.end(d.Class, true) },
		Failure: func(_ context.Context, d *goworker.Delivery, _ error) { t.end(d.Class, false) },
	}
}

func (t *tally) end(name string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(name)
	c.processed++
	t.processed++
	switch {
	case !ok:
		c.failed++
		t.failed++
	case t.byHand:
		c.cured++
	}
}

// refuse counts text that was no job, which no hook has seen.
func (t *tally) refuse(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(name)
	c.processed++
	c.failed++
}

// retry counts a job that is about to be retried by hand.
func (t *tally) retry(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHand = true
	t.of(name).retried++
}

// counts returns how many jobs the hooks have seen end, and fail.
func (t *tally) counts() (processed, failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.processed, t.failed
}
