package goworkertest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

// resizes is a daemon whose jobs have results, say how far they are and log lines that are captured.
func resizes() *goworker.Daemon {
	return daemon(func(d *goworker.Daemon) {
		d.Register("Resize", func(ctx context.Context, path string) (string, error) {
			goworker.Progress(ctx, 1, 2, "read "+path)
			goworker.Logger(ctx).Info("resizing", "path", path)
			goworker.Progress(ctx, 2, 2, "wrote "+path)
			return path + ".small", nil
		}, goworker.WithResult(time.Hour), goworker.CaptureLogs())
		d.Register("Pay", func() error { return errBusy }, goworker.Retry(1, goworker.Delays{time.Minute}), goworker.WithResult(0))
	})
}

// id enqueues a job and returns its id.
func id(t *testing.T, r *goworkertest.Runner, job *goworker.Job, opts ...goworker.EnqueueOption) string {
	t.Helper()
	receipt, err := r.Client().Enqueue(t.Context(), job, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return receipt.ID
}

// state ends the test unless the document of a job is in a state, and returns it.
func state(t *testing.T, r *goworkertest.Runner, id string, want goworker.JobState) goworker.Status {
	t.Helper()
	s, err := r.Client().Status(t.Context(), id)
	if err != nil || s.State != want {
		t.Fatalf("the document says %q (%v), want %q", s.State, err, want)
	}
	return s
}

func TestRunnerResults(t *testing.T) {
	t.Parallel()
	r := goworkertest.New(t, resizes(), goworkertest.StartAt(start))
	job := id(t, r, goworker.NewJob("images", "Resize", "a.png"))
	if s := state(t, r, job, goworker.StatePending); !s.Enqueued.Equal(start) {
		t.Errorf("enqueued at %s", s.Enqueued)
	}
	r.Advance(time.Minute)
	s := state(t, r, job, goworker.StateDone)
	if !s.Began.Equal(start) || !s.Ended.Equal(start) || s.Attempt != 1 {
		t.Errorf("attempt %d ran from %s to %s", s.Attempt, s.Began, s.Ended)
	}
	if p := s.Progress; p == nil || p.Done != 2 || p.Total != 2 || p.Note != "wrote a.png" || !p.At.Equal(start) {
		t.Errorf("progress: %+v", p)
	}
	small, err := goworker.Await[string](t.Context(), r.Client(), job)
	if err != nil || small != "a.png.small" {
		t.Errorf("the result: %q, %v", small, err)
	}
	lines, err := r.Client().Logs(t.Context(), job)
	if err != nil || len(lines) != 1 || lines[0].Message != "resizing" {
		t.Errorf("the log lines: %+v, %v", lines, err)
	}
	n := 0
	for s, err := range r.Client().Results(t.Context(), goworker.ResultFilter{Class: "Resize"}) {
		if n++; err != nil || s.ID != job {
			t.Errorf("found %s, %v", s.ID, err)
		}
	}
	if n != 1 {
		t.Errorf("%d documents", n)
	}
	r.Advance(59*time.Minute - time.Millisecond)
	state(t, r, job, goworker.StateDone)
	r.Advance(time.Millisecond)
	if _, err := goworker.Await[string](t.Context(), r.Client(), job); !errors.Is(err, goworker.ErrNoResult) {
		t.Errorf("an hour after its end: %v", err)
	}
}

// The tries of a job, its next run and its end are at the times of the test's clock.
func TestRunnerTries(t *testing.T) {
	t.Parallel()
	r := goworkertest.New(t, resizes(), goworkertest.StartAt(start))
	job := id(t, r, goworker.NewJob("pay", "Pay"), goworker.ProcessIn(time.Hour))
	if s := state(t, r, job, goworker.StatePending); !s.Due.Equal(start.Add(time.Hour)) {
		t.Errorf("due at %s", s.Due)
	}
	r.Advance(time.Hour)
	if s := state(t, r, job, goworker.StateRetrying); !s.Due.Equal(start.Add(time.Hour+time.Minute)) || s.Error != errBusy.Error() {
		t.Errorf("due again at %s: %s", s.Due, s.Error)
	}
	r.Advance(time.Minute)
	_, err := goworker.Await[goworker.None](t.Context(), r.Client(), job)
	var failed *goworker.JobError
	if !errors.As(err, &failed) || failed.Attempt != 2 || failed.Message != errBusy.Error() {
		t.Errorf("the end: %v", err)
	}
	s := state(t, r, job, goworker.StateFailed)
	if len(s.Tries) != 2 || !s.Tries[0].Began.Equal(start.Add(time.Hour)) || !s.Tries[1].Ended.Equal(start.Add(time.Hour+time.Minute)) {
		t.Errorf("the tries: %+v", s.Tries)
	}
	r.Advance(time.Hour)
	if _, err := r.Client().Status(t.Context(), job); !errors.Is(err, goworker.ErrNoResult) {
		t.Errorf("an hour after its end: %v", err)
	}
}

// A document that waits for a job stays as long as in production.
func TestRunnerKeepsPending(t *testing.T) {
	t.Parallel()
	r := goworkertest.New(t, resizes(), goworkertest.StartAt(start))
	job := id(t, r, goworker.NewJob("images", "Resize", "a.png"), goworker.ProcessIn(90*24*time.Hour))
	r.Advance(89 * 24 * time.Hour)
	state(t, r, job, goworker.StatePending)
	r.Advance(24 * time.Hour)
	state(t, r, job, goworker.StateDone)
}

// A cancelled job that waits is not run by Drain, whether it has a document or not. One whose cancel was lifted is.
func TestRunnerCancel(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]goworker.EnqueueOption{"with a document": nil, "without": {goworker.WithID("pay-7")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := 0
			var class []goworker.Option
			if opts == nil {
				class = append(class, goworker.WithResult(0))
			}
			r := goworkertest.New(t, daemon(func(d *goworker.Daemon) { d.Register("Pay", func() { ran++ }, class...) }))
			cancel := func(id string) {
				t.Helper()
				if err := r.Client().Cancel(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			first := id(t, r, goworker.NewJob("pay", "Pay"), opts...)
			cancel(first)
			if got := states(r.Drain()); got != "Pay 1 cancelled" || ran != 0 {
				t.Errorf("a cancelled job: %s, ran %d times", got, ran)
			}
			if opts == nil {
				if _, err := goworker.Await[goworker.None](t.Context(), r.Client(), first); !errors.Is(err, goworker.ErrCancelled) {
					t.Errorf("waiting for it: %v", err)
				}
			}
			second := id(t, r, goworker.NewJob("pay", "Pay"), opts...)
			cancel(second)
			if err := r.Client().Lift(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			if got := states(r.Drain()); got != "Pay 1 done" || ran != 1 {
				t.Errorf("a lifted job: %s, ran %d times", got, ran)
			}
		})
	}
}

// A job that a handler cancels does not run either, even in the same Drain.
func TestRunnerCancelByHandler(t *testing.T) {
	t.Parallel()
	var r *goworkertest.Runner
	r = goworkertest.New(t, daemon(func(d *goworker.Daemon) {
		d.Register("Stop", func(ctx context.Context, id string) error { return r.Client().Cancel(ctx, id) })
		d.Register("Pay", func() {}, goworker.WithResult(0))
	}))
	enqueue(t, r, goworker.NewJob("pay", "Stop", "pay-7"))
	enqueue(t, r, goworker.NewJob("pay", "Pay"), goworker.WithID("pay-7"))
	if got := states(r.Drain()); got != "Stop 1 done, Pay 1 cancelled" {
		t.Errorf("%s", got)
	}
}

// Code that waits for its jobs waits in a goroutine of its own while the test drains.
func TestRunnerAwait(t *testing.T) {
	t.Parallel()
	r := goworkertest.New(t, resizes(), goworkertest.StartAt(start))
	job := id(t, r, goworker.NewJob("images", "Resize", "a.png"), goworker.ProcessIn(time.Hour))
	type end struct {
		small string
		err   error
	}
	ends := make(chan end, 1)
	go func() {
		small, err := goworker.Await[string](t.Context(), r.Client(), job)
		ends <- end{small, err}
	}()
	r.Advance(time.Hour)
	if e := <-ends; e.err != nil || e.small != "a.png.small" {
		t.Errorf("%+v", e)
	}
}

// Work shows what the handler of a job with a result says of itself.
func TestWorkSaid(t *testing.T) {
	t.Parallel()
	d := resizes()
	job := goworker.NewJob("images", "Resize", "a.png")
	r := goworkertest.Work(t, d, job, goworkertest.Now(start))
	if small := goworkertest.ValueOf[string](t, r); small != "a.png.small" {
		t.Errorf("the result: %q", small)
	}
	if p := r.Progress; p == nil || p.Done != 2 || p.Total != 2 || p.Note != "wrote a.png" || !p.At.Equal(start) {
		t.Errorf("progress: %+v", p)
	}
	if len(r.Lines) != 1 || r.Lines[0].Message != "resizing" || string(r.Lines[0].Attrs["path"]) != `"a.png"` {
		t.Errorf("the captured lines: %+v", r.Lines)
	}
	if !strings.Contains(r.Log, "msg=resizing") {
		t.Errorf("the log: %s", r.Log)
	}
	r = goworkertest.WorkPayload(t, d, "images", `{"class":"Resize","args":["a.png"]}`)
	r.RequireDone(t)
	if r.Progress != nil || r.Lines != nil || !strings.Contains(r.Log, "msg=resizing") {
		t.Errorf("without a result: %+v, %+v", r.Progress, r.Lines)
	}
	r = goworkertest.Work(t, d, goworker.NewJob("pay", "Pay"), goworkertest.EnqueuedWith(goworker.CaptureLogs()))
	r.RequireRetried(t, time.Minute)
	if r.Progress != nil || r.Lines != nil {
		t.Errorf("a job that says nothing: %+v, %+v", r.Progress, r.Lines)
	}
}

// waiter is a Waiter of a test: each job has ended as it says.
type waiter goworker.Status

func (w waiter) Wait(_ context.Context, id string) (goworker.Status, error) {
	w.ID = id
	return goworker.Status(w), nil
}

// A Client keeps the documents of its jobs, which nothing runs, and a cancel of them.
func TestClientDocuments(t *testing.T) {
	t.Parallel()
	jobs := goworkertest.NewClient(t)
	receipt, err := jobs.Enqueue(t.Context(), goworker.NewJob("images", "Resize", "a.png"), goworker.WithResult(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	goworkertest.RequireEnqueued(t, jobs, goworker.NewJob("images", "Resize"), goworkertest.HasField("result", 60_000), goworkertest.HasID(receipt.ID))
	s, err := jobs.Status(t.Context(), receipt.ID)
	if err != nil || s.State != goworker.StatePending || !s.Enqueued.Equal(jobs.Now()) || s.TTL != time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	if err := jobs.Cancel(t.Context(), receipt.ID); err != nil {
		t.Error(err)
	}
	if s, err = jobs.Status(t.Context(), receipt.ID); s.State != goworker.StateCancelled {
		t.Errorf("%+v, %v", s, err)
	}
	jobs.Advance(goworker.PendingTTL)
	if _, err := jobs.Status(t.Context(), receipt.ID); !errors.Is(err, goworker.ErrNoResult) {
		t.Errorf("after a week: %v", err)
	}
	small, err := goworker.Await[string](t.Context(), waiter{State: goworker.StateDone, Result: []byte(`"b"`)}, receipt.ID)
	if small != "b" || err != nil {
		t.Errorf("a Waiter of the test: %q, %v", small, err)
	}
}
