package tracing

import (
	"context"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/goworker/goworker"
	runs "github.com/goworker/goworker/internal/feature/trace"
	"github.com/goworker/goworker/internal/payload"
)

// Middleware returns middleware for Use: each run of a handler has a span "process <queue>", in which its context is. It ends when it is
// decided what becomes of the job, and says so: the attribute goworker.outcome, and for errors the status, error.type and the
// exception. Put it before other middleware, so that their spans are within it.
//
// A job that runs again, and what follows a step of a workflow, link to this run if its span is sampled. For that the payload of the
// next run gets the metadata traceparent.first and traceparent.last, unless resque-scheduler's schedule has it.
func Middleware(opts ...Option) goworker.Middleware {
	m := &middleware{config: configOf(opts)}
	m.tracer = m.config.tracer()
	return func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error { return m.perform(ctx, d, next) })
	}
}

// middleware makes the spans of runs. It is safe for concurrent use.
type middleware struct {
	*config
	tracer trace.Tracer
	kinds  sync.Map // of runs: a *kind each
	count  atomic.Int64
}

func (m *middleware) perform(ctx context.Context, d *goworker.Delivery, next goworker.Handler) error {
	run := runs.Begin(ctx)
	ctx, span := m.start(ctx, d, run)
	if run == nil {
		return alone(ctx, d, next, span)
	}
	run.Follow(ctx, &follower{span, d})
	return next.Perform(ctx, d)
}

// follower is the span of a run.
type follower struct {
	span trace.Span
	run  *goworker.Delivery
}

// Traceparent is the span's text of W3C; "": it is not sampled, so nobody can find it.
func (f *follower) Traceparent() string {
	sc := f.span.SpanContext()
	if !sc.IsSampled() {
		return ""
	}
	return traceparent(sc)
}

func (f *follower) End(e runs.End) {
	defer f.span.End()
	if f.span.IsRecording() {
		end(f.span, f.run, e)
	}
}

// alone runs a handler without a daemon, or in the child process of an isolated job: what becomes of the job is known only if it is done.
func alone(ctx context.Context, d *goworker.Delivery, next goworker.Handler, span trace.Span) (err error) {
	defer span.End()
	defer func() {
		v := recover()
		switch {
		case v != nil:
			end(span, d, runs.End{Err: &goworker.PanicError{Value: v, Stack: debug.Stack()}, Exception: "PanicError"})
			panic(v)
		case err != nil:
			end(span, d, runs.End{Err: err, Exception: typeOf(err)})
		default:
			end(span, d, runs.End{State: "done"})
		}
	}()
	return next.Perform(ctx, d)
}

// mostKinds bounds the kinds that are kept. Queues and classes come from Redis, so there may be any number of them.
const mostKinds = 1000

// kind is what the spans of a queue and a class have in common.
type kind struct {
	name  string
	attrs trace.SpanStartOption
}

type kindKey struct{ queue, class, server string }

func (m *middleware) kind(d *goworker.Delivery, server string) *kind {
	key := kindKey{d.Queue, d.Class, server}
	if k, has := m.kinds.Load(key); has {
		return k.(*kind)
	}
	attrs := []attribute.KeyValue{
		messagingSystem.String(System), operationName.String("process"), operationType.String("process"), destination.String(d.Queue), class.String(d.Class),
	}
	k := &kind{"process " + d.Queue, trace.WithAttributes(append(attrs, serverOf(server)...)...)}
	if m.count.Load() < mostKinds {
		if _, had := m.kinds.LoadOrStore(key, k); !had {
			m.count.Add(1)
		}
	}
	return k
}

var (
	consumer = trace.WithSpanKind(trace.SpanKindConsumer)
	newRoot  = trace.WithNewRoot()
)

// start starts the span of a run.
func (m *middleware) start(ctx context.Context, d *goworker.Delivery, run *runs.Run) (context.Context, trace.Span) {
	server := m.server
	if server == "" && run != nil {
		server = run.Server()
	}
	k := m.kind(d, server)
	opts := append(make([]trace.SpanStartOption, 0, 4), consumer, k.attrs)
	job := run.Payload(d.Raw)
	carried := runs.Carried(d.Meta, job)
	enqueued := spanOf(carried[runs.Traceparent], carried[runs.Tracestate])
	if m.baggage && carried[runs.Baggage] != "" {
		ctx = propagation.Baggage{}.Extract(ctx, propagation.MapCarrier(carried))
	}
	if m.parent && enqueued.IsValid() {
		ctx, enqueued = trace.ContextWithRemoteSpanContext(ctx, enqueued), trace.SpanContext{}
	} else {
		opts = append(opts, newRoot)
	}
	if links := linksOf(d, job, enqueued); len(links) > 0 {
		opts = append(opts, trace.WithLinks(links...))
	}
	return m.tracer.Start(ctx, k.name, opts...)
}

// linksOf returns the links of a run to what led to it: to what enqueued it, unless that is its parent.
func linksOf(d *goworker.Delivery, p *payload.Payload, enqueued trace.SpanContext) (links []trace.Link) {
	add := func(sc trace.SpanContext, what string) {
		if sc.IsValid() {
			links = append(links, trace.Link{SpanContext: sc, Attributes: []attribute.KeyValue{linkOf.String(what)}})
		}
	}
	add(enqueued, linkEnqueued)
	if first := d.Meta[runs.FirstRun]; first != "" {
		add(spanOf(first, ""), linkFirst)
	}
	if last := d.Meta[runs.LastRun]; last != "" {
		add(spanOf(last, ""), linkPrevious)
	}
	if d.Workflow != nil {
		for one := range strings.SplitSeq(runs.After(p), ",") {
			if one != "" {
				add(spanOf(one, ""), linkFollows)
			}
		}
	}
	return links
}

// traceparent is the text of W3C of a span.
func traceparent(sc trace.SpanContext) string {
	flags := sc.TraceFlags() & trace.FlagsSampled
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + flags.String()
}

// end describes a run and says what became of it, at once: each further call would copy the attributes of the span.
func end(span trace.Span, d *goworker.Delivery, e runs.End) {
	attrs := append(make([]attribute.KeyValue, 0, 6), attempt.Int(d.Attempt))
	if d.ID != "" {
		attrs = append(attrs, messageID.String(d.ID))
	}
	if d.Worker != "" {
		attrs = append(attrs, clientID.String(d.Worker))
	}
	if d.Recovered > 0 {
		attrs = append(attrs, recovered.Int(d.Recovered))
	}
	if d.Workflow != nil {
		attrs = append(attrs, workflowID.String(d.Workflow.ID), workflowStep.Int(d.Workflow.Step))
	}
	if e.State != "" {
		attrs = append(attrs, outcomeOf.String(e.State))
	}
	if !e.At.IsZero() {
		attrs = append(attrs, nextRun.String(e.At.UTC().Format(time.RFC3339Nano)))
	}
	if e.Failure != "" {
		attrs = append(attrs, failureID.String(e.Failure))
	}
	if e.Err != nil && isError(e.State) {
		attrs = append(attrs, errorType.String(e.Exception))
		failed(span, e.Exception, e.Err)
	}
	span.SetAttributes(attrs...)
}

// isError reports whether a run with such an end has failed. Snoozed, returned and cancelled ones were meant to end so.
func isError(state string) bool {
	switch state {
	case "failed", "retried", "discarded", "": // the last one is not known
		return true
	}
	return false
}
