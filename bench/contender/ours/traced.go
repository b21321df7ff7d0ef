package main

import (
	"context"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/tracing"
)

// trace has every run and every call traced and sampled. The spans go nowhere: what an exporter costs is the program's choice.
func trace() {
	provider := tracing.TracerProvider(sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()), sdk.WithSpanProcessor(nowhere{})))
	goworker.Default().Use(tracing.Middleware(provider))
	goworker.Default().UseEnqueue(tracing.Enqueue(provider))
}

// nowhere is a processor that drops all spans.
type nowhere struct{}

func (nowhere) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (nowhere) OnEnd(sdk.ReadOnlySpan)                     {}
func (nowhere) Shutdown(context.Context) error             { return nil }
func (nowhere) ForceFlush(context.Context) error           { return nil }
