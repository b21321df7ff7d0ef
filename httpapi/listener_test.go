package httpapi_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// A listener sees what becomes of the jobs that clients publish, take and end. Without one the server writes no key of events.
func TestEventsOfHTTP(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	p.publish("/v2/shop/queues/q/jobs", "a")
	j := p.one("q")
	p.end(204, j, "ack", lease(j))
	if n := p.redis.Int(t, "EXISTS", "resque:go:events", "resque:go:events-all"); n > 0 {
		t.Errorf("%d keys of events, and no program listens", n)
	}

	var mu sync.Mutex
	seen := make(map[string][]events.Event) // by id
	ctx, cancel := context.WithCancel(t.Context())
	var listener sync.WaitGroup
	listener.Go(func() {
		for e, err := range events.Watch(ctx, p.jobs, events.Filter{All: true}) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			seen[e.ID] = append(seen[e.ID], e)
			mu.Unlock()
		}
	})
	defer listener.Wait()
	defer cancel()
	has := func(id, kind string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(seen[id], func(e events.Event) bool {
			return e.Kind == kind && e.Queue == "shop.q" && (e.Class == "HTTPJob" || kind == events.Done) && e.Took == 0 && e.Process != ""
		})
	}
	redistest.Eventually(t, patience, "the server hears that a program listens", func() bool {
		id := p.publish("/v2/shop/queues/q/jobs", "probe")
		j := p.one("q")
		p.end(204, j, "ack", lease(j))
		time.Sleep(100 * time.Millisecond)
		return has(id, events.Enqueued)
	})
	taken := func(options string) given {
		p.publish("/v2/shop/queues/q/jobs"+options, "a")
		return p.one("q")
	}
	want := make(map[string][]string)
	for how, kind := range map[string]string{"ack": events.Done, "nack": events.Retried, "fail": events.Failed, "release": events.Returned} {
		j := taken("?tries=2")
		p.end(204, j, how, lease(j))
		want[j.ID] = []string{events.Enqueued, events.Started, kind}
		if how == "nack" || how == "release" { // it is there again
			j = p.one("q")
			p.end(204, j, "ack", lease(j))
		}
	}
	p.publish("/v2/shop/queues/q/jobs?tries=2", "its lease runs out")
	late := p.take(`{"queues":["shop.q","q"],"ttr_ms":1000}`)[0]
	want[late.ID] = []string{events.Started, events.Retried}
	unwanted := taken("")
	p.end(204, unwanted, "release", lease(unwanted))
	if err := p.jobs.Cancel(t.Context(), unwanted.ID); err != nil {
		t.Fatal(err)
	}
	want[unwanted.ID] = []string{events.Cancelled}
	redistest.Eventually(t, patience, "the lease has run out", func() bool { return has(late.ID, events.Retried) })
	redistest.Eventually(t, patience, "the cancelled one is dropped", func() bool {
		for _, j := range p.take(`{"queues":["q"]}`) { // Redis notifies the server of the cancel a little later
			p.end(204, j, "release", lease(j))
		}
		return has(unwanted.ID, events.Cancelled)
	})
	for id, kinds := range want {
		for _, kind := range kinds {
			redistest.Eventually(t, patience, kind+" of job "+id, func() bool { return has(id, kind) })
		}
	}
}

// A program that hears no operators says nothing.
func TestNoEventsOfHTTP(t *testing.T) {
	t.Parallel()
	p := &place{t: t, redis: redistest.Start(t), settings: goworker.WorkerSettings{Control: goworker.ControlOff}}
	p.open(httpapi.Settings{Open: true})
	p.redis.Do(t, "HSET", "resque:go:notice", "events", time.Now().Add(time.Hour).UnixMilli(), "events-all", time.Now().Add(time.Hour).UnixMilli())
	p.redis.Do(t, "DEL", "resque:go:takers") // written by the next renewal
	redistest.Eventually(t, patience, "the server has renewed its record", func() bool { return p.redis.Int(t, "EXISTS", "resque:go:takers") == 1 })
	p.publish("/v2/shop/queues/q/jobs", "a")
	j := p.one("q")
	p.end(204, j, "fail", lease(j))
	if n := p.redis.Int(t, "EXISTS", "resque:go:events", "resque:go:events-all"); n > 0 {
		t.Errorf("%d keys of events", n)
	}
}

// A server that does nothing hears of a listener with its next renewals, and so of one that wants more: no job has to come first.
func TestIdleServerHears(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	m := p.redis.Monitor(t)
	proved := func() (n int) { // a server tries the keys before it sends its first event
		for _, c := range m.Commands() {
			if len(c) == 3 && c[0] == "PEXPIRE" && c[1] == "resque:go:events-all" {
				n++
			}
		}
		return n
	}
	listen := func(f events.Filter) (seen func(kind string) bool, stop func()) {
		var mu sync.Mutex
		kinds := make(map[string]bool)
		ctx, cancel := context.WithCancel(t.Context())
		var listener sync.WaitGroup
		listener.Go(func() {
			for e, err := range events.Watch(ctx, p.jobs, f) {
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				kinds[e.Kind] = true
				mu.Unlock()
			}
		})
		stop = func() {
			cancel()
			listener.Wait()
		}
		t.Cleanup(stop)
		return func(kind string) bool {
			mu.Lock()
			defer mu.Unlock()
			return kinds[kind]
		}, stop
	}
	renewed := func() {
		t.Helper()
		for range 2 { // of the first one nobody knows whether it had begun
			p.redis.Do(t, "DEL", "resque:go:takers")
			redistest.Eventually(t, patience, "the server renews its record", func() bool { return p.redis.Int(t, "EXISTS", "resque:go:takers") == 1 })
		}
	}
	ends, stop := listen(events.Filter{})
	redistest.Eventually(t, patience, "the server hears of the listener", func() bool { return proved() == 1 })
	all, _ := listen(events.Filter{All: true})
	redistest.Eventually(t, patience, "the listener has asked", func() bool { return p.redis.Int(t, "HEXISTS", "resque:go:notice", "events-all") == 1 })
	renewed()
	stop()
	if n := proved(); n != 1 {
		t.Errorf("it tries the keys %d times", n)
	}
	redistest.Eventually(t, patience, "a job has its event", func() bool {
		p.publish("/v2/shop/queues/q/jobs", "a")
		time.Sleep(100 * time.Millisecond)
		return all(events.Enqueued)
	})
	j := p.one("q")
	p.end(204, j, "fail", lease(j))
	redistest.Eventually(t, patience, "its end has one", func() bool { return all(events.Failed) })
	if ends(events.Enqueued) {
		t.Error("a listener gets what it does not ask for")
	}
}
