package msgpack

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// refused fails the test if an error is not that of a job for a MessagePack queue beside an older process.
func refused(t *testing.T, call string, err error, id string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "process "+id) || !strings.Contains(err.Error(), "does not know MessagePack queues") {
		t.Errorf("%s beside an older process: %v", call, err)
	}
	if err != nil && (strings.Count(err.Error(), "; nothing was ") > 1 || strings.Count(err.Error(), "goworker: ") != 1) {
		t.Errorf("%s says something twice: %v", call, err)
	}
}

// Every call that pushes is refused beside a process of an older release, and goes through when that process has stopped.
func TestCallsBesideAnOldProcess(t *testing.T) {
	t.Parallel()
	b, c := setup(t)
	id, gone := older(b)
	_, err := c.Enqueue(t.Context(), job("Mark", "a"))
	refused(t, "Enqueue", err, id)
	_, err = c.EnqueueMany(t.Context(), goworker.Item{Job: job("Mark", "a")})
	refused(t, "EnqueueMany", err, id)
	_, err = c.Start(t.Context(), goworker.Step(job("Mark", "a")))
	refused(t, "Start", err, id)
	later := goworker.Chain(goworker.Step(goworker.NewJob("work", "Mark", "a")), goworker.Step(job("Mark", "a")))
	_, err = c.Start(t.Context(), later, goworker.AllowOld())
	refused(t, "Start with AllowOld", err, id)
	batch, err := c.NewBatch(t.Context(), goworker.Batch{})
	if err != nil {
		t.Fatal(err)
	}
	add := func() error {
		return batch.AddSeq(t.Context(), func(yield func(goworker.Item, error) bool) { yield(goworker.Item{Job: job("Mark", "b")}, nil) })
	}
	refused(t, "Add", batch.Add(t.Context(), goworker.Step(job("Mark", "c"))), id)
	refused(t, "AddSeq", add(), id)
	if n := b.Redis.Int(t, "EXISTS", list, "resque:queue:work"); n != 0 {
		t.Errorf("something was enqueued: %q", items(b))
	}
	gone()
	if err := batch.Add(t.Context(), goworker.Step(job("Mark", "c"))); err != nil {
		t.Error(err)
	}
	if err := add(); err != nil {
		t.Error(err)
	}
	if _, err := c.Start(t.Context(), later); err != nil {
		t.Error(err)
	}
	b.Start()
	b.Eventually("they run", func() bool { return b.Runs.Ends("a") == 2 && b.Runs.Ends("b") == 1 && b.Runs.Ends("c") == 1 })
	hidden(b)
}

// The ticks of a schedule wait while a process of an older release is in the fleet.
func TestTicksBesideAnOldProcess(t *testing.T) {
	t.Parallel()
	b, _ := setup(t, func(s *goworker.WorkerSettings) { s.PollInterval = 50 * time.Millisecond })
	id, gone := older(b)
	if err := b.Daemon.Schedule("tick", goworker.Recurring{Every: time.Second, Queue: calc, Class: "Mark", Args: []any{"tick"}}); err != nil {
		t.Fatal(err)
	}
	b.Start()
	b.Eventually("the log says why", func() bool {
		return strings.Contains(b.Log.Text(), "a tick of a recurring schedule is refused") && strings.Contains(b.Log.Text(), id)
	})
	if n := b.Redis.Int(t, "EXISTS", list); n != 0 {
		t.Errorf("a tick was fired: %q", items(b))
	}
	gone()
	b.Eventually("ticks run", func() bool { return b.Runs.Ends("tick") > 0 })
	hidden(b)
}

// While Redis does not serve, a job for a MessagePack queue is kept like any other.
func TestBuffered(t *testing.T) {
	t.Parallel()
	b, _ := setup(t)
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI()}, goworker.WithBuffer(10))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b.Redis.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
	b.Redis.Do(t, "REPLICAOF", "127.0.0.1", "1") // it answers MASTERDOWN
	for _, j := range []*goworker.Job{job("Mark", "a"), goworker.NewJob("work", "Mark", "b")} {
		if r, err := c.Enqueue(t.Context(), j); err != nil || !r.Buffered {
			t.Errorf("queue %s: %+v %v", j.Queue, r, err)
		}
	}
	b.Redis.Do(t, "REPLICAOF", "NO", "ONE")
	b.Start()
	b.Eventually("both run", func() bool { return b.Runs.Ends("a") == 1 && b.Runs.Ends("b") == 1 })
}

// MaxPayload bounds the JSON of an item, as Enqueue compares it: one byte of MessagePack may be six of JSON.
func TestLargeText(t *testing.T) {
	t.Parallel()
	const most = 1000
	b, c := setup(t, func(s *goworker.WorkerSettings) { s.MaxPayload = most })
	nils := make([]any, most/4) // 5 bytes each
	if _, err := c.Enqueue(t.Context(), job("Mark", nils)); err == nil || !strings.Contains(err.Error(), "MaxPayload (flag -max-payload) allows 1000") {
		t.Errorf("Enqueue: %v", err)
	}
	large := "\x92\xa4Mark\x91\xdc\x00\xfa" + strings.Repeat("\xc0", len(nils))
	b.Redis.Do(t, "RPUSH", list, large, "\x92\xa4Mark\x91\xa1a")
	b.Start()
	b.Eventually("both are over", func() bool { return b.Stat("processed") == 2 })
	failures := b.Failures()
	if b.Runs.Ends("a") != 1 || len(failures) != 1 || !strings.Contains(failures[0].Error, "MaxPayload (flag -max-payload) allows 1000") {
		t.Errorf("failures %+v", failures)
	}
	if kept := b.Redis.List(t, "LRANGE", "resque:go:kept:"+calc, 0, -1); len(kept) != 1 || kept[0] != large {
		t.Errorf("kept: %q", kept)
	}
}

// A user that may only push needs two keys more. Where it may also read the fleet it is refused beside an older process.
func TestProducerACL(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	b, _ := setup(t)
	rules := "on >pw ~resque:queue:* ~resque:queues ~resque:go:cancelled -@all +rpush +sadd +evalsha +eval +scard +llen +zrem ~resque:go:queue:* ~resque:go:queues"
	b.Redis.Do(t, "ACL", args("SETUSER", append([]string{"producer"}, strings.Fields(rules)...))...)
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://producer:pw@" + b.Redis.Addr + "/0"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id, _ := older(b)
	enqueue(t, c, job("Mark", "a"))
	b.Redis.Do(t, "ACL", args("SETUSER", strings.Fields("producer ~resque:go:process* +time +zrange +hgetall"))...)
	again, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://producer:pw@" + b.Redis.Addr + "/0"})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	_, err = again.Enqueue(t.Context(), job("Mark", "b"))
	refused(t, "Enqueue", err, id)
	if n := b.Redis.Int(t, "LLEN", list); n != 1 {
		t.Errorf("%d jobs", n)
	}
	hidden(b)
}
