package tracing_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/goworker/goworker"
	runs "github.com/goworker/goworker/internal/feature/trace"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/tracing"
)

type nowhere struct{}

func (nowhere) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (nowhere) OnEnd(sdk.ReadOnlySpan)                     {}
func (nowhere) Shutdown(context.Context) error             { return nil }
func (nowhere) ForceFlush(context.Context) error           { return nil }

type classes struct {
	outcome.Classes
	class outcome.Class
}

func (c *classes) Class(string) *outcome.Class { return &c.class }

// BenchmarkRun is a job with a handler that does nothing: without traces, with a span that goes nowhere, and what OpenTelemetry's SDK takes
// alone for a span with as many attributes.
func BenchmarkRun(b *testing.B) {
	s := outcome.New(outcome.Deps{Settings: outcome.Settings{MaxPayload: 1 << 20}}, &classes{class: outcome.Class{Name: "Noop"}}, runs.New)
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(nowhere{}))
	bare := goworker.HandlerFunc(func(context.Context, *goworker.Delivery) error { return nil })
	perform := func(b *testing.B, h goworker.Handler, payload string) {
		b.ReportAllocs()
		for b.Loop() {
			j, o := new(outcome.Job), new(outcome.Outcome)
			j.Payload = []byte(payload)
			s.Run(b.Context(), j, func(ctx context.Context, j *outcome.Job) error {
				d := &goworker.Delivery{Queue: "work", Class: "Noop", Attempt: 1, Worker: "host:1-1:work", ID: j.ID}
				return h.Perform(ctx, d)
			}, o)
		}
	}
	const plain = `{"class":"Noop","args":[]}`
	b.Run("off", func(b *testing.B) { perform(b, bare, plain) })
	b.Run("on", func(b *testing.B) {
		perform(b, tracing.Middleware(tracing.TracerProvider(provider))(bare), plain)
	})
	b.Run("sdk", func(b *testing.B) {
		t := provider.Tracer("x")
		kind := trace.WithAttributes(attribute.String("a", "resque"), attribute.String("b", "process"), attribute.String("c", "process"),
			attribute.String("d", "work"), attribute.String("e", "Noop"))
		b.ReportAllocs()
		for b.Loop() {
			_, span := t.Start(b.Context(), "process work", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), kind)
			span.SetAttributes(attribute.Int("f", 1), attribute.String("g", "host:1-1:work"), attribute.String("h", "done"))
			span.End()
		}
	})
}
