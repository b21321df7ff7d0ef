package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/goworker/goworker"
)

// Enqueue returns middleware for UseEnqueue: each call that enqueues gets a span "send <queue>", a child of what its context has, and its
// jobs carry that span. A call with several jobs has one span, and so has the start of a workflow.
//
// Jobs get an id, as with every option, and the texts of W3C as metadata, about 80 bytes. They give way: see goworker.WithTrace.
func Enqueue(opts ...Option) goworker.EnqueueMiddleware {
	c := configOf(opts)
	tracer := c.tracer()
	return func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
		return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
			if len(items) == 0 {
				return next(ctx, items)
			}
			name, attrs := c.sends(items)
			ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attrs...))
			defer span.End() // also where next panics
			if carrier := c.inject(ctx); carrier != nil {
				option := goworker.WithTrace(carrier)
				for i := range items {
					items[i].Options = append(items[i].Options, option)
				}
			}
			receipts, err := next(ctx, items)
			if span.IsRecording() {
				sent(span, receipts, err)
			}
			return receipts, err
		}
	}
}

// sends describes what a call is about to enqueue. Its jobs have a queue or a class in common, or it names none.
func (c *config) sends(items []goworker.Item) (name string, attrs []attribute.KeyValue) {
	attrs = append(make([]attribute.KeyValue, 0, 8), messagingSystem.String(System), operationName.String("send"), operationType.String("send"))
	attrs = append(attrs, serverOf(c.server)...)
	name = "send"
	if queue := common(items, func(j *goworker.Job) string { return j.Queue }); queue != "" {
		name += " " + queue
		attrs = append(attrs, destination.String(queue))
	}
	if of := common(items, func(j *goworker.Job) string { return j.Payload.Class }); of != "" {
		attrs = append(attrs, class.String(of))
	}
	if len(items) > 1 {
		attrs = append(attrs, batchCount.Int(len(items)))
	}
	return name, attrs
}

// common returns what all jobs have; "": they differ.
func common(items []goworker.Item, of func(*goworker.Job) string) (has string) {
	for i := range items {
		switch {
		case items[i].Job == nil: // refused below
			return ""
		case i == 0:
			has = of(items[i].Job)
		case of(items[i].Job) != has:
			return ""
		}
	}
	return has
}

// sent says what became of a call.
func sent(span trace.Span, receipts []goworker.Receipt, err error) {
	if len(receipts) == 1 && receipts[0].ID != "" {
		span.SetAttributes(messageID.String(receipts[0].ID))
	}
	twice, waiting := 0, 0
	for i := range receipts {
		if receipts[i].Duplicate != nil {
			twice++
		}
		if receipts[i].Buffered {
			waiting++
		}
	}
	if twice > 0 {
		span.SetAttributes(duplicates.Int(twice))
	}
	if waiting > 0 {
		span.SetAttributes(buffered.Int(waiting))
	}
	if err != nil {
		name := typeOf(err)
		span.SetAttributes(errorType.String(name))
		failed(span, name, err)
	}
}

// failed gives a span the status of an error, and the error as an event.
func failed(span trace.Span, exception string, err error) {
	text := shorten(textOf(err))
	attrs := append(make([]attribute.KeyValue, 0, 3), exceptionType.String(exception), exceptionText.String(text))
	if stack := stackOf(err); stack != "" {
		attrs = append(attrs, exceptionStack.String(shorten(stack)))
	}
	span.AddEvent("exception", trace.WithAttributes(attrs...))
	span.SetStatus(codes.Error, text)
}
