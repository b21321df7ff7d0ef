package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
)

const (
	// overdueElsewhere is how late jobs must be that the lock's holder has to move, before the
	// pump logs it. A scheduler that works is never so late.
	overdueElsewhere = 30 * time.Second

	// askAgain is how long the pump leaves a lock alone that another scheduler has.
	askAgain = 5 * time.Second

	// pumpUser is the pump's name as a user of the lock.
	pumpUser = "pump"
)

// moveDue moves all jobs that are due and returns how long it is until there are more.
func (p *Pump) moveDue(ctx context.Context) (wait time.Duration, err error) {
	if err := p.connect(ctx); err != nil {
		return 0, err
	}
	c, notified := p.link.Conn, p.link.Wake != nil
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // reaches a read that waits
	defer stop()
	if err := p.broken; err != nil {
		return 0, fmt.Errorf("tracking delayed jobs: %w", err)
	}
	defer func() {
		if lost := p.lock.Release(c, pumpUser); err == nil {
			err = lost
		}
	}()
	for {
		due, err := p.base.Store.Due(c, notified)
		if err != nil {
			return 0, err
		}
		if p.Seen != nil {
			p.Seen(due)
		}
		due = p.ours(due)
		if clock.Since(p.base.Clock, p.refused) < askAgain {
			due.Plain, due.Hints = max(due.Plain, askAgain), max(due.Hints, askAgain)
		}
		if wait := due.Sooner(); wait > 0 || p.loop.Stopping() {
			if !notified {
				wait = min(wait, p.config.Interval)
			}
			return wait, nil
		}
		if err := p.move(c, due); err != nil {
			return 0, err
		}
	}
}

// move moves the jobs that are due.
func (p *Pump) move(c redis.Conn, due resque.Due) (err error) {
	if due.Own <= 0 {
		err = p.repeat(func() (delayed.Moved, error) { return p.steps.Own(c) })
	}
	if err == nil && min(due.Plain, due.Hints) <= 0 {
		err = p.shared(c, due)
	}
	return err
}

// Waits returns how long it is until a job is due that this pump moves.
func (p *Pump) Waits(due resque.Due) time.Duration { return p.ours(due).Sooner() }

// Step moves the jobs that are due, on a connection of the caller's. It is for a pump that was not started.
func (p *Pump) Step(c redis.Conn, due resque.Due) error {
	p.steps.By = p.fleet.Worker()
	return errors.Join(p.move(c, p.ours(due)), p.lock.Release(c, pumpUser))
}

// shared moves the jobs that Ruby's tools see, under their lock.
func (p *Pump) shared(c redis.Conn, due resque.Due) error {
	held, by, err := p.lock.Hold(c, pumpUser)
	if err != nil {
		return err
	}
	p.warnOfHolder(by, due)
	if !held {
		p.refused = p.base.Clock.Now()
		return p.steps.DropHints(c, due.Now)
	}
	own := p.lock.own()
	err = p.repeat(func() (delayed.Moved, error) { return p.steps.Hints(c, own, due.Now) })
	if err == nil {
		err = p.repeat(func() (delayed.Moved, error) { return p.steps.Seconds(c, own, due.Now) })
	}
	return err
}

const holderSubject = "the lock's holder"

// warnOfHolder logs, once for each holder of the lock, that jobs are late which it has to move.
func (p *Pump) warnOfHolder(by string, due resque.Due) {
	if by == "" || due.Plain > -overdueElsewhere {
		p.said.Over(holderSubject)
		return
	}
	if p.said.News(holderSubject, by) {
		p.base.Log.Warn("delayed jobs are late, and only the holder of the schedulers' lock may move them; if it is gone, wait until the lock runs out or remove its key",
			"holder", by, "key", p.lock.own().Key(), "late", -due.Plain)
	}
}

// repeat takes a step until nothing more is due.
func (p *Pump) repeat(step func() (delayed.Moved, error)) error {
	for {
		m, err := step()
		for _, failed := range m.Failed {
			p.base.Log.Error("a delayed job was filed as failed", "error", failed)
		}
		for _, broken := range m.Broken {
			if p.said.News("key "+broken.Key, "") {
				p.base.Log.Warn("delayed jobs wait until a key is repaired", "error", broken)
			}
		}
		if m.Lost {
			p.refused = p.base.Clock.Now()
		}
		if err != nil || !m.More || m.Lost || p.loop.Stopping() {
			return err
		}
	}
}
