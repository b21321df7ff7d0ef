package events_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func fails(d *goworker.Daemon) {
	probe(d)
	d.Register("Fails", func() error { return errors.New("no") })
}

// wait waits until so many listeners wait for events.
func (f *fleet) wait(n int) {
	f.Helper()
	redistest.Eventually(f.T, daemontest.Soon, fmt.Sprintf("%d listeners wait", n), func() bool {
		return strings.Count(f.redis.Text(f.T, "CLIENT", "LIST"), "cmd=xread") == n
	})
}

// A listener takes none of the connections of its client, closes its own, and ends with the client.
func TestConnectionOfAListener(t *testing.T) {
	t.Parallel()
	f := &fleet{T: t, redis: redistest.Start(t)}
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI(), Connections: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f.client = client
	one, two := f.watch(events.Filter{}), f.watch(events.Filter{All: true})
	f.wait(2)
	f.enqueue("work", "Any")
	one.stop()
	f.wait(1)
	two.stop()
	f.wait(0)

	ended := make(chan []error)
	go func() {
		var all []error
		for _, err := range events.Watch(t.Context(), client, events.Filter{}) {
			all = append(all, err)
		}
		ended <- all
	}()
	f.wait(1)
	client.Close()
	if all := <-ended; len(all) != 1 || !errors.Is(all[0], goworker.ErrClosed) {
		t.Errorf("after Close: %v", all)
	}
	f.wait(0)
}

// A listener that cannot reach Redis for a while says so once, and goes on without a loss. Where Redis has lost its data, it says that
// events are missing, and has the processes send on at once.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, fails)
	other := f.watch(events.Filter{})
	f.heard(other)
	proxy := f.redis.StartProxy(t)
	var err error
	if f.client, err = goworker.NewClient(goworker.WorkerSettings{URI: "redis://" + proxy.Addr, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.client.Close)
	s := f.watching(events.Filter{Kinds: []string{events.Failed}})
	f.wait(2)
	f.enqueue("work", "Fails")
	redistest.Eventually(t, daemontest.Soon, "a failure is seen", func() bool { return s.count(events.Failed) == 1 })
	proxy.Refuse(true)
	redistest.Eventually(t, daemontest.Soon, "it says that Redis is away", func() bool { return s.errors() == 1 })
	for range 3 {
		f.redis.Do(t, "RPUSH", "resque:queue:work", `{"class":"Fails","args":[]}`)
	}
	redistest.Eventually(t, daemontest.Soon, "all failed", func() bool { return other.count(events.Failed) == 4 })
	proxy.Refuse(false)
	redistest.Eventually(t, daemontest.Soon, "it goes on", func() bool { return s.count(events.Failed) == 4 })
	if n := s.count(events.Missed); n > 0 || s.errors() != 1 {
		t.Errorf("%d events are missed, and Redis was away %d times", n, s.errors())
	}

	other.stop()
	f.redis.Kill()
	redistest.Eventually(t, daemontest.Soon, "it says that Redis is away", func() bool { return s.errors() == 2 })
	f.redis.Restart(t)
	redistest.Eventually(t, daemontest.Soon, "it learns that events are missing", func() bool { return s.count(events.Missed) > 0 })
	redistest.Eventually(t, daemontest.Soon, "the process sends on", func() bool {
		f.redis.Do(t, "RPUSH", "resque:queue:work", `{"class":"Fails","args":[]}`)
		time.Sleep(50 * time.Millisecond)
		return s.count(events.Failed) > 4
	})
}

// A program listens as the user that docs/redis.md has for it, and that user can operate nothing.
func TestListenersUser(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	f := setup(t, nil, fails)
	var rules []any
	for _, rule := range redistest.ACL(t, "listener") {
		rules = append(rules, rule)
	}
	f.redis.Do(t, "ACL", append([]any{"SETUSER"}, rules...)...)
	client, err := goworker.NewClient(goworker.WorkerSettings{
		URI: "redis://listener:" + redistest.ACLPassword + "@" + f.redis.Addr, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f.inspects = client
	s := f.watch(events.Filter{All: true, Since: time.Minute})
	f.heard(s)
	f.enqueue("work", "Fails")
	f.sees(s, events.Failed, "Fails")
	f.sees(s, events.Online, "")
	if _, err := client.Enqueue(t.Context(), job("work", "Fails")); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("it enqueues: %v", err)
	}
	if err := client.Inspect().PauseQueue(t.Context(), "work"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("it pauses: %v", err)
	}
	f.redis.Do(t, "ACL", "SETUSER", "listener", "resetchannels")
	again := f.watch(events.Filter{})
	f.wait(2)
	f.enqueue("work", "Fails")
	f.sees(again, events.Failed, "Fails")
}

// Each listener gets what it asks for, and the processes send as much as the widest asks for. When that one has gone they send less, and
// the stream goes.
func TestWidths(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, fails)
	narrow := f.watch(events.Filter{})
	f.heard(narrow)
	if n := f.redis.Int(t, "EXISTS", "resque:go:events-all"); n > 0 {
		t.Error("no listener asks for all, and there are packs")
	}
	wide := f.watch(events.Filter{Kinds: []string{events.Started, events.Failed}})
	redistest.Eventually(t, daemontest.Soon, "the process sends all", func() bool { return wide.count(events.Started) > 0 || f.again() })
	before := narrow.count(events.Failed)
	f.enqueue("mail", "Fails")
	for _, s := range []*seen{narrow, wide} {
		redistest.Eventually(t, daemontest.Soon, "both see the failure", func() bool { return s.count(events.Failed) == before+1 })
	}
	wide.stop()
	if n := narrow.count(events.Started); n > 0 {
		t.Errorf("%d events that it does not ask for", n)
	}
	f.redis.Do(t, "HSET", "resque:go:notice", "events-all", 1) // as thirty seconds later
	redistest.Eventually(t, daemontest.Soon, "the process sends no packs", func() bool {
		packs, ends := f.redis.Int(t, "XLEN", "resque:go:events-all"), narrow.count(events.Discarded)
		f.enqueue("work", "Probe")
		redistest.Eventually(t, daemontest.Soon, "it sends bad ends", func() bool { return narrow.count(events.Discarded) > ends })
		time.Sleep(300 * time.Millisecond) // a pack would be sent by now, and if it is late the next look sees it
		return f.redis.Int(t, "XLEN", "resque:go:events-all") == packs
	})
	for _, key := range []string{"resque:go:events", "resque:go:events-all"} {
		if ms := f.redis.Int(t, "PTTL", key); ms <= 0 || ms > int(10*time.Minute/time.Millisecond) {
			t.Errorf("%s goes in %d ms", key, ms)
		}
	}
}

// A process whose jobs rest sends nothing while a program listens.
func TestIdleProcess(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, probe)
	s := f.watch(events.Filter{All: true})
	f.heard(s)
	lease := func() string { return f.redis.List(t, "ZRANGE", "resque:go:processes", 0, 0, "WITHSCORES")[1] }
	renewed := func() {
		t.Helper()
		was := lease()
		redistest.Eventually(t, daemontest.Soon, "the lease is renewed", func() bool { return lease() != was })
	}
	written := func() string {
		stats := strings.FieldsFunc(f.redis.Text(t, "INFO", "commandstats"), func(r rune) bool { return r == '\n' || r == ',' })
		return strings.Join(slices.DeleteFunc(stats, func(s string) bool { return !strings.HasPrefix(s, "cmdstat_xadd:") }), " ")
	}
	f.redis.Do(t, "RPUSH", "resque:queue:work", `{"class":"Probe","args":[],"id":"last"}`)
	redistest.Eventually(t, daemontest.Soon, "the last pack is sent", func() bool {
		return slices.ContainsFunc(s.events(), func(e events.Event) bool { return e.Kind == events.Started && e.ID == "last" })
	})
	redistest.Eventually(t, daemontest.Soon, "all jobs have ended", func() bool {
		ended := slices.ContainsFunc(s.events(), func(e events.Event) bool { return e.Kind == events.Discarded && e.ID == "last" })
		process := f.redis.List(t, "ZRANGE", "resque:go:processes", 0, 0)[0]
		return ended && !slices.ContainsFunc(f.redis.List(t, "HKEYS", "resque:go:inflight:"+process), func(field string) bool {
			return strings.Trim(field, "0123456789") == "" // a ticket
		})
	})
	renewed()
	before := written()
	for range 3 {
		renewed()
	}
	if now := written(); now != before {
		t.Errorf("an idle process wrote: %s, before %s", now, before)
	}
}

// Over several Redises the events of all come, each says where it is from, and one cursor goes on in all.
func TestSeveralRedises(t *testing.T) {
	t.Parallel()
	east, west := redistest.Start(t), redistest.Start(t)
	shards := goworker.NewShards(goworker.WorkerSettings{
		Concurrency: 4, PollInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), DisableSignals: true,
	}, goworker.Shard{URI: east.URI(), Queues: []string{"work"}}, goworker.Shard{URI: west.URI(), Queues: []string{"mail"}})
	shards.Register("Fails", func() error { return errors.New("no") })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- shards.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		shards.Close()
	})
	f := &fleet{T: t, redis: east, inspects: shards}
	fail := func(id string) {
		east.Do(t, "RPUSH", "resque:queue:work", `{"class":"Fails","args":[],"id":"`+id+`"}`)
		west.Do(t, "RPUSH", "resque:queue:mail", `{"class":"Fails","args":[],"id":"`+id+`"}`)
	}
	times := func(id string, all ...*seen) (n int, from map[string]string) { // by queue
		from = make(map[string]string)
		for _, s := range all {
			for _, e := range s.events() {
				if e.Kind == events.Failed && e.ID == id {
					n++
					from[e.Queue] = e.Shard
				}
			}
		}
		return n, from
	}
	s := f.watch(events.Filter{})
	redistest.Eventually(t, daemontest.Soon, "both send events", func() bool {
		fail("probe")
		time.Sleep(50 * time.Millisecond)
		_, from := times("probe", s)
		return len(from) == 2
	})
	if _, from := times("probe", s); from["work"] == from["mail"] || from["work"] == "" || from["mail"] == "" {
		t.Errorf("they come from %v", from)
	}
	fail("a")
	redistest.Eventually(t, daemontest.Soon, "one of two is seen", func() bool { n, _ := times("a", s); return n > 0 })
	s.stop()
	fail("b")
	all := s.events()
	again := f.watch(events.Filter{Kinds: []string{events.Failed}, After: all[len(all)-1].Cursor})
	fail("c")
	for _, id := range []string{"a", "b", "c"} {
		redistest.Eventually(t, daemontest.Soon, "both failures "+id+" are seen", func() bool { n, _ := times(id, s, again); return n == 2 })
	}
	for _, id := range []string{"a", "b", "c"} {
		if n, from := times(id, s, again); n != 2 || len(from) != 2 {
			t.Errorf("%d events of the failures %s, from %v", n, id, from)
		}
	}
	if n := again.count(events.Missed); n > 0 {
		t.Errorf("%d are missed", n)
	}
}
