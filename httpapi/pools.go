package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/resque/leases"
)

// pool is a Redis, or a namespace of Resque on one, whose jobs this server gives and takes.
type pool struct {
	name     string
	client   *goworker.Client
	neighbor *neighbor.Neighbor
	gateway  *gateway.Gateway
	jobs     jobs // the gateway, or two of them while the pool migrates
	census   census
	lookout  *lookout
	backlog  *backlog
	to       *pool // the pool that takes its place; nil: it does not migrate
}

// jobs serves the clients of a pool.
type jobs interface {
	Publish(ctx context.Context, jobs ...gateway.Publication) (ids []string, err error)
	PublishOnce(ctx context.Context, once leases.Once, jobs ...gateway.Publication) (ids []string, replayed bool, err error)
	Made(ctx context.Context, once leases.Once) (ids []string, err error)
	Reserve(ctx context.Context, a gateway.Ask) ([]gateway.Job, error)
	Release(jobs ...gateway.Job)
	Ack(ctx context.Context, acks ...gateway.Ack) ([]gateway.What, error)
	AckResult(ctx context.Context, ack gateway.Ack, result json.RawMessage) (gateway.What, error)
	Nack(ctx context.Context, ack gateway.Ack, delay time.Duration, why string) (gateway.What, error)
	Fail(ctx context.Context, ack gateway.Ack, why string) (gateway.What, error)
	GiveBack(ctx context.Context, ack gateway.Ack) (gateway.What, error)
	Touch(ctx context.Context, ack gateway.Ack, ttr time.Duration) (lease string, w gateway.What, err error)
	Republish(ctx context.Context, once leases.Once, queue, id string, p gateway.Publication) (newID string, replayed bool, err error)
	Find(ctx context.Context, queue, id string) (gateway.Found, error)
	Cancel(ctx context.Context, queue, id string, force bool) (gateway.What, error)
	Peek(ctx context.Context, queue string) (j gateway.Job, there bool, err error)
	Sizes(ctx context.Context, queues ...string) ([]gateway.Sizes, error)
	Destroy(ctx context.Context, queue string) error
	Queues(ctx context.Context) ([]string, error)
	Jobs(ctx context.Context, queue string, state gateway.State, limit int, after string) (gateway.Page, error)
	DeadPeek(ctx context.Context, queue string) (r gateway.FailureRecord, size int, err error)
	Respawn(ctx context.Context, queue string, limit int, ttl time.Duration) (int, error)
	DeleteDead(ctx context.Context, queue string, limit int) (int, error)
	Pause(ctx context.Context, queue string) error
	Resume(ctx context.Context, queue string) error
	Now() int64
}

var _ jobs = (*gateway.Gateway)(nil)

// newPools returns the pools of an API. Their gateways have not started.
func newPools(c *goworker.Client, s *Settings) (map[string]*pool, error) {
	pools := make(map[string]*pool, 1+len(s.Pools))
	version, _, _ := built()
	add := func(name string, c *goworker.Client) error {
		n := new(neighbor.Neighbor)
		if err := goworker.Beside(n, c); err != nil {
			return fmt.Errorf("the pool %s: %w", name, err)
		}
		g := gateway.New(n, gateway.Options{Version: version, Classes: s.classes()})
		p := &pool{name: name, client: c, neighbor: n, gateway: g, jobs: g}
		p.lookout, p.backlog = newLookout(p), newBacklog(p)
		pools[name] = p
		return nil
	}
	for name, p := range s.Pools {
		if p.Client == nil { // of the default pool: the settings say where it migrates to
			p.Client = c
		}
		if err := add(name, p.Client); err != nil {
			return nil, err
		}
	}
	if pools[defaultPool] == nil {
		if err := add(defaultPool, c); err != nil {
			return nil, err
		}
	}
	for name, p := range s.Pools {
		if p.MigrateTo != "" {
			to := pools[p.MigrateTo]
			pools[name].jobs = &migrating{old: pools[name].gateway, new: to.gateway}
			pools[name].lookout, pools[name].to = to.lookout, to
		}
	}
	return pools, nil
}

// start connects, and begins to look after the queues.
func (p *pool) start(ctx context.Context) error {
	if err := p.gateway.Start(ctx); err != nil {
		return fmt.Errorf("the pool %s: %w", p.name, err)
	}
	if p.lookout.pool == p { // else they are of the pool that it migrates to
		p.lookout.loop.Start(ctx)
	}
	p.backlog.loop.Start(ctx)
	return nil
}

// stop ends what start began, and all waits.
func (p *pool) stop(ctx context.Context) {
	if p.lookout.pool == p {
		p.lookout.loop.Stop(ctx)
	}
	p.backlog.loop.Stop(ctx)
	p.gateway.Stop(ctx)
}

// sizes returns the numbers of queues, those of their delayed jobs too.
func (p *pool) sizes(ctx context.Context, queues ...string) ([]gateway.Sizes, error) {
	sizes, err := p.jobs.Sizes(ctx, queues...)
	if err == nil && len(sizes) == len(queues) {
		p.fill(ctx, queues, sizes)
	}
	return sizes, err
}

// fill adds the delayed jobs to the numbers of queues: while the pool migrates, those of both.
func (p *pool) fill(ctx context.Context, queues []string, sizes []gateway.Sizes) {
	p.backlog.fill(ctx, queues, sizes)
	if p.to == nil {
		return
	}
	more := make([]gateway.Sizes, len(sizes))
	p.to.backlog.fill(ctx, queues, more)
	for i := range sizes {
		s, m := &sizes[i], &more[i]
		if s.AsOf == 0 || m.AsOf == 0 { // one of them is not counted yet
			s.Delayed, s.NextDueMs, s.AsOf = 0, 0, 0
			continue
		}
		s.Delayed, s.NextDueMs, s.AsOf = s.Delayed+m.Delayed, earlier(s.NextDueMs, m.NextDueMs), earlier(s.AsOf, m.AsOf)
	}
}

// published is the pool to which the jobs of this one are published.
func (p *pool) published() *pool {
	if p.to != nil {
		return p.to
	}
	return p
}
