package httpapi

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/gateway"
)

// Stats are the numbers of an API since it was made.
type Stats struct {
	Requests    int64 // that were answered
	InFlight    int64 // requests under way, those that wait too
	Connections int64 // open ones of a Server
	Limited     int64 // requests that a token's rate refused
	Tokens      int   // valid ones

	// Pools are those of the settings and "default".
	Pools map[string]PoolStats
}

// PoolStats are the numbers of one pool.
type PoolStats struct {
	Waiters   int   // consumers that wait for a job
	Turns     int64 // exchanges with Redis
	Published int64 // jobs
	Reserved  int64 // jobs that were given to consumers
	Acked     int64
	Returned  int64 // jobs that went back: their lease ran out, or their consumer did not want them
	Dead      int64 // dead letters that this server has filed
	Expired   int64 // jobs that were not taken in time

	AwaySince time.Time // since when Redis does not answer; zero: it does
}

// Stats returns the numbers of this API.
func (a *API) Stats() Stats {
	m := a.metrics
	s := Stats{
		Requests: m.requests.sum(), InFlight: m.inFlight.Load(), Connections: m.connections.Load(), Limited: m.refused.sum(),
		Tokens: len(a.ring.Tokens()), Pools: make(map[string]PoolStats, len(a.pools)),
	}
	for name, p := range a.pools {
		g := p.gateway.Stats()
		s.Pools[name] = PoolStats{
			Waiters: g.Waiters, Turns: g.Turns, Published: g.Published, Reserved: g.Reserved, Acked: g.Acked,
			Returned: g.Released + g.Retried + g.RanOut, Dead: g.Filed, Expired: g.Expired, AwaySince: g.AwaySince,
		}
	}
	return s
}

// metrics counts what is asked for.
type metrics struct {
	inFlight, connections atomic.Int64

	requests counters   // by route and code
	took     histograms // by route
	refused  counters   // by namespace and what: requests that a rate refused

	published, reserved, acked counters // jobs by namespace and queue
	waited, ended              histogram

	mu     sync.RWMutex
	named  map[string]bool      // namespaces that have a label of their own
	queues map[string]*ofQueue  // by Resque's name; "" is all beyond mostQueues
	routes map[ofCode]*ofAnswer // what answers of one code of a route count
}

// ofQueue are the counts of a queue's jobs.
type ofQueue struct{ published, reserved, acked *atomic.Int64 }

// ofCode names answers.
type ofCode struct {
	route  string
	status int
}

// ofAnswer is where an answer is counted.
type ofAnswer struct {
	count *atomic.Int64
	took  *histogram
}

func newMetrics() *metrics {
	return &metrics{named: make(map[string]bool), queues: make(map[string]*ofQueue), routes: make(map[ofCode]*ofAnswer)}
}

// end counts the end of a request: the pattern of its route, its status and its time.
func (m *metrics) end(pattern string, status int, took time.Duration) {
	m.inFlight.Add(-1)
	a := m.answer(ofCode{routeName(pattern), status})
	a.count.Add(1)
	a.took.see(took)
}

func (m *metrics) answer(of ofCode) *ofAnswer {
	m.mu.RLock()
	a := m.routes[of]
	m.mu.RUnlock()
	if a == nil {
		a = &ofAnswer{m.requests.of(labels("route", of.route, "code", strconv.Itoa(of.status))), m.took.of(labels("route", of.route))}
		m.mu.Lock()
		m.routes[of] = a
		m.mu.Unlock()
	}
	return a
}

// queue returns the counts of one of Resque's queues. The first so many have labels of their own.
func (m *metrics) queue(x *access, queue string) *ofQueue {
	m.mu.RLock()
	q := m.queues[queue]
	if q == nil && len(m.queues) > mostQueues {
		q = m.queues[""]
	}
	m.mu.RUnlock()
	if q != nil {
		return q
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name, ns := strings.TrimPrefix(queue, x.Namespace+"."), x.Namespace
	if x.settings.Bare {
		name = queue
	}
	if len(m.queues) >= mostQueues {
		queue, name, ns = "", otherQueues, otherQueues
	}
	of := labels("ns", ns, "queue", name)
	q = &ofQueue{m.published.of(of), m.reserved.of(of), m.acked.of(of)}
	m.queues[queue] = q
	return q
}

// limited counts a request that its token's rate refused.
func (m *metrics) limited(namespace, what string) {
	m.refused.of(labels("ns", m.label(namespace), "what", what)).Add(1)
}

// label returns a namespace, or "other" if as many as may be have been seen.
func (m *metrics) label(namespace string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.named[namespace] {
		if len(m.named) >= mostQueues {
			return otherQueues
		}
		m.named[namespace] = true
	}
	return namespace
}

const (
	lookEvery  = 10 * time.Second // how old the numbers of the queues may be
	lookWithin = 2 * time.Second
)

// census is what the queues of a pool had when they were last looked at.
type census struct {
	mu     sync.Mutex
	at     time.Time
	queues []string
	sizes  []gateway.Sizes
	now    int64 // Redis's time, in ms
}

// look returns the numbers of the queues of a pool, at most so many of them. They are at most ten seconds old, or of the last time
// that Redis answered.
func (c *census) look(ctx context.Context, p *pool) (queues []string, sizes []gateway.Sizes, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) >= lookEvery {
		ctx, cancel := context.WithTimeout(ctx, lookWithin)
		defer cancel()
		c.at = time.Now()
		names, err := p.gateway.Queues(ctx)
		if err == nil {
			names = names[:min(len(names), mostQueues)]
			var sizes []gateway.Sizes
			if sizes, err = p.gateway.Sizes(ctx, names...); err == nil && len(sizes) == len(names) {
				p.backlog.fill(ctx, names, sizes)
				c.queues, c.sizes, c.now = names, sizes, p.gateway.Now()
			}
		}
	}
	return c.queues, c.sizes, c.now
}

// write writes all metrics in the text format.
func (g *guard) write(ctx context.Context, w io.Writer) error {
	p, m := newPage(w), g.metrics
	p.counters("goworker_http_requests_total", "Requests that were answered.", &m.requests)
	p.histograms("goworker_http_request_seconds", "How long requests took, long polls included.", &m.took)
	p.value("goworker_http_in_flight", "gauge", "Requests under way.", "", float64(m.inFlight.Load()))
	p.value("goworker_http_connections", "gauge", "Open connections of clients.", "", float64(m.connections.Load()))
	p.value("goworker_http_tokens", "gauge", "Valid tokens.", "", float64(len(g.ring.Tokens())))
	p.counters("goworker_http_rate_limited_total", "Requests that the rate of a token refused.", &m.refused)
	p.counters("goworker_http_published_total", "Jobs that were published.", &m.published)
	p.counters("goworker_http_reserved_total", "Jobs that were given to consumers.", &m.reserved)
	p.counters("goworker_http_acked_total", "Jobs that were acknowledged.", &m.acked)
	p.histogram("goworker_http_wait_seconds", "From when a job was due until its first consumer had it, by its id.", "", &m.waited, time.Second)
	p.histogram("goworker_http_ack_seconds", "From when a job was due until it was acknowledged, by its id.", "", &m.ended, time.Second)
	names := slices.Sorted(maps.Keys(g.pools))
	for _, row := range []struct {
		name, kind, help, more string
		value                  func(gateway.Stats) float64
	}{
		{"waiters", "gauge", "Consumers that wait for a job.", "", func(s gateway.Stats) float64 { return float64(s.Waiters) }},
		{"turns_total", "counter", "Exchanges with Redis.", "", func(s gateway.Stats) float64 { return float64(s.Turns) }},
		{"turns_lost_total", "counter", "Exchanges whose answer did not come.", "", func(s gateway.Stats) float64 { return float64(s.Lost) }},
		{"returned_total", "counter", "Jobs that went back to their queues.", "released", func(s gateway.Stats) float64 { return float64(s.Released) }},
		{"returned_total", "counter", "", "nacked", func(s gateway.Stats) float64 { return float64(s.Retried) }},
		{"returned_total", "counter", "", "ttr", func(s gateway.Stats) float64 { return float64(s.RanOut) }},
		{"dead_total", "counter", "Dead letters that this server has filed.", "", func(s gateway.Stats) float64 { return float64(s.Filed) }},
		{"expired_total", "counter", "Jobs that were found expired when they were taken.", "", func(s gateway.Stats) float64 { return float64(s.Expired) }},
		{"redis_up", "gauge", "Whether Redis answers.", "", func(s gateway.Stats) float64 {
			if s.AwaySince.IsZero() {
				return 1
			}
			return 0
		}},
	} {
		for _, name := range names {
			of := labels("pool", name)
			if row.more != "" {
				of = labels("pool", name, "why", row.more)
			}
			p.value("goworker_http_"+row.name, row.kind, row.help, of, row.value(g.pools[name].gateway.Stats()))
		}
	}
	g.writeQueues(ctx, p, names)
	if g.settings.LmstfyMetrics {
		g.writeLmstfy(p, names)
	}
	return p.Flush()
}

// writeQueues writes what scales consumers.
func (g *guard) writeQueues(ctx context.Context, p *page, names []string) {
	for _, name := range names { // all are looked at before the first line, since the lines of a metric belong together
		g.pools[name].census.look(ctx, g.pools[name])
	}
	for _, row := range []struct {
		name, help string
		value      func(s *gateway.Sizes, now int64) (float64, bool)
	}{
		{"goworker_queue_ready", "Jobs that wait in the queue.", func(s *gateway.Sizes, _ int64) (float64, bool) { return float64(s.Ready), true }},
		{"goworker_queue_delayed", "Jobs of the queue that are not due yet, as of the last count.", func(s *gateway.Sizes, _ int64) (float64, bool) { return float64(s.Delayed), s.AsOf > 0 }},
		{"goworker_queue_reserved", "Jobs of the queue that consumers have.", func(s *gateway.Sizes, _ int64) (float64, bool) { return float64(s.Reserved), true }},
		{"goworker_queue_dead", "Dead letters of the queue.", func(s *gateway.Sizes, _ int64) (float64, bool) { return float64(s.Dead), true }},
		{"goworker_queue_oldest_seconds", "How long the first job of the queue has been due.", func(s *gateway.Sizes, now int64) (float64, bool) {
			return float64(max(now-s.OldestReadyMs, 0)) / 1000, s.OldestReadyMs > 0 && s.Ready > 0
		}},
	} {
		for _, name := range names {
			queues, sizes, now := g.pools[name].census.look(ctx, g.pools[name])
			for i, q := range queues {
				if v, ok := row.value(&sizes[i], now); ok {
					p.value(row.name, "gauge", row.help, labels("pool", name, "queue", q), v)
				}
			}
		}
	}
}

// writeLmstfy writes what dashboards for lmstfy read, under its names.
func (g *guard) writeLmstfy(p *page, names []string) {
	p.counters("infra_lmstfy_http_http_codes", "Requests that were answered.", &g.metrics.requests)
	p.counters("infra_lmstfy_http_rate_limit", "Requests that the rate of a token refused.", &g.metrics.refused)
	g.metrics.took.mu.RLock()
	for _, of := range slices.Sorted(maps.Keys(g.metrics.took.all)) {
		p.histogram("infra_lmstfy_http_latency_milliseconds", "How long requests took.", of, g.metrics.took.all[of], time.Millisecond)
	}
	g.metrics.took.mu.RUnlock()
	p.counters("infra_lmstfy_redis_publish_queue_jobs", "Jobs that were published.", &g.metrics.published)
	p.counters("infra_lmstfy_redis_consume_queue_jobs", "Jobs that were given to consumers.", &g.metrics.reserved)
	p.histogram("infra_lmstfy_redis_job_elapsed_ms", "From when a job was due until a consumer had it.", "", &g.metrics.waited, time.Millisecond)
	p.histogram("infra_lmstfy_redis_job_ack_elapsed_ms", "From when a job was due until it was acknowledged.", "", &g.metrics.ended, time.Millisecond)
	for _, row := range []struct {
		name  string
		value func(gateway.Stats) int64
	}{
		{"publish_jobs", func(s gateway.Stats) int64 { return s.Published }},
		{"consume_jobs", func(s gateway.Stats) int64 { return s.Reserved }},
		{"pool_delete_jobs", func(s gateway.Stats) int64 { return s.Acked }},
		{"blocking_connections", func(s gateway.Stats) int64 { return int64(s.Waiters) }},
	} {
		for _, name := range names {
			kind := "counter"
			if row.name == "blocking_connections" {
				kind = "gauge"
			}
			p.value("infra_lmstfy_redis_"+row.name, kind, "As of lmstfy.", labels("pool", name), float64(row.value(g.pools[name].gateway.Stats())))
		}
	}
	for _, row := range []struct {
		name  string
		value func(*gateway.Sizes) int
	}{
		{"queue_sizes", func(s *gateway.Sizes) int { return s.Ready }},
		{"deadletter_sizes", func(s *gateway.Sizes) int { return s.Dead }},
	} {
		for _, name := range names {
			queues, sizes, _ := g.pools[name].census.look(context.Background(), g.pools[name])
			for i, q := range queues {
				namespace, queue := lmstfyName(q)
				p.value("infra_lmstfy_redis_"+row.name, "gauge", "As of lmstfy.", labels("pool", name, "namespace", namespace, "queue", queue), float64(row.value(&sizes[i])))
			}
		}
	}
}

// lmstfyName returns the namespace and the queue of one of Resque's queues.
func lmstfyName(queue string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(queue, "."); ok {
		return namespace, name
	}
	return "", queue
}

func hasDot(queue string) bool { return strings.Contains(queue, ".") }
