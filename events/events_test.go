package events_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// fleet is a daemon on a Redis, and a client beside it.
type fleet struct {
	*testing.T
	redis  *redistest.Server
	client *goworker.Client
	daemon *goworker.Daemon
	log    *daemontest.LogBook
	stop   func() // ends the daemon's run

	inspects events.Inspects // what listens; nil: the client
}

// dial makes the client.
func (f *fleet) dial() {
	f.Helper()
	var err error
	if f.client, err = goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI(), Logger: slog.New(slog.DiscardHandler)}); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(f.client.Close)
}

func setup(t *testing.T, rules []any, register func(*goworker.Daemon), change ...func(*goworker.WorkerSettings)) *fleet {
	t.Helper()
	f := &fleet{T: t, redis: redistest.Start(t), log: new(daemontest.LogBook)}
	f.dial()
	uri := f.redis.URI()
	if rules != nil {
		f.redis.Do(t, "ACL", append([]any{"SETUSER", "worker", "on", ">secret", "+@all", "~*", "&*"}, rules...)...)
		uri = strings.Replace(uri, "redis://", "redis://worker:secret@", 1)
	}
	settings := goworker.WorkerSettings{
		URI: uri, QueuesString: "work,mail", Concurrency: 4, PollInterval: 100 * time.Millisecond, Logger: slog.New(f.log), DisableSignals: true,
	}
	for _, c := range change {
		c(&settings)
	}
	d := goworker.New(settings)
	f.daemon = d
	register(d)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Run(ctx)
	}()
	f.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		f.stop()
		d.Close()
	})
	redistest.Eventually(t, daemontest.Soon, "the daemon is ready", func() bool { return d.Health().Ready })
	return f
}

func job(queue, class string) *goworker.Job {
	return &goworker.Job{Queue: queue, Payload: goworker.Payload{Class: class, Args: []any{}}}
}

func (f *fleet) enqueue(queue, class string) {
	f.Helper()
	if _, err := f.client.Enqueue(f.Context(), job(queue, class)); err != nil {
		f.Fatal(err)
	}
}

// seen are the events that a listener has seen.
type seen struct {
	mu   sync.Mutex
	all  []events.Event
	errs int
	wide bool // it asks for all events, which a process hears later than that it asks at all
	stop func()
}

func (s *seen) events() []events.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// count is how many events of a kind there were.
func (s *seen) count(kind string) (n int64) {
	for _, e := range s.events() {
		if e.Kind == kind {
			n += max(1, e.Count)
		}
	}
	return n
}

func (s *seen) errors() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errs
}

// watch listens until the test ends or stop is called. An error fails the test.
func (f *fleet) watch(filter events.Filter) *seen {
	s := f.watching(filter)
	f.Cleanup(func() {
		if n := s.errors(); n > 0 {
			f.Errorf("%d errors of a listener", n)
		}
	})
	return s
}

// watching listens until the test ends or stop is called, and counts errors.
func (f *fleet) watching(filter events.Filter) *seen {
	s := &seen{wide: filter.All}
	of := f.inspects
	if of == nil {
		of = f.client
	}
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e, err := range events.Watch(ctx, of, filter) {
			s.mu.Lock()
			if err != nil {
				s.errs++
			} else {
				s.all = append(s.all, e)
			}
			s.mu.Unlock()
		}
	}()
	s.stop = func() {
		cancel()
		<-ended
	}
	f.Cleanup(s.stop)
	return s
}

// heard enqueues probes until the process sends events.
func (f *fleet) heard(s *seen) {
	f.Helper()
	redistest.Eventually(f.T, daemontest.Soon, "the process hears that a program listens", func() bool {
		f.enqueue("work", "Probe")
		time.Sleep(20 * time.Millisecond)
		return s.count(events.Discarded) > 0 && (!s.wide || s.count(events.Started) > 0)
	})
}

func probe(d *goworker.Daemon) {
	d.Register("Probe", func() error { return goworker.Discard(errors.New("a probe")) })
}

// While no program listens there is no key of events, and a process sends no command about them. A listener sees how a job failed
// before its next run begins.
func TestRetriedBeforeStarted(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(d *goworker.Daemon) {
		probe(d)
		d.Register("Twice", func() error { return goworker.RetryIn(0, errors.New("dial tcp:\x1b[31m timeout")) }, goworker.Retry(2))
	})
	f.enqueue("work", "Probe")
	redistest.Eventually(t, daemontest.Soon, "the job has run", func() bool { return f.redis.Int(t, "GET", "resque:stat:processed") == 1 })
	if n := f.redis.Int(t, "EXISTS", "resque:go:events", "resque:go:events-all"); n > 0 {
		t.Errorf("%d keys of events, and no program listens", n)
	}
	s := f.watch(events.Filter{All: true})
	f.heard(s)
	f.enqueue("mail", "Twice")
	redistest.Eventually(t, daemontest.Soon, "the job has failed", func() bool { return s.count(events.Failed) == 1 })
	redistest.Eventually(t, daemontest.Soon, "it has begun three times", func() bool {
		n := 0
		for _, e := range s.events() {
			if e.Kind == events.Started && e.Class == "Twice" {
				n++
			}
		}
		return n == 3
	})
	retried, cursors := 0, make(map[string]bool)
	for _, e := range s.events() {
		if cursors[e.Cursor] || e.Cursor == "" {
			t.Errorf("two events with the cursor %q", e.Cursor)
		}
		cursors[e.Cursor] = true
		if e.Class != "Twice" {
			continue
		}
		if f, err := f.client.Inspect().Failures().Get(t.Context(), e.Failure); (err == nil && f.Class == "Twice") != (e.Kind == events.Failed) {
			t.Errorf("%s has the failure %q", e.Kind, e.Failure)
		}
		if e.Kind == events.Retried {
			retried++
		}
		if e.Kind == events.Started && e.Attempt-1 > retried {
			t.Errorf("run %d begins, and %d retries were seen", e.Attempt, retried)
		}
		if e.Kind == events.Failed && (e.Queue != "mail" || e.Attempt != 3 || !strings.HasPrefix(e.Text, "dial tcp") || e.Process == "" || e.Took <= 0) {
			t.Errorf("the event is %+v", e)
		}
	}
}

// What jobs do under load is counted exactly, in five packs a second at most.
func TestCountsAreExact(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	f := setup(t, nil, func(d *goworker.Daemon) {
		probe(d)
		d.Register("Fast", func() error { ran.Add(1); return nil })
	})
	began := time.Now()
	s := f.watch(events.Filter{All: true})
	f.heard(s)
	const jobs = 5000
	var items []goworker.Item
	for range jobs {
		items = append(items, goworker.Item{Job: job("work", "Fast")})
	}
	if _, err := f.client.EnqueueMany(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, daemontest.Soon, "all jobs have run", func() bool { return ran.Load() == jobs })
	count := func(kind string) (n, summed int64) {
		for _, e := range s.events() {
			if e.Kind == kind && e.Class == "Fast" {
				if n += e.Count; e.Count > 1 && e.ID == "" {
					summed++
				}
			}
		}
		return n, summed
	}
	for _, kind := range []string{events.Started, events.Done} {
		redistest.Eventually(t, daemontest.Soon, kind+" is seen", func() bool { n, _ := count(kind); return n >= jobs })
		if n, summed := count(kind); n != jobs || summed == 0 {
			t.Errorf("%s: %d events of %d jobs, %d summaries", kind, n, jobs, summed)
		}
	}
	if n := s.count(events.Missed); n > 0 {
		t.Errorf("%d were missed", n)
	}
	packs := f.packs()
	if most := uint64(time.Since(began)/(200*time.Millisecond)) + 1; packs == 0 || packs > most {
		t.Errorf("%d packs, and at most %d are sent in this time", packs, most)
	}
}

// packs is how many packs the process has sent.
func (f *fleet) packs() (n uint64) {
	f.Helper()
	rows, err := redis.Values(f.redis.Do(f.T, "XREVRANGE", "resque:go:events-all", "+", "-", "COUNT", 1), nil)
	if err != nil || len(rows) == 0 {
		return 0
	}
	row, err := redis.Values(rows[0], err)
	if err != nil {
		f.Fatal(err)
	}
	fields, err := redis.StringMap(row[1], nil)
	if err != nil {
		f.Fatal(err)
	}
	n, _ = strconv.ParseUint(fields["n"], 10, 64)
	return n
}

// A listener whose caller is slow learns of which process it has missed how many packs.
func TestSlowListener(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, probe)
	f.heard(f.watch(events.Filter{All: true}))
	var first, last atomic.Uint64 // packs: which it has read, and which is left
	goOn := make(chan struct{})
	missed := make(chan events.Event, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var listener sync.WaitGroup
	listener.Go(func() {
		for e, err := range events.Watch(ctx, f.client, events.Filter{Kinds: []string{events.Started}}) {
			switch {
			case err != nil:
				t.Error(err)
			case e.Kind == events.Missed:
				missed <- e
			case first.Load() == 0:
				first.Store(f.packs())
				<-goOn
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		listener.Wait()
	})
	redistest.Eventually(t, daemontest.Soon, "the listener has a first event", func() bool { return first.Load() > 0 || f.again() })
	redistest.Eventually(t, daemontest.Soon, "five packs more are there", func() bool { return f.packs() >= first.Load()+5 || f.again() })
	f.redis.Do(t, "XTRIM", "resque:go:events-all", "MAXLEN", 1)
	last.Store(f.packs())
	close(goOn)
	redistest.Eventually(t, daemontest.Soon, "it learns that packs are missing", func() bool { return len(missed) > 0 || f.again() })
	if e := <-missed; e.Process == "" || e.Count < 3 || uint64(e.Count) > last.Load()-1 {
		t.Errorf("%+v of %d packs, when it had read %d", e, last.Load(), first.Load())
	}
}

// A listener goes on where it was, while another keeps the processes sending; it also learns what Redis has dropped.
func TestGoesOn(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, func(d *goworker.Daemon) {
		probe(d)
		d.Register("Fails", func() error { return errors.New("no") })
	})
	other := f.watch(events.Filter{})
	f.heard(other)
	s := f.watch(events.Filter{Kinds: []string{events.Failed}, Queues: []string{"m*"}, Classes: []string{"F?ils"}})
	failures := 0
	fail := func(queue string, n int) {
		failures += n
		for range n {
			f.enqueue(queue, "Fails")
		}
		redistest.Eventually(t, daemontest.Soon, "they failed", func() bool { return other.count(events.Failed) == int64(failures) })
	}
	redistest.Eventually(t, daemontest.Soon, "a failure is seen", func() bool {
		fail("mail", 1) // until it listens
		return len(s.events()) > 0
	})
	failures++
	f.redis.Do(t, "RPUSH", "resque:queue:mail", `{"class":"Fails","args":[],"id":"last"}`)
	redistest.Eventually(t, daemontest.Soon, "the last one is seen", func() bool {
		all := s.events()
		return all[len(all)-1].ID == "last"
	})
	s.stop()
	seen := s.events()
	after := seen[len(seen)-1].Cursor
	fail("work", 1)
	fail("mail", 3)
	s = f.watch(events.Filter{Kinds: []string{events.Failed}, Queues: []string{"mail"}, After: after})
	redistest.Eventually(t, daemontest.Soon, "it goes on", func() bool { return len(s.events()) >= 3 })
	for _, e := range s.events() {
		if e.Kind != events.Failed || e.Queue != "mail" {
			t.Errorf("%+v", e)
		}
	}
	if n := len(s.events()); n != 3 {
		t.Errorf("%d events, not 3", n)
	}
	s.stop()
	f.redis.Do(t, "XTRIM", "resque:go:events", "MAXLEN", 1)
	s = f.watch(events.Filter{Kinds: []string{events.Failed}, After: after})
	redistest.Eventually(t, daemontest.Soon, "it learns that events are missing", func() bool { return s.count(events.Missed) == 1 })
}

// A cursor of one that listened alone says that nothing was sent meanwhile.
func TestNobodyListened(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, probe)
	s := f.watch(events.Filter{})
	f.heard(s)
	s.stop()
	if n := s.count(events.Missed); n > 0 {
		t.Errorf("one that begins has missed %d", n)
	}
	f.redis.Do(t, "HSET", "resque:go:notice", "events", 1) // as thirty seconds later
	s = f.watch(events.Filter{Kinds: []string{events.Failed}, After: s.events()[0].Cursor})
	redistest.Eventually(t, daemontest.Soon, "it learns that no program listened", func() bool { return s.count(events.Missed) == 1 })
}

// Packs that Redis dropped before the listener read them are counted.
func TestDroppedPacks(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, probe)
	s := f.watch(events.Filter{All: true, Kinds: []string{events.Started}})
	redistest.Eventually(t, daemontest.Soon, "a pack is seen", func() bool { return s.count(events.Started) > 0 || f.again() })
	for _, n := range []int{1, 14} {
		f.redis.Do(t, "XADD", "resque:go:events-all", "*", "p", "web-1", "n", n, "b", "{\"k\":\"started\",\"c\":\"A\"}\n{no\n")
	}
	redistest.Eventually(t, daemontest.Soon, "the gap is seen", func() bool { return s.count(events.Missed) == 12 })
	for _, e := range s.events() {
		if e.Kind == events.Missed && e.Process != "web-1" {
			t.Errorf("%+v", e)
		}
	}
}

// Jobs end whether or not Redis takes their events.
func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		rules  []any
		refuse func(*fleet)
		sent   bool
	}{
		"of another type": {sent: true, refuse: func(f *fleet) {
			f.redis.Do(f.T, "DEL", "resque:go:events")
			f.redis.Do(f.T, "SET", "resque:go:events", "x")
		}},
		"out of memory":   {sent: true, refuse: func(f *fleet) { f.redis.Do(f.T, "CONFIG", "SET", "maxmemory", 1) }},
		"without the key": {rules: []any{"resetkeys", "~resque:[^g]*", "~resque:go:[^e]*"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			begun, goOn := make(chan struct{}), make(chan struct{})
			f := setup(t, c.rules, func(d *goworker.Daemon) {
				probe(d)
				d.Register("Fails", func() error {
					close(begun)
					<-goOn
					return errors.New("no")
				})
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for range events.Watch(ctx, f.client, events.Filter{All: true}) { // what Redis refuses comes as an error
				}
			}()
			if c.sent {
				redistest.Eventually(t, daemontest.Soon, "the process sends events", func() bool { return f.redis.Int(t, "XLEN", "resque:go:events-all") > 1 || f.again() })
			} else {
				redistest.Eventually(t, daemontest.Soon, "the process says why it sends none", func() bool { return f.log.Count("Redis refuses events") > 0 })
			}
			f.enqueue("work", "Fails")
			<-begun
			if c.refuse != nil {
				c.refuse(f)
			}
			close(goOn)
			redistest.Eventually(t, daemontest.Soon, "the job has failed", func() bool { return f.redis.Int(t, "LLEN", "resque:failed") == 1 })
			f.redis.Do(t, "CONFIG", "SET", "maxmemory", 0)
		})
	}
}

// again enqueues a probe.
func (f *fleet) again() bool {
	f.enqueue("work", "Probe")
	time.Sleep(20 * time.Millisecond)
	return false
}

// A process stops by itself when no listener asks again, as where the last one was killed.
func TestListenerDies(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, probe)
	ends := func() int { return f.redis.Int(t, "XLEN", "resque:go:events") }
	redistest.Eventually(t, daemontest.Soon, "the process sends events", func() bool {
		f.redis.Do(t, "HSET", "resque:go:notice", "events", time.Now().Add(5*time.Second).UnixMilli())
		f.again()
		return ends() > 0
	})
	redistest.Eventually(t, daemontest.Soon, "it has stopped", func() bool {
		events, ran := ends(), f.redis.Int(t, "GET", "resque:stat:processed")
		f.enqueue("work", "Probe")
		redistest.Eventually(t, daemontest.Soon, "the job has run", func() bool { return f.redis.Int(t, "GET", "resque:stat:processed") > ran })
		return ends() == events
	})
}
