package goworker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// shardFleet is several Redises and the shards on them. Shard i has the queue "work<i>"
// and what else a test gives it.
type shardFleet struct {
	*daemontest.Bundle // of the first: its book of runs, log and gate are everybody's
	servers            []*redistest.Server
	shards             *goworker.Shards

	now, most atomic.Int64 // handlers that run, and the most there were at once
}

// setupShards starts n Redises. The shards are made of them, with four workers
// unless changed, and know the classes of setup.
func setupShards(t *testing.T, n int, change ...func(*goworker.WorkerSettings)) *shardFleet {
	t.Helper()
	f := &shardFleet{Bundle: &daemontest.Bundle{T: t, Log: new(daemontest.LogBook), Runs: daemontest.NewRunBook(), Ended: make(chan error, 1), Gate: make(chan struct{})}}
	settings := goworker.WorkerSettings{Concurrency: 4, PollInterval: time.Minute, Logger: slog.New(f.Log)}
	for _, c := range change {
		c(&settings)
	}
	var shards []goworker.Shard
	for i := range n {
		f.servers = append(f.servers, redistest.Start(t))
		shards = append(shards, goworker.Shard{URI: f.servers[i].URI(), Queues: []string{fmt.Sprint("work", i)}})
	}
	f.Redis = f.servers[0]
	f.shards = goworker.NewShards(settings, shards...)
	for class, handler := range f.Classes() {
		f.shards.Register(class, handler)
	}
	f.shards.Use(func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			now := f.now.Add(1)
			for most := f.most.Load(); now > most && !f.most.CompareAndSwap(most, now); most = f.most.Load() {
			}
			defer f.now.Add(-1)
			return next.Perform(ctx, d)
		})
	})
	return f
}

// operator is the same Redises as an operator reaches them.
func (f *shardFleet) operator() *goworker.Shards {
	var shards []goworker.Shard
	for i, server := range f.servers {
		shards = append(shards, goworker.Shard{URI: server.OperatorsURI(), Queues: []string{fmt.Sprint("work", i)}})
	}
	s := goworker.NewShards(goworker.WorkerSettings{Logger: slog.New(slog.DiscardHandler)}, shards...)
	f.T.Cleanup(s.Close)
	return s
}

// run runs the shards; the test's end stops them.
func (f *shardFleet) run() {
	f.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.Cancel = cancel
	go func() { f.Ended <- f.shards.Run(ctx) }()
	f.T.Cleanup(func() {
		f.Open()
		for _, s := range f.servers {
			s.Resume()
		}
		cancel()
		select {
		case <-f.Ended:
		case <-time.After(3 * daemontest.Soon):
			f.T.Error("Run did not return")
		}
		f.shards.Close()
	})
}

// enqueue pushes n jobs of a class to the queue of a shard.
func (f *shardFleet) enqueue(shard int, class, name string, n int, more ...any) {
	f.T.Helper()
	var all []*goworker.Job
	for i := range n {
		args := append([]any{fmt.Sprintf("%s%d", name, i)}, more...)
		all = append(all, &goworker.Job{Queue: fmt.Sprint("work", shard), Payload: goworker.Payload{Class: class, Args: args}})
	}
	if err := f.shards.EnqueueAll(all...); err != nil {
		f.T.Fatal(err)
	}
}

func (f *shardFleet) ends(name string, n int) bool {
	for i := range n {
		if f.Runs.Ends(fmt.Sprint(name, i)) == 0 {
			return false
		}
	}
	return true
}

func TestShardsRoute(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	s := goworker.NewShards(goworker.WorkerSettings{},
		goworker.Shard{URI: servers[0].URI(), Queues: []string{"*", "!odd", "!nowhere"}},
		goworker.Shard{URI: servers[1].URI(), Queues: []string{"mail=3", "mail-*", "!mail-old"}},
		goworker.Shard{URI: servers[2].URI(), Queues: []string{"odd,video"}})
	defer s.Close()
	want := map[string]int{
		"mail": 1, "mail-new": 0, "mail-old": 0, "odd": 2, "video": 2, "anything": 0, // a name goes before a pattern
	}
	var all []*goworker.Job
	for queue := range want {
		all = append(all, &goworker.Job{Queue: queue, Payload: goworker.Payload{Class: "J", Args: []any{queue}}}, &goworker.Job{Queue: queue, Payload: goworker.Payload{Class: "J", Args: nil}})
	}
	if err := s.EnqueueAll(all...); err != nil {
		t.Fatal(err)
	}
	if err := s.Enqueue(&goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "J", Args: nil}}); err != nil {
		t.Fatal(err)
	}
	for queue, i := range want {
		for n, server := range servers {
			jobs := 0
			if n == i {
				jobs = 2
			}
			if queue == "mail" && n == i {
				jobs = 3
			}
			if got := server.Int(t, "LLEN", "resque:queue:"+queue); got != jobs {
				t.Errorf("queue %s on shard %d has %d jobs, want %d", queue, n, got, jobs)
			}
		}
		if d, err := s.DaemonOf(queue); err != nil || d != s.Daemons()[i] {
			t.Errorf("queue %s: %v", queue, err)
		}
	}
	err := s.EnqueueAll(all[0], &goworker.Job{Queue: "nowhere", Payload: goworker.Payload{Class: "J", Args: nil}})
	if err == nil {
		t.Fatal("a job was pushed to a queue that lies nowhere")
	}
	for _, part := range []string{"job 2 of 2", `"nowhere"`, servers[0].Addr + " (*,!odd,!nowhere)", "nothing was enqueued"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not say %q", err, part)
		}
	}
}

func TestShardsSchedule(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 2)
	for i := range f.servers {
		r := goworker.Recurring{Every: time.Second, Class: "Mark", Queue: fmt.Sprint("work", i), Args: []any{fmt.Sprint("tick", i)}}
		if err := f.shards.Schedule("ticks", r); err != nil { // on each shard one of its own
			t.Fatal(err)
		}
	}
	f.run()
	f.Eventually("ticks of both shards", func() bool { return f.Runs.Ends("tick0") > 1 && f.Runs.Ends("tick1") > 1 })
	for i, d := range f.shards.Daemons() {
		if all, err := d.Schedules(); err != nil || len(all) != 1 || all[0].Recurring.Queue != fmt.Sprint("work", i) {
			t.Errorf("shard %d has %+v, %v", i, all, err)
		}
	}
	err := f.shards.Schedule("lost", goworker.Recurring{Every: time.Second, Class: "Mark", Queue: "nowhere"})
	if err == nil || !strings.Contains(err.Error(), `queue "nowhere" lies on no shard`) {
		t.Error(err)
	}
	if err := f.shards.Schedule("never", goworker.Recurring{Class: "Mark", Queue: "work0"}); err == nil {
		t.Error("a schedule without times is taken")
	}
}

// A queue that is resumed wakes the shard of it, which had nothing to ask.
func TestShardResumes(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 2)
	f.run()
	f.enqueue(0, "Mark", "before", 1)
	f.Eventually("it runs", func() bool { return f.ends("before", 1) })
	d := f.shards.Daemons()[0]
	if err := d.PauseQueue("work0"); err != nil {
		t.Fatal(err)
	}
	f.enqueue(1, "Mark", "other", 1)
	f.Eventually("the other shard goes on", func() bool { return f.ends("other", 1) })
	f.enqueue(0, "Mark", "after", 1)
	if err := d.ResumeQueue("work0"); err != nil {
		t.Fatal(err)
	}
	f.Eventually("it runs", func() bool { return f.ends("after", 1) })
}

func TestShardsRefuse(t *testing.T) {
	t.Parallel()
	a, b := goworker.Shard{URI: "redis://:secret@one", Queues: []string{"a"}}, goworker.Shard{URI: "redis://:secret@two", Queues: []string{"b", "c-*"}}
	tests := []struct {
		name     string
		settings goworker.WorkerSettings
		shards   []goworker.Shard
		want     []string
	}{
		{"none", goworker.WorkerSettings{}, nil, []string{"no shards"}},
		{"no queues", goworker.WorkerSettings{}, []goworker.Shard{a, {URI: "redis://two"}}, []string{"redis://two", "at least one queue"}},
		{"no URI", goworker.WorkerSettings{}, []goworker.Shard{a, {Queues: []string{"b"}}}, []string{"shard 2 of 2", "no URI"}},
		{"unknown URI", goworker.WorkerSettings{}, []goworker.Shard{a, {URI: "ftp://two", Queues: []string{"b"}}}, []string{"ftp"}},
		{"a queue twice", goworker.WorkerSettings{}, []goworker.Shard{a, b, {URI: "redis://three", Queues: []string{"c-*", "a"}}}, []string{`"a"`, "one", "redis://three", "name it once"}},
		{"queues of its own", goworker.WorkerSettings{QueuesString: "x"}, []goworker.Shard{a, b}, []string{"with each Shard"}},
		{"a URI of its own", goworker.WorkerSettings{URI: "redis://x"}, []goworker.Shard{a, b}, []string{"with each Shard"}},
		{"other settings", goworker.WorkerSettings{Concurrency: -1}, []goworker.Shard{a, b}, []string{"one", "Concurrency"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := goworker.NewShards(test.settings, test.shards...)
			defer s.Close()
			for what, err := range map[string]error{
				"Init": s.Init(), "Run": s.Run(context.Background()), "Work": s.Work(), "Enqueue": s.Enqueue(&goworker.Job{Queue: "a", Payload: goworker.Payload{Class: "J", Args: nil}}),
			} {
				if err == nil {
					t.Fatalf("%s took it", what)
				}
				for _, part := range test.want {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%s: the error %q does not say %q", what, err, part)
					}
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: the error shows the password: %v", what, err)
				}
			}
		})
	}
}

// All shards work, and never more handlers run than there are workers.
func TestShardsShareWorkers(t *testing.T) {
	t.Parallel()
	for _, lookAhead := range []bool{true, false} {
		t.Run(fmt.Sprint("look-ahead ", lookAhead), func(t *testing.T) {
			t.Parallel()
			f := setupShards(t, 3, func(s *goworker.WorkerSettings) { s.DisableLookAhead = !lookAhead })
			for i := range 3 {
				f.enqueue(i, "Nap", fmt.Sprint("nap", i, "-"), 40, 3)
				f.enqueue(i, "Mark", fmt.Sprint("mark", i, "-"), 400)
			}
			f.run()
			f.Eventually("all jobs run", func() bool { return f.Runs.Finished() == 3*440 })
			for i := range 3 { // they are still woken
				f.enqueue(i, "Mark", fmt.Sprint("late", i, "-"), 1)
				f.Eventually("a late job runs", func() bool { return f.ends(fmt.Sprint("late", i, "-"), 1) })
			}
			if most := f.most.Load(); most != 4 {
				t.Errorf("%d handlers ran at once, want 4", most)
			}
			if again := f.Runs.Twice(); len(again) > 0 {
				t.Errorf("ran twice: %q", again)
			}
			if err := f.Stop(); err != nil {
				t.Error(err)
			}
			for _, server := range f.servers {
				f.Redis = server
				if n := f.Stat("processed"); n != 441 {
					t.Errorf("%d processed, want 441", n)
				}
				f.OnlyTotals()
			}
		})
	}
}

// A shard alone with work has all the workers.
func TestShardAlone(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 3)
	f.run()
	f.enqueue(1, "Hold", "hold", 6)
	f.Eventually("four run on one shard", func() bool { return f.Runs.Started() == 4 })
	if n := f.servers[1].Int(t, "LLEN", "resque:queue:work1"); n != 2 {
		t.Errorf("%d jobs wait in Redis, want 2: none is reserved without a worker", n)
	}
}

// A few jobs of one shard start soon although another has a flood of them.
func TestShardsAreFair(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 2)
	f.enqueue(0, "Nap", "flood", 4000, 20) // twenty seconds of work
	f.run()
	f.Eventually("the flood runs", func() bool { return f.Runs.Finished() > 20 })
	f.enqueue(1, "Nap", "few", 10, 20)
	before := f.Runs.Finished()
	f.Eventually("the few run", func() bool { return f.ends("few", 10) })
	// Half of the workers are theirs as soon as jobs have ended: while ten of the few
	// run about ten others do. The bound leaves room for a slow machine.
	if n := f.Runs.Finished() - before; n > 1000 {
		t.Errorf("%d jobs of the flood ran before ten others", n)
	}
	if most := f.most.Load(); most > 4 {
		t.Errorf("%d handlers ran at once, want at most 4", most)
	}
	for _, s := range f.servers {
		s.Do(t, "FLUSHALL") // the rest of the flood is not needed
	}
}

// A Redis that is down at the start does not keep the others from working, and is
// worked as soon as it is there.
func TestShardDeadAtStart(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 3)
	f.servers[1].Kill()
	f.run()
	f.enqueue(0, "Mark", "a", 3)
	f.enqueue(2, "Mark", "c", 3)
	f.Eventually("the others work", func() bool { return f.ends("a", 3) && f.ends("c", 3) })
	err := f.shards.EnqueueAll(
		&goworker.Job{Queue: "work0", Payload: goworker.Payload{Class: "Mark", Args: []any{"d0"}}}, &goworker.Job{Queue: "work1", Payload: goworker.Payload{Class: "Mark", Args: []any{"e0"}}}, &goworker.Job{Queue: "work1", Payload: goworker.Payload{Class: "Mark", Args: []any{"e1"}}})
	var refused *goworker.ShardError
	if !errors.As(err, &refused) || refused.URI != goworker.RedactURI(f.servers[1].URI()) || len(refused.Jobs) != 2 || !strings.Contains(err.Error(), f.servers[1].Addr) {
		t.Fatalf("enqueueing on a dead shard: %v", err)
	}
	f.Eventually("what was for another shard runs", func() bool { return f.ends("d", 1) })
	f.Eventually("the outage is logged", func() bool { return f.Log.Count("redis unavailable") > 0 })
	f.shards.Pause() // it holds for the one to come too
	f.servers[1].Restart(t)
	f.Eventually("its end is logged", func() bool { return f.Log.Count("redis available again") > 0 })
	f.enqueue(1, "Mark", "b", 3)
	f.renewedOn(1)
	if f.Runs.Ends("b0") > 0 {
		t.Error("it does not pause")
	}
	f.shards.Resume()
	f.Eventually("the shard that came later works", func() bool { return f.ends("b", 3) })
	if n, m := f.Log.Count("redis unavailable"), f.Log.Count("redis available again"); n != 1 || m != 1 {
		t.Errorf("the log says %d times that it is away and %d times that it is back\n%s", n, m, f.Log.Text())
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
}

// renewedOn waits until the lease on a shard was renewed.
func (f *shardFleet) renewedOn(i int) {
	f.T.Helper()
	d := f.shards.Daemons()[i]
	f.Eventually("it is in the fleet", func() bool { return goworker.InFleet(d) != "" })
	score := func() string {
		return f.servers[i].Text(f.T, "ZSCORE", "resque:go:processes", goworker.InFleet(d))
	}
	first := score()
	f.Eventually("the lease is renewed", func() bool { now := score(); return now != "" && now != first })
}

// A Redis that dies while its jobs run and others wait does not take workers with
// it, and goes on where it was when it is back.
func TestShardDiesAndComesBack(t *testing.T) {
	t.Parallel()
	kills := map[string][2]func(*testing.T, *redistest.Server){
		"killed": {func(_ *testing.T, s *redistest.Server) { s.Kill() }, func(t *testing.T, s *redistest.Server) { s.Restart(t) }},
		"paused": {func(_ *testing.T, s *redistest.Server) { s.Pause() }, func(_ *testing.T, s *redistest.Server) { s.Resume() }},
	}
	for name, kill := range kills {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupShards(t, 2, func(s *goworker.WorkerSettings) { s.ReadTimeout = 2 * time.Second })
			f.run()
			f.enqueue(1, "Hold", "hold", 4) // all the workers
			f.Eventually("four run", func() bool { return f.Runs.Started() == 4 })
			f.enqueue(0, "Mark", "a", 200)
			kill[0](t, f.servers[1])
			f.Open()
			f.Eventually("the other shard has workers again", func() bool { return f.ends("a", 200) })
			f.enqueue(0, "Nap", "b", 20, 5)
			f.Eventually("it works on", func() bool { return f.ends("b", 20) })
			kill[1](t, f.servers[1])
			f.Eventually("the shard is there", func() bool { return f.servers[1].Int(t, "ZCARD", "resque:go:processes") == 1 })
			f.enqueue(1, "Mark", "c", 50)
			f.Eventually("it works again", func() bool { return f.ends("c", 50) })
			if most := f.most.Load(); most > 4 {
				t.Errorf("%d handlers ran at once, want at most 4", most)
			}
			if err := f.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A Redis that stands still while it is asked for jobs does not keep the workers that
// were to run them.
func TestShardStandsStill(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 2, func(s *goworker.WorkerSettings) { s.ReadTimeout = time.Minute }) // no answer, no error
	var begun atomic.Int64
	still := make(chan struct{})
	f.shards.Register("Flood", func(id string) {
		f.Runs.Start(id)
		if begun.Add(1) > 10000 {
			<-still // half of the flood is to come after that, however fast it runs
		}
		f.Runs.End(id)
	})
	f.run()
	f.enqueue(1, "Flood", "flood", 20000)
	f.Eventually("the flood runs", func() bool { return f.Runs.Finished() > 200 })
	f.servers[1].Pause()
	close(still)
	f.enqueue(0, "Hold", "hold", 4)
	f.Eventually("the other shard has all workers", func() bool { return f.Runs.Starts("hold3") == 1 })
	f.servers[1].Resume()
	f.Open()
	n := f.Runs.Finished()
	f.Eventually("the flood runs on", func() bool { return f.Runs.Finished() > n+1000 })
	if most := f.most.Load(); most > 4 {
		t.Errorf("%d handlers ran at once, want at most 4", most)
	}
}

// A dead shard does not keep the others from a clean stop.
func TestShardsStopWithOneDead(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 3)
	f.servers[2].Kill() // from the start
	f.run()
	f.enqueue(0, "Hold", "hold", 2)
	f.enqueue(1, "Mark", "mark", 2)
	f.Eventually("they work", func() bool { return f.Runs.Started() == 4 && f.ends("mark", 2) })
	f.servers[1].Kill()
	f.Cancel()
	f.Open()
	err := f.Wait()
	if err == nil || !strings.Contains(err.Error(), f.servers[1].Addr) || strings.Contains(err.Error(), f.servers[2].Addr) || strings.Contains(err.Error(), f.servers[0].Addr) {
		t.Errorf("Run returned %v, want an error that names the shard that could not be left", err)
	}
	f.Redis = f.servers[0]
	if n := f.Stat("processed"); n != 2 {
		t.Errorf("%d processed, want 2", n)
	}
	f.OnlyTotals()
}

// What waiting does not mend ends the run, and the shards that could work with it.
func TestShardsMistakeAtStart(t *testing.T) {
	t.Parallel()
	good, locked := redistest.Start(t), redistest.Start(t, "--requirepass", "secret")
	s := goworker.NewShards(goworker.WorkerSettings{AllowNoHandlers: true, Logger: slog.New(new(daemontest.LogBook))},
		goworker.Shard{URI: good.URI(), Queues: []string{"a"}}, goworker.Shard{URI: "redis://:wrong@" + locked.Addr, Queues: []string{"b"}})
	defer s.Close()
	err := s.Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), locked.Addr) || !strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "wrong@") {
		t.Fatalf("Run returned %v", err)
	}
	if ids := good.List(t, "SMEMBERS", "resque:workers"); len(ids) > 0 {
		t.Errorf("workers %q are left", ids)
	}
}

// Parts and hooks are called once for all shards, around their work.
func TestShardsParts(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 2, func(s *goworker.WorkerSettings) { s.ExitOnComplete = true })
	var calls []string
	note := func(what string) func(context.Context) error {
		return func(context.Context) error { calls = append(calls, what); return nil }
	}
	f.shards.AddPart(goworker.Part{Name: "database", Start: note("database up"), Stop: note("database down")})
	f.shards.AddPart(goworker.Part{Name: "front", Requires: []string{"poller"}, Start: note("front up"), Stop: note("front down")})
	f.shards.AddHooks(goworker.Hooks{Shutdown: func() { calls = append(calls, "shutdown") }})
	f.enqueue(0, "Mark", "a", 10)
	f.enqueue(1, "Mark", "b", 10)
	f.run()
	if err := f.Wait(); err != nil {
		t.Fatal(err)
	}
	if !f.ends("a", 10) || !f.ends("b", 10) {
		t.Error("Run returned before all queues were empty")
	}
	if want := []string{"database up", "front up", "shutdown", "front down", "database down"}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}

// BenchmarkShards is jobs/s of one process with 25 workers, the jobs dealt to one,
// two and three Redises, with handlers that do nothing and that compute for 50 µs.
func BenchmarkShards(b *testing.B) {
	handlers := map[string]func(){
		"noop": func() {},
		"50us": func() {
			for end := time.Now().Add(50 * time.Microsecond); time.Now().Before(end); {
			}
		},
	}
	for _, name := range []string{"noop", "50us"} {
		for n := 1; n <= 3; n++ {
			b.Run(fmt.Sprintf("%s/shards=%d", name, n), func(b *testing.B) { benchShards(b, n, handlers[name]) })
		}
	}
}

func benchShards(b *testing.B, n int, handler func()) {
	var shards []goworker.Shard
	for i := range n {
		shards = append(shards, goworker.Shard{URI: "unix://" + redistest.Start(b).Socket(), Queues: []string{fmt.Sprint("q", i)}})
	}
	s := goworker.NewShards(goworker.WorkerSettings{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, shards...)
	defer s.Close()
	var left atomic.Int64
	done := make(chan struct{})
	s.Register("Job", func(string, ...any) error {
		handler()
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	})
	left.Store(int64(b.N))
	for at := 0; at < b.N; at += 1000 {
		var batch []*goworker.Job
		for i := at; i < min(at+1000, b.N); i++ {
			batch = append(batch, &goworker.Job{Queue: fmt.Sprint("q", i%n), Payload: goworker.Payload{Class: "Job", Args: []any{i}}})
		}
		if err := s.EnqueueAll(batch...); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	b.ResetTimer()
	go func() { ended <- s.Run(ctx) }()
	<-done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

// The stop of all shards is over in the time of one, although a Redis stands still, a job ignores its
// context, and so do parts that stop before and after the shards. The other shards stop clean.
func TestStopTimeOfShards(t *testing.T) {
	t.Parallel()
	settings := goworker.WorkerSettings{ShutdownTimeout: time.Second}
	daemontest.Punctually(t, func() error {
		f := setupShards(t, 2, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = settings.ShutdownTimeout })
		deaf := func(context.Context) error { <-f.Gate; return nil }
		f.shards.AddPart(goworker.Part{Name: "web", Requires: []string{"poller"}, Stop: deaf})
		f.shards.AddPart(goworker.Part{Name: "database", Stop: deaf})
		f.run()
		f.enqueue(0, "Deaf", "deaf", 1)
		f.enqueue(1, "Hold", "hold", 1)
		f.Eventually("they run", func() bool { return f.Runs.Started() == 2 })
		f.servers[0].Pause()
		began := time.Now()
		f.Cancel()
		f.Eventually("the shards take no more jobs while a part stops", func() bool { return f.Log.Count("taking no more jobs") == 2 })
		f.Redis = f.servers[1]
		f.PushTo("work1", `{"class":"Mark","args":["late"]}`)
		err := f.Wait()
		took, most := time.Since(began), goworker.StopTime(settings)
		t.Logf("the stop took %v and returned: %v", took, err)
		if took > most+daemontest.Late {
			t.Errorf("the stop took %v, more than %v", took, most)
		}
		var parts, jobs []string
		for _, e := range shutdownErrors(err) {
			parts, jobs = append(parts, e.Parts...), append(jobs, e.Unfinished...)
		}
		switch {
		case !slices.Equal(parts, []string{"web", "database"}) || !slices.Equal(jobs, []string{"Deaf of queue work0"}):
			return fmt.Errorf("the errors name the parts %q and the jobs %q", parts, jobs)
		case strings.Contains(err.Error(), f.servers[1].Addr):
			return fmt.Errorf("the shard that works has an error: %w", err)
		case f.Runs.Starts("late") > 0 || len(f.Queue("work1")) != 2:
			return fmt.Errorf("the queue of the shard that works holds %q", f.Queue("work1"))
		}
		f.OnlyTotals()
		return nil
	})
}

// A second signal ends the wait of all shards, and that for a part.
func TestShardsStopNow(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 2, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = goworker.NoTimeout })
	stopping := make(chan struct{})
	f.shards.AddPart(goworker.Part{Name: "web", Requires: []string{"poller"}, Stop: func(ctx context.Context) error {
		close(stopping)
		<-ctx.Done()
		return nil
	}})
	f.run()
	f.enqueue(0, "Hold", "hold", 1)
	f.Eventually("it runs", func() bool { return f.Runs.Started() == 1 })
	f.Cancel()
	<-stopping
	f.shards.StopNow()
	if err := f.Wait(); err != nil {
		t.Error(err)
	}
	if n := len(f.Queue("work0")); n != 1 {
		t.Errorf("the queue has %d jobs, want the one that was cancelled", n)
	}
}

// shutdownErrors returns all errors of a stop in a tree of errors.
func shutdownErrors(err error) (all []*goworker.ShutdownError) {
	var one *goworker.ShutdownError
	switch e := err.(type) {
	case *goworker.ShutdownError:
		return append(all, e)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			all = append(all, shutdownErrors(err)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return append(all, one)
	}
	return nil
}

// The concurrency of shards changes while they work: never do more handlers run than there are workers, and a command that comes over
// each Redis is done once.
func TestShardsConcurrency(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 3)
	if _, err := f.shards.SetConcurrency(t.Context(), 2); err == nil {
		t.Error("shards that do not run have another concurrency")
	}
	f.servers[2].Kill()
	f.run()
	f.enqueue(0, "Hold", "hold", 6)
	f.enqueue(1, "Hold", "more", 6)
	f.Eventually("four run", func() bool { return f.Runs.Started() == 4 })
	set := func(n, from int) {
		t.Helper()
		if r, err := f.shards.SetConcurrency(t.Context(), n); err != nil || r.From != from || r.To != n || r.Settings != 4 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if _, err := f.shards.SetConcurrency(t.Context(), 0); err == nil {
		t.Error("no jobs at a time")
	}
	set(7, 4)
	f.Eventually("seven run", func() bool { return f.Runs.Started() == 7 })
	set(2, 7)
	f.Open()
	f.Eventually("all jobs run", func() bool { return f.ends("hold", 6) && f.ends("more", 6) })
	f.Eventually("no handler runs", func() bool { return f.now.Load() == 0 }) // one notes its end before it returns
	f.most.Store(0)
	for i := range 2 {
		f.enqueue(i, "Nap", fmt.Sprint("nap", i, "-"), 20, 3)
	}
	f.Eventually("all naps end", func() bool { return f.ends("nap0-", 20) && f.ends("nap1-", 20) })
	if most := f.most.Load(); most != 2 {
		t.Errorf("%d handlers ran at once, want 2", most)
	}
	f.servers[2].Restart(t)
	f.renewedOn(2)
	r, err := control.Gather(control.New(f.operator()).Do(t.Context(), control.Concurrency, control.Args(map[string]string{"workers": "+1"}), control.Timeout(daemontest.Soon)))
	if err != nil || len(r.Replies) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	for i, server := range f.servers {
		f.Eventually("each slot of each shard has its worker", func() bool { return server.Int(t, "SCARD", "resque:workers") == 3 })
		if n := f.shards.Daemons()[i].Stats().Workers; n != 3 {
			t.Errorf("shard %d says it has %d workers", i, n)
		}
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
}

// The queues of a shard change: one that is added lies there, one that was removed lies there still, and one of another shard is
// refused.
func TestShardQueues(t *testing.T) {
	t.Parallel()
	f := setupShards(t, 2)
	f.run()
	f.enqueue(1, "Mark", "first", 1)
	f.Eventually("it works", func() bool { return f.ends("first", 1) })
	second := f.shards.Daemons()[1]
	if _, err := second.SetQueues(t.Context(), "work0"); err == nil || !strings.Contains(err.Error(), "is named by two shards") {
		t.Errorf("a queue of another shard: %v", err)
	}
	if r, err := second.SetQueues(t.Context(), "work2", "work3"); err != nil || r.To != "work2,work3" {
		t.Fatalf("%+v, %v", r, err)
	}
	f.enqueue(2, "Mark", "added", 1)
	f.enqueue(1, "Mark", "removed", 1)
	f.Eventually("a queue that was added is worked", func() bool { return f.ends("added", 1) })
	if n := f.servers[1].Int(t, "LLEN", "resque:queue:work1"); n != 1 || f.Runs.Starts("removed0") > 0 {
		t.Errorf("%d jobs wait in the queue that was removed, on its shard", n)
	}
}
