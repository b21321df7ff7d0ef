package goworkertest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/cursor"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/trial"
)

var discard = slog.New(slog.DiscardHandler)

// WorkOption is a setting of one Work: Attempt, Now, WithContext, Recovered, CursorAt and EnqueuedWith.
type WorkOption func(*work)

type work struct {
	at             any // see CursorAt
	attempt, found int
	now            time.Time
	ctx            context.Context
	opts           []goworker.EnqueueOption
}

// Attempt makes this the n-th run of the job; 1 is the first, and the default.
func Attempt(n int) WorkOption { return func(w *work) { w.attempt = n } }

// Now is the time by which the job expires and its retry is due. The default is this machine's. What a handler reads by
// time.Now is this machine's in any case.
func Now(t time.Time) WorkOption { return func(w *work) { w.now = t } }

// WithContext is the parent of the handler's context. The default is that of the test.
func WithContext(ctx context.Context) WorkOption { return func(w *work) { w.ctx = ctx } }

// Recovered says in how many dead processes the job was found running; see goworker.Delivery.
func Recovered(n int) WorkOption { return func(w *work) { w.found = n } }

// CursorAt makes this a run that goes on where an earlier one was: goworker.Cursor returns v. What functions of goworker.Once
// returned in earlier runs only a Runner knows.
func CursorAt(v any) WorkOption { return func(w *work) { w.at = v } }

// EnqueuedWith makes the job one that was enqueued with these options.
func EnqueuedWith(opts ...goworker.EnqueueOption) WorkOption {
	return func(w *work) { w.opts = append(w.opts, opts...) }
}

// Work runs one job as a worker of the daemon does, without Redis: it encodes the job as the daemon's Client does,
// decodes it, calls the handler in its middleware, decides by the class's options what becomes of the job, calls the hooks,
// and returns that. A panic of the handler is a failure. Nothing is written anywhere, and the daemon is as it was.
//
//	d := goworker.New(goworker.WorkerSettings{})
//	d.Register("SendEmail", sendEmail, goworker.Retry(5))
//	goworkertest.Work(t, d, goworker.NewJob("mail", "SendEmail", "ann@example.com")).RequireDone(t)
//
// The job runs at once: limits, ProcessAt and the locks of unique jobs do not hold it up. The handler runs in the
// goroutine of the caller, and that of an Isolated class in this process. The attempt of a class with ResqueRetry is that of the
// option Attempt.
//
// A handler that enqueues jobs does so by the Enqueuer that the test gives it. The daemon's own Client would dial the Redis
// of the settings; use a Runner for such handlers.
func Work(t testing.TB, d *goworker.Daemon, job *goworker.Job, opts ...WorkOption) *Result {
	t.Helper()
	w := newWork(t, opts)
	sent, err := goworker.Trial(trial.New(w.now)).Encode(d, goworker.Item{Job: job, Options: w.opts})
	if err != nil {
		t.Fatal(err)
	}
	return w.run(t, d, sent.Queue, sent.Payload)
}

// WorkPayload is Work of a job as it lies in its queue, perhaps as Ruby wrote it:
//
//	goworkertest.WorkPayload(t, d, "mail", `{"class":"SendEmail","args":["ann@example.com"]}`)
func WorkPayload(t testing.TB, d *goworker.Daemon, queue, raw string, opts ...WorkOption) *Result {
	t.Helper()
	return newWork(t, opts).run(t, d, queue, []byte(raw))
}

func newWork(t testing.TB, opts []WorkOption) *work {
	t.Helper()
	w := &work{now: clock.System.Now(), ctx: t.Context()}
	for _, opt := range opts {
		opt(w)
	}
	if w.attempt < 0 || w.found < 0 {
		t.Fatalf("goworkertest: Attempt(%d) and Recovered(%d): neither may be negative", w.attempt, w.found)
	}
	return w
}

func (w *work) run(t testing.TB, d *goworker.Daemon, queue string, raw []byte) *Result {
	t.Helper()
	if w.attempt > 0 {
		var err error
		if raw, err = payload.SetFields(raw, payload.NumberField("attempt", int64(w.attempt))); err != nil {
			t.Fatalf("goworkertest: Attempt(%d): %v", w.attempt, err)
		}
	}
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if w.at != nil {
		at, err := json.Marshal(w.at)
		if err != nil {
			t.Fatalf("goworkertest: CursorAt: %T has no JSON form: %v", w.at, err)
		}
		w.ctx = cursor.Start(w.ctx, at)
	}
	j := &outcome.Job{Reserved: resque.Reserved{Queue: queue, Payload: raw}, Worker: worker, Found: w.found}
	o, said, err := goworker.Trial(trial.New(w.now)).Run(w.ctx, d, j, log)
	if err != nil {
		t.Fatal(err)
	}
	r := resultOf(j, &o, w.now)
	r.Log, r.Cursor, r.Progress = lines.String(), said.Cursor, inspect.ProgressOf(string(said.Progress))
	for _, line := range said.Lines {
		r.Lines = append(r.Lines, inspect.LogLineOf(string(line)))
	}
	return r
}

// worker is the id of the worker that runs jobs in tests.
const worker = "goworkertest:1-0:*"
