package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// many are plain jobs.
func many(n int) []goworker.Item {
	items := make([]goworker.Item, n)
	for i := range items {
		items[i] = goworker.Item{Job: job(i)}
	}
	return items
}

// A connection that breaks under a call leaves all of its jobs or none, and the error says that this is
// unknown.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := newProxy(t, server)
	client, _ := newClient(t, way.uri(), goworker.WorkerSettings{})
	unique := many(50)
	for i := range unique {
		unique[i].Options = []goworker.EnqueueOption{goworker.Unique()}
	}
	for name, items := range map[string][]goworker.Item{"one": many(1), "plain": many(2000), "unique": unique} {
		for _, tt := range []struct {
			cut  int32
			jobs int
		}{{before, 0}, {halfway, 0}, {after, len(items)}} {
			if _, err := client.EnqueueMany(t.Context(), items...); err != nil { // Redis has the script
				t.Fatal(err)
			}
			server.Do(t, "FLUSHALL")
			way.cut.Store(tt.cut)
			receipts, err := client.EnqueueMany(t.Context(), items...)
			if !errors.Is(err, goworker.ErrUnconfirmed) || len(receipts) > 0 {
				t.Errorf("%s, cut %d: %d receipts, %v", name, tt.cut, len(receipts), err)
			}
			if tt.jobs > 0 {
				redistest.Eventually(t, daemontest.Soon, "the jobs are there", func() bool { return server.Int(t, "LLEN", "resque:queue:q") > 0 })
			}
			if n := server.Int(t, "LLEN", "resque:queue:q"); n != tt.jobs {
				t.Errorf("%s, cut %d: %d jobs, want %d", name, tt.cut, n, tt.jobs)
			}
			server.Do(t, "FLUSHALL")
		}
	}
}

// A Redis that was restarted between two calls costs no error: its old connections are seen to be closed.
func TestRestartedRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{Connections: 3})
	for n := range 4 {
		var wg sync.WaitGroup
		for range 3 { // each connection
			wg.Go(func() {
				if _, err := client.Enqueue(t.Context(), job(n)); err != nil {
					t.Errorf("after %d restarts: %v", n, err)
				}
			})
		}
		wg.Wait()
		server.Restart(t)
	}
	server.Kill()
	if _, err := client.Enqueue(t.Context(), job(0)); err == nil || errors.Is(err, goworker.ErrUnconfirmed) || !strings.Contains(err.Error(), "nothing was enqueued") {
		t.Errorf("with Redis gone: %v", err)
	}
}

// A script that Redis has forgotten is sent again, for every kind of job.
func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{})
	for round := range 3 {
		for _, opts := range [][]goworker.EnqueueOption{
			nil, {goworker.WithID("a")}, {goworker.Unique(goworker.ByKey(fmt.Sprint(round)))}, {goworker.ProcessIn(time.Hour)},
			{goworker.ProcessIn(time.Hour), goworker.ResqueScheduler()}, {goworker.Unique(goworker.ByKey("r"), goworker.ReplaceWaiting())},
		} {
			server.Do(t, "SCRIPT", "FLUSH")
			if _, err := client.Enqueue(t.Context(), job(1), opts...); err != nil {
				t.Error(err)
			}
		}
	}
	if n := server.Int(t, "LLEN", "resque:queue:q"); n != 10 { // of those that replace each other one is left
		t.Errorf("%d jobs", n)
	}
}

// A Redis that refuses has none of the jobs, and the error says why.
func TestRefusals(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	daemontest.Punctually(t, func() error { return refusals(t) })
}

func refusals(t *testing.T) error {
	server := redistest.Start(t)
	// A push that a replica refuses waits for as long for another master.
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{ConnectTimeout: 2 * time.Second, Connections: 6})
	wrong := make(chan error, 100)
	kinds := map[string][]goworker.EnqueueOption{
		"plain": nil, "id": {goworker.WithID("a")}, "unique": {goworker.Unique()}, "delayed": {goworker.ProcessIn(time.Hour)},
		"ruby": {goworker.ProcessIn(time.Hour), goworker.ResqueScheduler()}, "replacing": {goworker.Unique(goworker.ReplaceWaiting())},
	}
	for _, tt := range []struct {
		says     string
		do, undo []any
	}{
		{"OOM", []any{"CONFIG", "SET", "maxmemory", 1}, []any{"CONFIG", "SET", "maxmemory", 0}},
		{"READONLY", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
		{"NOREPLICAS", []any{"CONFIG", "SET", "min-replicas-to-write", 1}, []any{"CONFIG", "SET", "min-replicas-to-write", 0}},
	} {
		server.Do(t, tt.do[0].(string), tt.do[1:]...)
		var wg sync.WaitGroup
		for name, opts := range kinds {
			wg.Go(func() {
				receipt, err := client.Enqueue(t.Context(), job(1), opts...)
				if err == nil || receipt != (goworker.Receipt{}) || errors.Is(err, goworker.ErrUnconfirmed) || !strings.Contains(err.Error(), tt.says) || !strings.HasSuffix(err.Error(), "; nothing was enqueued") {
					wrong <- fmt.Errorf("%s, %s: %+v, %w", name, tt.says, receipt, err)
				}
			})
		}
		wg.Wait()
		server.Do(t, tt.undo[0].(string), tt.undo[1:]...)
		if keys := server.Keys(t); len(keys) > 0 {
			t.Errorf("%s: keys %q", tt.says, keys)
		}
	}
	close(wrong)
	var all []error
	for err := range wrong {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// A user of Redis that lacks a permission learns which.
func TestMissingPermissions(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	server := redistest.Start(t)
	const all = "~resque:* -@all +rpush +sadd +evalsha +eval +scard +llen +zcard +zadd +zrange +zrangebyscore +zrem +zremrangebyrank +zscore +time" +
		" +hgetall +hget +hset +hdel +hkeys +hstrlen +pexpire +exists +set +smembers +lpos +lset +lrem"
	kinds := map[string][]goworker.EnqueueOption{
		"evalsha": nil, "eval": nil, "scard": nil, "llen": nil, "sadd": nil, "rpush": nil,
		"zadd": {goworker.ProcessIn(time.Hour)}, "hset": {goworker.Unique()}, "pexpire": {goworker.Unique()},
	}
	for missing, opts := range kinds {
		args := []any{"SETUSER", missing + "less", "on", ">pw"}
		for _, rule := range strings.Fields(all) {
			if rule != "+"+missing {
				args = append(args, rule)
			}
		}
		server.Do(t, "ACL", args...)
		server.Do(t, "SCRIPT", "FLUSH")
		client, _ := newClient(t, "redis://"+missing+"less:pw@"+server.Addr, goworker.WorkerSettings{})
		_, err := client.Enqueue(t.Context(), job(1), opts...)
		named := err != nil && (strings.Contains(err.Error(), missing) || opts != nil && strings.Contains(err.Error(), "ACL LOG of the server names"))
		if !named || errors.Is(err, goworker.ErrUnconfirmed) || !strings.HasSuffix(err.Error(), "; nothing was enqueued") {
			t.Errorf("without %s: %v", missing, err)
		}
		for _, key := range server.Keys(t) {
			if key != "resque:queues" { // a script that may not RPUSH has made its SADD
				t.Errorf("without %s: key %s is there", missing, key)
			}
		}
		server.Do(t, "FLUSHALL")
	}
}

// The error of a context that ended matches its cause and the context's own error, wherever the call was.
func TestCauses(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	server := redistest.Start(t)
	cause := errors.New("the visitor left")
	check := func(name string, err error, unconfirmed bool) {
		t.Helper()
		if !errors.Is(err, cause) || !errors.Is(err, context.Canceled) || errors.Is(err, goworker.ErrUnconfirmed) != unconfirmed || !strings.Contains(err.Error(), "the visitor left") {
			t.Errorf("%s: %v", name, err)
		}
	}
	proxy := server.StartProxy(t)
	client, _ := newClient(t, "redis://"+proxy.Addr, goworker.WorkerSettings{Connections: 1})
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err := client.Enqueue(over, job(1))
	check("before the call", err, false)
	if server.Int(t, "DBSIZE") > 0 {
		t.Error("a job of a context that was over is there")
	}

	server.Do(t, "REPLICAOF", "127.0.0.1", "1")
	for range 20 {
		before := server.Text(t, "INFO", "errorstats")
		_, err = enqueueUntil(t, client, cause, func() bool { return server.Text(t, "INFO", "errorstats") != before })
		if !errors.Is(err, goworker.ErrUnconfirmed) { // else Redis's answer was on its way when the context ended
			break
		}
	}
	check("while no server takes writes", err, false)
	server.Do(t, "REPLICAOF", "NO", "ONE")

	if _, err := client.Enqueue(t.Context(), job(1)); err != nil {
		t.Fatal(err)
	}
	release := proxy.Hold()
	defer release()
	var wg sync.WaitGroup
	tried := make(chan struct{})
	wg.Go(func() {
		_, err := enqueueUntil(t, client, cause, func() bool { <-tried; return true })
		check("while Redis does not answer", err, true)
	})
	redistest.Eventually(t, 20*time.Second, "the one connection is borrowed", func() bool { return len(queued(t, server)) == 2 })
	_, err = enqueueUntil(t, client, cause, sometime(50*time.Millisecond))
	check("while no connection is free", err, false)
	close(tried)
	wg.Wait()
	_, err = enqueueUntil(t, client, cause, sometime(50*time.Millisecond))
	check("while it dials", err, false)
}

// sometime is true after a while.
func sometime(d time.Duration) func() bool {
	until := time.Now().Add(d)
	return func() bool { return time.Now().After(until) }
}

// enqueueUntil makes a call and cancels it when a condition holds.
func enqueueUntil(t *testing.T, client *goworker.Client, cause error, cond func() bool) (goworker.Receipt, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		for !cond() {
			time.Sleep(time.Millisecond)
		}
		cancel(cause)
	}()
	return client.Enqueue(ctx, job(1))
}

// Middleware may leave items out, change their order, panic, and return what it likes.
func TestOddMiddleware(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var around goworker.EnqueueMiddleware
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithEnqueueMiddleware(func(next goworker.EnqueueFunc) goworker.EnqueueFunc { return around(next) }))
	items := many(4)
	for name, tt := range map[string]struct {
		mw       goworker.EnqueueMiddleware
		jobs     []int
		receipts int
		panics   bool
	}{
		"drops": {func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
			return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
				return next(ctx, items[:1])
			}
		}, []int{0}, 1, false},
		"drops all": {func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
			return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) { return next(ctx, nil) }
		}, nil, 0, false},
		"reorders": {func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
			return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
				slices.Reverse(items)
				return next(ctx, items)
			}
		}, []int{3, 2, 1, 0}, 4, false},
		"hides the receipts": {func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
			return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
				_, err := next(ctx, items)
				return nil, err
			}
		}, []int{0, 1, 2, 3}, 0, false},
		"panics after": {func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
			return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
				_, _ = next(ctx, items)
				panic("odd")
			}
		}, []int{0, 1, 2, 3}, 0, true},
		"adds options": {func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
			return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
				for i := range items {
					items[i].Options = append(items[i].Options, goworker.ProcessIn(-time.Hour), goworker.ResqueScheduler())
				}
				return next(ctx, items)
			}
		}, []int{0, 1, 2, 3}, 4, false},
	} {
		server.Do(t, "FLUSHALL")
		around = tt.mw
		before := slices.Clone(items)
		func() {
			defer func() {
				if v := recover(); (v != nil) != tt.panics {
					t.Errorf("%s: panic %v", name, v)
				}
			}()
			receipts, err := client.EnqueueMany(t.Context(), items...)
			if err != nil || len(receipts) != tt.receipts {
				t.Errorf("%s: %d receipts, %v", name, len(receipts), err)
			}
		}()
		if diff := cmp.Diff(payloads(tt.jobs...), queued(t, server)); diff != "" && len(tt.jobs) > 0 {
			t.Errorf("%s: %s", name, diff)
		}
		if !cmp.Equal(before, items) {
			t.Errorf("%s: the caller's items have changed", name)
		}
	}
	around = func(next goworker.EnqueueFunc) goworker.EnqueueFunc { return next }
	for range 3 { // a panic keeps no connection
		if _, err := client.EnqueueMany(t.Context(), items...); err != nil {
			t.Error(err)
		}
	}
}

// 100,000 jobs of all kinds in one call, each with its receipt; more than one call may have is refused.
func TestLargeCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{})
	const n = 100_000
	items := many(n)
	plain, ids, later, locked := 0, 0, 0, 0
	for i := range items {
		switch i % 100 {
		case 1:
			items[i].Options = []goworker.EnqueueOption{goworker.WithID(fmt.Sprint(i))}
			ids++
		case 2:
			items[i].Options = []goworker.EnqueueOption{goworker.ProcessIn(time.Hour)}
			later++
		case 3, 4: // each second one is a duplicate
			items[i].Options = []goworker.EnqueueOption{goworker.Unique(goworker.ByKey(fmt.Sprint(i / 100)))}
			locked++
		default:
			plain++
		}
	}
	receipts, err := client.EnqueueMany(t.Context(), items...)
	if err != nil || len(receipts) != n {
		t.Fatalf("%d receipts, %v", len(receipts), err)
	}
	for i, r := range receipts {
		if (r.ID != "") != (i%100 >= 1 && i%100 <= 3) || (r.Duplicate != nil) != (i%100 == 4) || i%100 == 4 && r.Duplicate.Holder != receipts[i-1].ID {
			t.Fatalf("receipt %d: %+v", i, r)
		}
	}
	if got := server.Int(t, "LLEN", "resque:queue:q"); got != plain+ids+locked/2 {
		t.Errorf("%d jobs in the queue, want %d", got, plain+ids+locked/2)
	}
	if got := server.Int(t, "ZCARD", "resque:go:schedule"); got != later {
		t.Errorf("%d delayed jobs, want %d", got, later)
	}
	server.Do(t, "FLUSHALL")
	for i := range items {
		items[i].Options = []goworker.EnqueueOption{goworker.Unique(goworker.ByKey(fmt.Sprint(i / 2)))} // locks that two jobs want take the most values
	}
	many := slices.Repeat([]goworker.Item{{Job: job(1)}}, 1_000_001)
	big := slices.Repeat([]goworker.Item{{Job: goworker.NewJob("q", "C", strings.Repeat("x", 50<<20))}}, 6)
	for says, items := range map[string][]goworker.Item{
		"too many for one push: at most 1048560; push them in several": items,
		"1000001 jobs are too many for one push: at most 1000000 jobs": many,
		"too much for one push": big,
	} {
		receipts, err := client.EnqueueMany(t.Context(), items...)
		if err == nil || len(receipts) > 0 || !strings.Contains(err.Error(), says) || !strings.HasSuffix(err.Error(), "; nothing was enqueued") {
			t.Errorf("%s: %.300v", says, err)
		}
	}
	if server.Int(t, "DBSIZE") > 0 {
		t.Error("some were enqueued")
	}
}

// A Close ends no call halfway: what returned nil is there, and what returned ErrClosed is not.
func TestCloseUnderCalls(t *testing.T) {
	t.Parallel()
	for _, buffered := range []int{0, 1000} {
		server := redistest.Start(t)
		client, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(buffered))
		var wg sync.WaitGroup
		var mu sync.Mutex
		sent := 0
		started := make(chan struct{}, 8)
		for range 8 {
			wg.Go(func() {
				for n := 0; ; n++ {
					_, err := client.Enqueue(context.Background(), job(n))
					if n == 10 {
						started <- struct{}{}
					}
					if err != nil {
						if !errors.Is(err, goworker.ErrClosed) || errors.Is(err, goworker.ErrUnconfirmed) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					sent++
					mu.Unlock()
				}
			})
		}
		for range 8 {
			<-started
		}
		for range 3 {
			wg.Go(client.Close)
		}
		wg.Wait()
		if n := server.Int(t, "LLEN", "resque:queue:q"); n != sent {
			t.Errorf("%d jobs are there, and %d calls returned nil", n, sent)
		}
	}
}

// The Client of a Daemon goes on to work after the Daemon was closed and initialized again.
func TestClientOfAReopenedDaemon(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI(), QueuesString: "q", Logger: daemontest.Quiet, EnqueueBuffer: 5})
	defer d.Close()
	client := d.Client()
	for n := range 3 {
		if _, err := client.Enqueue(t.Context(), job(n)); err != nil {
			t.Fatal(err)
		}
		d.Close()
		if _, err := client.Enqueue(t.Context(), job(9)); !errors.Is(err, goworker.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		if err := d.Init(); err != nil {
			t.Fatal(err)
		}
	}
	d.SetSettings(goworker.WorkerSettings{URI: server.URI(), QueuesString: "q", Namespace: "other", Logger: daemontest.Quiet})
	if err := d.Init(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Enqueue(t.Context(), job(3)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(payloads(0, 1, 2), queued(t, server)); diff != "" {
		t.Error(diff)
	}
	if got := server.List(t, "LRANGE", "other:queue:q", 0, -1); !slices.Equal(got, payloads(3)) {
		t.Errorf("in the new namespace: %q", got)
	}
}

// One job may be enqueued by many goroutines at the same time: the client does not write to it.
func TestSharedJob(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{})
	shared := goworker.NewJob("q", "C", map[string]any{"a": 1}, "b")
	opts := []goworker.EnqueueOption{goworker.ExpireAfter(time.Hour), goworker.Unique(goworker.ByKeyOf(func(j *goworker.Job) string { return goworker.NewID() }))}
	item := goworker.Item{Job: shared, Options: opts}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := client.Enqueue(t.Context(), shared, opts...); err != nil {
					t.Error(err)
				}
				if _, err := client.EnqueueMany(t.Context(), item, item, goworker.Item{Job: shared}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := server.Int(t, "LLEN", "resque:queue:q"); n != 8*20*4 {
		t.Errorf("%d jobs", n)
	}
}

// A handler may enqueue until its daemon has stopped.
func TestEnqueueWhileTheDaemonStops(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI(), QueuesString: "w", Logger: daemontest.Quiet, EnqueueBuffer: 5})
	defer d.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	enqueued := make(chan error, 1)
	d.Register("W", func(ctx context.Context) error {
		stop()
		time.Sleep(50 * time.Millisecond) // the stop is under way
		_, err := d.Client().Enqueue(ctx, job(1), goworker.Unique())
		enqueued <- err
		return err
	})
	if _, err := d.Client().Enqueue(t.Context(), goworker.NewJob("w", "W")); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := <-enqueued; err != nil || len(queued(t, server)) != 1 {
		t.Errorf("%v, %q", err, queued(t, server))
	}
}

// What makes no sense is an error about the item, with nothing sent.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{})
	if _, err := client.Enqueue(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "needs a queue and a class") {
		t.Errorf("no job: %v", err)
	}
	for name, j := range map[string]*goworker.Job{"no queue": goworker.NewJob("", "C"), "no class": goworker.NewJob("q", ""), "a name no list can have": goworker.NewJob("a,b", "C")} {
		if _, err := client.Enqueue(t.Context(), j); err == nil || !strings.HasSuffix(err.Error(), "; nothing was enqueued") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if receipts, err := client.EnqueueMany(t.Context()); receipts != nil || err != nil {
		t.Errorf("no items: %v, %v", receipts, err)
	}
	if server.Int(t, "DBSIZE") > 0 {
		t.Error("there are keys")
	}
}
