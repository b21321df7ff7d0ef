package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/baggage"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpclient"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/tracing"
)

// TestBytes compares the payloads of programs with traces and without: only what passes Enqueue or WithTrace carries a trace, and
// nothing else changes.
func TestBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.Daemon.Close()
	plain, err := goworker.NewClient(b.Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	ctx, span := b.provider.Tracer("rails").Start(t.Context(), "GET /orders")
	defer span.End()
	with := func(c *goworker.Client, queue string, opts ...goworker.EnqueueOption) string {
		t.Helper()
		if _, err := c.Enqueue(ctx, goworker.NewJob(queue, "Mail", 1), opts...); err != nil {
			t.Fatal(err)
		}
		all := b.Queue(queue)
		return all[len(all)-1]
	}
	if got := with(plain, "a"); got != `{"class":"Mail","args":[1]}` {
		t.Errorf("without traces the job is %s", got)
	}
	sc := span.SpanContext()
	text := "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"
	if got, want := with(plain, "a", tracing.WithTrace(ctx), goworker.WithID("x")), `{"class":"Mail","args":[1],"meta":{"traceparent":"`+text+`"},"id":"x"}`; got != want {
		t.Errorf("the job is %s, want %s", got, want)
	}
	if got := with(plain, "a", tracing.WithTrace(t.Context())); got != `{"class":"Mail","args":[1]}` {
		t.Errorf("with a context without a trace the job is %s", got)
	}
	if got := with(b.client, "b", goworker.WithID("x")); !strings.HasPrefix(got, `{"class":"Mail","args":[1],"meta":{"traceparent":"00-`+sc.TraceID().String()) || strings.Contains(got, text) {
		t.Errorf("with Enqueue the job is %s", got)
	}
	// resque-scheduler's schedule has no place for it, and its bytes are Ruby's.
	if _, err := b.client.Enqueue(ctx, goworker.NewJob("c", "Mail", 1), goworker.ProcessIn(time.Hour), goworker.ResqueScheduler()); err != nil {
		t.Fatal(err)
	}
	if all := b.Scheduled(); len(all) != 0 {
		t.Errorf("goworker's own schedule has %q", all)
	}
	// Full metadata goes before.
	full := make(map[string]string)
	for i := range goworker.MaxMetaKeys {
		full[strconv.Itoa(i)] = ""
	}
	if got := with(b.client, "d", goworker.WithMeta(full)); strings.Contains(got, "traceparent") {
		t.Errorf("the job is %s", got)
	}
	if got := with(b.client, "d", goworker.WithMeta(map[string]string{"traceparent": "mine"})); !strings.Contains(got, `"meta":{"traceparent":"mine"}`) {
		t.Errorf("the job is %s", got)
	}
}

// TestRuby links a run to what a Rails application has put into the payload, wherever its instrumentation puts it. Ruby's retry keeps
// class and arguments only, so that run has no link.
func TestRuby(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, class := range []string{"Meta", "Top", "Active", "Retried"} {
		b.Daemon.Register(class, func(...any) {})
	}
	b.Push(
		`{"class":"Meta","args":[],"meta":{"traceparent":"`+request+`"}}`,
		`{"class":"Top","args":[],"traceparent":"`+request+`"}`,
		`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Active","arguments":[],"__otel_headers":[["traceparent","`+request+`"]]}]}`,
		`{"class":"Retried","args":[]}`,
		`{"class":"Retried","args":[2],"traceparent":"00-no-traceparent"}`,
	)
	b.Start()
	for _, class := range []string{"Meta", "Top", "Active"} {
		b.linked(b.run(class, 1), "enqueued "+request[36:52])
	}
	for _, s := range b.all("retried jobs", 2, func(s *stub) bool { return value(s, "goworker.class") == "Retried" }) {
		b.linked(s)
	}
}

// TestFailedAgain retries a failure as operators do: the run links to what enqueued the job. Its trace survives goworker's retry.
func TestFailedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := once()
	b.Daemon.Register("Mail", func() error {
		if first() {
			return errors.New("no route")
		}
		return nil
	})
	b.Start()
	b.enqueue(t.Context(), goworker.NewJob("work", "Mail"))
	failed := b.run("Mail", 1)
	b.has(failed, "goworker.outcome", "failed")
	b.Eventually("the failure is filed", func() bool { return b.Stat("failed") == 1 })
	if n, err := b.Inspect().Failures().KeepPayload().RetryID(t.Context(), value(&failed, "goworker.failure")); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	for _, s := range b.all("runs", 2, func(s *stub) bool { return s.SpanKind == trace.SpanKindConsumer }) {
		b.linked(s, "enqueued Mail")
	}
}

// TestSampling leaves no word of a run whose span is not sampled, and a program without a provider leaves none at all.
func TestSampling(t *testing.T) {
	t.Parallel()
	for name, provider := range map[string]trace.TracerProvider{
		"no provider": nil, "never": sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())),
	} {
		b := daemontest.Setup(t)
		b.Daemon.Use(tracing.Middleware(tracing.TracerProvider(provider)))
		b.Daemon.Register("Flaky", func() error { return goworker.RetryIn(time.Hour, errors.New("busy")) })
		b.Push(`{"class":"Flaky","args":[]}`)
		b.Start()
		b.Eventually("the job is retried", func() bool { return len(b.Scheduled()) == 1 })
		if all := b.Scheduled(); strings.Contains(all[0], "traceparent") {
			t.Errorf("%s: the next run is %s", name, all[0])
		}
	}
}

// TestHTTPConsumer gives a consumer over HTTP the trace of a job: of one that a client published with a trace, and of one that Go enqueued.
func TestHTTPConsumer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.Daemon.Close()
	api := b.serve()
	server := httptest.NewServer(api)
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	client, err := httpclient.New(server.URL, "shop", httpclient.HTTPClient(server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := b.provider.Tracer("shop").Start(t.Context(), "GET /")
	span.End()
	var opts []httpclient.PublishOption
	for name, text := range tracing.Meta(ctx) {
		opts = append(opts, httpclient.Meta(name, text))
	}
	if _, err := client.Publish(ctx, "else", []byte("x"), opts...); err != nil {
		t.Fatal(err)
	}
	b.enqueue(ctx, goworker.NewJob("shop.else", "Mail"))
	got := make(chan trace.SpanContext, 2)
	consumer := httpclient.Consumer{Client: client, Queues: []string{"else"}, Handler: func(ctx context.Context, j *httpclient.Job) error {
		got <- trace.SpanContextFromContext(tracing.FromMeta(ctx, j.Meta))
		return nil
	}}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(running) }()
	send := b.send("Mail")
	for range 2 {
		if sc := <-got; !sc.IsRemote() || sc.TraceID() != span.SpanContext().TraceID() || sc.SpanID() != span.SpanContext().SpanID() && sc.SpanID() != send.SpanContext.SpanID() {
			t.Errorf("the consumer has %v", sc)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if ctx := tracing.FromMeta(t.Context(), nil); ctx != t.Context() {
		t.Error("a job without metadata makes a context")
	}
	if tracing.Meta(t.Context()) != nil {
		t.Error("a context without a trace has metadata")
	}
}

// TestBaggage carries baggage where it is asked for, and nowhere else.
func TestBaggage(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		var opts []tracing.Option
		if asked {
			opts = append(opts, tracing.Baggage())
		}
		b := setup(t, opts...)
		saw := make(chan string, 1)
		b.Daemon.Register("Mail", func(ctx context.Context) { saw <- baggage.FromContext(ctx).Member("tenant").Value() })
		b.Start()
		member, _ := baggage.NewMember("tenant", "acme")
		bag, err := baggage.New(member)
		if err != nil {
			t.Fatal(err)
		}
		ctx := baggage.ContextWithBaggage(t.Context(), bag)
		b.enqueue(ctx, goworker.NewJob("work", "Mail"))
		if got := <-saw; (got == "acme") != asked {
			t.Errorf("asked %t: the handler has the tenant %q", asked, got)
		}
		if has := tracing.Meta(ctx, opts...); (has["baggage"] != "") != asked {
			t.Errorf("asked %t: the metadata is %v", asked, maps.All(has))
		}
	}
}

// TestLogHandler adds the ids of a span, also behind groups and attributes, and leaves other records as they are.
func TestLogHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(tracing.LogHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx := trace.ContextWithSpanContext(t.Context(), sc)
	log.InfoContext(ctx, "a")
	log.With("x", 1).WithGroup("g").InfoContext(ctx, "b", "y", 2)
	log.InfoContext(t.Context(), "c")
	log.DebugContext(ctx, "d")
	ids := "trace_id=01000000000000000000000000000000 span_id=0200000000000000\n"
	if got, want := out.String(), "level=INFO msg=a "+ids+"level=INFO msg=b x=1 g.y=2 g."+strings.Replace(ids, " ", " g.", 1)+"level=INFO msg=c\n"; got != want {
		t.Errorf("the log is\n%swant\n%s", got, want)
	}
}

// TestByHand traces a handler without a daemon, and one whose panic goes on.
func TestByHand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.Daemon.Close()
	mw := tracing.Middleware(tracing.TracerProvider(b.provider))
	ctx, span := b.provider.Tracer("main").Start(t.Context(), "main")
	defer span.End()
	for class, f := range map[string]func() error{
		"Good": func() error { return nil }, "Bad": func() error { return errors.New("no luck") }, "Panics": func() error { panic("aua") },
	} {
		func() {
			defer func() {
				if v := recover(); (v == "aua") != (class == "Panics") {
					t.Errorf("%s panics with %v", class, v)
				}
			}()
			_ = mw(goworker.HandlerFunc(func(context.Context, *goworker.Delivery) error { return f() })).Perform(ctx, &goworker.Delivery{Queue: "work", Class: class, Attempt: 1})
		}()
	}
	good := b.run("Good", 1)
	if good.Parent.IsValid() {
		t.Error("a run is in the trace of the program that runs it")
	}
	b.has(good, "goworker.outcome", "done", "error.type", "")
	b.has(b.run("Bad", 1), "goworker.outcome", "", "error.type", "Error")
	b.has(b.run("Panics", 1), "goworker.outcome", "", "error.type", "PanicError")
}
