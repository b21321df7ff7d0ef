package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
	"github.com/goworker/goworker/internal/tokens"
)

// counted does for a request what a pool does. It counts the jobs that come and go, holds the namespace to its quotas, and
// records in the audit what changes or removes the jobs of a whole queue.
type counted struct {
	jobs
	x *access
}

func (c *counted) count(queue string) *ofQueue { return c.x.guard.metrics.queue(c.x, queue) }

// room returns an error if the jobs exceed a quota, unless a request with this key has published them before: then they may be
// what fills it, and nothing more is published.
func (c *counted) room(ctx context.Context, once leases.Once, all []gateway.Publication) (pass int, err error) {
	pass, err = c.x.Pool.published().backlog.room(ctx, *c.x, all)
	if err == nil || once.Key == "" {
		return pass, err
	}
	made, other := c.jobs.Made(ctx, once)
	if len(made) > 0 {
		return pass, nil
	}
	return pass, cmp.Or(other, err)
}

func (c *counted) Publish(ctx context.Context, all ...gateway.Publication) ([]string, error) {
	pass, err := c.room(ctx, leases.Once{}, all)
	if err != nil {
		return nil, err
	}
	ids, err := c.jobs.Publish(ctx, all...)
	if len(ids) > 0 {
		c.published(all, pass)
	}
	return ids, err
}

func (c *counted) PublishOnce(ctx context.Context, once leases.Once, all ...gateway.Publication) ([]string, bool, error) {
	pass, err := c.room(ctx, once, all)
	if err != nil {
		return nil, false, err
	}
	ids, replayed, err := c.jobs.PublishOnce(ctx, once, all...)
	if len(ids) > 0 && !replayed {
		c.published(all, pass)
	}
	return ids, replayed, err
}

func (c *counted) Republish(ctx context.Context, once leases.Once, queue, id string, p gateway.Publication) (string, bool, error) {
	all := []gateway.Publication{p}
	pass, err := c.room(ctx, once, all)
	if err != nil {
		return "", false, err
	}
	fresh, replayed, err := c.jobs.Republish(ctx, once, queue, id, p)
	if fresh != "" && !replayed {
		c.published(all, pass)
	}
	return fresh, replayed, err
}

func (c *counted) published(all []gateway.Publication, pass int) {
	for i := range all {
		c.count(all[i].Queue).published.Add(1)
		c.x.Pool.lookout.published(all[i].Queue, all[i].Class)
	}
	c.x.Pool.published().backlog.add(all, pass)
}

func (c *counted) Reserve(ctx context.Context, a gateway.Ask) ([]gateway.Job, error) {
	got, err := c.jobs.Reserve(ctx, a)
	for i := range got {
		c.count(got[i].Queue).reserved.Add(1)
		if due, ok := httpjob.FirstDue(got[i].ID); ok && got[i].Attempt <= 1 {
			c.x.guard.metrics.waited.see(time.Duration(max(got[i].Now-due, 0)) * time.Millisecond)
		}
	}
	return got, err
}

func (c *counted) Ack(ctx context.Context, acks ...gateway.Ack) ([]gateway.What, error) {
	said, err := c.jobs.Ack(ctx, acks...)
	for i, w := range said {
		c.acked(acks[i], w)
	}
	return said, err
}

func (c *counted) AckResult(ctx context.Context, ack gateway.Ack, result json.RawMessage) (gateway.What, error) {
	w, err := c.jobs.AckResult(ctx, ack, result)
	c.acked(ack, w)
	return w, err
}

func (c *counted) acked(ack gateway.Ack, w gateway.What) {
	if w != gateway.Acked {
		return
	}
	c.count(ack.Queue).acked.Add(1)
	if due, ok := httpjob.FirstDue(ack.ID); ok {
		c.x.guard.metrics.ended.see(time.Duration(max(c.jobs.Now()-due, 0)) * time.Millisecond)
	}
}

func (c *counted) Sizes(ctx context.Context, queues ...string) ([]gateway.Sizes, error) {
	return c.x.Pool.sizes(ctx, queues...)
}

func (c *counted) Destroy(ctx context.Context, queue string) error {
	err := c.jobs.Destroy(ctx, queue)
	c.record(ctx, "DestroyQueue", queue, 1, err)
	return err
}

func (c *counted) Pause(ctx context.Context, queue string) error {
	err := c.jobs.Pause(ctx, queue)
	c.record(ctx, "PauseQueue", queue, 1, err)
	return err
}

func (c *counted) Resume(ctx context.Context, queue string) error {
	err := c.jobs.Resume(ctx, queue)
	c.record(ctx, "ResumeQueue", queue, 1, err)
	return err
}

func (c *counted) Respawn(ctx context.Context, queue string, limit int, ttl time.Duration) (int, error) {
	n, err := c.jobs.Respawn(ctx, queue, limit, ttl)
	c.record(ctx, "RetryDead", queue, n, err)
	return n, err
}

func (c *counted) DeleteDead(ctx context.Context, queue string, limit int) (int, error) {
	n, err := c.jobs.DeleteDead(ctx, queue, limit)
	c.record(ctx, "RemoveDead", queue, n, err)
	return n, err
}

// recordWithin bounds the recording of a change whose client may have gone.
const recordWithin = 2 * time.Second

// record records a change in the audit. The log says so if that is not possible: the change was made.
func (c *counted) record(ctx context.Context, what, queue string, changed int, done error) {
	if changed == 0 {
		return
	}
	who := "HTTP, namespace " + c.x.Namespace
	if c.x.Token != "" {
		who = "HTTP, token " + tokens.ID(c.x.Token)
	}
	n := c.x.Pool.neighbor
	e := inspect.AuditEntry{At: n.Clock.Now().UTC().Truncate(time.Millisecond), Who: who, What: what, On: queue, Changed: int64(changed)}
	if done != nil {
		e.Error = "it failed; the server's log says why"
	}
	text, err := json.Marshal(e)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
		defer cancel()
		err = n.Do(ctx, func(s resque.Store, conn redis.Conn) error { return s.Audit(conn, text) })
	}
	if err != nil {
		n.Log.Warn("a change over HTTP was made but not recorded", "what", what, "queue", queue, "error", resque.Explain(err))
	}
}
