package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/tokens"
)

// scope is what a call needs of a token.
type scope = tokens.Scope

const (
	scopePublish = tokens.Publish
	scopeConsume = tokens.Consume
	scopeAck     = tokens.Ack
	scopePeek    = tokens.Peek
	scopeAdmin   = tokens.Admin
)

// rateKind is what a request counts as.
type rateKind bool

const (
	rateRead  rateKind = false // it takes jobs
	rateWrite rateKind = true  // it publishes them
)

const defaultPool = tokens.DefaultPool

// guard decides which requests are served, and for whom. API embeds it.
type guard struct {
	settings Settings
	pools    map[string]*pool
	ring     *tokens.Ring
	log      *accessLog
	metrics  *metrics
	leaving  atomic.Bool     // no more requests are wanted: readyz says so
	drained  context.Context // ends when what waits is to end
	endWaits context.CancelFunc
	brief    brief // of v1
}

// newGuard returns the guard of an API, with a pool for the client and for each of the settings.
func newGuard(c *goworker.Client, s *Settings) (*guard, error) {
	g := &guard{settings: *s}
	g.brief.within = v1Within
	g.drained, g.endWaits = context.WithCancel(context.Background())
	if err := g.settings.check(); err != nil {
		return nil, err
	}
	var err error
	if g.pools, err = newPools(c, &g.settings); err != nil {
		return nil, err
	}
	home := g.pools[defaultPool]
	g.ring = tokens.NewRing(home.neighbor.Base, home.neighbor.Do, home.neighbor.Tracking)
	g.log = newAccessLog(home.neighbor.Log, !s.QuietAccess)
	g.metrics = newMetrics()
	return g, nil
}

// start begins to serve: it starts the pools and reads the tokens. Redis may be away.
func (g *guard) start(ctx context.Context) error {
	var started []*pool
	for _, p := range g.pools {
		if err := p.start(ctx); err != nil {
			for _, p := range started {
				p.stop(ctx)
			}
			return err
		}
		started = append(started, p)
	}
	g.ring.Start(ctx)
	return nil
}

// leave has readyz fail and answers say Connection: close.
func (g *guard) leave() { g.leaving.Store(true) }

// stopping reports whether the server is to get no more requests.
func (g *guard) stopping() bool { return g.leaving.Load() }

// drain ends what waits: consumers get the answer that there is no job.
func (g *guard) drain() {
	g.leave()
	g.endWaits()
	for _, p := range g.pools {
		p.gateway.Drain()
	}
}

// stop ends all waits and the pools.
func (g *guard) stop(ctx context.Context) {
	g.drain()
	done := make(chan struct{})
	for _, p := range g.pools {
		go func() { p.stop(ctx); done <- struct{}{} }()
	}
	for range g.pools {
		<-done
	}
	g.ring.Stop(ctx)
}

// ready returns why this server is to get no more requests; nil: it is to get them.
func (g *guard) ready(ctx context.Context) error {
	if g.stopping() {
		return errors.New("the server stops")
	}
	ctx, cancel := context.WithTimeout(ctx, part.ReplyWithin)
	defer cancel()
	for _, name := range slices.Sorted(maps.Keys(g.pools)) {
		p := g.pools[name]
		err := p.gateway.Healthy()
		if err == nil {
			err = p.neighbor.Do(ctx, func(_ resque.Store, c redis.Conn) error { _, err := c.Do("PING"); return err })
		}
		if err != nil {
			return fmt.Errorf("the pool %s: %w", name, err)
		}
	}
	return nil
}

// access is what a request may do: the answer of admit. The zero value may nothing.
type access struct {
	Namespace string
	Pool      *pool
	Token     string // the digest; "": the namespace is open, or a certificate stands for it

	settings Namespace
	token    *tokens.Token // nil likewise
	shown    string        // the first characters of the token as it was given
	about    *request      // nil: nothing is noted of the request
	guard    *guard
}

// admit decides whether a request may do what it asks for, to these queues of a namespace. The queues are named as requests
// name them.
func (g *guard) admit(r *http.Request, ns string, need scope, queues []string) (access, *refusal) {
	x := access{Namespace: ns, guard: g, settings: g.settings.Namespaces[ns], about: aboutRequest(r.Context())}
	if !v1Name(ns, "") {
		return access{}, refuseNamespace()
	}
	if refused := g.identify(r, &x, need); refused != nil {
		return access{}, refused
	}
	if len(ns) > v1MostName { // no token is of such a one: the server is open
		return access{}, refuseNamespace()
	}
	for _, q := range queues {
		if refused := x.sees(q); refused != nil {
			return access{}, refused
		}
	}
	if x.about != nil { // not before: a client may have put its token into the path
		x.about.namespace, x.about.queue = ns, strings.Join(queues, ",")
	}
	return x, nil
}

func refuseNamespace() *refusal {
	return refuse(http.StatusBadRequest, "invalid-parameter", "namespace name contains forbidden characters",
		"the namespace has other characters than letters, digits, - and _, or more than 255").with("parameter", "namespace")
}

// identify finds for whom a request is.
func (g *guard) identify(r *http.Request, x *access, need scope) *refusal {
	pool, token := tokens.Split(g.given(r))
	if x.Pool = g.pools[pool]; x.Pool == nil {
		return refuse(http.StatusNotFound, "no-pool", "pool not found", "the token names a pool that this server does not have")
	}
	switch {
	case g.settings.Open, token == "" && pool == defaultPool && g.certified(r, x.Namespace):
		return nil
	case token == "":
		return refuse(http.StatusUnauthorized, "no-token", "token not found",
			"the request has no token; send it as Authorization: Bearer, or as X-Token")
	case len(token) > tokens.MostToken:
		return refuseToken(tokens.ErrUnknown)
	}
	t, err := g.ring.Find(r.Context(), tokens.Digest(pool, x.Namespace, token))
	if err != nil {
		if errors.Is(err, tokens.ErrUnknown) {
			g.log.refused(r, "a request with a token that is not valid was refused")
		}
		return refuseToken(err)
	}
	x.token, x.Token, x.shown = t, t.Digest, token[:min(4, len(token))]
	if x.about != nil {
		x.about.token = tokens.Short(t.Digest)
	}
	record := t.Record()
	if !record.Permits(need) {
		return refuse(http.StatusForbidden, "forbidden", "forbidden", "the token lacks the scope %s", need&^record.Scope()).with("scope", (need &^ record.Scope()).String())
	}
	return nil
}

// sees returns why a request may not reach a queue; nil: it may.
func (x access) sees(queue string) *refusal {
	if x.token != nil && !x.token.Record().Sees(queue) {
		return refuse(http.StatusForbidden, "forbidden", "forbidden", "the token is not for the queue %s", queue).with("queue", queue)
	}
	if x.settings.Bare && (strings.Contains(queue, ".") && !slices.Contains(x.settings.Queues, queue) || queues.IsOwn(queue)) {
		return refuse(http.StatusForbidden, "forbidden", "forbidden",
			"the queue %s is of another namespace; the operator can add it to the queues of this one", queue).with("queue", queue)
	}
	return nil
}

// queue returns Resque's name of a queue of the namespace.
func (x access) queue(name string) string {
	if x.settings.Bare {
		return name
	}
	return x.Namespace + "." + name
}

// short returns the name that requests give to one of Resque's queues, and whether it is one that this request may reach.
func (x access) short(queue string) (name string, ok bool) {
	if name = queue; !x.settings.Bare {
		if name, ok = strings.CutPrefix(queue, x.Namespace+"."); !ok {
			return "", false
		}
	}
	return name, name != "" && x.sees(name) == nil
}

// class is the class of jobs that name none.
func (x access) class() string { return x.settings.Class }

// most is how many jobs may be ready in a queue; 0: no limit.
func (x access) most() int { return x.settings.MaxLength }

// gateway serves the request.
func (x *access) gateway() jobs { return &counted{jobs: x.Pool.jobs, x: x} }

// spend spends one request of the token's rate. The refund gives it back: of an empty consume, or of a publish that
// was refused. It may be called once or never.
func (x access) spend(ctx context.Context, kind rateKind) (refund func(), refused *refusal) {
	if x.token == nil {
		return noRefund, nil
	}
	limit, window := x.limit(kind)
	x.tellPolicy(kind, limit, window)
	ok, rest, give, err := x.token.Spend(ctx, kind == rateWrite, x.Pool.neighbor.Clock, x.Pool.neighbor.Do)
	switch {
	case err != nil:
		return nil, refuse(http.StatusServiceUnavailable, "redis-away", "internal error", "the rate of the token cannot be read from Redis now; try again").later(retrySoon)
	case !ok:
		what := "consume"
		if kind == rateWrite {
			what = "produce"
		}
		x.tellRest(kind, rest)
		x.guard.metrics.limited(x.Namespace, what)
		return nil, refuse(http.StatusTooManyRequests, "rate-limited",
			fmt.Sprintf("token(%s…) %s reach the limit rate, please retry later", x.shown, what),
			"the token's limit of requests that %s is reached; the window ends in %s", what, rest).later(max(rest, 1)).with("limit", limit)
	}
	return give, nil
}

func noRefund() {}

// wait begins a long poll. Its context ends with the request's, and when the token is revoked: then cut says so.
func (x access) wait(ctx context.Context) (waiting context.Context, done func(), refused *refusal) {
	return x.enter(ctx, false, x.guard.settings.Waiters, "requests that wait")
}

// listen begins a stream of events, as wait.
func (x access) listen(ctx context.Context) (listening context.Context, done func(), refused *refusal) {
	return x.enter(ctx, true, x.guard.settings.Listeners, "streams of events")
}

func (x access) enter(ctx context.Context, listener bool, most int, what string) (context.Context, func(), *refusal) {
	if x.token == nil {
		return ctx, func() {}, nil
	}
	leave, ok := x.token.Enter(listener, int64(most))
	if !ok {
		return nil, nil, refuse(http.StatusTooManyRequests, "rate-limited",
			fmt.Sprintf("token(%s…) has too many requests that wait, please retry later", x.shown),
			"the token has %d %s, which is the most; end some, or use another token", most, what).later(retrySoon).with("limit", most)
	}
	ctx, end := x.token.While(ctx)
	return ctx, func() { end(); leave() }, nil
}

// cut returns the refusal of a request whose token was revoked while it waited; nil: it was not.
func (x access) cut(ctx context.Context) *refusal {
	if errors.Is(context.Cause(ctx), tokens.ErrRevoked) {
		return refuseToken(tokens.ErrUnknown)
	}
	return nil
}
