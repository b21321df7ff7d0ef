package goworker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// uniqueTo enqueues a job and returns its receipt, or who holds its lock.
func (b *bundle) enqueueUnique(class, id string, opts ...EnqueueOption) (r Receipt, holder string) {
	b.t.Helper()
	r, err := b.daemon.EnqueueWith(&Job{"work", Payload{class, []any{id}}}, opts...)
	var duplicate *DuplicateError
	if errors.As(err, &duplicate) {
		return r, duplicate.Holder
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return r, ""
}

func (b *bundle) mustEnqueue(class, id string, opts ...EnqueueOption) Receipt {
	b.t.Helper()
	r, holder := b.enqueueUnique(class, id, opts...)
	if holder != "" {
		b.t.Fatalf("%s(%s) is refused by %s", class, id, holder)
	}
	return r
}

func (b *bundle) mustRefuse(by Receipt, class, id string, opts ...EnqueueOption) {
	b.t.Helper()
	if _, holder := b.enqueueUnique(class, id, opts...); holder != by.ID {
		b.t.Errorf("%s(%s) is refused by %q, want %q", class, id, holder, by.ID)
	}
}

func (b *bundle) locks() []string {
	b.t.Helper()
	return b.redis.List(b.t, "KEYS", "*go:unique:*")
}

// free waits until no job has a lock.
func (b *bundle) free() {
	b.t.Helper()
	b.eventually("the lock is given up", func() bool { return len(b.locks()) == 0 })
}

func TestUniqueUntilDone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.mustEnqueue("Hold", "a", Unique())
	want := regexp.MustCompile(`^{"class":"Hold","args":\["a"\],"unique":"done:[0-9a-f]{32}","id":"` + first.ID + `"}$`)
	if q := b.queue("work"); len(q) != 1 || !want.MatchString(q[0]) {
		t.Errorf("in the queue: %q", q)
	}
	b.mustRefuse(first, "Hold", "a", Unique())
	b.mustRefuse(first, "Hold", "a", Unique(UntilStart()))
	b.mustRefuse(first, "Hold", "a", Unique(UntilElapsed(time.Hour)))
	b.mustEnqueue("Mark", "a", Unique())
	b.mustEnqueue("Mark", "b", Unique())
	b.start()
	b.eventually("it runs", func() bool { return b.runs.starts("a") == 2 })
	b.mustRefuse(first, "Hold", "a", Unique())
	b.open()
	b.free()
	if n := b.stat("processed"); n != 3 {
		t.Errorf("when the lock is given up %d jobs are done, want 3: it is one step", n)
	}
	b.mustEnqueue("Hold", "a", Unique())
	b.free()
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	b.onlyTotals()
}

// However a job ends, its lock is given up in the step in which it does.
func TestUniqueEndings(t *testing.T) {
	t.Parallel()
	end := func(f func() error) func(string) error { return func(string) error { return f() } }
	retries := Retry(1, Delays{0, time.Millisecond})
	for class, ending := range map[string]struct {
		handler           any
		opts              []Option
		processed, failed int // 0 and 0: it is dropped
	}{
		"Done":  {end(func() error { return nil }), nil, 1, 0},
		"Fail":  {end(func() error { return errNoLuck }), nil, 1, 1},
		"Again": {end(func() error { return errNoLuck }), []Option{retries}, 2, 1},
		"AtLast": {func(ctx context.Context, _ string) error {
			if FromContext(ctx).Attempt == 1 {
				return RetryIn(time.Millisecond, errNoLuck)
			}
			return nil
		}, []Option{retries}, 2, 0},
		"Discard": {end(func() error { return Discard(errNoLuck) }), []Option{retries}, 1, 0},
		"ForGood": {end(func() error { return Fail(errNoLuck) }), []Option{retries}, 1, 1},
		"Panic":   {end(func() error { panic("!") }), nil, 1, 1},
		"Goexit":  {end(func() error { runtime.Goexit(); return nil }), nil, 1, 1},
		"Strict":  {func(int) {}, nil, 1, 1},
		"Late":    {func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }, []Option{Timeout(time.Millisecond)}, 1, 1},
		"Nobody":  {nil, nil, 1, 1},
		"Old":     {end(func() error { return nil }), []Option{ExpireAfter(1)}, 0, 0},
		"Older":   {end(func() error { return nil }), []Option{ExpireAfter(1), OnExpired(func(context.Context, *Delivery) error { return errNoLuck })}, 1, 1},
		"Lane":    {end(func() error { return errNoLuck }), []Option{Concurrency(1), retries}, 2, 1},
	} {
		for name, hold := range map[string]UniqueOption{"done": UntilDone(), "start": UntilStart()} {
			t.Run(class+" "+name, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				if ending.handler != nil {
					b.daemon.Register(class, ending.handler, ending.opts...)
				}
				b.mustEnqueue(class, "a", Unique(hold))
				b.start()
				b.free()
				if name == "start" {
					b.eventually("it ends", func() bool { return b.stat("processed") == ending.processed && b.stat("failed") == ending.failed })
				}
				if p, f := b.stat("processed"), b.stat("failed"); p != ending.processed || f != ending.failed || f != len(b.failures()) {
					t.Errorf("when the lock is given up %d are processed and %d failed, with %d records; want %d and %d", p, f, len(b.failures()), ending.processed, ending.failed)
				}
			})
		}
	}
}

func TestUniqueUntilStart(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.Concurrency = 1 })
	first := b.mustEnqueue("Hold", "a", Unique(UntilStart()))
	b.mustRefuse(first, "Hold", "a", Unique(UntilStart()))
	b.start()
	b.eventually("it runs", func() bool { return b.runs.starts("a") == 1 })
	second := b.mustEnqueue("Hold", "a", Unique(UntilStart()))
	b.mustRefuse(second, "Hold", "a", Unique(UntilStart()))
	b.open()
	b.free()
	b.eventually("both are done", func() bool { return b.runs.ends("a") == 2 })
}

// Where the lock cannot be given up before the job runs, it is with its end.
func TestUniqueUntilStartWithoutConnection(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.Connections = 1 })
	b.mustEnqueue("Mark", "a", Unique(UntilStart()))
	c, err := b.daemon.GetConn() // and with it all the pool has
	if err != nil {
		t.Fatal(err)
	}
	defer b.daemon.PutConn(c)
	b.start()
	b.free()
	if n := b.stat("processed"); n != 1 {
		t.Errorf("processed: %d", n)
	}
}

func TestUniqueUntilElapsed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	first := b.mustEnqueue("Mark", "a", Unique(UntilElapsed(time.Hour)))
	b.mustEnqueue("Mark", "b", Unique(UntilElapsed(time.Second)))
	b.eventually("they are done", func() bool { return b.stat("processed") == 2 })
	b.mustRefuse(first, "Mark", "a", Unique(UntilElapsed(time.Hour)))
	b.eventually("the other's time is over", func() bool { return len(b.redis.List(t, "KEYS", "resque:go:unique:*")) == 1 })
	b.mustEnqueue("Mark", "b", Unique(UntilElapsed(time.Second)))
}

func TestUniqueKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.daemon.Close()
	first := b.mustEnqueue("Mark", "a", Unique(ByKey("user 7")))
	b.mustRefuse(first, "Nap", "b", Unique(ByKey("user 7")))
	b.mustRefuse(first, "Nap", "c", Unique(ByKeyOf(func(j *Job) string { return fmt.Sprint("user ", len(j.Payload.Args)+6) })))
	b.mustEnqueue("Mark", "a", Unique(ByKey("user 8")))
	b.mustEnqueue("Mark", "a", Unique())
	other := New(WorkerSettings{URI: b.redis.URI(), RailsJSON: true})
	defer other.Close()
	amp := b.mustEnqueue("Mark", "<&>", Unique())
	_, err := other.EnqueueWith(&Job{"work", Payload{"Mark", []any{"<&>"}}}, Unique())
	var duplicate *DuplicateError
	if !errors.As(err, &duplicate) || duplicate.Holder != amp.ID || duplicate.Class != "Mark" || duplicate.Queue != "work" ||
		time.Since(duplicate.Since) > time.Minute || !strings.Contains(err.Error(), "job "+amp.ID+" in queue work") {
		t.Errorf("a producer that escapes otherwise: %v", err)
	}
}

func TestUniqueReplaceWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	byKey := Unique(ByKey("k"), ReplaceWaiting())
	b.push(job("Mark", "x"))
	first := b.mustEnqueue("Mark", "old", byKey)
	b.push(job("Mark", "y"))
	second := b.mustEnqueue("Hold", "new", byKey)
	if second.Replaced != first.ID {
		t.Errorf("%+v replaces %+v", second, first)
	}
	if q := b.queue("work"); len(q) != 3 || !strings.Contains(q[1], "new") {
		t.Errorf("in the queue: %q", q)
	}
	b.start()
	b.eventually("it runs", func() bool { return b.runs.starts("new") == 1 })
	b.mustRefuse(second, "Mark", "newer", byKey)
	b.open()
	b.free()
	if b.runs.starts("old") > 0 {
		t.Error("the old one ran")
	}
}

// A delayed job has its lock while it waits for its time, and one that replaces it moves
// the time.
func TestUniqueDelayed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("Save", func(id string) { b.runs.start(id); b.runs.end(id) }, Unique(ByKey("doc"), ReplaceWaiting()), ExpireAfter(time.Minute))
	save := func(id string) *Job { return &Job{"work", Payload{"Save", []any{id}}} }
	if err := b.daemon.EnqueueIn(time.Hour, save("1")); err != nil {
		t.Fatal(err)
	}
	later := b.redis.List(t, "ZRANGE", "resque:go:schedule", 0, -1)
	_, expires, _ := strings.Cut(strings.Join(later, ""), `"expires_at":`)
	expires, _, _ = strings.Cut(expires, ",")
	if ms, _ := strconv.ParseInt(expires, 10, 64); time.Until(time.UnixMilli(ms)).Round(time.Minute) != 61*time.Minute {
		t.Errorf("in the schedule: %q", later)
	}
	due := time.Now().Add(300 * time.Millisecond)
	if _, err := b.daemon.EnqueueWith(save("2"), At(due)); err != nil {
		t.Fatal(err)
	}
	if err := b.daemon.EnqueueAllAt(due, save("3")); err == nil || !strings.Contains(err.Error(), "delay each by itself") {
		t.Errorf("among several: %v", err)
	}
	b.start()
	b.free()
	if b.runs.ends("2") != 1 || b.runs.starts("1")+b.runs.starts("3") > 0 || time.Now().Before(due) {
		t.Errorf("ran: %v", b.runs.begun)
	}
}

// What Register is told holds for all that is enqueued by the same daemon.
func TestUniqueClass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("Once", func(id string) { b.runs.start(id) }, Unique())
	one := &Job{"work", Payload{"Once", []any{"a"}}}
	if err := b.daemon.Enqueue(one); err != nil {
		t.Fatal(err)
	}
	var duplicate *DuplicateError
	if err := b.daemon.Enqueue(one); !errors.As(err, &duplicate) {
		t.Errorf("a second: %v", err)
	}
	if _, err := b.daemon.EnqueueWith(one, Unique(ByKey("other"))); err != nil {
		t.Errorf("with another lock: %v", err)
	}
	if err := b.daemon.EnqueueAll(&Job{"work", Payload{"Mark", []any{"x"}}}, one); err == nil || !strings.Contains(err.Error(), "job 2 of 2: enqueueing Once: jobs of its class are unique") {
		t.Errorf("among several: %v", err)
	}
	if n := len(b.queue("work")); n != 2 {
		t.Errorf("%d jobs in the queue, want 2", n)
	}
	b.start()
	b.free()
}

func TestUniqueMistakes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := New(WorkerSettings{URI: server.URI(), MaxPayload: 1000})
	defer d.Close()
	good := &Job{"q", Payload{"C", nil}}
	for _, test := range []struct {
		job  *Job
		opt  EnqueueOption
		want string
	}{
		{nil, Unique(), "needs a queue and a class"},
		{&Job{"", Payload{"C", nil}}, Unique(), "needs a queue and a class"},
		{good, Unique(ByKey("")), `enqueueing C: ByKey(""): the key by which a job is to be unique is empty`},
		{good, Unique(ByKeyOf(func(*Job) string { return "" })), "class C is to be unique is empty"},
		{good, Unique(UntilElapsed(0)), "a millisecond or more"},
		{good, Unique(LockAtMost(-1)), "a millisecond or more"},
		{good, Unique(LockAtMost(0)), "a millisecond or more"},
		{good, Unique(UntilElapsed(time.Hour), LockAtMost(time.Minute)), "UntilElapsed and LockAtMost both say how long"},
		{good, Unique(LockAtMost(time.Minute), UntilElapsed(time.Hour)), "UntilElapsed and LockAtMost both say how long"},
		{good, Unique(UntilElapsed(time.Hour), UntilDone()), "UntilElapsed(1h0m0s) and UntilDone both say"},
		{good, Unique(UntilDone(), UntilStart()), "UntilDone and UntilStart both say"},
		{&Job{"q", Payload{"C", []any{func() {}}}}, Unique(), "args[0]"},
		{&Job{"q", Payload{"C", []any{strings.Repeat("x", 1000)}}}, Unique(), "MaxPayload"},
	} {
		if _, err := d.EnqueueWith(test.job, test.opt); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "nothing was enqueued") {
			t.Errorf("the error %v does not say %q", err, test.want)
		}
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("keys: %q", keys)
	}
	for want, f := range map[string]func(){
		`Register("C"): a unique job's lock is to last 0s`: func() { d.Register("C", func() {}, Unique(UntilElapsed(0))) },
		`Register("C"): UntilElapsed and LockAtMost`:       func() { d.Register("C", func() {}, Unique(LockAtMost(1), UntilElapsed(1))) },
		"Unique: a nil UniqueOption was given":             func() { d.Register("C", func() {}, Unique(nil)) },
		"ByKeyOf: a nil function was given":                func() { d.Register("C", func() {}, Unique(ByKeyOf(nil))) },
	} {
		wantPanic(t, want, f)
	}
}

// A job that Ruby's worker takes is unlocked there; nobody tells us. Neither does whoever
// removes a queue.
func TestUniqueTakenByRuby(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.daemon.Close()
	first := b.mustEnqueue("Mark", "a", Unique())
	b.redis.Do(t, "LPOP", "resque:queue:work")
	b.mustRefuse(first, "Mark", "a", Unique())
	b.eventually("the lock is free", func() bool {
		_, holder := b.enqueueUnique("Mark", "a", Unique())
		return holder == ""
	})
	if q := b.queue("work"); len(q) != 1 {
		t.Errorf("in the queue: %q", q)
	}
}

// A job that waits for its next try has its lock, and is found by whoever looks for it.
func TestUniqueRetries(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"later": time.Hour, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(s *WorkerSettings) { s.Concurrency = 1 })
			var runs atomic.Int64
			gate := make(chan struct{})
			b.daemon.Register("Try", func(string) error {
				if runs.Add(1) == 1 {
					return errNoLuck
				}
				<-gate
				return nil
			}, Retry(1, Delays{wait}), Unique())
			first := b.mustEnqueue("Try", "a")
			b.start()
			b.eventually("it has failed", func() bool { return b.stat("processed") == 1 })
			old := b.redis.List(t, "HGETALL", b.locks()[0])
			parts := strings.SplitN(old[1], " ", 4)
			b.redis.Do(t, "HSET", b.locks()[0], old[0], parts[0]+" "+parts[1]+" 0 "+parts[3])
			b.mustRefuse(first, "Try", "a")
			close(gate)
			if wait > 0 {
				jobs, err := b.daemon.Delayed().List(time.Time{}, 0, 10)
				if err != nil || len(jobs) != 1 {
					t.Fatalf("delayed: %v, %v", jobs, err)
				}
				if _, err := b.daemon.Delayed().Enqueue(jobs...); err != nil {
					t.Fatal(err)
				}
			}
			b.free()
			if runs.Load() != 2 || b.stat("processed") != 2 {
				t.Errorf("%d runs, %d counted", runs.Load(), b.stat("processed"))
			}
		})
	}
}

// A retry's lock ends too, though not before the job could be due, even if it had run out
// meanwhile. What another job then has is left to that.
func TestUniqueRetriesOfTheLate(t *testing.T) {
	t.Parallel()
	const most = 200 * time.Millisecond
	late := func(t *testing.T) (b *bundle, fail chan struct{}) {
		b, fail = setup(t), make(chan struct{})
		b.daemon.Register("Late", func(string) error { <-fail; return errNoLuck }, Retry(1, Delays{time.Hour}))
		b.mustEnqueue("Late", "a", Unique(LockAtMost(most)))
		b.start()
		b.free() // it runs for longer than the lock may stay
		return b, fail
	}
	stays := func(b *bundle) time.Duration {
		return time.Duration(b.redis.Int(b.t, "PTTL", b.locks()[0])) * time.Millisecond
	}
	t.Run("nobody wants it", func(t *testing.T) {
		t.Parallel()
		b, fail := late(t)
		fail <- struct{}{}
		b.eventually("it waits", func() bool { return len(b.scheduled()) == 1 })
		if left := stays(b); left < time.Hour-time.Minute || left > time.Hour+most {
			t.Errorf("the lock stays for %v", left)
		}
		b.due()
		fail <- struct{}{}
		b.free()
	})
	t.Run("another has it", func(t *testing.T) {
		t.Parallel()
		b, fail := late(t)
		next := b.mustEnqueue("Late", "a", Unique(UntilElapsed(time.Minute)))
		close(fail)
		b.eventually("both wait", func() bool { return len(b.scheduled()) == 2 })
		b.mustRefuse(next, "Late", "a", Unique())
		if left := stays(b); left > time.Minute {
			t.Errorf("the other's lock stays for %v", left)
		}
		b.due()
		b.eventually("both end", func() bool { return len(b.failures()) == 2 })
		b.mustRefuse(next, "Late", "a", Unique())
	})
}

// A job that goes back to its queue when the daemon stops keeps its lock.
func TestUniqueSurvivesAStop(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.ShutdownTimeout = time.Millisecond })
	first := b.mustEnqueue("Hold", "a", Unique())
	b.start()
	b.eventually("it runs", func() bool { return b.runs.starts("a") == 1 })
	_ = b.stop()
	if q := b.queue("work"); len(q) != 1 {
		t.Fatalf("in the queue: %q", q)
	}
	b.mustRefuse(first, "Hold", "a", Unique())
}

// Many that enqueue, many locks, and workers meanwhile: of a lock there is never more than
// one job.
func TestUniqueUnderLoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const locks = 5
	var running [locks]atomic.Int64
	var ran, took atomic.Int64
	b.daemon.Register("One", func(n int) {
		if running[n].Add(1) > 1 {
			t.Errorf("lock %d has two jobs that run", n)
		}
		time.Sleep(time.Millisecond)
		running[n].Add(-1)
		ran.Add(1)
	}, Unique())
	b.start()
	var wg sync.WaitGroup
	for p := range 4 {
		producer := New(WorkerSettings{URI: b.redis.URI()})
		defer producer.Close()
		wg.Go(func() {
			for i := range 200 {
				_, err := producer.EnqueueWith(&Job{"work", Payload{"One", []any{(i + p) % locks}}}, Unique())
				var duplicate *DuplicateError
				switch {
				case err == nil:
					took.Add(1)
				case !errors.As(err, &duplicate):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.free()
	if ran.Load() != took.Load() || int(took.Load()) != b.stat("processed") || took.Load() < locks {
		t.Errorf("%d were taken, %d ran, %d counted", took.Load(), ran.Load(), b.stat("processed"))
	}
}

func TestUniqueOnShards(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	s := NewShards(WorkerSettings{}, Shard{URI: one.URI(), Queues: []string{"a"}}, Shard{URI: two.URI(), Queues: []string{"*"}})
	defer s.Close()
	s.Register("Once", func() {}, Unique())
	var duplicate *DuplicateError
	for _, queue := range []string{"a", "b"} { // a lock lies where the queue does
		job := &Job{queue, Payload{"Once", nil}}
		if err := s.Enqueue(job); err != nil {
			t.Error(err)
		}
		if err := s.Enqueue(job); !errors.As(err, &duplicate) || duplicate.Queue != queue {
			t.Errorf("a second: %v", err)
		}
		if err := s.EnqueueAll(job); err == nil {
			t.Error("EnqueueAll took it")
		}
	}
	for _, server := range []*redistest.Server{one, two} {
		if keys := server.Keys(t); !slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, "resque:go:unique:") }) {
			t.Errorf("keys: %q", keys)
		}
	}
	if _, err := s.EnqueueWith(nil); err == nil {
		t.Error("no job was taken")
	}
}

// A unique job too waits for replicas; with too few it is in its queue, and has its lock.
func TestUniqueWaitsForReplicas(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	b := setup(t, func(s *WorkerSettings) { s.WaitReplicas = 1 })
	defer b.daemon.Close()
	plain, err := b.daemon.EnqueueWith(&Job{"other", Payload{"Mark", nil}})
	if q := b.queue("other"); !errors.Is(err, ErrTooFewReplicas) || len(q) != 1 || plain.ID == "" || !strings.Contains(q[0], plain.ID) {
		t.Errorf("without a lock: %+v, %v; in the queue: %q", plain, err, q)
	}
	first, err := b.daemon.EnqueueWith(&Job{"work", Payload{"Mark", nil}}, Unique())
	if !errors.Is(err, ErrTooFewReplicas) || first.ID == "" {
		t.Errorf("%+v, %v", first, err)
	}
	duplicate := new(DuplicateError)
	if _, err := b.daemon.EnqueueWith(&Job{"work", Payload{"Mark", nil}}, Unique()); !errors.As(err, &duplicate) || duplicate.Holder != first.ID {
		t.Errorf("a second: %v", err)
	}
	third, err := b.daemon.EnqueueWith(&Job{"work", Payload{"Mark", nil}}, Unique(ReplaceWaiting()))
	if !errors.Is(err, ErrTooFewReplicas) || third.Replaced != first.ID {
		t.Errorf("one that replaces it: %+v, %v", third, err)
	}
	if q := b.queue("work"); len(q) != 1 || !strings.Contains(q[0], third.ID) {
		t.Errorf("in the queue: %q", q)
	}
}
