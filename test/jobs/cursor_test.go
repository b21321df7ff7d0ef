package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

const week = 7 * 24 * 3600 * 1000 // ms

// kept returns a field of the cursor of a job.
func kept(b *daemontest.Bundle, id, field string) string {
	b.T.Helper()
	return b.Redis.Text(b.T, "HGET", "resque:go:cursor:"+id, field)
}

// stays returns how long the cursor of a job stays, in ms, and fails the test unless that is about so long.
func stays(b *daemontest.Bundle, id string, ms int) {
	b.T.Helper()
	if left := b.Redis.Int(b.T, "PTTL", "resque:go:cursor:"+id); left > ms || left < ms-60_000 {
		b.T.Errorf("the cursor of %s stays %d ms, want %d", id, left, ms)
	}
}

// long enqueues a job of class Long with an id.
func long(b *daemontest.Bundle, id string, opts ...goworker.EnqueueOption) {
	b.T.Helper()
	if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", "Long", id), append(opts, goworker.WithID(id))...); err != nil {
		b.T.Fatal(err)
	}
}

// A job that snoozes ten times and fails has attempt 1. What it said and did once is there for each of its runs, and stays
// for a week, so that its retry by hand goes on. The done job leaves nothing.
func TestCursorOfSnoozes(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var charged, runs atomic.Int32
	var fails atomic.Bool
	fails.Store(true)
	b.Daemon.Register("Long", func(ctx context.Context, id string) error {
		run := int(runs.Add(1))
		cur := goworker.Cursor[int](ctx)
		at, ok, err := cur.Get()
		if err != nil || at != run-1 || ok != (run > 1) {
			t.Errorf("run %d is at %d, %v, %v", run, at, ok, err)
		}
		receipt, err := goworker.Once(ctx, "charge", func(context.Context) (string, error) {
			return fmt.Sprint("receipt ", charged.Add(1)), nil
		})
		if err != nil || receipt != "receipt 1" {
			t.Errorf("run %d has %q, %v", run, receipt, err)
		}
		if err := cur.Set(ctx, run); err != nil {
			t.Error(err)
		}
		if d := goworker.FromContext(ctx); d.Attempt != 1 {
			t.Errorf("run %d is attempt %d", run, d.Attempt)
		}
		switch {
		case run <= 10:
			return goworker.Snooze(time.Hour)
		case fails.Load():
			return daemontest.ErrNoLuck
		}
		return nil
	})
	long(b, "a")
	b.Start()
	for n := range 10 {
		b.Eventually("the job waits", func() bool { return len(b.Scheduled()) == 1 })
		stays(b, "a", week+3600_000)
		if p := b.Scheduled()[0]; strings.Count(p, `"cursor":true`) != 1 || strings.Contains(p, "attempt") {
			t.Errorf("after snooze %d the payload is %s", n+1, p)
		}
		b.Due()
	}
	b.Eventually("it fails", func() bool { return len(b.Failures()) == 1 })
	if kept(b, "a", "cursor") != "11" || kept(b, "a", "once:charge") != `"receipt 1"` {
		t.Errorf("it has left %q", b.Redis.List(t, "HGETALL", "resque:go:cursor:a"))
	}
	stays(b, "a", week)
	failure := b.Redis.List(t, "LRANGE", "resque:failed", 0, 0)[0]
	if strings.Contains(failure, "attempt") {
		t.Errorf("the failure is %s", failure)
	}
	fails.Store(false)
	info, err := b.Daemon.Client().Inspect().Cursor(t.Context(), "a")
	if err != nil || string(info.Value) != "11" || string(info.Once["charge"]) != `"receipt 1"` {
		t.Errorf("an operator sees %+v, %v", info, err)
	}
	list := b.Daemon.Client().Inspect().Failures()
	records, err := list.List(t.Context(), 0, -1)
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	if err := list.Retry(t.Context(), records[0]); err != nil {
		t.Fatal(err)
	}
	b.Eventually("it is done", func() bool { return runs.Load() == 12 && b.Redis.Int(t, "EXISTS", "resque:go:cursor:a") == 0 })
	if charged.Load() != 1 {
		t.Errorf("charged %d times", charged.Load())
	}
	if info, err := b.Daemon.Client().Inspect().Cursor(t.Context(), "a"); err != nil || info.Value != nil || info.Once != nil {
		t.Errorf("an operator sees %+v, %v", info, err)
	}
}

// A run that does not ask for the cursor keeps it for the next one, and a done one ends it.
func TestCursorOfRunsWithout(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var runs atomic.Int32
	b.Daemon.Register("Long", func(ctx context.Context, id string) error {
		switch runs.Add(1) {
		case 1:
			if err := goworker.Cursor[string](ctx).Set(ctx, "here"); err != nil {
				t.Error(err)
			}
			return daemontest.ErrNoLuck
		case 2:
			return goworker.Snooze(48 * time.Hour)
		}
		return nil
	}, goworker.Retry(3, goworker.Delays{time.Hour}))
	long(b, "a")
	b.Start()
	for _, more := range []int{3600_000, 48 * 3600_000} {
		b.Eventually("the job waits", func() bool { return len(b.Scheduled()) == 1 })
		stays(b, "a", week+more)
		b.Due()
	}
	b.Eventually("it is gone", func() bool { return b.Redis.Int(t, "EXISTS", "resque:go:cursor:a") == 0 })
}

// A cursor that is set in a tight loop is written at once, then once a second, and with the job's end. Each job has its own.
func TestCursorIsCoalesced(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var took atomic.Int64
	b.Daemon.Register("Long", func(ctx context.Context, id string) error {
		began := time.Now()
		cur := goworker.Cursor[string](ctx)
		for n := 0; time.Since(began) < 2500*time.Millisecond || n < 1000; n++ {
			if err := cur.Set(ctx, fmt.Sprint(id, n)); err != nil {
				t.Error(err)
			}
		}
		if err := cur.Set(ctx, id+" end"); err != nil {
			t.Error(err)
		}
		took.Store(int64(time.Since(began)))
		return goworker.Snooze(time.Hour)
	})
	m := b.Redis.Monitor(t)
	long(b, "a")
	long(b, "b")
	b.Start()
	b.Eventually("both wait", func() bool { return len(b.Scheduled()) == 2 })
	for _, id := range []string{"a", "b"} {
		n, most := 0, 2*(int(time.Duration(took.Load())/time.Second)+3)
		for _, c := range m.Inner() {
			if c[0] == "HSET" && c[1] == "resque:go:cursor:"+id {
				n++
			}
		}
		if n < 3 || n > most {
			t.Errorf("%s was written by %d commands in %s, and at most %d are allowed", id, n, time.Duration(took.Load()), most)
		}
		if got := kept(b, id, "cursor"); got != `"`+id+` end"` {
			t.Errorf("%s is at %s", id, got)
		}
	}
}

// What cannot be kept is an error that says why.
func TestCursorRefuses(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	once := func(ctx context.Context, name string, v any) error {
		_, err := goworker.Once(ctx, name, func(context.Context) (any, error) { return v, nil })
		return err
	}
	get := func(ctx context.Context) error { _, _, err := goworker.Cursor[int](ctx).Get(); return err }
	set := func(ctx context.Context, v any) error { return goworker.Cursor[any](ctx).Set(ctx, v) }
	large := strings.Repeat("x", goworker.MaxCursor-1)
	type row struct {
		name, want string
		err        error
	}
	check := func(rows ...row) {
		for _, r := range rows {
			if r.err == nil || !strings.HasPrefix(r.err.Error(), "goworker: ") || strings.Count(r.err.Error(), "goworker:") != 1 || !strings.Contains(r.err.Error(), r.want) {
				t.Errorf("%s: %v, want %q", r.name, r.err, r.want)
			}
		}
	}
	check(row{"get outside", "Cursor: there is no job here", get(t.Context())}, row{"set outside", "Cursor: there is no job here", set(t.Context(), 1)},
		row{"once outside", `Once("x"): there is no job here`, once(t.Context(), "x", 1)})
	var late context.Context
	b.Daemon.Register("Long", func(ctx context.Context, id string) {
		check(row{"large", "65537 bytes as JSON, and at most 65536", set(ctx, large)}, row{"form", "chan int has no JSON form", set(ctx, make(chan int))},
			row{"name", "its name has 0 bytes", once(ctx, "", 1)}, row{"long name", "its name has 129 bytes", once(ctx, strings.Repeat("n", 129), 1)})
		for range 2 { // the second is as another run would see it
			check(row{"large result", `Once("large"): the result has 65537 bytes as JSON, and at most 65536 are kept; return where it lies instead; it is not run again`, once(ctx, "large", large)},
				row{"result without form", "the result cannot be written as JSON: json: unsupported type: chan int; it is not run again", once(ctx, "form", make(chan int))})
		}
		if err := errors.Join(set(ctx, large[1:]), once(ctx, "fits", large[1:]), set(ctx, "text")); err != nil {
			t.Error(err)
		}
		check(row{"get of another type", "does not fit int; keep its form", get(ctx)})
		if _, err := goworker.Once(ctx, "fits", func(context.Context) (int, error) { return 1, nil }); err == nil || !strings.Contains(err.Error(), "give the block another name") {
			t.Error(err)
		}
		late = ctx
	})
	ended := make(chan bool)
	b.Daemon.Register("NoID", func(ctx context.Context) {
		check(row{"get", "the job has no id under which it could be kept; enqueue it with one, as by WithID", get(ctx)}, row{"set", "no id", set(ctx, 1)}, row{"once", "no id", once(ctx, "x", 1)})
		close(ended)
	})
	long(b, "a")
	b.Push(`{"class":"NoID","args":[]}`)
	b.Start()
	<-ended
	b.Eventually("both are done", func() bool { return b.Stat("processed") == 2 })
	if err := errors.Join(get(late), set(late, 1)); !errors.Is(err, goworker.ErrNotHeld) {
		t.Errorf("after the end: %v", err)
	}
	check(row{"after the end", "the job is no longer held by this run", once(late, "x", 1)})
	if n := b.Redis.Int(t, "EXISTS", "resque:go:cursor:a"); n != 0 || b.Stat("failed") != 0 {
		t.Errorf("%d failed, and a cursor is left: %d", b.Stat("failed"), n)
	}
}

// A block runs once, whichever goroutine and run calls it. Its error is its own, and it runs again after one.
func TestOnce(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var runs, together, failing, left, inner atomic.Int32
	count := func(n *atomic.Int32) func(context.Context) (int32, error) {
		return func(context.Context) (int32, error) { return n.Add(1), nil }
	}
	b.Daemon.Register("Long", func(ctx context.Context, id string) error {
		run := runs.Add(1)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if v, err := goworker.Once(ctx, "together", count(&together)); v != 1 || err != nil {
					t.Errorf("together: %d, %v", v, err)
				}
			})
		}
		wg.Wait()
		_, err := goworker.Once(ctx, "failing", func(context.Context) (struct{}, error) { failing.Add(1); return struct{}{}, daemontest.ErrNoLuck })
		if err != daemontest.ErrNoLuck {
			t.Errorf("failing: %v", err)
		}
		_, err = goworker.Once(ctx, "left", func(context.Context) (func(), error) { left.Add(1); return func() {}, nil })
		if err == nil || !strings.Contains(err.Error(), "it is not run again") {
			t.Errorf("left: %v", err)
		}
		v, err := goworker.Once(ctx, "outer", func(ctx context.Context) (int32, error) {
			if _, err := goworker.Once(ctx, "outer", count(&inner)); err == nil || !strings.Contains(err.Error(), "inside itself") {
				t.Errorf("inside itself: %v", err)
			}
			return goworker.Once(ctx, "inner", count(&inner))
		})
		if v != 1 || err != nil {
			t.Errorf("outer: %d, %v", v, err)
		}
		_, err = goworker.Once(ctx, "outer of left", func(ctx context.Context) (func(), error) { // the error of a block within is the block's
			return goworker.Once(ctx, "left", func(context.Context) (func(), error) { left.Add(1); return nil, nil })
		})
		if err == nil || kept(b, id, "once:outer of left") != "" {
			t.Errorf("outer of left: %v, %q", err, kept(b, id, "once:outer of left"))
		}
		if run < 3 {
			return goworker.RetryIn(0, daemontest.ErrNoLuck)
		}
		return nil
	})
	long(b, "a")
	b.Start()
	b.Eventually("it is done", func() bool { return b.Stat("processed") == 3 })
	if got := []int32{runs.Load(), together.Load(), failing.Load(), left.Load(), inner.Load()}; !slices.Equal(got, []int32{3, 1, 3, 1, 1}) {
		t.Errorf("runs, together, failing, left, inner: %v", got)
	}
}

// A job has so many blocks at most. The one too many is not run.
func TestOnceIsBounded(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var ran atomic.Int32
	b.Daemon.Register("Long", func(ctx context.Context, id string) {
		if err := goworker.Cursor[int](ctx).Set(ctx, 1); err != nil {
			t.Error(err)
		}
		for n := range goworker.MaxOnce + 2 {
			_, err := goworker.Once(ctx, fmt.Sprint(n), func(context.Context) (int32, error) { return ran.Add(1), nil })
			if (err != nil) != (n >= goworker.MaxOnce) || err != nil && !strings.Contains(err.Error(), "give a loop a cursor instead") {
				t.Fatalf("block %d: %v", n, err)
			}
		}
		if v, err := goworker.Once(ctx, "7", func(context.Context) (int, error) { return 0, nil }); v != 8 || err != nil {
			t.Errorf("the first blocks: %d, %v", v, err)
		}
	})
	long(b, "a")
	b.Start()
	b.Eventually("it is done", func() bool { return b.Stat("processed") == 1 })
	if n := ran.Load(); n != goworker.MaxOnce {
		t.Errorf("%d blocks ran", n)
	}
}

// A run whose job was taken from it neither reads nor writes. Nor does a function of Once run there.
func TestCursorIsFenced(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	moved := make(chan bool)
	errs := make(chan []error, 1)
	var runs atomic.Int32
	b.Daemon.Register("Long", func(ctx context.Context, id string) error {
		if runs.Add(1) > 1 { // the job goes back, and may run again before the test is over
			<-t.Context().Done()
			return nil
		}
		cur := goworker.Cursor[int](ctx)
		if err := cur.Set(ctx, 1); err != nil {
			t.Error(err)
		}
		b.Eventually("it is written", func() bool { return kept(b, id, "cursor") == "1" })
		moved <- true
		<-moved
		ran := false
		_, once := goworker.Once(ctx, "late", func(context.Context) (int, error) { ran = true; return 1, nil })
		if ran {
			t.Error("a block ran without the job")
		}
		_, _, get := goworker.Cursor[int](ctx).Get()
		err := cur.Set(ctx, 2)
		errs <- []error{once, get, err}
		return err
	})
	long(b, "a")
	b.Start()
	<-moved
	b.Redis.Do(t, "HDEL", "resque:go:inflight:"+b.Process(), "1") // as a reaper would
	if n := b.Redis.Int(t, "HLEN", "resque:go:inflight:"+b.Process()); n != 1 {
		t.Fatalf("the record has %d fields: %q", n, b.Redis.List(t, "HGETALL", "resque:go:inflight:"+b.Process()))
	}
	moved <- true
	for _, err := range <-errs {
		if !errors.Is(err, goworker.ErrNotHeld) {
			t.Errorf("%v", err)
		}
	}
	b.Eventually("the run is over", func() bool { return b.Log.Count("job interrupted") == 1 })
	if kept(b, "a", "cursor") != "1" || b.Redis.Int(t, "HLEN", "resque:go:cursor:a") != 3 {
		t.Errorf("it has left %q", b.Redis.List(t, "HGETALL", "resque:go:cursor:a"))
	}
}

// When the run is to end, what was said is written at once, and from then on Set writes before it returns.
func TestCursorBeforeAnEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*daemontest.Bundle){
		"cancel": func(b *daemontest.Bundle) {
			if err := b.Daemon.Client().Cancel(b.T.Context(), "a"); err != nil {
				b.T.Error(err)
			}
		},
		"all":   func(b *daemontest.Bundle) { b.Daemon.CancelJobs() },
		"limit": func(*daemontest.Bundle) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t)
			said := make(chan bool)
			var opts []goworker.Option
			if name == "limit" {
				opts = append(opts, goworker.Timeout(200*time.Millisecond))
			}
			b.Daemon.Register("Long", func(ctx context.Context, id string) error {
				cur := goworker.Cursor[int](ctx)
				for n := range 100 { // the first is written at once, the others a second later
					if err := cur.Set(ctx, n); err != nil {
						t.Error(err)
					}
				}
				close(said)
				<-ctx.Done()
				b.Eventually("the end of the context writes", func() bool { return kept(b, id, "cursor") == "99" })
				for n := range 20 {
					if err := cur.Set(ctx, 100+n); err != nil || kept(b, id, "cursor") != fmt.Sprint(100+n) {
						t.Errorf("Set(%d): %v, and %s is written", 100+n, err, kept(b, id, "cursor"))
					}
				}
				return ctx.Err()
			}, opts...)
			long(b, "a")
			b.Start()
			<-said
			end(b)
			b.Eventually("it is over", func() bool {
				return len(b.Failures()) == 1 || b.Log.Count("job cancelled") == 1
			})
			if kept(b, "a", "cursor") != "119" {
				t.Errorf("it is at %s", kept(b, "a", "cursor"))
			}
			stays(b, "a", week)
		})
	}
}

// An operator who removes the cursor has the job begin again; one who puts something else in its place gets errors that
// name the key. The job ends in any case, and what is in the place stays.
func TestCursorKeys(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Long", func(ctx context.Context, id string) error {
		cur := goworker.Cursor[int](ctx)
		if err := cur.Set(ctx, 1); err != nil {
			t.Error(err)
		}
		b.Eventually("it is written", func() bool { return kept(b, id, "cursor") == "1" })
		b.Redis.Do(t, "DEL", "resque:go:cursor:"+id)
		if err := cur.Set(ctx, 2); err != nil {
			t.Error(err)
		}
		b.Eventually("it is written again", func() bool { return kept(b, id, "cursor") == "2" })
		b.Redis.Do(t, "SET", "resque:go:cursor:"+id, "mine")
		var err error
		b.Eventually("it is refused", func() bool { err = cur.Set(ctx, 3); return err != nil })
		ran := false
		_, once := goworker.Once(ctx, "x", func(context.Context) (int, error) { ran = true; return 1, nil })
		for _, err := range []error{err, once} {
			if err == nil || !strings.Contains(err.Error(), "the key resque:go:cursor:"+id+" is not a hash") || ran {
				t.Errorf("%v; ran: %v", err, ran)
			}
		}
		if id == "fails" {
			return daemontest.ErrNoLuck
		}
		return nil
	})
	long(b, "ends")
	long(b, "fails")
	b.Start()
	b.Eventually("both end", func() bool { return b.Stat("processed") == 2 && len(b.Failures()) == 1 })
	for _, id := range []string{"ends", "fails"} {
		if b.Redis.Text(t, "GET", "resque:go:cursor:"+id) != "mine" {
			t.Errorf("another's key of %s was changed", id)
		}
	}
	if _, err := b.Daemon.Client().Inspect().Cursor(t.Context(), "ends"); err == nil || !strings.Contains(err.Error(), "is not a hash") {
		t.Errorf("an operator sees %v", err)
	}
}

// A Redis that is away for a while costs nothing that was said.
func TestCursorWithoutRedis(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	away, back := make(chan bool), make(chan bool)
	var once atomic.Int32
	b.Daemon.Register("Long", func(ctx context.Context, id string) error {
		cur := goworker.Cursor[int](ctx)
		if _, _, err := cur.Get(); err != nil {
			t.Error(err)
		}
		away <- true
		<-away
		for n := range 1000 {
			if err := cur.Set(ctx, n); err != nil {
				t.Error(err)
			}
		}
		close(back)
		if _, err := goworker.Once(ctx, "x", func(context.Context) (int32, error) { return once.Add(1), nil }); err != nil {
			t.Error(err)
		}
		return goworker.Snooze(time.Hour)
	})
	long(b, "a")
	b.Start()
	<-away
	b.Redis.Pause()
	away <- true
	<-back
	b.Redis.Resume()
	b.Eventually("the job waits", func() bool { return len(b.Scheduled()) == 1 })
	if kept(b, "a", "cursor") != "999" || kept(b, "a", "once:x") != "1" {
		t.Errorf("it has left %q", b.Redis.List(t, "HGETALL", "resque:go:cursor:a"))
	}
}

// An ActiveJob has the id that Rails gave it, and a step of a workflow that of its place.
func TestCursorOfOtherJobs(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	ids := make(chan string, 2)
	var runs atomic.Int32
	b.Daemon.Register("Long", func(ctx context.Context, _ json.RawMessage) error {
		at, _, err := goworker.Cursor[string](ctx).Get()
		if err != nil {
			t.Error(err)
		}
		id := goworker.FromContext(ctx).ID
		if err := goworker.Cursor[string](ctx).Set(ctx, id); err != nil {
			t.Error(err)
		}
		if runs.Add(1) <= 2 {
			return goworker.Snooze(time.Hour)
		}
		if at != id {
			t.Errorf("job %s is at %q", id, at)
		}
		ids <- id
		return nil
	})
	b.Push(`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Long","job_id":"0f3c","queue_name":"work","arguments":[1],"executions":0}]}`)
	receipt, err := b.Daemon.Client().Start(t.Context(), goworker.Step(goworker.NewJob("work", "Long", 1)))
	if err != nil {
		t.Fatal(err)
	}
	b.Start()
	b.Eventually("both wait", func() bool { return len(b.Scheduled()) == 2 })
	if b.Redis.Int(t, "EXISTS", "resque:go:cursor:0f3c", "resque:go:cursor:"+receipt.ID+".0") != 2 {
		t.Errorf("the keys are %q", b.Redis.Keys(t))
	}
	b.Due()
	got := []string{<-ids, <-ids}
	slices.Sort(got)
	if !slices.Contains(got, "0f3c") || !slices.Contains(got, receipt.ID+".0") {
		t.Errorf("the ids are %q", got)
	}
	b.Eventually("nothing is left", func() bool { return len(b.Redis.List(t, "KEYS", "resque:go:cursor:*")) == 0 })
}
