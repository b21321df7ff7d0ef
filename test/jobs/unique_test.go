package jobs

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

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func TestUniqueUntilDone(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	first := b.MustEnqueue("Hold", "a", goworker.Unique())
	want := regexp.MustCompile(`^{"class":"Hold","args":\["a"\],"unique":"done:[0-9a-f]{32}","id":"` + first.ID + `"}$`)
	if q := b.Queue("work"); len(q) != 1 || !want.MatchString(q[0]) {
		t.Errorf("in the queue: %q", q)
	}
	b.MustRefuse(first, "Hold", "a", goworker.Unique())
	b.MustRefuse(first, "Hold", "a", goworker.Unique(goworker.UntilStart()))
	b.MustRefuse(first, "Hold", "a", goworker.Unique(goworker.UntilElapsed(time.Hour)))
	b.MustEnqueue("Mark", "a", goworker.Unique())
	b.MustEnqueue("Mark", "b", goworker.Unique())
	b.Start()
	b.Eventually("it runs", func() bool { return b.Runs.Starts("a") == 2 })
	b.MustRefuse(first, "Hold", "a", goworker.Unique())
	b.Open()
	b.Free()
	if n := b.Stat("processed"); n != 3 {
		t.Errorf("when the lock is given up %d jobs are done, want 3: it is one step", n)
	}
	b.MustEnqueue("Hold", "a", goworker.Unique())
	b.Free()
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	b.OnlyTotals()
}

// However a job ends, its lock is given up in the step in which it does.
func TestUniqueEndings(t *testing.T) {
	t.Parallel()
	end := func(f func() error) func(string) error { return func(string) error { return f() } }
	retries := goworker.Retry(1, goworker.Delays{0, time.Millisecond})
	for class, ending := range map[string]struct {
		handler           any
		opts              []goworker.Option
		processed, failed int // 0 and 0: it is dropped
	}{
		"Done":  {end(func() error { return nil }), nil, 1, 0},
		"Fail":  {end(func() error { return daemontest.ErrNoLuck }), nil, 1, 1},
		"Again": {end(func() error { return daemontest.ErrNoLuck }), []goworker.Option{retries}, 2, 1},
		"AtLast": {func(ctx context.Context, _ string) error {
			if goworker.FromContext(ctx).Attempt == 1 {
				return goworker.RetryIn(time.Millisecond, daemontest.ErrNoLuck)
			}
			return nil
		}, []goworker.Option{retries}, 2, 0},
		"Discard": {end(func() error { return goworker.Discard(daemontest.ErrNoLuck) }), []goworker.Option{retries}, 1, 0},
		"ForGood": {end(func() error { return goworker.FailNow(daemontest.ErrNoLuck) }), []goworker.Option{retries}, 1, 1},
		"Panic":   {end(func() error { panic("!") }), nil, 1, 1},
		"Goexit":  {end(func() error { runtime.Goexit(); return nil }), nil, 1, 1},
		"Strict":  {func(int) {}, nil, 1, 1},
		"Late":    {func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }, []goworker.Option{goworker.Timeout(time.Millisecond)}, 1, 1},
		"Nobody":  {nil, nil, 1, 1},
		"Old":     {end(func() error { return nil }), []goworker.Option{goworker.ExpireAfter(1)}, 0, 0},
		"Older":   {end(func() error { return nil }), []goworker.Option{goworker.ExpireAfter(1), goworker.OnExpired(func(context.Context, *goworker.Delivery) error { return daemontest.ErrNoLuck })}, 1, 1},
		"Lane":    {end(func() error { return daemontest.ErrNoLuck }), []goworker.Option{goworker.MaxRunning(1), retries}, 2, 1},
	} {
		for name, hold := range map[string]goworker.UniqueOption{"done": goworker.UntilDone(), "start": goworker.UntilStart()} {
			t.Run(class+" "+name, func(t *testing.T) {
				t.Parallel()
				b := daemontest.Setup(t)
				if ending.handler != nil {
					b.Daemon.Register(class, ending.handler, ending.opts...)
				}
				b.MustEnqueue(class, "a", goworker.Unique(hold))
				b.Start()
				b.Free()
				if name == "start" {
					b.Eventually("it ends", func() bool { return b.Stat("processed") == ending.processed && b.Stat("failed") == ending.failed })
				}
				if p, f := b.Stat("processed"), b.Stat("failed"); p != ending.processed || f != ending.failed || f != len(b.Failures()) {
					t.Errorf("when the lock is given up %d are processed and %d failed, with %d records; want %d and %d", p, f, len(b.Failures()), ending.processed, ending.failed)
				}
			})
		}
	}
}

func TestUniqueUntilStart(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 1 })
	first := b.MustEnqueue("Hold", "a", goworker.Unique(goworker.UntilStart()))
	b.MustRefuse(first, "Hold", "a", goworker.Unique(goworker.UntilStart()))
	b.Start()
	b.Eventually("it runs", func() bool { return b.Runs.Starts("a") == 1 })
	second := b.MustEnqueue("Hold", "a", goworker.Unique(goworker.UntilStart()))
	b.MustRefuse(second, "Hold", "a", goworker.Unique(goworker.UntilStart()))
	b.Open()
	b.Free()
	b.Eventually("both are done", func() bool { return b.Runs.Ends("a") == 2 })
}

// Where the lock cannot be given up before the job runs, it is with its end.
func TestUniqueUntilStartWithoutConnection(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Connections = 1 })
	b.MustEnqueue("Mark", "a", goworker.Unique(goworker.UntilStart()))
	c, err := b.Daemon.GetConn() // and with it all the pool has
	if err != nil {
		t.Fatal(err)
	}
	defer b.Daemon.PutConn(c)
	b.Start()
	b.Free()
	if n := b.Stat("processed"); n != 1 {
		t.Errorf("processed: %d", n)
	}
}

func TestUniqueUntilElapsed(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	first := b.MustEnqueue("Mark", "a", goworker.Unique(goworker.UntilElapsed(time.Hour)))
	b.MustEnqueue("Mark", "b", goworker.Unique(goworker.UntilElapsed(time.Second)))
	b.Eventually("they are done", func() bool { return b.Stat("processed") == 2 })
	b.MustRefuse(first, "Mark", "a", goworker.Unique(goworker.UntilElapsed(time.Hour)))
	b.Eventually("the other's time is over", func() bool { return len(b.Locks()) == 1 })
	b.MustEnqueue("Mark", "b", goworker.Unique(goworker.UntilElapsed(time.Second)))
}

func TestUniqueKeys(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	defer b.Daemon.Close()
	first := b.MustEnqueue("Mark", "a", goworker.Unique(goworker.ByKey("user 7")))
	b.MustRefuse(first, "Nap", "b", goworker.Unique(goworker.ByKey("user 7")))
	b.MustRefuse(first, "Nap", "c", goworker.Unique(goworker.ByKeyOf(func(j *goworker.Job) string { return fmt.Sprint("user ", len(j.Payload.Args)+6) })))
	b.MustEnqueue("Mark", "a", goworker.Unique(goworker.ByKey("user 8")))
	b.MustEnqueue("Mark", "a", goworker.Unique())
	other := goworker.New(goworker.WorkerSettings{URI: b.Redis.URI(), RailsJSON: true})
	defer other.Close()
	amp := b.MustEnqueue("Mark", "<&>", goworker.Unique())
	_, err := other.EnqueueWith(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: []any{"<&>"}}}, goworker.Unique())
	var duplicate *goworker.DuplicateError
	if !errors.As(err, &duplicate) || duplicate.Holder != amp.ID || duplicate.Class != "Mark" || duplicate.Queue != "work" ||
		time.Since(duplicate.Since) > time.Minute || !strings.Contains(err.Error(), "job "+amp.ID+" in queue work") {
		t.Errorf("a producer that escapes otherwise: %v", err)
	}
}

func TestUniqueReplaceWaiting(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	byKey := goworker.Unique(goworker.ByKey("k"), goworker.ReplaceWaiting())
	b.Push(daemontest.Job("Mark", "x"))
	first := b.MustEnqueue("Mark", "old", byKey)
	b.Push(daemontest.Job("Mark", "y"))
	second := b.MustEnqueue("Hold", "new", byKey)
	if second.Replaced != first.ID {
		t.Errorf("%+v replaces %+v", second, first)
	}
	if q := b.Queue("work"); len(q) != 3 || !strings.Contains(q[1], "new") {
		t.Errorf("in the queue: %q", q)
	}
	b.Start()
	b.Eventually("it runs", func() bool { return b.Runs.Starts("new") == 1 })
	b.MustRefuse(second, "Mark", "newer", byKey)
	b.Open()
	b.Free()
	if b.Runs.Starts("old") > 0 {
		t.Error("the old one ran")
	}
}

// A delayed job has its lock while it waits for its time, and one that replaces it moves
// the time.
func TestUniqueDelayed(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Save", func(id string) { b.Runs.Start(id); b.Runs.End(id) }, goworker.Unique(goworker.ByKey("doc"), goworker.ReplaceWaiting()), goworker.ExpireAfter(time.Minute))
	save := func(id string) *goworker.Job {
		return &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Save", Args: []any{id}}}
	}
	if err := b.Daemon.EnqueueIn(time.Hour, save("1")); err != nil {
		t.Fatal(err)
	}
	later := b.Redis.List(t, "ZRANGE", "resque:go:schedule", 0, -1)
	_, expires, _ := strings.Cut(strings.Join(later, ""), `"expires_at":`)
	expires, _, _ = strings.Cut(expires, ",")
	if ms, _ := strconv.ParseInt(expires, 10, 64); time.Until(time.UnixMilli(ms)).Round(time.Minute) != 61*time.Minute {
		t.Errorf("in the schedule: %q", later)
	}
	due := time.Now().Add(300 * time.Millisecond)
	if _, err := b.Daemon.EnqueueWith(save("2"), goworker.ProcessAt(due)); err != nil {
		t.Fatal(err)
	}
	if err := b.Daemon.EnqueueAllAt(due, save("3")); err != nil {
		t.Errorf("among several: %v", err)
	}
	b.Start()
	b.Free()
	if b.Runs.Ends("3") != 1 || b.Runs.Starts("1")+b.Runs.Starts("2") > 0 || time.Now().Before(due) {
		t.Errorf("job 3 ended %d times, 1 and 2 were started %d times", b.Runs.Ends("3"), b.Runs.Starts("1")+b.Runs.Starts("2"))
	}
}

// The options of Register apply to all jobs that the same daemon enqueues.
func TestUniqueClass(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Once", func(id string) { b.Runs.Start(id) }, goworker.Unique())
	one := &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Once", Args: []any{"a"}}}
	if err := b.Daemon.Enqueue(one); err != nil {
		t.Fatal(err)
	}
	var duplicate *goworker.DuplicateError
	if err := b.Daemon.Enqueue(one); !errors.As(err, &duplicate) {
		t.Errorf("a second: %v", err)
	}
	if _, err := b.Daemon.EnqueueWith(one, goworker.Unique(goworker.ByKey("other"))); err != nil {
		t.Errorf("with another lock: %v", err)
	}
	if err := b.Daemon.EnqueueAll(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: []any{"x"}}}, one); !errors.Is(err, goworker.ErrDuplicate) {
		t.Errorf("among several: %v", err)
	}
	if n := len(b.Queue("work")); n != 3 {
		t.Errorf("%d jobs in the queue, want 3: all but the duplicates", n)
	}
	b.Start()
	b.Free()
}

func TestUniqueMistakes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI(), MaxPayload: 1000})
	defer d.Close()
	good := &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "C", Args: nil}}
	for _, test := range []struct {
		job  *goworker.Job
		opt  goworker.EnqueueOption
		want string
	}{
		{nil, goworker.Unique(), "needs a queue and a class"},
		{&goworker.Job{Queue: "", Payload: goworker.Payload{Class: "C", Args: nil}}, goworker.Unique(), "needs a queue and a class"},
		{good, goworker.Unique(goworker.ByKey("")), `enqueueing C: ByKey(""): the key by which a job is to be unique is empty`},
		{good, goworker.Unique(goworker.ByKeyOf(func(*goworker.Job) string { return "" })), "class C is to be unique is empty"},
		{good, goworker.Unique(goworker.UntilElapsed(0)), "a millisecond or more"},
		{good, goworker.Unique(goworker.LockAtMost(-1)), "a millisecond or more"},
		{good, goworker.Unique(goworker.LockAtMost(0)), "a millisecond or more"},
		{good, goworker.Unique(goworker.UntilElapsed(time.Hour), goworker.LockAtMost(time.Minute)), "UntilElapsed and LockAtMost both say how long"},
		{good, goworker.Unique(goworker.LockAtMost(time.Minute), goworker.UntilElapsed(time.Hour)), "UntilElapsed and LockAtMost both say how long"},
		{good, goworker.Unique(goworker.UntilElapsed(time.Hour), goworker.UntilDone()), "UntilElapsed(1h0m0s) and UntilDone both say"},
		{good, goworker.Unique(goworker.UntilDone(), goworker.UntilStart()), "UntilDone and UntilStart both say"},
		{&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "C", Args: []any{func() {}}}}, goworker.Unique(), "args[0]"},
		{&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "C", Args: []any{strings.Repeat("x", 1000)}}}, goworker.Unique(), "MaxPayload"},
	} {
		if _, err := d.EnqueueWith(test.job, test.opt); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "nothing was enqueued") {
			t.Errorf("the error %v does not say %q", err, test.want)
		}
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("keys: %q", keys)
	}
	for want, f := range map[string]func(){
		`Register("C"): a unique job's lock is to last 0s`: func() { d.Register("C", func() {}, goworker.Unique(goworker.UntilElapsed(0))) },
		`Register("C"): UntilElapsed and LockAtMost`:       func() { d.Register("C", func() {}, goworker.Unique(goworker.LockAtMost(1), goworker.UntilElapsed(1))) },
		"Unique: a nil UniqueOption was given":             func() { d.Register("C", func() {}, goworker.Unique(nil)) },
		"ByKeyOf: a nil function was given":                func() { d.Register("C", func() {}, goworker.Unique(goworker.ByKeyOf(nil))) },
	} {
		daemontest.WantPanic(t, want, f)
	}
}

// Ruby's worker takes a job without a word about its lock, and so does a program that removes
// a queue. The lock is freed all the same.
func TestUniqueTakenByRuby(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	defer b.Daemon.Close()
	first := b.MustEnqueue("Mark", "a", goworker.Unique())
	b.Redis.Do(t, "LPOP", "resque:queue:work")
	b.MustRefuse(first, "Mark", "a", goworker.Unique())
	b.Eventually("the lock is free", func() bool {
		_, holder := b.EnqueueUnique("Mark", "a", goworker.Unique())
		return holder == ""
	})
	if q := b.Queue("work"); len(q) != 1 {
		t.Errorf("in the queue: %q", q)
	}
}

// A job that waits for its next try keeps its lock, and a look for the holder finds it.
func TestUniqueRetries(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"later": time.Hour, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 1 })
			var runs atomic.Int64
			gate := make(chan struct{})
			b.Daemon.Register("Try", func(string) error {
				if runs.Add(1) == 1 {
					return daemontest.ErrNoLuck
				}
				<-gate
				return nil
			}, goworker.Retry(1, goworker.Delays{wait}), goworker.Unique())
			first := b.MustEnqueue("Try", "a")
			b.Start()
			b.Eventually("it has failed", func() bool { return b.Stat("processed") == 1 })
			old := b.Redis.List(t, "HGETALL", b.Locks()[0])
			parts := strings.SplitN(old[1], " ", 4)
			b.Redis.Do(t, "HSET", b.Locks()[0], old[0], parts[0]+" "+parts[1]+" 0 "+parts[3])
			b.MustRefuse(first, "Try", "a")
			close(gate)
			if wait > 0 {
				jobs, err := b.Daemon.Delayed().List(time.Time{}, 0, 10)
				if err != nil || len(jobs) != 1 {
					t.Fatalf("delayed: %v, %v", jobs, err)
				}
				if _, err := b.Daemon.Delayed().Enqueue(jobs...); err != nil {
					t.Fatal(err)
				}
			}
			b.Free()
			if runs.Load() != 2 || b.Stat("processed") != 2 {
				t.Errorf("%d runs, %d counted", runs.Load(), b.Stat("processed"))
			}
		})
	}
}

// A retry's lock ends too, though not before the job could be due, even if it had run out
// meanwhile. Another job's lock stays.
func TestUniqueRetriesOfTheLate(t *testing.T) {
	t.Parallel()
	const most = 200 * time.Millisecond
	late := func(t *testing.T) (b *daemontest.Bundle, fail chan struct{}) {
		b, fail = daemontest.Setup(t), make(chan struct{})
		b.Daemon.Register("Late", func(string) error { <-fail; return daemontest.ErrNoLuck }, goworker.Retry(1, goworker.Delays{time.Hour}))
		b.MustEnqueue("Late", "a", goworker.Unique(goworker.LockAtMost(most)))
		b.Start()
		b.Free() // it runs for longer than the lock may stay
		return b, fail
	}
	stays := func(b *daemontest.Bundle) time.Duration {
		return time.Duration(b.Redis.Int(b.T, "PTTL", b.Locks()[0])) * time.Millisecond
	}
	t.Run("no other job wants it", func(t *testing.T) {
		t.Parallel()
		b, fail := late(t)
		fail <- struct{}{}
		b.Eventually("it waits", func() bool { return len(b.Scheduled()) == 1 })
		if left := stays(b); left < time.Hour-time.Minute || left > time.Hour+most {
			t.Errorf("the lock stays for %v", left)
		}
		b.Due()
		fail <- struct{}{}
		b.Free()
	})
	t.Run("another has it", func(t *testing.T) {
		t.Parallel()
		b, fail := late(t)
		next := b.MustEnqueue("Late", "a", goworker.Unique(goworker.UntilElapsed(time.Minute)))
		close(fail)
		b.Eventually("both wait", func() bool { return len(b.Scheduled()) == 2 })
		b.MustRefuse(next, "Late", "a", goworker.Unique())
		if left := stays(b); left > time.Minute {
			t.Errorf("the other's lock stays for %v", left)
		}
		b.Due()
		b.Eventually("both end", func() bool { return len(b.Failures()) == 2 })
		b.MustRefuse(next, "Late", "a", goworker.Unique())
	})
}

// A job that goes back to its queue when the daemon stops keeps its lock.
func TestUniqueSurvivesAStop(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = time.Millisecond })
	first := b.MustEnqueue("Hold", "a", goworker.Unique())
	b.Start()
	b.Eventually("it runs", func() bool { return b.Runs.Starts("a") == 1 })
	_ = b.Stop()
	if q := b.Queue("work"); len(q) != 1 {
		t.Fatalf("in the queue: %q", q)
	}
	b.MustRefuse(first, "Hold", "a", goworker.Unique())
}

// Many that enqueue, many locks, and workers meanwhile: of a lock there is never more than
// one job.
func TestUniqueUnderLoad(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	const locks = 5
	var running [locks]atomic.Int64
	var ran, took atomic.Int64
	b.Daemon.Register("One", func(n int) {
		if running[n].Add(1) > 1 {
			t.Errorf("lock %d has two jobs that run", n)
		}
		time.Sleep(time.Millisecond)
		running[n].Add(-1)
		ran.Add(1)
	}, goworker.Unique())
	b.Start()
	var wg sync.WaitGroup
	for p := range 4 {
		producer := goworker.New(goworker.WorkerSettings{URI: b.Redis.URI()})
		defer producer.Close()
		wg.Go(func() {
			for i := range 200 {
				_, err := producer.EnqueueWith(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "One", Args: []any{(i + p) % locks}}}, goworker.Unique())
				var duplicate *goworker.DuplicateError
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
	b.Free()
	if ran.Load() != took.Load() || int(took.Load()) != b.Stat("processed") || took.Load() < locks {
		t.Errorf("%d were taken, %d ran, %d counted", took.Load(), ran.Load(), b.Stat("processed"))
	}
}

func TestUniqueOnShards(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	s := goworker.NewShards(goworker.WorkerSettings{}, goworker.Shard{URI: one.URI(), Queues: []string{"a"}}, goworker.Shard{URI: two.URI(), Queues: []string{"*"}})
	defer s.Close()
	s.Register("Once", func() {}, goworker.Unique())
	var duplicate *goworker.DuplicateError
	for _, queue := range []string{"a", "b"} { // a lock lies where the queue does
		job := &goworker.Job{Queue: queue, Payload: goworker.Payload{Class: "Once", Args: nil}}
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
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.WaitReplicas = 1 })
	defer b.Daemon.Close()
	plain, err := b.Daemon.EnqueueWith(&goworker.Job{Queue: "other", Payload: goworker.Payload{Class: "Mark", Args: nil}})
	if q := b.Queue("other"); !errors.Is(err, goworker.ErrTooFewReplicas) || len(q) != 1 || plain.ID == "" || !strings.Contains(q[0], plain.ID) {
		t.Errorf("without a lock: %+v, %v; in the queue: %q", plain, err, q)
	}
	first, err := b.Daemon.EnqueueWith(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: nil}}, goworker.Unique())
	if !errors.Is(err, goworker.ErrTooFewReplicas) || first.ID == "" {
		t.Errorf("%+v, %v", first, err)
	}
	duplicate := new(goworker.DuplicateError)
	if _, err := b.Daemon.EnqueueWith(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: nil}}, goworker.Unique()); !errors.As(err, &duplicate) || duplicate.Holder != first.ID {
		t.Errorf("a second: %v", err)
	}
	third, err := b.Daemon.EnqueueWith(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: nil}}, goworker.Unique(goworker.ReplaceWaiting()))
	if !errors.Is(err, goworker.ErrTooFewReplicas) || third.Replaced != first.ID {
		t.Errorf("one that replaces it: %+v, %v", third, err)
	}
	if q := b.Queue("work"); len(q) != 1 || !strings.Contains(q[0], third.ID) {
		t.Errorf("in the queue: %q", q)
	}
}
