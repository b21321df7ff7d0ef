package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// waiting is what waits in a list: for each job its first argument.
func waiting(t *testing.T, server *redistest.Server, list string) string {
	t.Helper()
	var ids []string
	for _, raw := range server.List(t, "LRANGE", list, 0, -1) {
		_, rest, _ := strings.Cut(raw, `"args":["`)
		id, _, _ := strings.Cut(rest, `"`)
		ids = append(ids, id)
	}
	return strings.Join(ids, " ")
}

// Jobs with a priority are in front of those with a lower one, and of one priority they keep their
// order, however they are enqueued. It stays one list, whose head Ruby's workers take from.
func TestPriority(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	urgent := goworker.Define[string, goworker.None]("U", goworker.OnQueue("work"), goworker.Priority(goworker.Urgent))
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()}, goworker.Classes(urgent))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	enqueue := func(want string, items ...goworker.Item) {
		t.Helper()
		if _, err := client.EnqueueMany(t.Context(), items...); err != nil {
			t.Fatal(err)
		}
		if got := waiting(t, server, "resque:queue:work"); got != want {
			t.Fatalf("the queue has %s, want %s", got, want)
		}
	}
	item := func(id string, opts ...goworker.EnqueueOption) goworker.Item {
		return goworker.Item{Job: goworker.NewJob("work", "C", id), Options: opts}
	}
	high := goworker.Priority(goworker.High)
	enqueue("h1", item("h1", high))
	enqueue("h1 n1", item("n1"))
	enqueue("u1 h1 n1", urgent.Item("u1"))
	enqueue("u1 h1 h2 n1", item("h2", high))
	enqueue("u1 u2 h1 h2 h3 n1 n2 n3", item("n2"), item("h3", high), urgent.Item("u2"), item("n3"))
	enqueue("u1 u2 h1 h2 h3 h4 n1 n2 n3 n4", urgent.Item("n4", goworker.Priority(goworker.Normal)), item("h4", high, goworker.WithID("4")))
	if raw := server.List(t, "LRANGE", "resque:queue:work", 5, 5)[0]; raw != `{"priority":1,"class":"C","args":["h4"],"id":"4"}` {
		t.Errorf("the payload is %s", raw)
	}
	// Ruby's own push is behind, and a job that a stop puts back is in front of all.
	server.Do(t, "RPUSH", "resque:queue:work", `{"class":"C","args":["ruby"]}`)
	server.Do(t, "LPUSH", "resque:queue:work", `{"class":"C","args":["back"]}`)
	enqueue("h5 back u1 u2 h1 h2 h3 h4 n1 n2 n3 n4 ruby", item("h5", high))
	if n := server.Int(t, "SCARD", "resque:queues"); n != 1 {
		t.Errorf("there are %d queues", n)
	}
	for _, level := range []goworker.PriorityLevel{-1, 3} {
		_, err := client.Enqueue(t.Context(), goworker.NewJob("work", "C"), goworker.Priority(level))
		if want := fmt.Sprintf("goworker: enqueueing C: Priority(%d): it must be Normal (0), High (1) or Urgent (2)", level); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("level %d: %v", level, err)
		}
	}
	if _, err := client.Enqueue(t.Context(), goworker.NewJob("work", "C"), high, goworker.ResqueScheduler(), goworker.ProcessIn(time.Hour)); err == nil {
		t.Error("resque-scheduler's schedule took a priority")
	}
	if _, err := client.Enqueue(t.Context(), urgent.Job("later"), goworker.ResqueScheduler(), goworker.ProcessIn(time.Hour)); err != nil || server.Int(t, "ZCARD", "resque:go:schedule") != 1 {
		t.Errorf("a class with a priority: %v", err)
	}
}

// However many wait with a priority, those without stay behind them. Only the order among more
// than a thousand is open.
func TestPriorityOfMany(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	levels := []goworker.PriorityLevel{goworker.High, goworker.Normal, goworker.Urgent}
	var items []goworker.Item
	for i := range 4500 {
		items = append(items, goworker.Item{Job: goworker.NewJob("work", "C", i), Options: []goworker.EnqueueOption{goworker.Priority(levels[i%3])}})
	}
	for len(items) > 0 {
		n := min(len(items), 1+len(items)/3)
		if _, err := client.EnqueueMany(t.Context(), items[:n]...); err != nil {
			t.Fatal(err)
		}
		items = items[n:]
	}
	behind, seen := false, make(map[string]bool)
	for i, raw := range server.List(t, "LRANGE", "resque:queue:work", 0, -1) {
		has := strings.HasPrefix(raw, `{"priority":`)
		if has && behind {
			t.Fatalf("at place %d a job with a priority is behind one without", i)
		}
		behind, seen[raw] = !has, true
	}
	if len(seen) != 4500 {
		t.Errorf("%d jobs", len(seen))
	}
}

// Our workers start them by priority; so do delayed, retried and limited ones.
func TestPriorityOfRuns(t *testing.T) {
	t.Parallel()
	for _, limited := range []bool{false, true} {
		t.Run(fmt.Sprint("limited ", limited), func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 1 })
			var order []string
			var opts []goworker.Option
			if limited {
				opts = append(opts, goworker.MaxRunning(1))
			}
			first, gate := make(chan bool), make(chan bool)
			b.Daemon.Register("Turn", func(ctx context.Context, id string) {
				if order = append(order, id); id == "first" {
					first <- true
					<-gate
				}
			}, opts...)
			enqueue := func(id string, opts ...goworker.EnqueueOption) {
				t.Helper()
				if _, err := b.Daemon.Client().Enqueue(t.Context(), goworker.NewJob("work", "Turn", id), opts...); err != nil {
					t.Fatal(err)
				}
			}
			b.Start()
			enqueue("first")
			<-first
			enqueue("n1")
			enqueue("n2")
			if limited { // they are sorted before the others come
				b.Eventually("they are in a lane", func() bool { return len(b.Queue("work")) == 0 })
			}
			enqueue("later", goworker.Priority(goworker.High), goworker.ProcessIn(time.Hour))
			enqueue("h1", goworker.Priority(goworker.High))
			enqueue("u1", goworker.Priority(goworker.Urgent))
			b.Due()
			b.Eventually("the delayed one waits with them", func() bool {
				waits := len(b.Queue("work"))
				for _, lane := range b.Redis.List(t, "KEYS", "resque:go:lane:*") {
					waits += b.Redis.Int(t, "LLEN", lane)
				}
				return waits == 5 && len(b.Scheduled()) == 0
			})
			if limited {
				b.Eventually("they are in a lane", func() bool { return len(b.Queue("work")) == 0 })
			}
			close(gate)
			b.Eventually("all have run", func() bool { return b.Stat("processed") == 6 })
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(order, " "); got != "first u1 h1 later n1 n2" && got != "first u1 later h1 n1 n2" {
				t.Errorf("they ran as %s", got)
			}
		})
	}
}

// With ReplaceWaiting the new job takes the place of the old one. With any other lock, or an expiry, the
// priority holds.
func TestPriorityOfUniqueJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	replace := goworker.Unique(goworker.ByKey("k"), goworker.ReplaceWaiting())
	for _, item := range []goworker.Item{
		{Job: goworker.NewJob("work", "C", "n1"), Options: nil},
		{Job: goworker.NewJob("work", "C", "old"), Options: []goworker.EnqueueOption{replace}},
		{Job: goworker.NewJob("work", "C", "n2"), Options: nil},
		{Job: goworker.NewJob("work", "C", "u"), Options: []goworker.EnqueueOption{goworker.Unique(), goworker.ExpireAfter(time.Hour), goworker.Priority(goworker.High)}},
		{Job: goworker.NewJob("work", "C", "new"), Options: []goworker.EnqueueOption{replace, goworker.Priority(goworker.High)}},
	} {
		if _, err := client.EnqueueMany(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
	if got := waiting(t, server, "resque:queue:work"); got != "u n1 new n2" {
		t.Errorf("the queue has %s", got)
	}
	receipt, err := client.EnqueueMany(t.Context(), goworker.Item{Job: goworker.NewJob("work", "C", "u"), Options: []goworker.EnqueueOption{goworker.Unique(), goworker.Priority(goworker.High)}})
	if err != nil || receipt[0].Duplicate == nil {
		t.Errorf("the second: %+v %v", receipt, err)
	}
}

// A queue that is no list refuses the call, and nothing is written.
func TestPriorityOnAWrongKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server.Do(t, "SET", "resque:queue:work", "text")
	_, err = client.EnqueueMany(t.Context(), goworker.Item{Job: goworker.NewJob("other", "C")},
		goworker.Item{Job: goworker.NewJob("work", "C"), Options: []goworker.EnqueueOption{goworker.Priority(goworker.High)}})
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("the error is %v", err)
	}
	if keys := server.Keys(t); len(keys) != 1 {
		t.Errorf("keys: %q", keys)
	}
}
