package events_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// find returns the first event of a kind and a class.
func (s *seen) find(kind, class string) (e events.Event, ok bool) {
	for _, e := range s.events() {
		if e.Kind == kind && e.Class == class {
			return e, true
		}
	}
	return e, false
}

// sees waits for an event of a kind and a class.
func (f *fleet) sees(s *seen, kind, class string) (e events.Event) {
	f.Helper()
	redistest.Eventually(f.T, daemontest.Soon, "an event "+kind+" of "+class, func() (ok bool) {
		e, ok = s.find(kind, class)
		return ok
	})
	return e
}

// Each way in which a job can end, and what happens to it before, has its event.
func TestKinds(t *testing.T) {
	t.Parallel()
	var snoozed atomic.Bool
	f := setup(t, nil, func(d *goworker.Daemon) {
		probe(d)
		d.Register("Fine", func() error { return nil })
		d.Register("Fails", func() error { return errors.New("no") })
		d.Register("Snoozes", func() error {
			if snoozed.Swap(true) {
				return nil
			}
			return goworker.Snooze(0)
		})
		d.Register("Wanders", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
	}, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = 100 * time.Millisecond })
	s := f.watch(events.Filter{All: true})
	f.heard(s)
	c := f.daemon.Client()
	push := func(class string, opts ...goworker.EnqueueOption) string {
		t.Helper()
		r, err := c.Enqueue(t.Context(), job("mail", class), append(opts, goworker.WithID(goworker.NewID()))...)
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	for _, want := range []struct {
		kind, class string
		opts        []goworker.EnqueueOption
	}{
		{kind: events.Done, class: "Fine"},
		{kind: events.Failed, class: "Fails"},
		{kind: events.Retried, class: "Fails", opts: []goworker.EnqueueOption{goworker.Retry(1)}},
		{kind: events.Expired, class: "Fine", opts: []goworker.EnqueueOption{goworker.ExpiresAt(time.Now().Add(-time.Hour))}},
		{kind: events.Discarded, class: "Probe"},
		{kind: events.Snoozed, class: "Snoozes"},
	} {
		id := push(want.class, want.opts...)
		redistest.Eventually(t, daemontest.Soon, want.kind+" of "+want.class, func() bool {
			return slices.ContainsFunc(s.events(), func(e events.Event) bool {
				return e.Kind == want.kind && e.ID == id && e.Queue == "mail" && e.Count == 1
			})
		})
		for _, kind := range []string{events.Enqueued, events.Started} {
			if kind == events.Started && want.kind == events.Expired {
				continue
			}
			redistest.Eventually(t, daemontest.Soon, kind+" of "+want.class, func() bool {
				return slices.ContainsFunc(s.events(), func(e events.Event) bool { return e.Kind == kind && e.ID == id && e.Class == want.class })
			})
		}
	}
	id := push("Wanders")
	f.sees(s, events.Started, "Wanders")
	if err := c.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if e := f.sees(s, events.Cancelled, "Wanders"); e.ID != id || e.Took <= 0 {
		t.Errorf("%+v", e)
	}

	w, err := c.Start(t.Context(), goworker.Chain(goworker.Step(job("mail", "Fine")), goworker.Step(job("work", "Fine"))))
	if err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, daemontest.Soon, "both steps are done", func() bool { return s.count(events.Step) == 2 })
	if e, _ := s.find(events.Step, "Fine"); !strings.HasPrefix(e.ID, w.ID) || e.Queue != "mail" {
		t.Errorf("%+v of the workflow %s", e, w.ID)
	}

	push("Wanders")
	redistest.Eventually(t, daemontest.Soon, "it runs", func() bool {
		n := 0
		for _, e := range s.events() {
			if e.Kind == events.Started && e.Class == "Wanders" {
				n++
			}
		}
		return n == 2
	})
	f.stop()
	f.sees(s, events.Returned, "Wanders")
	f.sees(s, events.Offline, "")
}

// A job of a process that died has an event, which names that process: it is back in its queue, or it has failed because two died with it.
func TestEventsOfDeadProcesses(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, probe, func(s *goworker.WorkerSettings) { s.RecoverLimit = 1 })
	s := f.watch(events.Filter{})
	f.heard(s)
	c := f.redis.Dial(t)
	dead := []string{"web-8:1:cafe0001", "web-9:1:cafe0002"}
	for _, id := range dead {
		host, _, _ := strings.Cut(id, ":")
		if err := resque.New("").Enter(c, resque.Process{
			ID: id, Host: host, PID: 1, Version: "test", Queues: "far", Concurrency: 1, Started: time.Now(), IDHead: host + ".go:1-", IDQueues: "far",
		}, 8*time.Second, time.Now()); err != nil {
			t.Fatal(err)
		}
		f.redis.Do(t, "HSET", "resque:go:inflight:"+id, 1, `3:far{"class":"Kills","args":[],"id":"K3V9"}`)
		f.redis.Do(t, "HSET", "resque:go:process:"+id, "handed", "2 2 *1") // a worker had the first job alone, and none the second
	}
	f.redis.Do(t, "HSET", "resque:go:inflight:"+dead[0], 2, `3:far{"class":"Waits","args":[],"id":"L4W0"}`)
	for class, kind := range map[string]string{"Kills": events.Poison, "Waits": events.Recovered} {
		e := f.sees(s, kind, class)
		if !slices.Contains(dead, e.Process) || e.Queue != "far" || e.Took != 0 || e.ID != map[string]string{"Kills": "K3V9", "Waits": "L4W0"}[class] {
			t.Errorf("%+v", e)
		}
	}
	f.sees(s, events.Recovered, "Kills")
	f.sees(s, events.Lost, "")
}

// What stands in the log of the fleet comes as an event too, also what is rare.
func TestEventsOfTheLog(t *testing.T) {
	t.Parallel()
	f := &fleet{T: t, redis: redistest.Start(t)}
	f.dial()
	s := f.watch(events.Filter{Kinds: []string{events.RuleEnded, events.PartFailed, events.Online, events.RuleRestored, events.PartRestarted}})
	redistest.Eventually(t, daemontest.Soon, "it listens", func() bool { return f.redis.Int(t, "HLEN", "resque:go:notice") == 1 })
	kinds := []string{events.Online, events.PartRestarted, events.PartFailed, events.RuleEnded, events.RuleRestored}
	for i, kind := range kinds {
		f.redis.Do(t, "XADD", "resque:go:log", "*", "kind", kind, "process", "web-"+strconv.Itoa(i), "text", "why", "rule", "a rule")
	}
	redistest.Eventually(t, daemontest.Soon, "all are seen", func() bool { return len(s.events()) == len(kinds) })
	for i, e := range s.events() {
		if e.Kind != kinds[i] || e.Process != "web-"+strconv.Itoa(i) || e.Text != "why" || e.More["rule"] != "a rule" || e.Count != 1 {
			t.Errorf("%+v", e)
		}
	}
}
