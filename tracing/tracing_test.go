package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/tracing"
)

// request is the traceparent of a request of a Rails application or of another HTTP client.
const request = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// serve starts an HTTP API until the test ends.
func (b *bundle) serve() *httpapi.API {
	b.T.Helper()
	api, err := httpapi.New(b.client, httpapi.Settings{Open: true, QuietAccess: true})
	if err == nil {
		err = api.Start(b.T.Context())
	}
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() {
		if err := api.Stop(context.Background()); err != nil {
			b.T.Error(err)
		}
	})
	return api
}

// publish publishes a job over HTTP with headers.
func (b *bundle) publish(path, body string, headers ...string) {
	b.T.Helper()
	api := b.serve()
	r := httptest.NewRequestWithContext(b.T.Context(), http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/vnd.goworker.job+json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		b.T.Fatalf("publishing: %d %s", w.Code, w.Body)
	}
}

// journey registers a job that enqueues another one with its context, which fails once.
func (b *bundle) journey() {
	b.Daemon.Register("Order", func(ctx context.Context, id int) error {
		_, err := b.client.Enqueue(ctx, goworker.NewJob("mail", "Mail", id))
		return err
	})
	first := once()
	b.Daemon.Register("Mail", func(id int) error {
		if first() {
			return errors.New("no route")
		}
		return nil
	}, goworker.Retry(3, goworker.Delays{0}))
}

// TestOneTrace follows one trace from an HTTP request over its job to the job that this one enqueues, which is retried once.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	b := setup(t, tracing.Parent())
	b.journey()
	b.Start()
	b.publish("/v2/shop/queues/orders/jobs", `{"class":"Order","args":[7]}`, "traceparent", request, "tracestate", "shop=1")
	order, send, failed, done := b.run("Order", 1), b.send("Mail"), b.run("Mail", 1), b.run("Mail", 2)
	for _, s := range []struct {
		of, parent trace.SpanContext
	}{
		{order.SpanContext, order.Parent}, {send.SpanContext, order.SpanContext}, {failed.SpanContext, send.SpanContext}, {done.SpanContext, send.SpanContext},
	} {
		if got := s.of.TraceID().String(); got != request[3:35] {
			t.Errorf("a span is in the trace %s", got)
		}
	}
	if got := order.Parent; got.SpanID().String() != request[36:52] || !got.IsRemote() || got.TraceState().Get("shop") != "1" {
		t.Errorf("the parent of the first run is %v", got)
	}
	if send.Parent.SpanID() != order.SpanContext.SpanID() || failed.Parent.SpanID() != send.SpanContext.SpanID() || done.Parent.SpanID() != send.SpanContext.SpanID() {
		t.Error("a span has another parent")
	}
	b.linked(order)
	b.linked(failed)
	b.linked(done, "first Mail#1")
	b.has(failed, "goworker.outcome", "retried", "error.type", "Error")
	b.has(done, "goworker.outcome", "done", "error.type", "")
}

// TestLinks follows the same journey by links: each run has a trace of its own.
func TestLinks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journey()
	b.Start()
	b.publish("/v2/shop/queues/orders/jobs", `{"class":"Order","args":[7]}`, "traceparent", request)
	order, send, failed, done := b.run("Order", 1), b.send("Mail"), b.run("Mail", 1), b.run("Mail", 2)
	b.linked(order, "enqueued "+request[36:52])
	b.linked(send)
	b.linked(failed, "enqueued Mail")
	b.linked(done, "enqueued Mail", "first Mail#1")
	if send.SpanContext.TraceID() != order.SpanContext.TraceID() || send.Parent.SpanID() != order.SpanContext.SpanID() {
		t.Error("what a handler enqueues with its context is not in its trace")
	}
	if order.Parent.IsValid() || failed.Parent.IsValid() || failed.SpanContext.TraceID() == done.SpanContext.TraceID() {
		t.Error("a run has no trace of its own")
	}
	if send.Name != "send mail" || failed.Name != "process mail" || send.SpanKind != trace.SpanKindProducer || failed.SpanKind != trace.SpanKindConsumer {
		t.Errorf("the spans are %q and %q", send.Name, failed.Name)
	}
	host, port, _ := strings.Cut(b.Redis.Addr, ":")
	b.has(send, "messaging.system", "resque", "messaging.operation.name", "send", "messaging.operation.type", "send",
		"messaging.destination.name", "mail", "messaging.message.id", value(&failed, "messaging.message.id"))
	b.has(failed, "messaging.system", "resque", "messaging.operation.name", "process", "messaging.operation.type", "process",
		"messaging.destination.name", "mail", "server.address", host, "server.port", port, "goworker.attempt", "1")
	if id := value(&failed, "messaging.message.id"); id == "" || value(&done, "messaging.message.id") != id {
		t.Errorf("the runs have the ids %q and %q", id, value(&done, "messaging.message.id"))
	}
}

// TestEachRetryLinks links a retry to the first run and to the one before, and adds nothing else to the payload.
func TestEachRetryLinks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Daemon.Register("Flaky", goworker.HandlerFunc(func(_ context.Context, d *goworker.Delivery) error {
		switch d.Attempt {
		case 1, 3:
			return errors.New("no luck")
		case 2:
			panic("really none")
		}
		return nil
	}), goworker.Retry(5, goworker.Delays{0}))
	b.Push(`{"class":"Flaky","args":[],"meta":{"tenant":"acme","level":3}}`)
	b.Start()
	b.linked(b.run("Flaky", 1))
	b.linked(b.run("Flaky", 2), "first Flaky#1")
	b.linked(b.run("Flaky", 3), "first Flaky#1", "previous Flaky#2")
	b.linked(b.run("Flaky", 4), "first Flaky#1", "previous Flaky#3")
	b.has(b.run("Flaky", 2), "goworker.outcome", "retried", "error.type", "PanicError")
}

// TestOutcomes names what becomes of a run, with the error where it has failed. The log line, the hooks and the span share the trace, and the
// failure's id.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	again := once()
	classes := map[string]any{
		"Good":    func() {},
		"Bad":     func() error { return &wrong{"out of paper"} },
		"Panics":  func() { panic("no printer") },
		"Snoozes": func() error { return goworker.Snooze(time.Hour) },
		"Discard": func() error { return goworker.Discard(errors.New("no address")) },
		"Returns": func() error {
			if again() {
				return goworker.RetryIn(0, errors.New("busy"))
			}
			return nil
		},
	}
	hooked := make(chan trace.SpanContext, 9)
	b.Daemon.AddHooks(goworker.Hooks{Failure: func(ctx context.Context, d *goworker.Delivery, _ error) {
		if d.Class == "Bad" {
			hooked <- trace.SpanContextFromContext(ctx)
		}
	}})
	for class, f := range classes {
		b.Daemon.Register(class, f)
		b.Push(`{"class":"` + class + `","args":[]}`)
	}
	b.Start()
	for class, want := range map[string][]string{
		"Good": {"done", ""}, "Bad": {"failed", "tracing_test.wrong"}, "Panics": {"failed", "PanicError"}, "Snoozes": {"snoozed", ""},
		"Discard": {"discarded", "Error"}, "Returns": {"retried", "Error"},
	} {
		s := b.run(class, 1)
		b.has(s, "goworker.outcome", want[0], "error.type", want[1])
		failed := want[1] != ""
		if (s.Status.Code == codes.Error) != failed || (len(s.Events) == 1) != failed {
			t.Errorf("%s has the status %v and %d events", class, s.Status, len(s.Events))
		}
		if (value(&s, "goworker.failure") != "") != (want[0] == "failed") || (value(&s, "goworker.next_run") != "") != (want[0] == "snoozed" || want[0] == "retried") {
			t.Errorf("%s has the attributes %v", class, s.Attributes)
		}
	}
	b.has(b.run("Returns", 2), "goworker.outcome", "done")
	bad, panicked := b.run("Bad", 1), b.run("Panics", 1)
	if e := bad.Events[0]; bad.Status.Description != "out of paper" || valueOf(e.Attributes, "exception.type") != "tracing_test.wrong" || valueOf(e.Attributes, "exception.message") != "out of paper" {
		t.Errorf("the error is %v in %+v", bad.Status, e)
	}
	if stack := valueOf(panicked.Events[0].Attributes, "exception.stacktrace"); !strings.Contains(stack, "TestOutcomes") {
		t.Errorf("the stack of the panic is %q", stack)
	}
	if sc := <-hooked; sc.SpanID() != bad.SpanContext.SpanID() {
		t.Error("the hook has another span")
	}
	b.Eventually("the failure is in its list and in the log", func() bool {
		f, err := b.Inspect().Failures().Get(t.Context(), value(&bad, "goworker.failure"))
		return err == nil && f.Class == "Bad" && b.Log.Count("failure="+f.ID) == 1 &&
			b.Log.Count("trace_id="+bad.SpanContext.TraceID().String()+" span_id="+bad.SpanContext.SpanID().String()) == 1
	})
}

type wrong struct{ text string }

func (w *wrong) Error() string { return w.text }
