package goworker_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// runDaemon runs a daemon until the test ends or stop is called.
func runDaemon(t *testing.T, settings goworker.WorkerSettings, register func(d *goworker.Daemon)) (d *goworker.Daemon, stop func()) {
	t.Helper()
	if settings.Logger == nil {
		settings.Logger = daemontest.Quiet
	}
	settings.AllowNoHandlers = true // some only move jobs
	d = goworker.New(settings)
	register(d)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		d.Close()
	})
	t.Cleanup(stop)
	return d, stop
}

// ran notes which jobs ran and when.
type ran struct {
	mu   sync.Mutex
	what []string
	when map[string]time.Time
}

func (r *ran) handler(d *goworker.Daemon) {
	r.when = make(map[string]time.Time)
	d.Register("Note", func(what string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.what = append(r.what, what)
		r.when[what] = time.Now()
	})
}

func (r *ran) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.what)
}

func (r *ran) at(what string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.when[what]
}

func note(what string) *goworker.Job {
	return &goworker.Job{Queue: "low", Payload: goworker.Payload{Class: "Note", Args: []any{what}}}
}

// Jobs of all kinds run, none before its time, and one that is due sooner than those the
// daemon knows of does not wait for them.
func TestDelayedJobsRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var r ran
	d, _ := runDaemon(t, goworker.WorkerSettings{URI: s.URI(), QueuesString: "low", Concurrency: 1, PollInterval: time.Minute}, r.handler)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	at := map[string]time.Time{
		"ruby":    now.Truncate(time.Second).Add(2 * time.Second),
		"precise": now.Add(1500 * time.Millisecond),
		"own":     now.Add(1200 * time.Millisecond),
		"sooner":  now.Add(600 * time.Millisecond),
		"now":     now,
	}
	must(d.EnqueueAt(now.Add(time.Hour), note("never")))
	must(d.EnqueueAt(at["ruby"], note("ruby")))
	must(d.EnqueueAt(at["precise"], note("precise")))
	receipt, err := d.EnqueueWith(note("own"), goworker.ProcessAt(at["own"]))
	must(err)
	must(d.EnqueueAt(at["now"], note("now")))
	must(d.EnqueueAt(at["sooner"], note("sooner")))
	redistest.Eventually(t, daemontest.Soon, "all have run", func() bool { return len(r.all()) == len(at) })
	for what, due := range at {
		if early := due.Sub(r.at(what)); early > 0 {
			t.Errorf("%s ran %v before its time", what, early)
		}
	}
	if n, err := d.Delayed().Count(); n != 1 || err != nil {
		t.Errorf("%d jobs are delayed, %v; want the one of the next hour", n, err)
	}
	if found, err := d.Delayed().Find(receipt.ID, time.Time{}); len(found) > 0 || err != nil {
		t.Errorf("still there: %v, %v", found, err)
	}
	redistest.Eventually(t, daemontest.Soon, "the schedulers' lock is given up while nothing is due", func() bool { return s.Int(t, "EXISTS", daemontest.MasterKey) == 0 })
}

// overdue delays two jobs to a time that is past: "plain" as Ruby does, with our hint when it is due within its second, and "own" in the
// schedule of our own.
func overdue(t *testing.T, s *redistest.Server) {
	t.Helper()
	const plain = `{"class":"Note","args":["plain"],"queue":"low"}`
	s.Do(t, "RPUSH", "resque:delayed:1000", plain)
	s.Do(t, "SADD", "resque:timestamps:"+plain, "delayed:1000")
	s.Do(t, "ZADD", "resque:go:precise", 1000_500, "1000500 1 "+plain)
	s.Do(t, "ZADD", "resque:delayed_queue_schedule", 1000, 1000)
	s.Do(t, "ZADD", "resque:go:schedule", 1000_500, `3:low{"class":"Note","args":["own"],"id":"x"}`)
}

// While Ruby's scheduler has the lock its jobs are left to it, and our own go on. Once it
// is gone we do its work.
func TestDelayedBesideRuby(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SET", daemontest.MasterKey, "localhost:1428")
	overdue(t, s)
	var r ran
	d, _ := runDaemon(t, goworker.WorkerSettings{URI: s.URI(), QueuesString: "low", Concurrency: 1}, r.handler)
	redistest.Eventually(t, daemontest.Soon, "ours has run and the second is over", func() bool {
		return len(r.all()) == 1 && s.Int(t, "EXISTS", "resque:go:precise") == 0
	})
	if _, err := d.EnqueueWith(note("own too"), goworker.ProcessIn(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, daemontest.Soon, "another job of this process has run", func() bool { return len(r.all()) == 2 })
	if got := r.all(); !slices.Equal(got, []string{"own", "own too"}) || s.Text(t, "GET", daemontest.MasterKey) != "localhost:1428" || s.Int(t, "ZCARD", "resque:delayed_queue_schedule") != 1 {
		t.Errorf("ran %v, lock %q", got, s.Text(t, "GET", daemontest.MasterKey))
	}
	s.Do(t, "DEL", daemontest.MasterKey)
	redistest.Eventually(t, daemontest.Soon, "Ruby's has run", func() bool { return len(r.all()) == 3 })
}

// With LeaveDelayed the daemon leaves resque-scheduler's jobs to it, although its lock is
// free.
func TestLeaveDelayed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	overdue(t, s)
	var r ran
	d, _ := runDaemon(t, goworker.WorkerSettings{URI: s.URI(), QueuesString: "low", Concurrency: 1, LeaveDelayed: true}, r.handler)
	redistest.Eventually(t, daemontest.Soon, "ours has run", func() bool { return len(r.all()) > 0 })
	if _, err := d.EnqueueWith(note("own too"), goworker.ProcessIn(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, daemontest.Soon, "another job of this process has run", func() bool { return len(r.all()) > 1 })
	if got := r.all(); !slices.Equal(got, []string{"own", "own too"}) || s.Int(t, "ZCARD", "resque:delayed_queue_schedule") != 1 {
		t.Errorf("ran %v; %d seconds wait, want 1", got, s.Int(t, "ZCARD", "resque:delayed_queue_schedule"))
	}
	if n, err := d.EnqueueDelayed(note("plain")); n != 1 || err != nil {
		t.Errorf("by hand %d were enqueued, %v", n, err)
	}
	redistest.Eventually(t, daemontest.Soon, "it runs as well", func() bool { return len(r.all()) == 3 })
}

// Who is to move late jobs and does not is named, once.
func TestLateJobsOfADeadScheduler(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Redis.Do(t, "SET", daemontest.MasterKey, "ruby-7:1428")
	b.Redis.Do(t, "ZADD", "resque:delayed_queue_schedule", 1000, 1000)
	b.Redis.Do(t, "RPUSH", "resque:delayed:1000", `{"class":"Mark","args":["late"],"queue":"work"}`)
	b.Start()
	const line = "delayed jobs are late"
	b.Eventually("the holder is named", func() bool {
		return b.Log.Count(line) == 1 && b.Log.Count("holder=ruby-7:1428 key="+daemontest.MasterKey) == 1
	})
	goworker.PumpNow(b.Daemon)
	b.Redis.Do(t, "DEL", daemontest.MasterKey)
	b.Eventually("the job runs", func() bool { return b.Runs.Finished() == 1 })
	if n := b.Log.Count(line); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// Many daemons pump; each job runs once, and those of one queue start in their order.
func TestManyPumps(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const jobs = 3000
	var want []string
	producer := goworker.New(goworker.WorkerSettings{URI: s.URI(), Logger: daemontest.Quiet})
	defer producer.Close()
	for i := range jobs {
		what := fmt.Sprintf("%04d", i)
		want = append(want, what)
		var err error
		switch i % 2 {
		case 0:
			s.Do(t, "ZADD", "resque:go:schedule", 1000+i, `3:low{"class":"Note","args":["`+what+`"],"id":"x"}`)
		default: // past seconds, as if no scheduler had pumped
			second := fmt.Sprint(1000 + i/100)
			s.Do(t, "RPUSH", "resque:delayed:"+second, `{"class":"Note","args":["`+what+`"],"queue":"high"}`)
			s.Do(t, "ZADD", "resque:delayed_queue_schedule", second, second)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// No daemon works these queues, so that their order can be seen.
	for range 4 {
		runDaemon(t, goworker.WorkerSettings{URI: s.URI(), QueuesString: "none", Concurrency: 1}, func(d *goworker.Daemon) {
			d.AddPart(goworker.Part{Name: "eager", Requires: []string{"schedule"}, Start: func(context.Context) error {
				goworker.LeadPump(d) // as if there was no other process
				return nil
			}})
		})
	}
	length := func(q string) int { return s.Int(t, "LLEN", "resque:queue:"+q) }
	redistest.Eventually(t, daemontest.Soon, "all are moved", func() bool { return length("low")+length("high") == jobs })
	for rest, queue := range []string{"low", "high"} {
		var got, wanted []string
		for _, p := range s.List(t, "LRANGE", "resque:queue:"+queue, 0, -1) {
			got = append(got, p[len(`{"class":"Note","args":["`):][:4])
		}
		for i := rest; i < jobs; i += 2 {
			wanted = append(wanted, want[i])
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("queue %s: %s", queue, diff)
		}
	}
}

// A pump goes on when Redis comes back.
func TestDelayedOutlivesRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	var r ran
	d, _ := runDaemon(t, goworker.WorkerSettings{URI: s.URI(), QueuesString: "low", Concurrency: 1}, r.handler)
	redistest.Eventually(t, daemontest.Soon, "it pumps", func() bool { return d.EnqueueIn(50*time.Millisecond, note("first")) == nil })
	redistest.Eventually(t, daemontest.Soon, "the first has run", func() bool { return len(r.all()) > 0 })
	if err := d.EnqueueIn(1200*time.Millisecond, note("plain")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnqueueWith(note("own"), goworker.ProcessIn(time.Second)); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Restart(t)
	redistest.Eventually(t, daemontest.Soon, "both have run", func() bool { return len(r.all()) == 3 })
}

func TestDelayedList(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: s.URI(), Logger: daemontest.Quiet})
	defer d.Close()
	must := func(n int, err error) func(want int) {
		return func(want int) {
			t.Helper()
			if n != want || err != nil {
				t.Fatalf("%d, %v; want %d", n, err, want)
			}
		}
	}
	base := time.Now().Add(time.Hour).Truncate(time.Second)
	whats := func(jobs []goworker.DelayedJob, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, j := range jobs {
			kind := "own"
			if j.Plain {
				kind = "plain"
			}
			text += fmt.Sprintf("%s %s %s %s %s\n", j.At.Sub(base), kind, j.Queue, j.Class, j.Args)
		}
		return text
	}
	same := func(what, want, got string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if err := d.EnqueueAllAt(base, note("a"), note("b"), note("a")); err != nil {
		t.Fatal(err)
	}
	if err := d.EnqueueAt(base.Add(1500*time.Millisecond), note("a")); err != nil {
		t.Fatal(err)
	}
	own, err := d.EnqueueWith(note("a"), goworker.ProcessAt(base.Add(1250*time.Millisecond)), goworker.WithID(`"<é>*`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnqueueWith(note("ab"), goworker.ProcessAt(base.Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	// As node-resque delays a job, and as Ruby delays one for another queue.
	node, other := `{"class":"Note","queue":"low","args":["a"]}`, `{"class":"Note","args":["a"],"queue":"other"}`
	second := fmt.Sprint(base.Add(2 * time.Minute).Unix())
	for _, item := range []string{node, other} {
		s.Do(t, "RPUSH", "resque:delayed:"+second, item)
		s.Do(t, "SADD", "resque:timestamps:"+item, "delayed:"+second)
	}
	s.Do(t, "ZADD", "resque:delayed_queue_schedule", second, second)

	list := d.Delayed()
	all := "0s plain low Note [\"a\"]\n0s plain low Note [\"b\"]\n0s plain low Note [\"a\"]\n1.25s own low Note [\"a\"]\n" +
		"2s plain low Note [\"a\"]\n1m0s own low Note [\"ab\"]\n2m0s plain low Note [\"a\"]\n2m0s plain other Note [\"a\"]\n"
	same("all", all, whats(list.List(time.Time{}, 0, 100)))
	same("all, without a bound", all, whats(list.List(time.Time{}, -1, -1)))
	_, rest, _ := strings.Cut(all, "\n")
	same("all but the first", rest, whats(list.List(time.Time{}, 1, math.MaxInt)))
	same("none", "", whats(list.List(time.Time{}, 0, 0)))
	same("a page", "2s plain low Note [\"a\"]\n1m0s own low Note [\"ab\"]\n", whats(list.List(base.Add(time.Millisecond), 1, 2)))
	if n, err := list.Count(); n != 8 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	like := "0s plain low Note [\"a\"]\n0s plain low Note [\"a\"]\n1.25s own low Note [\"a\"]\n2s plain low Note [\"a\"]\n2m0s plain low Note [\"a\"]\n"
	same("like", like, whats(list.Like(note("a"))))
	same("found by id", "1.25s own low Note [\"a\"]\n", whats(list.Find(own.ID, time.Time{})))
	same("found by id and time", "1.25s own low Note [\"a\"]\n", whats(list.Find(own.ID, base.Add(1250*time.Millisecond))))
	same("not at another time", "", whats(list.Find(own.ID, base)))
	same("another id", "", whats(list.Find("other", time.Time{})))
	times, err := d.ScheduledAt(note("b"))
	if len(times) != 1 || !times[0].Equal(base) || err != nil {
		t.Errorf("b is delayed to %v, %v", times, err)
	}

	found, err := list.Find(own.ID, time.Time{})
	must(len(found), err)(1)
	must(list.Reschedule(base.Add(time.Second), found...))(1)
	must(list.Reschedule(base.Add(time.Second), goworker.DelayedJob{}))(0)
	found, err = list.Find(own.ID, base.Add(time.Second))
	must(len(found), err)(1)
	must(d.RemoveDelayedFrom(base, note("a")))(2)
	must(d.RemoveDelayedFrom(base.Add(1500*time.Millisecond), note("a")))(1)
	must(d.EnqueueDelayed(note("b")))(1)
	must(list.Enqueue(found...))(1)
	must(list.Enqueue(found...))(0)
	must(d.RemoveDelayed(note("a")))(1)
	must(d.RemoveDelayed(note("a")))(0)
	same("left", "1m0s own low Note [\"ab\"]\n2m0s plain other Note [\"a\"]\n", whats(list.List(time.Time{}, 0, 100)))
	same("queue", `[{"class":"Note","args":["b"]} {"class":"Note","args":["a"],"id":"\"<é>*"}]`, fmt.Sprint(s.List(t, "LRANGE", "resque:queue:low", 0, -1)))
	if err := list.Clear(); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"resque:queue:low": s.List(t, "LRANGE", "resque:queue:low", 0, -1), "resque:queues": []string{"low"}}
	if diff := cmp.Diff(want, s.Dump(t, "")); diff != "" {
		t.Errorf("keys after all (-want +got):\n%s", diff)
	}
}

// A time that is past is an ordinary Enqueue: its payload names no queue.
func TestDelayedToThePast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: s.URI(), Logger: daemontest.Quiet})
	defer d.Close()
	for _, err := range []error{
		d.EnqueueAt(time.Now(), note("a")), d.EnqueueAt(time.Unix(1, 0), note("b")), d.EnqueueIn(-time.Hour, note("c")),
		d.EnqueueIn(math.MinInt64, note("d")), d.EnqueueIn(math.MaxInt64, note("never")),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{`{"class":"Note","args":["a"]}`, `{"class":"Note","args":["b"]}`, `{"class":"Note","args":["c"]}`, `{"class":"Note","args":["d"]}`}
	if diff := cmp.Diff(want, s.List(t, "LRANGE", "resque:queue:low", 0, -1)); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
}

func TestDelayedRefuses(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{URI: "redis://127.0.0.1:1/", Logger: daemontest.Quiet})
	defer d.Close()
	for name, err := range map[string]error{
		"no job":   d.EnqueueAt(time.Now().Add(time.Hour), nil),
		"no queue": d.EnqueueIn(time.Hour, &goworker.Job{Queue: "", Payload: goworker.Payload{Class: "C", Args: nil}}),
		"no class": d.EnqueueIn(time.Hour, &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "", Args: nil}}),
		"a func":   d.EnqueueIn(time.Hour, &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "C", Args: []any{func() {}}}}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, job := range []*goworker.Job{nil, {Queue: "", Payload: goworker.Payload{Class: "C", Args: nil}}, {Queue: "q", Payload: goworker.Payload{Class: "", Args: nil}}, {Queue: "q", Payload: goworker.Payload{Class: "C", Args: []any{func() {}}}}} {
		if _, err := d.RemoveDelayed(job); err == nil {
			t.Errorf("%v: removed", job)
		}
	}
}

func TestShardsDelay(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	s := goworker.NewShards(goworker.WorkerSettings{Logger: daemontest.Quiet}, goworker.Shard{URI: a.URI(), Queues: []string{"low"}}, goworker.Shard{URI: b.URI(), Queues: []string{"high"}})
	defer s.Close()
	if err := s.EnqueueAt(time.Unix(1_900_000_000, 0), note("a")); err != nil {
		t.Error(err)
	}
	if err := s.EnqueueIn(time.Hour, &goworker.Job{Queue: "high", Payload: goworker.Payload{Class: "Note", Args: nil}}); err != nil {
		t.Error(err)
	}
	for _, redis := range []*redistest.Server{a, b} {
		if n := redis.Int(t, "ZCARD", "resque:delayed_queue_schedule"); n != 1 {
			t.Errorf("%d seconds on one shard, want 1", n)
		}
	}
	for _, job := range []*goworker.Job{nil, {Queue: "nowhere", Payload: goworker.Payload{Class: "Note", Args: nil}}} {
		if err := s.EnqueueIn(time.Hour, job); err == nil {
			t.Errorf("%v: no error", job)
		}
	}
}
