package control_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// held registers classes whose jobs run until their context ends, until their gate opens, and with an error.
func (r *runs) held(gate <-chan struct{}) func(*goworker.WorkerSettings, *goworker.Daemon) {
	return func(s *goworker.WorkerSettings, d *goworker.Daemon) {
		s.Concurrency = 6
		d.Register("Hold", func(ctx context.Context, id string) error {
			r.add(id)
			<-ctx.Done()
			return ctx.Err()
		})
		d.Register("Deaf", func(_ context.Context, id string) error {
			r.add(id)
			<-gate
			return errors.New("late")
		})
		d.Register("Fails", func(_ context.Context, id string) error {
			r.add(id)
			return errors.New("no luck")
		}, goworker.Retry(5, goworker.Exponential{Base: time.Hour}))
		d.Register("Laned", func(_ context.Context, id string) { r.add(id) })
	}
}

// one enqueues a job whose argument is its id.
func (f *fleet) one(class, id string, opts ...goworker.EnqueueOption) {
	f.Helper()
	_, err := f.client.Enqueue(f.Context(), goworker.NewJob("work", class, id), append(opts, goworker.WithID(id), goworker.Unique())...)
	f.ok(err)
}

// at waits until a job is in a place.
func (f *fleet) at(id string, place inspect.Place) {
	f.Helper()
	redistest.Eventually(f.T, daemontest.Soon, id+" is "+string(place), func() bool {
		page, err := f.client.Inspect().Find(f.Context(), inspect.Query{ID: id, Places: []inspect.Place{place}}, "", 1)
		f.ok(err)
		return len(page.Jobs) == 1
	})
}

// taken has a client take a job over HTTP, for a second, from a server that then goes.
func (f *fleet) taken() {
	f.Helper()
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI(), Logger: slog.New(slog.DiscardHandler)})
	f.ok(err)
	defer client.Close()
	api, err := httpapi.New(client, httpapi.Settings{Open: true, QuietAccess: true, Namespaces: map[string]httpapi.Namespace{"bare": {Bare: true}}})
	f.ok(err)
	f.ok(api.Start(f.Context()))
	redistest.Eventually(f.T, daemontest.Soon, "a job is given over HTTP", func() bool { // a server that connects slowly refuses
		answer, request := httptest.NewRecorder(), httptest.NewRequestWithContext(f.Context(), http.MethodGet, "/api/bare/work?timeout=1&ttr=1", nil)
		request.Host, request.RemoteAddr = "localhost", "127.0.0.1:1"
		api.ServeHTTP(answer, request)
		return strings.Contains(answer.Body.String(), `"job_id"`)
	})
	api.Drain()
	f.ok(api.Stop(context.Background()))
}

// A cancelled job does not run, or runs no longer, wherever it is: its lock is free, its cancel is gone, and it has ended once. A lifted
// one runs. A handler that goes on is named.
func TestCancel(t *testing.T) {
	t.Parallel()
	f, r, gate := setup(t), new(runs), make(chan struct{})
	c, ctx := control.New(f.client), t.Context()
	cancel := func(id string) {
		t.Helper()
		if goesOn, err := c.Cancel(ctx, id, control.Why("a test"), control.Timeout(daemontest.Soon)); err != nil || len(goesOn) > 0 {
			t.Fatalf("cancelling %s: %v goes on, %v", id, goesOn, err)
		}
	}
	f.one("Laned", "over HTTP")
	f.taken()
	cancel("over HTTP")
	f.ok(c.PauseClass(ctx, "Laned")) // a process that works learns of a rule a moment after it was set
	d := f.start("first", r.held(gate))

	f.one("Hold", "running")
	f.one("Deaf", "deaf")
	f.one("Fails", "retried")
	f.one("Laned", "delayed", goworker.ProcessIn(time.Hour))
	f.one("Laned", "laned")
	f.one("Laned", "lifted")
	f.at("laned", inspect.InLane)
	f.at("lifted", inspect.InLane)
	f.at("retried", inspect.Delayed)
	f.at("running", inspect.Running)
	f.at("deaf", inspect.Running)
	redistest.Eventually(t, daemontest.Soon, "their handlers run", func() bool { return len(r.of("running"))+len(r.of("deaf")) == 2 })
	f.ok(c.PauseQueue(ctx, "work"))
	f.one("Laned", "queued")
	for _, id := range []string{"running", "retried", "delayed", "laned", "lifted", "queued"} {
		cancel(id)
	}
	f.ok(c.Lift(ctx, "lifted"))
	if goesOn, err := c.Cancel(ctx, "deaf", control.Timeout(100*time.Millisecond)); err != nil || len(goesOn) != 1 || goesOn[0].ID != "deaf" || goesOn[0].Process != d.id() {
		t.Errorf("a handler that goes on is %v, %v", goesOn, err)
	}
	for _, id := range []string{"retried", "delayed"} { // their time comes
		page, err := f.client.Inspect().Find(ctx, inspect.Query{ID: id, Places: []inspect.Place{inspect.Delayed}}, "", 1)
		f.ok(err)
		_, err = f.client.Inspect().Operations().Start(ctx, inspect.Plan{Verb: inspect.Run, Jobs: page.Jobs})
		f.ok(err)
	}
	f.ok(c.ResumeQueue(ctx, "work"))
	f.ok(c.ResumeClass(ctx, "Laned"))
	close(gate)

	redistest.Eventually(t, daemontest.Soon, "the cancels and locks are gone, and the lifted job has run", func() bool {
		return f.redis.Int(t, "EXISTS", "resque:go:cancelled") == 0 && len(f.redis.List(t, "KEYS", "resque:go:unique:*")) == 0 && len(r.of("lifted")) == 1
	})
	for id, want := range map[string]int{"over HTTP": 0, "running": 1, "deaf": 1, "retried": 1, "delayed": 0, "laned": 0, "queued": 0, "lifted": 1} {
		if got := len(r.of(id)); got != want {
			t.Errorf("%s ran %d times, not %d", id, got, want)
		}
	}
	if got := d.log.Count("job cancelled"); got != 7 {
		t.Errorf("%d jobs were cancelled, not 7", got)
	}
	if n := f.redis.Int(t, "LLEN", "resque:failed"); n != 0 {
		t.Errorf("%d are filed as failed", n)
	}
	for _, wrong := range []control.CallOption{control.To("x"), control.For(time.Hour), control.Args(1), control.Key("0")} {
		if _, err := c.Cancel(ctx, "x", wrong); err == nil || errors.Is(err, goworker.ErrUnknownJob) {
			t.Errorf("an option that makes no sense: %v", err)
		}
	}
}

// A search cancels what has an id by it, what runs without one by its ticket, and puts what waits without one into the bin, from where the
// operation takes it back.
func TestCancelAll(t *testing.T) {
	t.Parallel()
	f, r := setup(t), new(runs)
	c, ctx := control.New(f.client), t.Context()
	f.start("first", r.held(nil))
	plain := func(queue, class, id string) {
		_, err := f.client.Enqueue(ctx, goworker.NewJob(queue, class, id))
		f.ok(err)
	}
	plain("work", "Hold", "runs")
	redistest.Eventually(t, daemontest.Soon, "it runs", func() bool { return len(r.of("runs")) == 1 })
	plain("quiet", "Hold", "waits")
	plain("quiet", "Laned", "other")
	f.one("Hold", "waits with an id", goworker.ProcessIn(time.Hour))
	op, goesOn, err := c.CancelAll(ctx, inspect.Query{Class: "Hold"}, control.Why("a test"), control.Timeout(daemontest.Soon))
	if err != nil || len(goesOn) > 0 || op.State != inspect.OperationDone || op.Done != 3 || op.Binned < 1 || op.Reason != "a test" {
		t.Fatalf("%+v, %v, %v", op, goesOn, err)
	}
	redistest.Eventually(t, daemontest.Soon, "the job that ran is cancelled", func() bool {
		return len(f.redis.List(t, "HKEYS", "resque:go:inflight:"+f.redis.List(t, "ZRANGE", "resque:go:processes", 0, -1)[0])) <= 2
	})
	if n := f.redis.Int(t, "LLEN", "resque:queue:quiet"); n != 1 {
		t.Errorf("%d jobs wait", n)
	}
	for op, err = range f.client.Inspect().Operations().Undo(ctx, op.ID) {
		f.ok(err)
	}
	if n := f.redis.Int(t, "LLEN", "resque:queue:quiet") + 10*f.redis.Int(t, "ZCARD", "resque:go:cancelled"); n != 2 || op.State != inspect.OperationUndone {
		t.Errorf("taken back: %d, %+v", n, op)
	}
}
