package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/tracing"
)

// A job that enqueues another one with its context, which fails once and is retried, is one trace from the request to the end.
func Example() {
	spans := tracetest.NewInMemoryExporter() // a program sends them to its collector
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	opts := []tracing.Option{tracing.TracerProvider(provider), tracing.Parent()}

	d := goworker.New(goworker.WorkerSettings{
		URI: "embedded:", QueuesString: "orders,mail", Concurrency: 1, ExitOnComplete: true, Logger: slog.New(slog.DiscardHandler),
	})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open) // only for the Redis of this example
	d.Use(tracing.Middleware(opts...))
	d.UseEnqueue(tracing.Enqueue(opts...))
	d.Register("Order", func(ctx context.Context, id int) error {
		_, err := d.Client().Enqueue(ctx, goworker.NewJob("mail", "Confirm", id))
		return err
	})
	tries := 0
	d.Register("Confirm", func(id int) error {
		if tries++; tries == 1 {
			return errors.New("no route to the mail server")
		}
		return nil
	}, goworker.Retry(5, goworker.Delays{0}))

	ctx, request := provider.Tracer("shop").Start(context.Background(), "POST /orders")
	if _, err := d.Client().Enqueue(ctx, goworker.NewJob("orders", "Order", 7)); err != nil {
		fmt.Println(err)
		return
	}
	request.End()
	if err := d.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range spans.GetSpans() {
		if s.SpanContext.TraceID() == request.SpanContext().TraceID() {
			attrs := attribute.NewSet(s.Attributes...)
			outcome, _ := attrs.Value("goworker.outcome")
			fmt.Println(strings.TrimSpace(s.Name + " " + outcome.AsString()))
		}
	}
	// Output:
	// send orders
	// POST /orders
	// send mail
	// process orders done
	// process mail retried
	// process mail done
}
