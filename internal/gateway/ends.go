package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// mostTogether is how many acknowledgements are in one turn at least together; a call with more is several.
const mostTogether = 1000

// mostAttempts is how often an end is tried whose lease changes meanwhile.
const mostAttempts = 3

// Ack ends jobs as done. It returns what became of each.
func (g *Gateway) Ack(ctx context.Context, acks ...Ack) ([]What, error) {
	if len(acks) == 0 {
		return nil, nil
	}
	if err := g.begin(); err != nil {
		return nil, err
	}
	defer g.end()
	var whats []What
	for left := acks; len(left) > 0; {
		n := min(len(left), mostTogether)
		some, err := g.desk.ack(ctx, left[:n])
		if err != nil {
			return nil, err
		}
		if left = left[n:]; whats == nil {
			whats = some
		} else {
			whats = append(whats, some...)
		}
	}
	now := g.n.Clock.Now()
	for i, w := range whats {
		switch w {
		case Acked:
			g.search.note(acks[i].Queue, acks[i].ID, now)
		case leases.Effects:
			err := g.n.Do(ctx, func(_ resque.Store, c redis.Conn) (err error) {
				whats[i], err = g.close(ctx, c, acks[i], leased.End{Kind: leased.Done})
				return err
			})
			if err != nil {
				return nil, err
			}
		case leases.Dead:
			g.takeBack(ctx, acks[i])
		}
	}
	return whats, nil
}

// takeBack removes the failure record of a job that was done all the same. It is no loss if that does not work.
func (g *Gateway) takeBack(ctx context.Context, a Ack) {
	err := g.n.Do(ctx, func(_ resque.Store, c redis.Conn) error {
		_, err := g.store.TakeBack(c, a.Queue, a.ID)
		return err
	})
	if err != nil && ctx.Err() == nil {
		g.n.Log.Warn("the failure record of a job stays that was done after it was filed", "queue", a.Queue, "error", err)
	}
}

// AckResult ends a job as done with a result, which is kept if the job was published with one.
func (g *Gateway) AckResult(ctx context.Context, ack Ack, result json.RawMessage) (What, error) {
	return g.finish(ctx, ack, leased.End{Kind: leased.Done, Result: result})
}

// Nack ends a delivery as failed. The job is delivered again, after the delay; without tries left it is filed.
func (g *Gateway) Nack(ctx context.Context, ack Ack, delay time.Duration, why string) (What, error) {
	return g.finish(ctx, ack, leased.End{Kind: leased.Retried, Delay: max(0, delay), Err: reason(why)})
}

// Fail files a job as failed, whatever tries it has left.
func (g *Gateway) Fail(ctx context.Context, ack Ack, why string) (What, error) {
	return g.finish(ctx, ack, leased.End{Kind: leased.Failed, Err: reason(why)})
}

// GiveBack puts a job back to the head of its queue because its consumer asked for that. It uses up no try.
func (g *Gateway) GiveBack(ctx context.Context, ack Ack) (What, error) {
	return g.finish(ctx, ack, leased.End{Kind: leased.Returned})
}

// reason returns what a consumer says about a job that did not go well.
func reason(why string) error {
	if why == "" {
		return nil
	}
	return errors.New(why)
}

// finish ends a job that a consumer has.
func (g *Gateway) finish(ctx context.Context, ack Ack, end leased.End) (w What, err error) {
	err = g.do(ctx, func(c redis.Conn) (err error) {
		w, err = g.close(ctx, c, ack, end)
		return err
	})
	if err != nil {
		return "", err
	}
	return w, nil
}

// close ends a job that a consumer has, whatever its end. The job must have the lease that the consumer names.
func (g *Gateway) close(ctx context.Context, c redis.Conn, ack Ack, end leased.End) (What, error) {
	end.Queue, end.ID = ack.Queue, ack.ID
	place := leases.Place(ack.Queue, ack.ID)
	for range mostAttempts {
		payload, lease, err := g.store.Leased(c, place)
		switch {
		case err != nil:
			return "", err
		case payload == nil:
			return g.gone(ctx, c, ack, end)
		case ack.Lease != "" && ack.Lease != lease:
			return Changed, nil
		}
		end.Lease, end.Payload = lease, payload
		results, err := g.ender.End(ctx, c, []leased.End{end})
		if err != nil {
			return "", err
		}
		if r := results[0]; r.Err != nil {
			return "", fmt.Errorf("ending job %s of queue %s: %w", ack.ID, ack.Queue, r.Err)
		} else if r.Ended {
			g.ended(r.State)
			return Acked, nil
		}
	}
	return Changed, nil
}

// ended counts how a job has ended.
func (g *Gateway) ended(state outcome.State) {
	switch state {
	case outcome.Done:
		g.count.acked.Add(1)
	case outcome.Retried:
		g.count.retried.Add(1)
	case outcome.Failed:
		g.count.filed.Add(1)
	case outcome.Returned:
		g.count.released.Add(1)
	}
}

// gone returns what became of a job that no consumer has any more. A job that was done meanwhile is marked so, as by any
// acknowledgement that comes late.
func (g *Gateway) gone(ctx context.Context, c redis.Conn, ack Ack, end leased.End) (What, error) {
	if end.Kind == leased.Done {
		whats, err := g.desk.ack(ctx, []Ack{ack})
		if err != nil {
			return "", err
		}
		if whats[0] == leases.Effects { // it was taken again in this moment
			return Changed, nil
		}
		return whats[0], nil
	}
	return g.store.WhatOf(c, leases.Place(ack.Queue, ack.ID))
}

// Touch has a lease end so long from now, and returns it.
func (g *Gateway) Touch(ctx context.Context, ack Ack, ttr time.Duration) (lease string, w What, err error) {
	if ttr < MinTTR || ttr > MaxTTR {
		return "", "", fmt.Errorf("the lease would last %s; give it %s to %s", ttr, MinTTR, MaxTTR)
	}
	w = Acked
	err = g.do(ctx, func(c redis.Conn) (err error) {
		if lease, err = g.store.Touch(c, ack.Queue, ack.ID, ack.Lease, ttr); err != nil || lease != "" {
			return err
		}
		place := leases.Place(ack.Queue, ack.ID)
		held, err := g.store.Leases(c, []string{place})
		switch {
		case err != nil:
			return err
		case held[0] != "":
			w = Changed
			return nil
		}
		w, err = g.store.WhatOf(c, place)
		return err
	})
	if err != nil {
		return "", "", err
	}
	return lease, w, nil
}

// Republish publishes a job and ends the one of the id as done, in one step if a consumer has that one and the new job
// needs no more than to be pushed. Else the new job is published, and then the old one is ended where it is found.
//
// With an idempotency key a call that is repeated publishes nothing more, returns the id of the first call, and ends the old job if
// that was not done.
func (g *Gateway) Republish(ctx context.Context, once leases.Once, queue, id string, p Publication) (newID string, replayed bool, err error) {
	if err := g.begin(); err != nil {
		return "", false, err
	}
	defer g.end()
	d, err := g.draft(&p, g.Now())
	if err != nil {
		return "", false, err
	}
	if d.plain() {
		raw, err := g.encode(&d)
		if err != nil {
			return "", false, err
		}
		extra := g.pushRows(&d, raw)
		if once.Key != "" { // while the key is there the job is not ended here
			extra = append(g.store.Once(once, []string{d.id})[0].Effects, extra...)
		}
		var w What
		err = g.n.Do(ctx, func(_ resque.Store, c redis.Conn) (err error) {
			w, err = g.close(ctx, c, Ack{Queue: queue, ID: id}, leased.End{Kind: leased.Done, Extra: extra})
			return err
		})
		if err != nil {
			return "", false, err
		}
		if w == Acked {
			g.count.published.Add(1)
			return d.id, false, nil
		}
	}
	ids, replayed, err := g.PublishOnce(ctx, once, p)
	if err != nil {
		return "", false, err
	}
	if _, err := g.Cancel(ctx, queue, id, false); errors.Is(err, ErrReserved) {
		_, err = g.Ack(ctx, Ack{Queue: queue, ID: id})
		if err != nil {
			return ids[0], replayed, err
		}
	}
	return ids[0], replayed, nil
}

// pushRows returns the effects that put a plain job into its place.
func (g *Gateway) pushRows(d *draft, raw []byte) []resque.Effect {
	if d.due != 0 {
		return []resque.Effect{g.n.Store.ScheduleAt(d.due, d.Queue, raw)}
	}
	return g.n.Store.PushTail(d.Queue, raw)
}
