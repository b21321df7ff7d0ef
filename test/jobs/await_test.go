package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// twoClients are a client that enqueues, and one that waits.
func twoClients(t *testing.T, uri string) (from, to *goworker.Client) {
	t.Helper()
	var both []*goworker.Client
	for range 2 {
		c, err := goworker.NewClient(goworker.WorkerSettings{URI: uri, Logger: daemontest.Quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		both = append(both, c)
	}
	return both[0], both[1]
}

// ordered fails unless the times of a status are those of the last minutes, in the order of what happened.
func ordered(t *testing.T, s goworker.Status) {
	t.Helper()
	const slack = 2 * time.Second // a process estimates Redis's clock
	times := []time.Time{s.Enqueued}
	for _, try := range s.Tries {
		times = append(times, try.Began, try.Ended)
	}
	times = append(times, s.Began, s.Ended)
	if s.State == goworker.StateDone { // the last try is the run itself
		times = slices.Delete(times, len(times)-2, len(times))
	}
	last := s.Enqueued
	for _, at := range times {
		if at.IsZero() || !at.Equal(s.Began) && at.Before(last.Add(-slack)) || time.Since(at).Abs() > 2*time.Minute {
			t.Errorf("job %s: the times are %v, of %+v", s.ID, times, s)
			return
		}
		last = at
	}
}

// blank takes from a status what differs from run to run, when it was checked to be there.
func blank(t *testing.T, s goworker.Status, ran bool) goworker.Status {
	t.Helper()
	if (s.Process == "" || s.Worker == "" || s.Began.IsZero()) == ran {
		t.Errorf("job %s: the run is %q %q %s", s.ID, s.Process, s.Worker, s.Began)
	}
	for i := range s.Tries {
		try := &s.Tries[i]
		if try.Process == "" || try.Worker == "" || try.Began.IsZero() || try.Ended.Before(try.Began) {
			t.Errorf("job %s: a try is %+v", s.ID, *try)
		}
		try.Process, try.Worker, try.Began, try.Ended = "", "", time.Time{}, time.Time{}
	}
	s.Process, s.Worker, s.Enqueued, s.Began, s.Ended = "", "", time.Time{}, time.Time{}, time.Time{}
	return s
}

type size struct{ W, H int }

// What one client enqueues and a daemon runs, another client awaits: each kind of end, with all of its Status.
func TestAwaitEachEnd(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	enders(b)
	b.Daemon.Register("Size", func(w, h int) (size, error) { return size{w, h}, nil })
	b.Daemon.Register("Several", func() (int, string, error) { return 7, "a", nil })
	b.Daemon.Register("Rails", func(n int) (int, error) { return 2 * n, nil })
	b.Daemon.Register("Speak", func(ctx context.Context) error {
		goworker.Progress(ctx, 3, 4, "nearly")
		goworker.Logger(ctx).Info("here", "n", 1)
		return nil
	})
	from, to := twoClients(t, b.Redis.URI())
	const wrapper = "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper"
	try := func(attempt int, state goworker.JobState, exception, text string) inspect.Try {
		return inspect.Try{Attempt: attempt, State: state, Exception: exception, Error: text}
	}
	done := []inspect.Try{try(1, goworker.StateDone, "", "")}
	failure := func(state goworker.JobState, text string) goworker.Status {
		return goworker.Status{State: state, Attempt: 1, Exception: "Error", Error: text, Tries: []inspect.Try{try(1, state, "Error", text)}}
	}
	type test struct {
		class string
		args  []any
		opts  []goworker.EnqueueOption
		want  goworker.Status // without what each has
		await func(ctx context.Context, id string) (any, error)
		value any
		err   string
		is    error
	}
	as := func(f func(ctx context.Context, id string) (any, error)) func(context.Context, string) (any, error) {
		return f
	}
	none := as(func(ctx context.Context, id string) (any, error) { return goworker.Await[goworker.None](ctx, to, id) })
	tests := map[string]test{
		"value": {class: "Value", args: []any{21}, want: goworker.Status{State: goworker.StateDone, Attempt: 1, Result: []byte(`{"twice":42}`), Tries: done},
			await: as(func(ctx context.Context, id string) (any, error) { return goworker.Await[map[string]int](ctx, to, id) }), value: map[string]int{"twice": 42}},
		"struct": {class: "Size", args: []any{3, 4}, want: goworker.Status{State: goworker.StateDone, Attempt: 1, Result: []byte(`{"W":3,"H":4}`), Tries: done},
			await: as(func(ctx context.Context, id string) (any, error) { return goworker.Await[size](ctx, to, id) }), value: size{3, 4}},
		"several": {class: "Several", want: goworker.Status{State: goworker.StateDone, Attempt: 1, Result: []byte(`[7,"a"]`), Tries: done},
			await: as(func(ctx context.Context, id string) (any, error) {
				return goworker.Await[goworker.Args2[int, string]](ctx, to, id)
			}), value: goworker.Args2[int, string]{A: 7, B: "a"}},
		"none":      {class: "Nothing", want: goworker.Status{State: goworker.StateDone, Attempt: 1, Tries: done}, value: goworker.None{}},
		"failed":    {class: "Fail", want: failure(goworker.StateFailed, "no luck"), err: "job failed of class Fail in queue work failed: Error: no luck"},
		"discarded": {class: "Discard", want: failure(goworker.StateDiscarded, "no use"), err: "was discarded: Error: no use"},
		"expired":   {class: "Value", args: []any{1}, opts: []goworker.EnqueueOption{daemontest.Past()}, want: goworker.Status{State: goworker.StateExpired}, is: goworker.ErrExpired},
		"twice": {class: "Twice", want: goworker.Status{State: goworker.StateDone, Attempt: 2, Result: []byte(`"ok"`),
			Tries: []inspect.Try{try(1, goworker.StateRetrying, "Error", "not yet"), try(2, goworker.StateDone, "", "")}},
			await: as(func(ctx context.Context, id string) (any, error) { return goworker.Await[string](ctx, to, id) }), value: "ok"},
		"large": {class: "Large", args: []any{goworker.MaxResult + 1}, want: goworker.Status{State: goworker.StateDone, Attempt: 1, Tries: done,
			ResultLeft: "the result has 1048577 bytes as JSON, and at most 1048576 are kept; return where it lies instead"},
			await: as(func(ctx context.Context, id string) (any, error) { return goworker.Await[string](ctx, to, id) }), err: "its result was not kept: the result has 1048577 bytes"},
		"odd": {class: "Odd", want: goworker.Status{State: goworker.StateDone, Attempt: 1, Tries: done, ResultLeft: "the result cannot be written as JSON: json: unsupported type: chan int"},
			await: as(func(ctx context.Context, id string) (any, error) { return goworker.Await[any](ctx, to, id) }), err: "unsupported type: chan int"},
		"rails": {class: wrapper, args: []any{map[string]any{"job_class": "Rails", "job_id": "inner", "arguments": []any{4}}},
			want:  goworker.Status{State: goworker.StateDone, Attempt: 1, Result: []byte(`8`), Tries: done},
			await: as(func(ctx context.Context, id string) (any, error) { return goworker.Await[int](ctx, to, id) }), value: 8},
		"unknown":   {class: "Nobody", want: goworker.Status{State: goworker.StateFailed, Exception: "X", Error: "X"}, err: "Nobody"},
		"cancelled": {class: "Value", args: []any{1}, want: goworker.Status{State: goworker.StateCancelled}, is: goworker.ErrCancelled},
		"speaks": {class: "Speak", opts: []goworker.EnqueueOption{goworker.CaptureLogs()}, value: goworker.None{},
			want: goworker.Status{State: goworker.StateDone, Attempt: 1, Tries: done, Progress: &inspect.ProgressInfo{Done: 3, Total: 4, Note: "nearly"}}},
	}
	for id, tt := range tests {
		opts := append([]goworker.EnqueueOption{goworker.WithID(id), goworker.WithResult(time.Minute)}, tt.opts...)
		if _, err := from.Enqueue(t.Context(), goworker.NewJob("work", tt.class, tt.args...), opts...); err != nil {
			t.Fatal(id, err)
		}
		if s, err := to.Status(t.Context(), id); err != nil || s.State != goworker.StatePending || s.Over() {
			t.Errorf("%s at first: %+v, %v", id, s, err)
		}
	}
	if err := to.Cancel(t.Context(), "cancelled"); err != nil {
		t.Fatal(err)
	}
	b.Start()
	ctx, cancel := context.WithTimeout(t.Context(), daemontest.Soon)
	defer cancel()
	for id, tt := range tests {
		if tt.await == nil {
			tt.await = none
		}
		value, err := tt.await(ctx, id)
		switch {
		case tt.is != nil && !errors.Is(err, tt.is), tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)), tt.is == nil && tt.err == "" && err != nil:
			t.Errorf("%s: the error is %v", id, err)
		case err == nil && !cmp.Equal(value, tt.value):
			t.Errorf("%s: the result is %#v, want %#v", id, value, tt.value)
		}
		s, err := to.Status(ctx, id)
		for ; err == nil && s.Was != ""; s, err = to.Status(ctx, id) { // it was cancelled, and a worker has yet to drop it
		}
		if err != nil {
			t.Fatal(err)
		}
		ran := tt.want.Attempt > 0
		if ran {
			ordered(t, s)
		} else if s.Ended.IsZero() || s.Ended.Before(s.Enqueued.Add(-2*time.Second)) {
			t.Errorf("%s: %+v", id, s)
		}
		got := blank(t, s, ran)
		if id == "unknown" && strings.Contains(got.Error, "Nobody") && got.Exception != "" {
			got.Error, got.Exception = "X", "X"
		}
		want := tt.want
		want.ID, want.Class, want.Queue, want.TTL = id, tt.class, "work", time.Minute
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(inspect.ProgressInfo{}, "At")); diff != "" {
			t.Errorf("%s: the status (-want +got):\n%s", id, diff)
		}
	}
	var found []string
	for s, err := range to.Results(ctx, goworker.ResultFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, s.ID)
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) != len(tests) {
		t.Errorf("Results found %v", found)
	}
	if lines, err := to.Logs(ctx, "speaks"); err != nil || len(lines) != 1 || lines[0].Message != "here" || string(lines[0].Attrs["n"]) != "1" {
		t.Errorf("the log lines are %+v, %v", lines, err)
	}
}

// A wait sees each state of a job that fails, is snoozed and is cancelled while it runs, and ends with it. So it does
// over shards, whichever has the job.
func TestWatchOverShards(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	shards := goworker.NewShards(goworker.WorkerSettings{Concurrency: 3, Logger: daemontest.Quiet},
		goworker.Shard{URI: one.URI(), Queues: []string{"a"}}, goworker.Shard{URI: two.URI(), Queues: []string{"b"}})
	shards.Register("Long", func(ctx context.Context) error {
		d := goworker.FromContext(ctx)
		switch d.Attempt {
		case 1:
			return errOften
		case 2:
			if d.Queue == "b" {
				return goworker.Snooze(time.Hour)
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}, goworker.Retry(3, goworker.Delays{0}))
	ran := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ran <- shards.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		shards.Close()
	}()
	client := shards.Client()
	for queue, want := range map[string]goworker.JobState{"a": goworker.StateRunning, "b": goworker.StateSnoozed} {
		job := goworker.NewJob(queue, "Long")
		if _, err := client.Enqueue(ctx, job, goworker.WithID(queue), goworker.WithResult(time.Minute)); err != nil {
			t.Fatal(err)
		}
		var last goworker.Status
		for s, err := range client.Watch(ctx, queue) {
			if err != nil {
				t.Fatal(err)
			}
			if last = s; s.State == want && s.Attempt == 2 {
				if err := client.Cancel(ctx, queue); err != nil {
					t.Fatal(err)
				}
			}
		}
		if last.State != goworker.StateCancelled || last.Queue != queue || last.Attempt != 2 || last.Ended.IsZero() || last.Tries[0].State != goworker.StateRetrying || last.Tries[0].Error != "not yet" {
			t.Errorf("the last status is %+v", last)
		}
		if _, err := goworker.Await[goworker.None](ctx, client, queue); !errors.Is(err, goworker.ErrCancelled) {
			t.Errorf("Await of %s: %v", queue, err)
		}
	}
}

// A job that is too large for the daemon fails, and its document says so; it gives its lock back.
func TestAwaitTooLarge(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.MaxPayload = 2000 })
	enders(b)
	from, to := twoClients(t, b.Redis.URI())
	job := goworker.NewJob("work", "Value", strings.Repeat("x", 3000))
	if _, err := from.Enqueue(t.Context(), job, goworker.WithID("large"), goworker.WithResult(0), goworker.Unique(goworker.ByKey("k")), goworker.ExpireAfter(time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.Start()
	ctx, cancel := context.WithTimeout(t.Context(), daemontest.Soon)
	defer cancel()
	_, err := goworker.Await[int](ctx, to, "large")
	var failed *goworker.JobError
	if !errors.As(err, &failed) || failed.Exception != "Resque::Helpers::DecodeException" || !strings.Contains(failed.Message, "bytes") {
		t.Errorf("Await: %v", err)
	}
	if slices.ContainsFunc(b.Redis.Keys(t), func(k string) bool { return strings.HasPrefix(k, "resque:go:unique:") }) {
		t.Errorf("the keys are %q", b.Redis.Keys(t))
	}
	if b.Stat("failed") != 1 || len(b.Failures()) != 1 {
		t.Errorf("%d failed, %+v", b.Stat("failed"), b.Failures())
	}
}
