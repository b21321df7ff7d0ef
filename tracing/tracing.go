// Package tracing puts jobs into the traces of OpenTelemetry: a span where a program enqueues, a span for each run, and links between
// them, whether Go, Ruby or an HTTP client enqueued the job.
//
//	daemon.Use(tracing.Middleware())
//	daemon.UseEnqueue(tracing.Enqueue())
//
// The spans go to the program's TracerProvider; this package needs no SDK. A job carries its trace as W3C texts in its metadata
// (goworker.WithMeta): traceparent, tracestate and, if Baggage is given, baggage. Jobs that pass neither Enqueue nor WithTrace carry
// nothing, and their bytes are what they were.
//
// What a handler enqueues with its context continues the trace by itself. A run has a trace of its own, with links to what led to it: what
// enqueued it, its first run and the one before, and the steps of its workflow that it follows. With Parent it is in the trace of what
// enqueued it.
package tracing

import (
	"context"
	"net"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/goworker/goworker"
)

// Name is the name of the package's tracer, the instrumentation scope of its spans.
const Name = "github.com/goworker/goworker/tracing"

// System is the value of the attribute messaging.system.
const System = "resque"

// Option is a setting of Middleware, Enqueue, WithTrace and Meta. An option that one of them has no use for does nothing there.
type Option func(*config)

// TracerProvider has spans go to a provider. Without it that is the global one of OpenTelemetry, which may be set later.
func TracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.provider = p } }

// Parent makes the span of a run a child of the span that enqueued the job, in its trace. Without it the run has a trace of its own that
// links there: a job may wait for days, a request may enqueue thousands, and a trace of all of them is hard to read and to sample.
func Parent() Option { return func(c *config) { c.parent = true } }

// Baggage has jobs carry the baggage of OpenTelemetry, and handlers find it in their contexts. It is in Redis for all to read, and goes to
// whatever the handler calls. It has room as metadata has: goworker.MaxMetaBytes.
func Baggage() Option { return func(c *config) { c.baggage = true } }

// Server names the Redis in the attributes server.address and server.port: its host and port, or the path of its socket. Without it runs
// name the one of the daemon's URI, unless Sentinel or Cluster choose it, and spans of Enqueue name none.
func Server(address string) Option { return func(c *config) { c.server = address } }

// config is what the options say.
type config struct {
	provider trace.TracerProvider
	parent   bool
	baggage  bool
	server   string
}

func configOf(opts []Option) *config {
	c := new(config)
	for _, o := range opts {
		o(c)
	}
	return c
}

// tracer returns the tracer for all spans. The global provider's changes with that.
func (c *config) tracer() trace.Tracer {
	p := c.provider
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return p.Tracer(Name, trace.WithSchemaURL(schema))
}

// inject returns what a job carries of a context; nil: nothing.
func (c *config) inject(ctx context.Context) propagation.MapCarrier {
	carrier := make(propagation.MapCarrier, 2)
	propagation.TraceContext{}.Inject(ctx, carrier)
	if c.baggage {
		propagation.Baggage{}.Inject(ctx, carrier)
	}
	if len(carrier) == 0 {
		return nil
	}
	return carrier
}

// WithTrace gives one job the trace of a context, without a span of its own. Programs with Enqueue need it not. Where the job has no
// place for it, as in resque-scheduler's schedule, the job goes without.
func WithTrace(ctx context.Context, opts ...Option) goworker.EnqueueOption {
	return goworker.WithTrace(configOf(opts).inject(ctx))
}

// Meta returns the trace of a context as metadata of a job: for a client in another process, such as httpclient's. It is nil if the context
// has none.
func Meta(ctx context.Context, opts ...Option) map[string]string { return configOf(opts).inject(ctx) }

// FromMeta returns a context with the trace that a job carries, as the remote parent of what is started with it: for a consumer over HTTP, which
// no Middleware serves. Metadata without a trace changes nothing.
func FromMeta(ctx context.Context, meta map[string]string, opts ...Option) context.Context {
	if len(meta) == 0 {
		return ctx
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(meta))
	if configOf(opts).baggage {
		ctx = propagation.Baggage{}.Extract(ctx, propagation.MapCarrier(meta))
	}
	return ctx
}

// spanOf returns the span that a traceparent names; "": none.
func spanOf(traceparent, state string) (none trace.SpanContext) {
	if traceparent == "" {
		return none
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent, "tracestate": state})
	return trace.SpanContextFromContext(ctx)
}

// serverOf returns the attributes of an address.
func serverOf(address string) []attribute.KeyValue {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return []attribute.KeyValue{serverAddress.String(address)}
	}
	all := []attribute.KeyValue{serverAddress.String(host)}
	if n, err := strconv.Atoi(port); err == nil {
		all = append(all, serverPort.Int(n))
	}
	return all
}
