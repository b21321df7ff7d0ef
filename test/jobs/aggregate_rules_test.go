package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// left returns the ids of the groups that wait.
func (i *index) left() []string { return i.Redis.List(i.T, "ZRANGE", "resque:go:groups", 0, -1) }

// An item whose result is kept and a step of a workflow run alone, and what waits for them gets their result.
func TestAggregateAwaited(t *testing.T) {
	t.Parallel()
	i := &index{Bundle: daemontest.Setup(t)}
	i.gather("Sum", func(ns []int) (sum int, err error) {
		for _, n := range ns {
			sum += n
		}
		return sum, nil
	}, goworker.MaxWait(time.Hour))
	i.Start()
	c := i.Daemon.Client()
	r, err := c.Enqueue(t.Context(), goworker.NewJob("work", "Sum", 7), goworker.WithResult(0))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := goworker.Await[int](t.Context(), c, r.ID); n != 7 || err != nil {
		t.Errorf("the result is %d, %v", n, err)
	}
	w, err := c.Start(t.Context(), goworker.Chord(goworker.Group(goworker.Step(goworker.NewJob("work", "Sum", 1)), goworker.Step(goworker.NewJob("work", "Sum", 2))),
		goworker.Step(goworker.NewJob("work", "Sum", 3), goworker.Immutable())))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := goworker.Await[int](t.Context(), c, w.ID); n != 3 || err != nil {
		t.Errorf("the workflow's result is %d, %v", n, err)
	}
	if left := i.left(); len(left) > 0 {
		t.Errorf("there are groups: %q", left)
	}
}

// Limits hold for the jobs of groups and not for their items: items take no turns and no slots.
func TestAggregateLimits(t *testing.T) {
	t.Parallel()
	for name, queue := range map[string]bool{"of the class": false, "of the queue": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := &index{Bundle: daemontest.Setup(t)}
			var running, most atomic.Int64
			limit := goworker.MaxRunning(1)
			if queue {
				i.Daemon.LimitQueue("work", limit)
			}
			opts := []goworker.Option{goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(10))}
			if !queue {
				opts = append(opts, limit, goworker.RateLimit(50, time.Second)) // 400 items would take 8 s, 40 jobs 0.8 s
			}
			i.Daemon.Register("Index", func(catalog string, ids []int) {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Millisecond)
				running.Add(-1)
				i.called(catalog, len(ids))
			}, opts...)
			i.Start()
			began := time.Now()
			var want []string
			for n := range 40 {
				i.items(fmt.Sprint("c", n%4), 10*n, 10*n+9)
				want = append(want, fmt.Sprint("c", n%4, " 10"))
			}
			i.wait(want...)
			if most.Load() != 1 {
				t.Errorf("%d ran at a time", most.Load())
			}
			t.Logf("it took %v", time.Since(began))
			i.Eventually("all count once", func() bool { return i.Stat("processed") == 40 })
		})
	}
}

// An item gives its lock back when it is gathered, is dropped when it has expired or was cancelled before, and calls no hook.
func TestAggregateEnds(t *testing.T) {
	t.Parallel()
	i := &index{Bundle: daemontest.Setup(t)}
	i.Daemon.Register("Index", func(_ context.Context, catalog string, ids []int) { i.called(catalog, ids) },
		goworker.Unique(), goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxWait(time.Hour)))
	hooks := make(chan string, 100)
	i.Daemon.AddHooks(goworker.Hooks{
		Success: func(_ context.Context, d *goworker.Delivery) { hooks <- "success " + d.Class },
		Expired: func(_ context.Context, d *goworker.Delivery) { hooks <- "expired " + d.Class },
		Start:   func(_ context.Context, d *goworker.Delivery) { hooks <- "start " + d.Class },
	})
	c := i.Daemon.Client()
	enqueue := func(id int, opts ...goworker.EnqueueOption) string {
		r, err := c.Enqueue(t.Context(), goworker.NewJob("work", "Index", "books", id), opts...)
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	enqueue(1)
	enqueue(2, goworker.ExpiresAt(time.Now().Add(-time.Minute)))
	if err := c.Cancel(t.Context(), enqueue(3)); err != nil {
		t.Fatal(err)
	}
	i.Start()
	i.Eventually("all three have ended", func() bool {
		s := i.Daemon.Stats().Jobs
		return s.Gathered == 1 && s.Expired == 1 && s.Cancelled == 1
	})
	i.Eventually("the lock is free", func() bool { return len(i.Redis.List(t, "KEYS", "resque:go:unique:*")) == 0 })
	enqueue(1) // not a duplicate any more
	i.Eventually("it is gathered too", func() bool {
		// The job is counted before its commit.
		return i.Daemon.Stats().Jobs.Gathered == 2 && len(i.Redis.List(t, "LRANGE", "resque:go:group:"+i.left()[0], 1, -1)) == 2
	})
	if len(hooks) != 1 || <-hooks != "expired Index" {
		t.Error("hooks were called")
	}
	if n := i.Stat("processed"); n != 0 {
		t.Errorf("%d are processed", n)
	}
}

// The job of a group is retried, filed and requeued as any other. Ruby's tools drop the fields that they do not know: then
// its arguments say that it is no item.
func TestAggregateFailure(t *testing.T) {
	t.Parallel()
	i := &index{Bundle: daemontest.Setup(t)}
	var tries atomic.Int64
	i.Daemon.Register("Index", func(catalog string, ids []int) error {
		if tries.Add(1) <= 2 {
			return errors.New("no luck")
		}
		slices.Sort(ids)
		i.called(catalog, ids)
		return nil
	}, goworker.Retry(1, goworker.Delays{time.Millisecond}), goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(2)))
	i.Start()
	i.items("books", 1, 2)
	i.Eventually("the job of the group has failed for good", func() bool { return len(i.Failures()) == 1 && tries.Load() == 2 })
	payload := string(i.Failures()[0].Payload)
	if !strings.Contains(payload, `"gathered":2`) || !strings.Contains(payload, `"attempt":2`) {
		t.Errorf("the failure's payload is %s", payload)
	}
	args := payload[strings.Index(payload, `"args"`) : strings.Index(payload, "]]")+2]
	i.Push(`{"class":"Index",` + args + `}`) // as resque-web's Retry does
	i.wait("books [1 2]")
	if left := i.left(); len(left) > 0 {
		t.Errorf("there are groups: %q", left)
	}
}

// Ruby's tools push class and arguments of a failed job only. The job of a group gets the same arguments then, whatever its
// items bring, and is not gathered.
func TestAggregateRetriedByRuby(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args    string // of both items
		handler func(called func(...any) error) any
		opts    []goworker.AggregateOption
	}{
		"a value": {`"k",1`, func(called func(...any) error) any {
			return func(k string, rows []int) error { return called(k, rows) }
		}, []goworker.AggregateOption{goworker.KeyArgs(0)}},
		"several arguments": {`"k",1,"x"`, func(called func(...any) error) any {
			return func(k string, rows [][]any) error { return called(k, rows) }
		}, []goworker.AggregateOption{goworker.KeyArgs(0)}},
		"none": {`"k"`, func(called func(...any) error) any {
			return func(k string, rows [][]any) error { return called(k, rows) }
		}, []goworker.AggregateOption{goworker.KeyArgs(0)}},
		"an empty list": {`"k",[]`, func(called func(...any) error) any {
			return func(k string, rows [][]any) error { return called(k, rows) }
		}, []goworker.AggregateOption{goworker.KeyArgs(0)}},
		"whatever the type decodes": {`"k",{"a":1}`, func(called func(...any) error) any {
			return func(k string, rows []either) error { return called(k, len(rows), string(rows[0].RawMessage)) }
		}, []goworker.AggregateOption{goworker.KeyArgs(0)}},
		"a key behind": {`1,"k"`, func(called func(...any) error) any {
			return func(k string, rows []int) error { return called(k, rows) }
		}, []goworker.AggregateOption{goworker.KeyArgs(1)}},
		"a key behind several": {`1,"x","k"`, func(called func(...any) error) any {
			return func(k any, rows [][]any) error { return called(k, rows) }
		}, []goworker.AggregateOption{goworker.KeyArgs(2)}},
		"no key": {`1,"x"`, func(called func(...any) error) any {
			return func(rows [][]any) error { return called(rows) }
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := &index{Bundle: daemontest.Setup(t)}
			i.gather("Index", tt.handler(func(args ...any) error {
				i.called(args...)
				return errors.New("no luck")
			}), append(tt.opts, goworker.MaxCount(2))...)
			i.Start()
			one := `{"class":"Index","args":[` + tt.args + `]}`
			i.Push(one, one)
			i.Eventually("the job of the group has failed", func() bool { return len(i.Failures()) == 1 })
			var p struct {
				Class string          `json:"class"`
				Args  json.RawMessage `json:"args"`
			}
			if err := json.Unmarshal(i.Failures()[0].Payload, &p); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			i.Push(string(again))
			i.Eventually("it has failed again", func() bool { return len(i.Failures()) == 2 })
			if calls := i.seen(); len(calls) != 2 || calls[0] != calls[1] || len(i.left()) > 0 {
				t.Errorf("the handler was called with %q; there are groups %q", calls, i.left())
			}
		})
	}
}

// Items under two names of a class are in one group, and its job has the class's own name.
func TestAggregateAlias(t *testing.T) {
	t.Parallel()
	i := &index{Bundle: daemontest.Setup(t)}
	i.Daemon.Register("Index", func(ctx context.Context, catalog string, ids []int) {
		slices.Sort(ids)
		d := goworker.FromContext(ctx)
		i.called(catalog, ids, d.Class, strings.HasPrefix(string(d.Raw()), `{"class":"Index",`))
	}, goworker.Alias("IndexOld"), goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(3), goworker.MaxWait(time.Hour)))
	i.Start()
	i.Push(item("books", 1), `{"class":"IndexOld","args":["books",2]}`,
		`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"IndexOld","job_id":"a","arguments":["books",3]}]}`)
	i.wait("books [1 2 3] Index true")
}

// No job of a group is longer than MaxBytes or MaxPayload. An item that is too long for a group runs alone.
func TestAggregateMaxBytes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		payload int
		opts    []goworker.AggregateOption
	}{
		"MaxBytes":   {0, []goworker.AggregateOption{goworker.MaxBytes(2048)}},
		"MaxPayload": {2048, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := &index{Bundle: daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.MaxPayload = tt.payload; s.Concurrency = 1 })}
			var longest, items, alone atomic.Int64
			i.gather("Text", func(ctx context.Context, _ string, texts []string) {
				d := goworker.FromContext(ctx)
				if strings.Contains(string(d.Raw()), `"gathered"`) {
					longest.Store(max(longest.Load(), int64(len(d.Raw()))))
				} else {
					alone.Add(1)
				}
				items.Add(int64(len(texts)))
			}, append(tt.opts, goworker.KeyArgs(0), goworker.MaxWait(200*time.Millisecond))...)
			i.Start()
			for n := range 100 {
				i.Push(fmt.Sprintf(`{"class":"Text","args":["k",%q]}`, strings.Repeat("x", n%7*50)))
			}
			i.Push(fmt.Sprintf(`{"class":"Text","args":["k",%q]}`, strings.Repeat("y", 2000)))
			i.Eventually("all have run", func() bool { return items.Load() == 101 })
			if n := longest.Load(); n > 2048 || n < 1500 {
				t.Errorf("the longest payload has %d bytes", n)
			}
			if alone.Load() != 1 {
				t.Errorf("%d ran alone", alone.Load())
			}
		})
	}
}

// A group of very many items is one job, also of more than a call in Lua can have arguments.
func TestAggregateManyItems(t *testing.T) {
	t.Parallel()
	const most = 10_000
	i := &index{Bundle: daemontest.Setup(t)}
	var items atomic.Int64
	i.gather("Index", func(ids []int) { items.Store(int64(len(ids))) }, goworker.MaxCount(most), goworker.MaxWait(time.Hour))
	i.Start()
	var all []string
	for n := range most {
		all = append(all, fmt.Sprintf(`{"class":"Index","args":[%d]}`, n))
	}
	for chunk := range slices.Chunk(all, 1000) {
		i.Push(chunk...)
	}
	i.Eventually("one job has them all", func() bool { return items.Load() == most })
}

// An item whose arguments nest as deep as a payload may runs alone: the payload of a group would be too deep.
func TestAggregateDeep(t *testing.T) {
	t.Parallel()
	i := &index{Bundle: daemontest.Setup(t)}
	i.gather("Deep", func(_ context.Context, key string, _ []map[string]any) { i.called(key) }, goworker.KeyArgs(0), goworker.MaxWait(100*time.Millisecond))
	i.Start()
	for _, n := range []int{93, 94, 95, 96} {
		i.Push(fmt.Sprintf(`{"class":"Deep","args":["%d",{"a":%s}]}`, n, strings.Repeat("[", n-1)+`"]"`+strings.Repeat("]", n-1)))
	}
	i.wait("93", "94", "95", "96")
	if f := i.Failures(); len(f) > 0 {
		t.Errorf("failures: %v", f)
	}
}
