package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
)

// shares fills several queues alike, lets the contender work on them by weight, and looks
// what it has taken of each when the first is nearly empty, so that none ever was.
func (t trial) shares(ctx context.Context, s *server) (figures, time.Duration, error) {
	if err := t.fill(ctx, s); err != nil {
		return nil, 0, err
	}
	queues := t.w.queues()
	each := t.jobs / len(queues)
	taken := func() ([]int, error) {
		for _, name := range queues {
			s.conn.Send("LLEN", t.c.depthOf(name))
		}
		left, err := redis.Ints(s.conn.Do(""))
		for i := range left {
			left[i] = each - left[i]
		}
		return left, err
	}
	start := time.Now()
	p, err := t.c.start(ctx, t.bench.dir, t.w.config(probe.Work, s.addr, t.workers, t.jobs))
	if err != nil {
		return nil, 0, err
	}
	defer p.kill()
	n := make([]int, len(queues))
	for n[0] < each*9/10 {
		if err := sleep(ctx, time.Millisecond); err != nil {
			return nil, 0, err
		}
		if n, err = taken(); err != nil {
			return nil, 0, err
		}
		if time.Since(start) > trialLimit {
			return nil, 0, p.failed(fmt.Errorf("of %d jobs in each queue it has taken %v", each, n))
		}
	}
	sum := 0
	for _, k := range n {
		sum += k
	}
	f := figures{}
	for i, k := range n {
		f[fmt.Sprintf("share_of_%d_percent", t.w.weights[i])] = 100 * float64(k) / float64(sum)
	}
	return f, time.Since(start), nil
}

// depthOf is the key of the list in which a pushed job of a queue waits.
func (c contender) depthOf(queue string) string {
	at := strings.LastIndex(c.depth, queueName)
	return c.depth[:at] + queue + c.depth[at+len(queueName):]
}
