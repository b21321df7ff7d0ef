package events_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// Where Redis has lost that programs listen, they ask again, and each of them learns that events are missing, not only the one that asks first.
func TestListenerAsksAgain(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, fails)
	one, two, all := f.watch(events.Filter{}), f.watch(events.Filter{}), f.watch(events.Filter{All: true})
	f.heard(all)
	f.wait(3)
	f.redis.Do(t, "DEL", "resque:go:notice")
	for _, s := range []*seen{one, two, all} {
		redistest.Eventually(t, daemontest.Soon, "it learns that events are missing", func() bool { return s.count(events.Missed) > 0 })
	}
	failed := func() int64 { return min(one.count(events.Failed), two.count(events.Failed), all.count(events.Failed)) }
	started := all.count(events.Started)
	redistest.Eventually(t, daemontest.Soon, "events come again", func() bool {
		f.enqueue("work", "Fails")
		time.Sleep(20 * time.Millisecond)
		return failed() > 0 && all.count(events.Started) > started
	})
}

// A listener that wants more than those that are there has processes hear of it at once. It takes nothing from the others, and none of
// them learns that events are missing, because theirs were sent all the time.
func TestWiderListener(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, fails)
	narrow := f.watch(events.Filter{})
	f.heard(narrow)
	all := narrow.events()
	after := all[len(all)-1].Cursor
	messages := f.redis.Dial(t)
	if err := messages.Send("SUBSCRIBE", "resque:go:notice"); err != nil {
		t.Fatal(err)
	}
	if err := messages.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := messages.Receive(); err != nil {
		t.Fatal(err)
	}
	wide := f.watch(events.Filter{All: true})
	if _, err := messages.Receive(); err != nil { // it waits for long: the renewals of other listeners send no message
		t.Fatal(err)
	}
	redistest.Eventually(t, daemontest.Soon, "the process sends all", func() bool { return wide.count(events.Started) > 0 || f.again() })

	back := f.watch(events.Filter{After: after})
	before := back.count(events.Failed)
	f.enqueue("mail", "Fails")
	for _, s := range []*seen{narrow, wide, back} {
		redistest.Eventually(t, daemontest.Soon, "each sees the failure", func() bool { return s.count(events.Failed) > before })
		if n := s.count(events.Missed); n > 0 {
			t.Errorf("%d are missed, and a program listened all the time", n)
		}
	}
	wide.stop()
	f.redis.Do(t, "HSET", "resque:go:notice", "events-all", 1) // as thirty seconds later
	again := f.watch(events.Filter{All: true, After: lastCursor(wide)})
	redistest.Eventually(t, daemontest.Soon, "who was away for the rest learns it", func() bool { return again.count(events.Missed) > 0 })
	if n := narrow.count(events.Missed); n > 0 {
		t.Errorf("the other has missed %d", n)
	}
}

func lastCursor(s *seen) string {
	all := s.events()
	return all[len(all)-1].Cursor
}

// What one stream has many entries of does not overtake the other: events come in the order in which Redis wrote them.
func TestOrderOfABacklog(t *testing.T) {
	t.Parallel()
	f := &fleet{T: t, redis: redistest.Start(t)}
	f.dial()
	const ends, every = 1000, 50
	begin := time.Now().Add(-time.Minute).UnixMilli()
	c := f.redis.Dial(t)
	send := func(args ...any) {
		t.Helper()
		if _, err := c.Do("XADD", args...); err != nil {
			t.Fatal(err)
		}
	}
	for n := range int64(ends) {
		at := begin + 10*n
		send("resque:go:events", fmt.Sprint(at, "-0"), "e", fmt.Sprintf(`{"k":"retried","t":%d}`, at))
		if n%every == 0 {
			send("resque:go:events-all", fmt.Sprint(at+5, "-0"), "p", "web-1", "n", n/every+1, "b", fmt.Sprintf(`{"k":"started","t":%d}`, at+5))
		}
	}
	s := f.watch(events.Filter{All: true, Since: time.Hour})
	redistest.Eventually(t, daemontest.Soon, "all are seen", func() bool {
		return s.count(events.Retried) == ends && s.count(events.Started) == ends/every
	})
	var last time.Time
	for _, e := range s.events() {
		if e.Kind == events.Missed {
			continue
		}
		if e.At.Before(last) {
			t.Fatalf("%s of %s comes behind one of %s", e.Kind, e.At, last)
		}
		last = e.At
	}
}

// The cursor of an event has a place on each Redis, also where nothing has happened yet.
func TestCursorOfAnIdleRedis(t *testing.T) {
	t.Parallel()
	east, west := redistest.Start(t), redistest.Start(t)
	shards := goworker.NewShards(goworker.WorkerSettings{Logger: slog.New(slog.DiscardHandler)},
		goworker.Shard{URI: east.URI(), Queues: []string{"work"}}, goworker.Shard{URI: west.URI(), Queues: []string{"mail"}})
	t.Cleanup(shards.Close)
	fail := func(s *redistest.Server, id string) {
		s.Do(t, "XADD", "resque:go:events", "*", "e", `{"k":"failed","i":"`+id+`"}`)
	}
	both := &fleet{T: t, redis: east, inspects: shards}
	other := both.watch(events.Filter{}) // so that no one misses events
	wait := func(n int) {
		for _, server := range []*redistest.Server{east, west} {
			(&fleet{T: t, redis: server}).wait(n)
		}
	}
	wait(1)
	s := both.watch(events.Filter{}) // it finds no mark, so nothing has happened for it yet
	wait(2)
	fail(east, "a")
	redistest.Eventually(t, daemontest.Soon, "one is seen", func() bool { return s.count(events.Failed) == 1 })
	s.stop()
	fail(west, "b")
	redistest.Eventually(t, daemontest.Soon, "the other has both", func() bool { return other.count(events.Failed) == 2 })
	time.Sleep(10 * time.Millisecond) // a listener without a place begins a millisecond before its first look
	again := both.watch(events.Filter{After: lastCursor(s)})
	redistest.Eventually(t, daemontest.Soon, "what happened meanwhile is seen", func() bool { return again.count(events.Failed) == 1 })
}

// Where Redis has lost its streams, and its clock is behind, the listener says that it may have missed events, and reads the new ones.
func TestStreamsBeginAgain(t *testing.T) {
	t.Parallel()
	f := &fleet{T: t, redis: redistest.Start(t)}
	f.dial()
	one, two := f.watch(events.Filter{}), f.watch(events.Filter{All: true})
	f.wait(2)
	ahead := time.Now().Add(time.Hour).UnixMilli()
	f.redis.Do(t, "XADD", "resque:go:events", fmt.Sprint(ahead, "-5"), "e", `{"k":"failed","i":"a"}`)
	f.redis.Do(t, "XADD", "resque:go:events-all", fmt.Sprint(ahead, "-6"), "p", "web-1", "n", 7, "b", `{"k":"started","i":"a"}`)
	f.redis.Do(t, "XADD", "resque:go:log", fmt.Sprint(ahead, "-7"), "kind", events.Online, "process", "web-1")
	redistest.Eventually(t, daemontest.Soon, "those are seen", func() bool {
		return one.count(events.Failed) == 1 && two.count(events.Started) == 1 && one.count(events.Online) == 1
	})
	f.redis.Do(t, "FLUSHALL")
	f.redis.Do(t, "XADD", "resque:go:events", "*", "e", `{"k":"failed","i":"b"}`)
	f.redis.Do(t, "XADD", "resque:go:events-all", "*", "p", "web-1", "n", 8, "b", `{"k":"started","i":"b"}`)
	f.redis.Do(t, "XADD", "resque:go:log", "*", "kind", events.Offline, "process", "web-1")
	for _, s := range []*seen{one, two} {
		redistest.Eventually(t, daemontest.Soon, "the new ones are seen", func() bool {
			return s.count(events.Failed) == 2 && s.count(events.Offline) == 1 && s.count(events.Missed) > 0
		})
	}
	redistest.Eventually(t, daemontest.Soon, "the new pack is seen", func() bool { return two.count(events.Started) == 2 })
}

// Where the clock of Redis has gone back, a listener that has read nothing yet begins now, and not with what was there before it.
func TestClockWentBack(t *testing.T) {
	t.Parallel()
	f := &fleet{T: t, redis: redistest.Start(t)}
	f.dial()
	f.redis.Do(t, "XADD", "resque:go:events", fmt.Sprint(time.Now().Add(-time.Minute).UnixMilli(), "-0"), "e", `{"k":"failed","i":"old"}`)
	ahead := time.Now().Add(time.Hour).UnixMilli()
	after := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d  0", ahead, ahead))
	s := f.watch(events.Filter{After: after})
	redistest.Eventually(t, daemontest.Soon, "it says that events may be missing", func() bool { return s.count(events.Missed) > 0 })
	f.wait(1)
	f.redis.Do(t, "XADD", "resque:go:events", "*", "e", `{"k":"failed","i":"new"}`)
	redistest.Eventually(t, daemontest.Soon, "the new one is seen", func() bool { return s.count(events.Failed) > 0 })
	for _, e := range s.events() {
		if e.ID == "old" {
			t.Errorf("%+v", e)
		}
	}
}

// The streams have a bound while programs listen, whatever a listener has read by then, and go after the last event. A listener that reads
// along loses nothing.
func TestStreamsStay(t *testing.T) {
	t.Parallel()
	const jobs = 11_000 // more than the stream keeps
	f := setup(t, nil, probe, func(s *goworker.WorkerSettings) { s.Concurrency = 25 })
	along := f.watch(events.Filter{All: true})
	f.heard(along)
	before := along.count(events.Discarded)
	ctx, cancel := context.WithCancel(t.Context())
	away := make(chan events.Event)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e, err := range events.Watch(ctx, f.client, events.Filter{}) {
			if err != nil {
				t.Error(err)
			} else {
				select {
				case away <- e:
				case <-ctx.Done():
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	redistest.Eventually(t, daemontest.Soon, "the other listens too", func() bool {
		f.again()
		select {
		case <-away:
			return true
		default:
			return false
		}
	})
	ran := f.redis.Int(t, "GET", "resque:stat:processed")
	var items []goworker.Item
	for range jobs {
		items = append(items, goworker.Item{Job: job("mail", "Probe")})
	}
	if _, err := f.client.EnqueueMany(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, daemontest.Soon, "all have run, though one does not read", func() bool {
		return f.redis.Int(t, "GET", "resque:stat:processed") >= ran+jobs
	})
	redistest.Eventually(t, daemontest.Soon, "the other has seen all", func() bool { return along.count(events.Discarded) >= before+jobs })
	if n := along.count(events.Missed); n > 0 {
		t.Errorf("it has missed %d", n)
	}
	for key, most := range map[string]int{"resque:go:events": 10_100, "resque:go:events-all": 356} {
		if n := f.redis.Int(t, "XLEN", key); n > most {
			t.Errorf("%s has %d entries", key, n)
		}
	}
	missed := false
	for n := 0; !missed && n < 2*jobs; n++ {
		select {
		case e := <-away:
			missed = e.Kind == events.Missed
		case <-time.After(daemontest.Soon):
			t.Fatalf("the one that was away gets no events after %d", n)
		}
	}
	if !missed {
		t.Error("the one that was away does not learn that events are missing")
	}
	for _, key := range []string{"resque:go:events", "resque:go:events-all"} {
		if ms := f.redis.Int(t, "PTTL", key); ms <= 0 || ms > int(10*time.Minute/time.Millisecond) {
			t.Errorf("%s goes in %d ms", key, ms)
		}
	}
}
