package producer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// setup returns a client of a server and the features that add to jobs.
func setup(t testing.TB, server *redistest.Server, connections int, features ...func(outcome.Deps) outcome.Feature) (*Client, *outcome.Set) {
	t.Helper()
	dialer, err := conn.NewDialer(context.Background(), conn.Config{URI: server.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{Pool: conn.NewPool(dialer, connections), Store: resque.New(""), Retries: 10 * time.Second, Types: new(resque.Types), Spares: new(Spares)}
	t.Cleanup(func() { c.Pool.Close(errors.New("closed")) })
	deps := outcome.Deps{Base: part.Base{Store: c.Store, Clock: clock.System}, Time: clock.System, Do: c.Pool.Do}
	return c, outcome.New(deps, nil, append(features, expiry.New, unique.New)...)
}

// options are options of one job.
func options(set ...func(*outcome.Options)) *outcome.Options {
	o := new(outcome.Options)
	for _, f := range set {
		f(o)
	}
	return o
}

// locked makes a job unique by a key.
func locked(key string, replace bool) func(*outcome.Options) {
	return func(o *outcome.Options) {
		outcome.Put(o, unique.Options{
			Hold: resque.HoldDone, Most: unique.AtMost, Replace: replace, Key: func(*outcome.Push) string { return key },
		})
	}
}

func expiring(o *outcome.Options) { outcome.Put(o, expiry.Limit{After: time.Hour}) }

// later is a time that no test sees.
var later = time.UnixMilli(4_000_000_000_250)

// waiting are all jobs that wait: place, queue and payload, by the place.
func waiting(t testing.TB, s *redistest.Server) (all map[string][]string) {
	all = make(map[string][]string)
	for _, queue := range s.List(t, "SMEMBERS", "resque:queues") {
		all[queue] = s.List(t, "LRANGE", "resque:queue:"+queue, 0, -1)
	}
	for _, member := range s.List(t, "ZRANGE", "resque:go:schedule", 0, -1) {
		_, raw, _ := resque.CutPrefix([]byte(member))
		all["schedule"] = append(all["schedule"], string(raw))
	}
	if items := s.List(t, "LRANGE", "resque:delayed:4000000001", 0, -1); len(items) > 0 {
		all["ruby"] = items
	}
	return all
}

// jobsAndLocks are all keys but for the counts of refused jobs. A job whose lock is held is counted as its lock is proven, also in a call
// that is refused later.
func jobsAndLocks(t *testing.T, server *redistest.Server) map[string]any {
	t.Helper()
	all := server.Dump(t, "")
	maps.DeleteFunc(all, func(key string, _ any) bool {
		return strings.HasPrefix(key, "resque:go:unique:") && strings.HasSuffix(key, ":refused")
	})
	return all
}

// Any mix of plain, delayed, unique and expiring jobs in one call is pushed, but for those whose lock is
// held, or nothing changes; and each job has the right receipt.
func TestAnyMix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, set := setup(t, server, 1)
	rapid.Check(t, func(rt *rapid.T) {
		server.Do(t, "FLUSHALL")
		m := &mix{T: rt, holders: make(map[string]mixJob), live: make(map[string]mixJob)}
		for range rapid.IntRange(1, 3).Draw(rt, "calls") {
			jobs := m.jobs()
			spoiled := rapid.SampledFrom([]string{"", "", "", "queues", "queue:q1", "go:schedule", "delayed_queue_schedule", "go:precise"}).Draw(rt, "spoiled")
			var saved any
			if spoiled != "" {
				spoiled = "resque:" + spoiled
				if saved = server.Do(t, "DUMP", spoiled); saved != nil {
					server.Do(t, "DEL", spoiled)
				}
				server.Do(t, "SET", spoiled, "spoiled")
			}
			before := jobsAndLocks(t, server)
			pushes := make([]outcome.Push, len(jobs))
			for i, j := range jobs {
				pushes[i] = j.push
			}
			receipts, err := c.Enqueue(context.Background(), set, pushes)
			switch {
			case err != nil:
				if spoiled == "" || !strings.Contains(err.Error(), "WRONGTYPE") || Unconfirmed(err) || receipts != nil {
					rt.Fatalf("%v; receipts %v", err, receipts)
				}
				if after := jobsAndLocks(t, server); fmt.Sprint(before) != fmt.Sprint(after) {
					rt.Fatalf("refused, it changed keys:\n%v\n%v", before, after)
				}
			default:
				m.enqueued(jobs, pushes, receipts, spoiled)
			}
			if spoiled != "" {
				server.Do(t, "DEL", spoiled)
				if saved != nil {
					server.Do(t, "RESTORE", spoiled, 0, saved)
				}
			}
			m.check(waiting(t, server))
		}
	})
}

// mix is the model of what waits.
type mix struct {
	*rapid.T
	made    int
	holders map[string]mixJob // by lock
	live    map[string]mixJob // by name
}

type mixJob struct {
	push          outcome.Push
	name          string // its argument
	place         string
	lock          string
	replace, tidy bool // tidy: nothing but class and arguments
}

func (m *mix) jobs() []mixJob {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) mixJob {
		m.made++
		j := mixJob{name: fmt.Sprint("j", m.made), place: rapid.SampledFrom([]string{"q1", "q2"}).Draw(t, "queue")}
		j.push = outcome.Push{Queue: j.place, Name: "C", Args: []any{j.name}, At: time.UnixMilli(5)}
		kind := rapid.SampledFrom([]string{"plain", "plain", "id", "later", "ruby", "unique", "unique", "unique later"}).Draw(t, "kind")
		j.tidy = kind == "plain" || kind == "ruby"
		switch kind {
		case "id":
			j.push.ID = "id-" + j.name
		case "ruby":
			j.push.At, j.push.Ruby, j.place = later, true, "ruby"
		case "later", "unique later":
			j.push.At, j.place = later, "schedule"
		}
		var of []func(*outcome.Options)
		if strings.HasPrefix(kind, "unique") {
			j.lock, j.replace = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "lock"), rapid.Bool().Draw(t, "replace")
			of = append(of, locked(j.lock, j.replace))
		}
		if kind != "ruby" && rapid.IntRange(0, 3).Draw(t, "expires") == 0 {
			of, j.tidy = append(of, expiring), false
		}
		if len(of) > 0 {
			j.push.Options = options(of...)
		}
		return j
	}), 1, 12).Draw(m.T, "jobs")
}

// enqueued compares the receipts with the model.
func (m *mix) enqueued(jobs []mixJob, pushes []outcome.Push, receipts []Receipt, spoiled string) {
	if len(receipts) != len(jobs) {
		m.Fatalf("%d receipts for %d jobs", len(receipts), len(jobs))
	}
	held := make(map[string][]string) // by lock: the ids of all that had it in the course of the call
	for lock, j := range m.holders {
		held[lock] = append(held[lock], j.push.ID)
	}
	var replacing []int
	place := func(i int) {
		j, r := jobs[i], receipts[i]
		j.push.ID = pushes[i].ID
		before, taken := m.holders[j.lock]
		switch {
		case j.lock == "" || !taken:
			if r.Err != nil || r.Replaced != "" {
				m.Fatalf("%s: %+v", j.name, r)
			}
		case !j.replace:
			var duplicate *Duplicate
			if !errors.As(r.Err, &duplicate) || !slices.Contains(held[j.lock], duplicate.ID) || r.Replaced != "" {
				m.Fatalf("%s, whose lock %v has had: %+v", j.name, held[j.lock], r)
			}
			return
		default:
			if r.Err != nil || r.Replaced != before.push.ID {
				m.Fatalf("%s: %+v, want %s replaced", j.name, r, before.push.ID)
			}
			delete(m.live, before.name)
		}
		if (r.ID == "") != j.tidy || r.ID != j.push.ID {
			m.Fatalf("%s has the id %q: %+v", j.name, r.ID, j)
		}
		if j.lock != "" {
			m.holders[j.lock] = j
			held[j.lock] = append(held[j.lock], r.ID)
		}
		m.live[j.name] = j
	}
	took := make(map[string]bool) // locks that a job of this call has taken
	for i, j := range jobs {
		if j.lock != "" && took[j.lock] && j.replace {
			replacing = append(replacing, i) // it is asked once the others are pushed
			continue
		}
		_, before := m.holders[j.lock]
		place(i)
		took[j.lock] = took[j.lock] || j.lock != "" && (!before || j.replace)
	}
	for _, i := range replacing {
		if err := receipts[i].Err; err != nil && spoiled != "" && strings.Contains(err.Error(), "this job was not enqueued with the others") && strings.Contains(err.Error(), spoiled) {
			continue // that second step was refused
		}
		place(i)
	}
	if uses := map[string]string{"resque:queue:q1": "q1", "resque:go:schedule": "schedule", "resque:delayed_queue_schedule": "ruby", "resque:go:precise": "ruby"}[spoiled]; uses != "" {
		for i, j := range jobs {
			if receipts[i].Err == nil && j.place == uses {
				m.Fatalf("%s was pushed although %s is spoiled", j.name, spoiled)
			}
		}
	}
}

// check compares what waits with the model.
func (m *mix) check(found map[string][]string) {
	n := 0
	for place, all := range found {
		last := 0
		for _, raw := range all {
			p, err := payload.Parse([]byte(raw))
			if err != nil {
				m.Fatalf("%s: %v", raw, err)
			}
			n++
			name := strings.Trim(string(p.Args[0]), `"`)
			j, known := m.live[name]
			switch {
			case !known || j.place != place:
				m.Fatalf("%s is in %s; want %+v", raw, place, j)
			case j.tidy && place != "ruby" && raw != `{"class":"C","args":["`+name+`"]}`:
				m.Fatalf("a plain job: %s", raw)
			case !j.tidy && (p.ID != j.push.ID || !strings.HasSuffix(raw, `"id":"`+p.ID+`"}`)):
				m.Fatalf("%s: want the id %s, and last", raw, j.push.ID)
			}
			var number int
			_, _ = fmt.Sscanf(name, "j%d", &number)
			if j.lock == "" && place != "schedule" { // those do not change their places
				if number < last {
					m.Fatalf("%s holds %v", place, all)
				}
				last = number
			}
		}
	}
	if n != len(m.live) {
		m.Fatalf("%d jobs wait, want %d: %v", n, len(m.live), found)
	}
}

// With Redis stopped dead each call ends with its context, and says whether the jobs may be there.
func TestContextEndsCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, set := setup(t, server, 4)
	job := func() []outcome.Push { return []outcome.Push{{Queue: "q", Name: "C"}} }
	if _, err := c.Enqueue(context.Background(), set, job()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Enqueue(ended, set, job()); !errors.Is(err, context.Canceled) || Unconfirmed(err) {
		t.Errorf("with a context that has ended: %v", err)
	}
	server.Pause()
	defer server.Resume()
	var wg sync.WaitGroup
	errs := make([]error, 12) // the first four have connections
	for i := range errs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // the one with a connection has to send within it
			defer cancel()
			_, errs[i] = c.Enqueue(ctx, set, job())
		})
	}
	wg.Wait()
	sent := 0
	for _, err := range errs {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if Unconfirmed(err) {
			sent++
		}
	}
	if sent == 0 || sent > 4 {
		t.Errorf("%d calls may have been carried out; one connection was open: %v", sent, errs)
	}
}

// A call that waits for another master ends with its context; then nothing was enqueued.
func TestContextEndsRetries(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	server := redistest.Start(t)
	c, set := setup(t, server, 1)
	c.Retries = time.Hour
	server.Do(t, "REPLICAOF", "127.0.0.1", "1")
	var err error
	redistest.Eventually(t, time.Minute, "the context ends while the call waits, and not while it connects", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err = c.Enqueue(ctx, set, []outcome.Push{{Queue: "q", Name: "C"}})
		return err == nil || strings.Contains(err.Error(), "READONLY")
	})
	if !errors.Is(err, context.DeadlineExceeded) || Unconfirmed(err) != strings.Contains(err.Error(), "no answer came") {
		t.Errorf("%v", err)
	}
}

// What Redis refuses, and what cannot be encoded, keeps all jobs from being enqueued.
func TestNothingIsEnqueued(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	broken := errors.New("not this one")
	c, set := setup(t, server, 1, func(outcome.Deps) outcome.Feature {
		return outcome.Feature{Name: "picky", EnqueueAll: true, Enqueue: func(p *outcome.Push) error {
			if p.Name == "Bad" {
				return broken
			}
			return nil
		}}
	})
	c.MaxPayload = 100
	good := outcome.Push{Queue: "q", Name: "C"}
	for says, bad := range map[string]outcome.Push{
		"needs a queue and a class":                                   {Name: "C"},
		"job 2 of 2: a job to be enqueued":                            {Queue: "q"},
		"enqueueing C: args[0]":                                       {Queue: "q", Name: "C", Args: []any{func() {}}},
		"enqueueing C: the payload has 119":                           {Queue: "q", Name: "C", Args: []any{strings.Repeat("x", 94)}},
		"enqueueing Bad: not this one":                                {Queue: "q", Name: "Bad"},
		"enqueueing C: resque-scheduler's schedule keeps nothing but": {Queue: "q", Name: "C", At: later, Ruby: true, ID: "x"},
		"enqueueing C: a unique job's lock is to last 0s": {Queue: "q", Name: "C", Options: options(func(o *outcome.Options) {
			outcome.Put(o, unique.Options{Hold: resque.HoldTime})
		})},
	} {
		_, err := c.Enqueue(context.Background(), set, []outcome.Push{good, bad})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "goworker: job 2 of 2: ") ||
			!strings.HasSuffix(err.Error(), "; nothing was enqueued") || Unconfirmed(err) {
			t.Errorf("want %q: %v", says, err)
		}
	}
	if receipts, err := c.Enqueue(context.Background(), set, nil); receipts != nil || err != nil {
		t.Errorf("no jobs: %v, %v", receipts, err)
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("keys %q", keys)
	}
}

// A soft effect that Redis refuses is reported, and its job is enqueued.
func TestSoftEffects(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, set := setup(t, server, 1, func(d outcome.Deps) outcome.Feature {
		return outcome.Feature{Name: "counts", Enqueue: func(p *outcome.Push) error {
			count := resque.Command("HINCRBY", d.Store.HashKey("counts"), p.Name, 1)
			p.Guarded = append(p.Guarded, resque.Guarded{Effects: []resque.Effect{count.Soft()}})
			return nil
		}}
	})
	var said []resque.KeyError
	c.Soft = func(e resque.KeyError) { said = append(said, e) }
	server.Do(t, "SET", "resque:go:counts", "spoiled")
	jobs := []outcome.Push{{Queue: "q", Name: "C", Options: options(locked("a", false))}, {Queue: "q", Name: "C", Options: options(locked("a", false))}}
	receipts, err := c.Enqueue(context.Background(), set, jobs)
	if err != nil || receipts[0].Err != nil || !errors.As(receipts[1].Err, new(*Duplicate)) {
		t.Errorf("%v, %v", receipts, err)
	}
	if len(said) != 1 || said[0].Key != "resque:go:counts" || server.Int(t, "LLEN", "resque:queue:q") != 1 {
		t.Errorf("refused: %v; %d jobs", said, server.Int(t, "LLEN", "resque:queue:q"))
	}
}
