package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/httpjob"
)

const (
	// countedTimes is how many times as long as counting took its result is given: so counting takes a hundredth of
	// Redis. Few jobs, up to so many, are counted each time.
	countedTimes = 100
	countedFew   = 1000
)

// reserved is how many jobs consumers hold, by queue, as it was lately: counting them takes reading all leases.
type reserved struct {
	mu     sync.Mutex
	counts map[string]int64
	until  time.Time // until when they are given
}

// Sizes returns the numbers of queues. That of reserved jobs may be some time old, and those of delayed jobs are for who
// counts them: they stay 0.
func (g *Gateway) Sizes(ctx context.Context, queues ...string) (all []Sizes, err error) {
	if len(queues) == 0 {
		return nil, nil
	}
	err = g.do(ctx, func(c redis.Conn) error {
		held, err := g.countReserved(c)
		if err != nil {
			return err
		}
		read, err := g.store.Sizes(c, held, queues...)
		all = make([]Sizes, len(read))
		for i, s := range read {
			all[i] = Sizes{Queue: s.Queue, Ready: int(s.Ready), Reserved: int(s.Reserved), Dead: int(s.Dead), Paused: s.Paused, Limited: s.Limited, Err: s.Err}
			if s.Head != nil {
				id, _ := httpjob.Tail(s.Head)
				all[i].OldestReadyMs, _ = httpjob.FirstDue(id)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// countReserved returns how many jobs consumers hold, by queue.
func (g *Gateway) countReserved(c redis.Conn) (counts map[string]int64, err error) {
	r := &g.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	began := g.n.Clock.Now()
	if began.Before(r.until) {
		return r.counts, nil
	}
	if r.counts, err = g.store.CountReserved(c); err != nil {
		return nil, err
	}
	jobs := int64(0)
	for _, n := range r.counts {
		jobs += n
	}
	if jobs > countedFew {
		now := g.n.Clock.Now()
		r.until = now.Add(countedTimes * now.Sub(began))
	}
	return r.counts, nil
}
