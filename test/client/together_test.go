package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

type fromKey struct{}

// Many goroutines push with one client, and Redis stands still, and is killed and started again. Each acknowledged job is in the queue once
// with what its own context says, each refused one is not, each unconfirmed one at most once; and those of one goroutine are in
// their order.
func TestPushesOfManyGoroutines(t *testing.T) {
	t.Parallel()
	const producers, each = 16, 60
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	from := func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
		return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
			for i := range items {
				items[i].Options = append(items[i].Options, goworker.WithMeta(map[string]string{"from": ctx.Value(fromKey{}).(string)}))
			}
			return next(ctx, items)
		}
	}
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithEnqueueMiddleware(from))
	var mu sync.Mutex
	said := make(map[string]error)
	half := make(chan struct{})
	var halves, all sync.WaitGroup
	halves.Add(producers)
	for p := range producers {
		all.Go(func() {
			ctx := context.WithValue(t.Context(), fromKey{}, fmt.Sprint("producer", p))
			for i := range each {
				if i == each/3 {
					halves.Done()
					<-half // so that the faults come while all push
				}
				within := 20 * time.Second
				if i%5 == 0 {
					within = 30 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(ctx, within)
				name := fmt.Sprintf("%d-%03d", p, i)
				_, err := client.Enqueue(ctx, goworker.NewJob("q", "C", name))
				cancel()
				mu.Lock()
				said[name] = err
				mu.Unlock()
			}
		})
	}
	halves.Wait()
	close(half)
	server.Pause()
	redistest.Eventually(t, daemontest.Soon, "contexts end", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for p := range producers {
			if _, over := said[fmt.Sprintf("%d-%03d", p, each/3)]; !over {
				return false
			}
		}
		return true
	})
	server.Resume()
	server.Kill()
	server.Restart(t)
	all.Wait()

	there, last := make(map[string]int), make(map[string]string)
	for _, text := range queued(t, server) {
		var job struct {
			Args []string
			Meta map[string]string
		}
		if err := json.Unmarshal([]byte(text), &job); err != nil {
			t.Fatal(err)
		}
		name := job.Args[0]
		there[name]++
		var p, i int
		if _, err := fmt.Sscanf(name, "%d-%d", &p, &i); err != nil {
			t.Fatal(err)
		}
		from := fmt.Sprint("producer", p)
		if job.Meta["from"] != from {
			t.Errorf("%s is from %s", name, job.Meta["from"])
		}
		if said[name] == nil {
			if name < last[from] {
				t.Errorf("%s is behind %s", name, last[from])
			}
			last[from] = name
		}
	}
	kinds := make(map[string]int)
	for name, err := range said {
		n, kind := there[name], "refused"
		switch {
		case err == nil:
			kind = "acknowledged"
		case errors.Is(err, goworker.ErrUnconfirmed):
			kind = "unconfirmed"
		}
		kinds[kind]++
		if n > 1 || kind == "acknowledged" && n != 1 || kind == "refused" && n != 0 {
			t.Errorf("%s was %s and is %d times in its queue: %v", name, kind, n, err)
		}
	}
	t.Log(kinds)
	if kinds["acknowledged"] < producers*each/3*4/5 { // those before the faults that had their time
		t.Errorf("of %d pushes: %v", len(said), kinds)
	}
}

// A shard that stands still holds up no push to another one.
func TestShardHoldsUpNoPushOfAnother(t *testing.T) {
	t.Parallel()
	still, other := redistest.Start(t), redistest.Start(t)
	shards := goworker.NewShards(goworker.WorkerSettings{}, goworker.Shard{URI: still.URI(), Queues: []string{"still"}}, goworker.Shard{URI: other.URI(), Queues: []string{"other"}})
	t.Cleanup(shards.Close)
	client := shards.Client()
	for _, queue := range []string{"still", "other"} { // connects
		if _, err := client.Enqueue(t.Context(), goworker.NewJob(queue, "C")); err != nil {
			t.Fatal(err)
		}
	}
	still.Pause()
	defer still.Resume()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := client.Enqueue(ctx, goworker.NewJob("still", "C")); err == nil {
				t.Error("a push to a server that stands still was acknowledged")
			}
		})
	}
	for range 4 {
		if _, err := client.Enqueue(t.Context(), goworker.NewJob("other", "C")); err != nil {
			t.Error(err)
		}
	}
	cancel()
	all.Wait()
}
