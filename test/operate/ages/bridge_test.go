package ages

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/delayedbridge"
	"github.com/goworker/goworker/inspect"
)

func calculate(int) {}

// A bridge takes tasks from a queue of the library delayed. Its process says how many wait there and how long the oldest has, counted
// while bridges alone take, and not known once a worker of delayed has a task in hand. The queue where the jobs go is counted as any other.
func TestBridges(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	bridge := func() (in *inspect.Inspector) {
		d := goworker.New(goworker.WorkerSettings{
			QueuesString: "msgpack:calc", Concurrency: 2, URI: f.redis.URI(), Logger: slog.New(slog.DiscardHandler),
		})
		d.RegisterFunc(calculate, goworker.As("pkg.Int"))
		d.AddPart(delayedbridge.Part(d, delayedbridge.Queue{Name: "calc", Ahead: 5}))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			d.Close()
		})
		return d.Client().Inspect()
	}
	in := bridge()
	_ = bridge() // both take, and the sum is right
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	tasks := func(n int) {
		t.Helper()
		for range n {
			if err := delayedbridge.Enqueue(t.Context(), client, "calc", delayedbridge.GoTask("pkg.Int", 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	says := func(what string, cond func(inspect.Bridge) bool) (b inspect.Bridge) {
		t.Helper()
		f.eventually(what, func() bool {
			all, err := in.Processes(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range all {
				if len(p.Bridges) != 1 || p.Bridges[0].Queue != "delayed:calc" || p.Bridges[0].To != "msgpack:calc" {
					return false
				}
				if b = p.Bridges[0]; !cond(b) {
					return false
				}
			}
			return len(all) == 2
		})
		return b
	}
	tasks(30)
	says("both say how many were taken", func(b inspect.Bridge) bool { return b.Taken == 30 && b.Waiting == 0 })

	f.redis.Do(t, "SADD", "resque:go:paused", "msgpack:calc")
	tasks(25)
	pushed := time.Now()
	const old = 6 * time.Second
	b := says("the tasks wait", func(b inspect.Bridge) bool { return b.Taken == 35 && b.Waiting == 20 && b.Oldest.For > old })
	if off := b.Oldest.For - time.Since(pushed); b.Oldest.Method != inspect.AgeCounted || off.Abs() > 5*time.Second {
		t.Errorf("the oldest task is off by %v: %+v", off, b)
	}
	f.eventually("the jobs are counted", func() bool {
		s, err := in.Sample(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range s.Queues {
			if q.Name == "msgpack:calc" && q.Counted && q.Oldest.Method == inspect.AgeCounted && q.Waiting.N == 5 {
				return true
			}
		}
		return false
	})

	f.redis.Do(t, "SET", "worker-of-delayed", 1)
	f.redis.Do(t, "HSET", "calc_processing", "worker-of-delayed", "a task")
	says("a worker of delayed takes too", func(b inspect.Bridge) bool { return !b.Oldest.Known() && b.Waiting == 20 })
	f.redis.Do(t, "DEL", "calc_processing", "resque:go:taken")
	f.redis.Do(t, "DEL", "resque:go:paused")
	says("all were taken", func(b inspect.Bridge) bool { return b.Waiting == 0 })
}
