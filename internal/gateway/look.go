package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/resque/leases"
)

// failedAt is how a failure record has the time.
const failedAt = "2006/01/02 15:04:05 MST"

// respawnMost is how many dead letters are published again in one step.
const respawnMost = 100

// Peek returns the first job of a queue that is not expired.
func (g *Gateway) Peek(ctx context.Context, queue string) (j Job, there bool, err error) {
	err = g.do(ctx, func(c redis.Conn) error {
		raw, now, err := g.store.Peek(c, queue)
		if err != nil || raw == nil {
			return err
		}
		j, there = jobOf(leases.Job{Queue: queue, Payload: raw}, now), true
		j.ID = j.Parsed.ID
		return nil
	})
	return j, there, err
}

// Destroy ends all jobs of a queue but its dead letters.
func (g *Gateway) Destroy(ctx context.Context, queue string) error {
	return g.do(ctx, func(c redis.Conn) error {
		for from := ""; ; {
			out, err := g.store.Destroy(c, queue, from, g.desk.texts, seed(g.Now()))
			if err != nil {
				return err
			}
			ends := make([]leased.End, len(out.Jobs))
			for i, j := range out.Jobs {
				ends[i] = endOf(j, leased.Cancelled)
				ends[i].Err = failure.ErrUnwanted
			}
			results, err := g.ender.End(ctx, c, ends)
			if err != nil {
				return err
			}
			for _, r := range results {
				if r.Err != nil {
					return fmt.Errorf("ending the jobs of queue %s: %w", queue, r.Err)
				}
			}
			if from = out.Next; from == "" {
				return nil
			}
		}
	})
}

// Queues returns the names of all queues of this Redis, sorted.
func (g *Gateway) Queues(ctx context.Context) (names []string, err error) {
	err = g.do(ctx, func(c redis.Conn) (err error) {
		names, err = g.store.Queues(c)
		return err
	})
	return names, err
}

// Jobs returns a page of the jobs of a queue that are ready, delayed or reserved.
func (g *Gateway) Jobs(ctx context.Context, queue string, state State, limit int, after string) (p Page, err error) {
	read := map[State]func(redis.Conn, string, string, int) ([]leases.Listed, string, error){
		Ready: g.store.Ready, Delayed: g.store.Delayed, Reserved: g.store.Reserved,
	}[state]
	if read == nil {
		return p, fmt.Errorf("%q is no state of a job that this lists; give %s, %s or %s", state, Ready, Delayed, Reserved)
	}
	err = g.do(ctx, func(c redis.Conn) error {
		listed, next, err := read(c, queue, after, limit)
		if err != nil {
			return err
		}
		p.Next, p.AsOf = next, g.Now()
		for _, l := range listed {
			p.Jobs = append(p.Jobs, g.found(state, queue, l.ID, l.Lease, l.Payload, l.Due))
		}
		return nil
	})
	return p, err
}

// DeadPeek returns the oldest dead letter of a queue, and how many there are.
func (g *Gateway) DeadPeek(ctx context.Context, queue string) (r FailureRecord, size int, err error) {
	err = g.do(ctx, func(c redis.Conn) error {
		n, err := g.store.DeadSize(c, queue)
		if err != nil || n == 0 {
			return err
		}
		records, err := g.store.DeadHead(c, queue, 1)
		if err != nil || len(records) == 0 {
			return err
		}
		size = int(n)
		f, err := payload.ParseFailure(records[0])
		if err != nil {
			return fmt.Errorf("the oldest failure of queue %s cannot be read: %w", queue, err)
		}
		r = FailureRecord{Job: jobOf(leases.Job{Queue: queue, Payload: f.Payload}, g.Now()), Error: f.Error}
		r.Failed, _ = time.Parse(failedAt, f.FailedAt)
		r.ID = r.Parsed.ID
		return nil
	})
	return r, size, err
}

// Respawn publishes the oldest dead letters of a queue again, with one try and a new TTL, 0: none. It returns how many.
func (g *Gateway) Respawn(ctx context.Context, queue string, limit int, ttl time.Duration) (moved int, err error) {
	err = g.do(ctx, func(c redis.Conn) error {
		for moved < limit {
			records, err := g.store.DeadHead(c, queue, min(limit-moved, respawnMost))
			if err != nil || len(records) == 0 {
				return err
			}
			expires := int64(0)
			if ttl > 0 {
				expires = g.Now() + ttl.Milliseconds()
			}
			payloads := make([][]byte, len(records))
			for i, r := range records {
				if payloads[i], err = respawned(r, expires); err != nil {
					return fmt.Errorf("a failure of queue %s cannot be read: %w; remove it", queue, err)
				}
			}
			n, err := g.store.Respawn(c, queue, records, payloads)
			if err != nil {
				return err
			}
			moved += n
			if n == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	})
	return moved, err
}

// respawned returns the payload with which the job of a failure record is published again: its class, arguments and metadata, and
// the id. What else it had is over.
func respawned(record []byte, expires int64) ([]byte, error) {
	f, err := payload.ParseFailure(record)
	if err != nil {
		return nil, err
	}
	p, err := payload.Parse(f.Payload)
	if err != nil {
		return nil, err
	}
	j := httpjob.Job{Class: p.Class, Args: httpjob.List(p.Args), Meta: httpjob.Meta(&p), Expires: expires, ID: p.ID}
	return j.Append(nil), nil
}

// DeleteDead removes the oldest dead letters of a queue, and returns how many.
func (g *Gateway) DeleteDead(ctx context.Context, queue string, limit int) (removed int, err error) {
	err = g.do(ctx, func(c redis.Conn) (err error) {
		removed, err = g.store.RemoveDead(c, queue, limit)
		return err
	})
	return removed, err
}

// Pause has no job taken from a queue; Resume ends that.
func (g *Gateway) Pause(ctx context.Context, queue string) error {
	return g.do(ctx, func(c redis.Conn) error { return control.New(g.n.Store).Pause(c, queue) })
}

// Resume has jobs taken from a queue again.
func (g *Gateway) Resume(ctx context.Context, queue string) error {
	return g.do(ctx, func(c redis.Conn) error { return control.New(g.n.Store).Resume(c, queue) })
}
