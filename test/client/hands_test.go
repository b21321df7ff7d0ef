package client

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// hands is a client and an operator of one Redis.
type hands struct {
	t      *testing.T
	s      *redistest.Server
	client *goworker.Client
	by     *inspect.Inspector
}

func newHands(t *testing.T) *hands {
	t.Helper()
	s := redistest.Start(t)
	client, _ := newClient(t, s.URI(), goworker.WorkerSettings{})
	return &hands{t, s, client, client.Inspect()}
}

// enqueue enqueues a job with a result whose class says what it is.
func (h *hands) enqueue(id string, opts ...goworker.EnqueueOption) {
	h.t.Helper()
	job := goworker.NewJob("q", "C", id)
	if _, err := h.client.Enqueue(h.t.Context(), job, append(opts, goworker.WithID(id), goworker.WithResult(time.Minute))...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hands) find(id string, places ...inspect.Place) inspect.Entry {
	h.t.Helper()
	page, err := h.by.Find(h.t.Context(), inspect.Query{ID: id, Places: places}, "", 10)
	if err != nil || len(page.Jobs) != 1 {
		h.t.Fatalf("found %v of %s, %v", page.Jobs, id, err)
	}
	return page.Jobs[0]
}

func (h *hands) status(id string) goworker.Status {
	h.t.Helper()
	s, err := h.client.Status(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// stays fails unless the document of a job stays about so long.
func (h *hands) stays(id string, want time.Duration) {
	h.t.Helper()
	if left := time.Duration(h.s.Int(h.t, "PTTL", "resque:go:result:"+id)) * time.Millisecond; left > want+time.Second || left < want-time.Minute {
		h.t.Errorf("the document of %s stays %s, want %s", id, left, want)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A wait on a job that an operator removes ends, whichever call removes it.
func TestRemovedJobsAreCancelled(t *testing.T) {
	t.Parallel()
	h := newHands(t)
	ctx := t.Context()
	later := goworker.ProcessIn(time.Hour)
	like := func(id string) *inspect.Job { return &inspect.Job{Queue: "q", Class: "C", Args: []any{id}} }
	for id, remove := range map[string]struct {
		opts []goworker.EnqueueOption
		by   func(id string) (int, error)
	}{
		"remove":         {by: func(id string) (int, error) { return h.by.Remove(ctx, h.find(id)) }},
		"remove delayed": {opts: []goworker.EnqueueOption{later}, by: func(id string) (int, error) { return h.by.Remove(ctx, h.find(id)) }},
		"remove where": {by: func(id string) (int, error) {
			done, err := h.by.RemoveWhere(ctx, inspect.Query{ID: id}, "")
			return done.Changed, err
		}},
		"dequeue":            {by: func(id string) (int, error) { return h.by.Dequeue(ctx, like(id)) }},
		"remove delayed job": {opts: []goworker.EnqueueOption{later}, by: func(id string) (int, error) { return h.by.RemoveDelayed(ctx, like(id)) }},
		"remove listed": {opts: []goworker.EnqueueOption{later}, by: func(id string) (int, error) {
			jobs, err := h.by.Delayed().Find(ctx, id, time.Time{})
			if err != nil {
				return 0, err
			}
			return h.by.Delayed().Remove(ctx, jobs...)
		}},
		"replace": {opts: []goworker.EnqueueOption{goworker.Unique(goworker.ByKey("k"))}, by: func(id string) (int, error) {
			r, err := h.client.Enqueue(ctx, goworker.NewJob("q", "C", id), goworker.Unique(goworker.ByKey("k"), goworker.ReplaceWaiting()), goworker.WithID("new"), goworker.WithResult(0))
			if err == nil && r.Replaced != id {
				t.Errorf("replaced %q", r.Replaced)
			}
			return 1, err
		}},
	} {
		t.Run(id, func(t *testing.T) {
			h.enqueue(id, remove.opts...)
			h.s.Do(t, "SET", "resque:go:progress:"+id, "{}")
			waiter := await(ctx, h.client, id)
			if n, err := remove.by(id); n != 1 || err != nil {
				t.Fatalf("removed %d, %v", n, err)
			}
			if e := <-waiter; !errors.Is(e.err, goworker.ErrCancelled) {
				t.Errorf("Await: %v", e.err)
			}
			s := h.status(id)
			if s.State != goworker.StateCancelled || s.Was != goworker.StatePending || s.Ended.Before(s.Enqueued.Add(-time.Second)) || time.Since(s.Ended) > time.Minute {
				t.Errorf("%+v", s)
			}
			h.stays(id, time.Minute)
			if left := h.s.Int(t, "PTTL", "resque:go:progress:"+id); left <= 0 || left > 60_000 {
				t.Errorf("the progress stays %d ms", left)
			}
		})
	}
	if s := h.status("new"); s.State != goworker.StatePending {
		t.Errorf("the job that took the place is %s", s.State)
	}
}

// A job that takes the place of one with its own id keeps its document.
func TestReplacedBySameID(t *testing.T) {
	t.Parallel()
	h := newHands(t)
	unique := goworker.Unique(goworker.ByKey("k"), goworker.ReplaceWaiting())
	h.enqueue("a", unique)
	h.enqueue("a", unique)
	if s := h.status("a"); s.State != goworker.StatePending {
		t.Errorf("%+v", s)
	}
	if n := len(queued(t, h.s)); n != 1 {
		t.Errorf("%d jobs wait", n)
	}
}

// A removed job takes its cancel along, and what ended or runs is not changed by an operator who was late.
func TestRemovedJobsOtherStates(t *testing.T) {
	t.Parallel()
	h := newHands(t)
	ctx := t.Context()
	h.enqueue("a")
	if err := h.client.Cancel(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	must[int](t)(h.by.Remove(ctx, h.find("a")))
	if h.s.Int(t, "EXISTS", "resque:go:cancelled") != 0 || h.status("a").Was != goworker.StatePending {
		t.Errorf("%+v", h.status("a"))
	}
	for _, state := range []string{"running", "done", "failed", "expired", "retrying", "snoozed"} {
		h.enqueue(state)
		h.s.Do(t, "HSET", "resque:go:result:"+state, "state", state)
		must[int](t)(h.by.Remove(ctx, h.find(state)))
		want := goworker.JobState(state)
		if state == "retrying" || state == "snoozed" {
			want = goworker.StateCancelled
		}
		if s := h.status(state); s.State != want {
			t.Errorf("%s became %s", state, s.State)
		}
	}
	h.enqueue("odd")
	h.s.Do(t, "DEL", "resque:go:result:odd")
	h.s.Do(t, "SET", "resque:go:result:odd", "x")
	if n, err := h.by.Remove(ctx, h.find("odd")); n != 1 || err != nil {
		t.Errorf("with a key of another type: %d, %v", n, err)
	}
	h.enqueue("gone")
	h.s.Do(t, "DEL", "resque:go:result:gone")
	must[int](t)(h.by.Remove(ctx, h.find("gone")))
	if h.s.Int(t, "EXISTS", "resque:go:result:gone") != 0 {
		t.Error("a document was made")
	}
}

// The document follows a waiting job to another queue, class or time.
func TestMovedJobsSaySo(t *testing.T) {
	t.Parallel()
	h := newHands(t)
	ctx := t.Context()
	week := goworker.PendingTTL
	check := func(id, queue, class string, due time.Duration) {
		t.Helper()
		s := h.status(id)
		if s.State != goworker.StatePending || s.Queue != queue || s.Class != class || due == 0 != s.Due.IsZero() {
			t.Errorf("%s: %+v", id, s)
		}
		if left := time.Until(s.Due); due != 0 && (left > due+time.Second || left < due-time.Minute) {
			t.Errorf("%s is due %s", id, s.Due)
		}
		h.stays(id, week+due)
	}
	h.enqueue("queued")
	must[int](t)(h.by.Move(ctx, "r", h.find("queued")))
	check("queued", "r", "C", 0)
	must[inspect.Entry](t)(h.by.Edit(ctx, h.find("queued"), inspect.Edit{Class: "D", Queue: "s"}))
	check("queued", "s", "D", 0)

	const hour, day = time.Hour, 24 * time.Hour
	h.enqueue("delayed", goworker.ProcessIn(hour))
	check("delayed", "q", "C", hour)
	must[int](t)(h.by.Move(ctx, "r", h.find("delayed")))
	check("delayed", "r", "C", hour)
	must[inspect.Entry](t)(h.by.Edit(ctx, h.find("delayed"), inspect.Edit{Class: "D"}))
	check("delayed", "r", "D", hour)
	listed := must[[]inspect.DelayedJob](t)(h.by.Delayed().Find(ctx, "delayed", time.Time{}))
	must[int](t)(h.by.Delayed().Reschedule(ctx, time.Now().Add(30*day), listed...))
	check("delayed", "r", "D", 30*day)
	must[int](t)(h.by.RunNow(ctx, inspect.Head, h.find("delayed")))
	check("delayed", "r", "D", 0)

	h.enqueue("promoted", goworker.ProcessIn(hour))
	must[int](t)(h.by.PromoteDelayed(ctx, &inspect.Job{Queue: "q", Class: "C", Args: []any{"promoted"}}))
	check("promoted", "q", "C", 0)
}

// A failed job that an operator retries waits again: an Await goes on to its new end.
func TestRetriedJobsArePending(t *testing.T) {
	t.Parallel()
	h := newHands(t)
	ctx := t.Context()
	fail := func(id string) {
		t.Helper()
		h.enqueue(id)
		payload := h.s.List(t, "LRANGE", "resque:queue:q", -1, -1)[0]
		h.s.Do(t, "DEL", "resque:queue:q", "resque:failed")
		h.s.Do(t, "RPUSH", "resque:failed", `{"failed_at":"2026/11/22 21:00:00 UTC","payload":`+payload+`,"exception":"E","error":"ill","worker":"w","queue":"q"}`)
		h.s.Do(t, "HSET", "resque:go:result:"+id, "state", "failed", "ended", 7, "exception", "E", "error", "ill", "attempt", 1)
		h.s.Do(t, "PEXPIRE", "resque:go:result:"+id, 60_000)
	}
	first := func() goworker.Failure {
		t.Helper()
		return must[[]goworker.Failure](t)(h.by.Failures().List(ctx, 0, 1))[0]
	}
	for id, test := range map[string]struct {
		retry func(id string) error
		queue string
		class string
	}{
		"retry": {retry: func(string) error { return h.by.Failures().Retry(ctx, first()) }},
		"all":   {retry: func(string) error { _, err := h.by.Failures().RetryAll(ctx); return err }},
		"id":    {retry: func(string) error { _, err := h.by.Failures().RetryID(ctx, first().ID); return err }},
		"where": {retry: func(string) error {
			_, err := h.by.Failures().RetryWhere(ctx, inspect.FailureFilter{Class: "C"})
			return err
		}},
		"run": {retry: func(id string) error {
			_, err := h.by.RunNow(ctx, inspect.Tail, h.find(id, inspect.Failed))
			return err
		}},
		"move": {queue: "r", retry: func(id string) error {
			_, err := h.by.Move(ctx, "r", h.find(id, inspect.Failed))
			return err
		}},
		"edit": {class: "D", retry: func(id string) error {
			_, err := h.by.Edit(ctx, h.find(id, inspect.Failed), inspect.Edit{Class: "D"})
			return err
		}},
	} {
		t.Run(id, func(t *testing.T) {
			fail(id)
			if err := test.retry(id); err != nil {
				t.Fatal(err)
			}
			s := h.status(id)
			if s.State != goworker.StatePending || !s.Ended.IsZero() || s.Error != "ill" || s.Attempt != 1 ||
				s.Queue != max(test.queue, "q") || s.Class != max(test.class, "C") {
				t.Errorf("%+v", s)
			}
			h.stays(id, goworker.PendingTTL)
		})
	}
	fail("plain")
	if err := h.by.Failures().PlainPayload().Retry(ctx, first()); err != nil {
		t.Fatal(err)
	}
	fail("removed")
	if err := h.by.Failures().Remove(ctx, first()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"plain", "removed"} {
		if s := h.status(id); s.State != goworker.StateFailed {
			t.Errorf("%s: %+v", id, s)
		}
	}
}

// A user who may not write documents removes the jobs, and the error says what is lost.
func TestRemoveWithoutDocuments(t *testing.T) {
	t.Parallel()
	h := newHands(t)
	h.enqueue("a")
	h.s.Do(t, "ACL", "SETUSER", "op", "on", ">pw", "~resque:queue*", "~resque:go:cancelled", "~resque:go:lanes*", "~resque:go:unique*", "~resque:delayed*", "~resque:go:schedule*", "+@all", "~resque:go:processes")
	client, _ := newClient(t, strings.Replace(h.s.URI(), "://", "://op:pw@", 1), goworker.WorkerSettings{})
	n, err := client.Inspect().Remove(t.Context(), h.find("a"))
	if n != 1 || err == nil || !strings.Contains(err.Error(), "the jobs were changed, but their results do not say so") || !strings.Contains(err.Error(), "extend its ACL") {
		t.Errorf("%d, %v", n, err)
	}
	if !slices.Equal(queued(t, h.s), []string{}) && len(queued(t, h.s)) > 0 {
		t.Error("the job is there")
	}
}
