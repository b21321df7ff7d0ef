package tracing_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/tracing"
)

// bundle is a daemon with traces in memory.
type bundle struct {
	*daemontest.Bundle
	spans    *tracetest.InMemoryExporter
	provider *sdk.TracerProvider
	client   *goworker.Client
}

// setup makes a daemon whose runs and calls are traced. The classes are to be registered before start.
func setup(t *testing.T, opts ...tracing.Option) *bundle {
	t.Helper()
	b := &bundle{spans: tracetest.NewInMemoryExporter()}
	b.provider = sdk.NewTracerProvider(sdk.WithSyncer(b.spans), sdk.WithSampler(sdk.AlwaysSample()))
	b.Bundle = daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.QueuesString = "work,mail,shop.orders"
		s.Logger = slog.New(tracing.LogHandler(s.Logger.Handler()))
	})
	opts = append([]tracing.Option{tracing.TracerProvider(b.provider)}, opts...)
	b.Daemon.Use(tracing.Middleware(opts...))
	b.Daemon.UseEnqueue(tracing.Enqueue(opts...))
	b.client = b.Daemon.Client()
	return b
}

// span waits for the only span that has ended and for which this holds.
func (b *bundle) span(what string, is func(s *tracetest.SpanStub) bool) (found tracetest.SpanStub) {
	b.T.Helper()
	all := b.all(what, 1, is)
	if len(all) > 1 {
		b.T.Fatalf("%s: %d spans", what, len(all))
	}
	return all[0]
}

// all waits for so many spans.
func (b *bundle) all(what string, n int, is func(s *tracetest.SpanStub) bool) (found []tracetest.SpanStub) {
	b.T.Helper()
	b.Reaches(what, n, func() int {
		found = nil
		for _, s := range b.spans.GetSpans() {
			if is(&s) {
				found = append(found, s)
			}
		}
		return len(found)
	})
	return found
}

// run returns the span of a run of a class.
func (b *bundle) run(class string, attempt int) tracetest.SpanStub {
	b.T.Helper()
	return b.span(fmt.Sprintf("run %d of %s", attempt, class), func(s *tracetest.SpanStub) bool {
		return s.SpanKind == trace.SpanKindConsumer && value(s, "goworker.class") == class && value(s, "goworker.attempt") == fmt.Sprint(attempt)
	})
}

// send returns the span that enqueued a class.
func (b *bundle) send(class string) tracetest.SpanStub {
	b.T.Helper()
	return b.span("the send of "+class, func(s *tracetest.SpanStub) bool {
		return s.SpanKind == trace.SpanKindProducer && value(s, "goworker.class") == class
	})
}

type stub = tracetest.SpanStub

// value returns an attribute as text, "" if there is none.
func value(s *tracetest.SpanStub, key string) string { return valueOf(s.Attributes, key) }

func valueOf(all []attribute.KeyValue, key string) string {
	for _, a := range all {
		if string(a.Key) == key {
			return a.Value.Emit()
		}
	}
	return ""
}

// links are what a span links to, as "<what> <name of the span>", sorted.
func (b *bundle) links(s *tracetest.SpanStub) (all []string) {
	b.T.Helper()
	names := make(map[trace.SpanID]string)
	for _, of := range b.spans.GetSpans() {
		name := value(&of, "goworker.class")
		if of.SpanKind == trace.SpanKindConsumer {
			name = fmt.Sprintf("%s#%s", name, value(&of, "goworker.attempt"))
		}
		names[of.SpanContext.SpanID()] = name
	}
	for _, l := range s.Links {
		name, known := names[l.SpanContext.SpanID()]
		if !known {
			name = l.SpanContext.SpanID().String()
		}
		all = append(all, strings.TrimSpace(valueOf(l.Attributes, "goworker.link")+" "+name))
	}
	slices.Sort(all)
	return all
}

// linked expects the links of a span.
func (b *bundle) linked(s tracetest.SpanStub, want ...string) {
	b.T.Helper()
	slices.Sort(want)
	if got := b.links(&s); !slices.Equal(got, want) {
		b.T.Errorf("%s of %s links to %q, want %q", s.Name, value(&s, "goworker.class"), got, want)
	}
}

// has expects attributes of a span, given as names and texts. The text "" is none.
func (b *bundle) has(s tracetest.SpanStub, pairs ...string) {
	b.T.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := value(&s, pairs[i]); got != pairs[i+1] {
			b.T.Errorf("%s of %s: %s is %q, want %q", s.Name, value(&s, "goworker.class"), pairs[i], got, pairs[i+1])
		}
	}
}

// enqueue enqueues jobs.
func (b *bundle) enqueue(ctx context.Context, job *goworker.Job, opts ...goworker.EnqueueOption) string {
	b.T.Helper()
	r, err := b.client.Enqueue(ctx, job, opts...)
	if err != nil {
		b.T.Fatal(err)
	}
	return r.ID
}

// once returns a function that is true the first time.
func once() func() bool {
	var o sync.Once
	return func() (first bool) { o.Do(func() { first = true }); return first }
}
