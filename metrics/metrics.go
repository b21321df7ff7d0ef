// Package metrics shows to Prometheus what a process of goworker counts, and how its fleet is.
//
//	mux.Handle("/metrics", metrics.Handler(d))
//
// A scrape reads counters that are there anyway. No job calls Prometheus, and a scrape of a process asks Redis nothing. Fleet adds what
// only Redis knows; one process in the fleet has it, or the command goworker exporter.
//
// The names of queues and classes are bounded: see MostQueues. No process, worker, id, error text or key is ever a label.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/webhook"
)

// Daemon is what is measured: a *goworker.Daemon or *goworker.Shards.
type Daemon interface {
	Inspects
	Stats() goworker.Stats
	Health() goworker.Health
	StuckJobs() []goworker.StuckJob
	PartStates() []goworker.PartState
	Measured(func(neighbor.Measured))
}

// Client is a *goworker.Client of a program that only enqueues.
type Client interface {
	Inspects
	Measured(func(neighbor.Measured))
}

// Inspects is a *goworker.Daemon, *goworker.Shards or *goworker.Client.
type Inspects interface{ Inspect() *inspect.Inspector }

// An Option adds to what a Handler shows.
type Option func(*options)

type options struct {
	registry  *prometheus.Registry
	gatherers prometheus.Gatherers
	process   *process
	of        Inspects
}

// Fleet adds the metrics of the whole fleet, from Redis. One process of the fleet has it, or an Exporter: each of them would
// show the same numbers. A look costs three round trips, at most one each second however many scrape.
func Fleet() Option { return func(o *options) { o.registry.MustRegister(newFleet(o.of)) } }

// Runtime adds the metrics of Go and of the process, go_… and process_….
func Runtime() Option {
	return func(o *options) {
		o.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
}

// Webhook adds what a Deliverer has done. name is that of the webhook.
func Webhook(name string, d interface{ Stats() webhook.Stats }) Option {
	return func(o *options) { o.process.webhooks = append(o.process.webhooks, hook{name, d}) }
}

// Also adds what g gathers, such as the metrics of the program's own, or those of an HTTP API: see HTTP.
func Also(g prometheus.Gatherer) Option {
	return func(o *options) { o.gatherers = append(o.gatherers, g) }
}

// Handler returns a handler that shows the metrics of a daemon, whatever the path. It has a registry of its own, and shows them as text,
// as OpenMetrics or, to a Prometheus that asks for native histograms, as protocol buffers.
func Handler(d Daemon, opts ...Option) http.Handler { return handler(Gatherer(d, opts...)) }

// ClientHandler is Handler for a program that only enqueues.
func ClientHandler(c Client, opts ...Option) http.Handler {
	return handler(gatherer(&process{measured: c.Measured}, c, opts))
}

// Gatherer is what a Handler shows, for a program that has a handler of its own.
func Gatherer(d Daemon, opts ...Option) prometheus.Gatherer {
	return gatherer(&process{daemon: d, measured: d.Measured}, d, opts)
}

func gatherer(p *process, of Inspects, opts []Option) prometheus.Gatherer {
	o := &options{registry: prometheus.NewPedanticRegistry(), process: p, of: of}
	o.gatherers = prometheus.Gatherers{o.registry}
	for _, option := range opts {
		option(o)
	}
	o.registry.MustRegister(p)
	if len(o.gatherers) == 1 {
		return o.registry
	}
	return o.gatherers
}

// What scrapes may take of a process.
const (
	mostScrapes  = 8 // at a time; further ones get 503
	scrapeWithin = 10 * time.Second
)

func handler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: mostScrapes, Timeout: scrapeWithin, EnableOpenMetrics: true,
	})
}
