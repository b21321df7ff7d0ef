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

// drained waits until the buffer is empty.
func drained(t testing.TB, c *goworker.Client) goworker.BufferStats {
	t.Helper()
	redistest.Eventually(t, daemontest.Soon, "the buffer is empty", func() bool { return c.Buffered().Waiting == 0 })
	return c.Buffered()
}

// Jobs that are enqueued while Redis is away wait in memory, and reach it in their order.
func TestBufferDrainsInOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, log := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(1000))
	server.Kill()
	var want []int
	for n := range 20 {
		receipt, err := client.Enqueue(t.Context(), job(n))
		if err != nil || receipt != (goworker.Receipt{Buffered: true}) {
			t.Fatalf("%+v, %v", receipt, err)
		}
		want = append(want, n)
	}
	receipts, err := client.EnqueueMany(t.Context(), goworker.Item{Job: job(20)}, goworker.Item{Job: job(21)},
		goworker.Item{Job: job(99), Options: []goworker.EnqueueOption{goworker.WithID("x"), goworker.ProcessIn(time.Hour)}})
	if err != nil || len(receipts) != 3 || receipts[2].ID != "x" || !receipts[2].Buffered {
		t.Fatalf("%+v, %v", receipts, err)
	}
	if stats := client.Buffered(); stats != (goworker.BufferStats{Waiting: 23}) {
		t.Errorf("%+v", stats)
	}
	server.Restart(t)
	for n := 22; n < 40; n++ { // these come while the buffer drains, or after
		if _, err := client.Enqueue(t.Context(), job(n)); err != nil {
			t.Fatal(err)
		}
	}
	stats := drained(t, client)
	for n := 20; n < 40; n++ {
		want = append(want, n)
	}
	if diff := cmp.Diff(payloads(want...), queued(t, server)); diff != "" {
		t.Error(diff)
	}
	if stats.Drained < 23 || stats.Dropped+stats.Unconfirmed+stats.Refused > 0 || server.Int(t, "ZCARD", "resque:go:schedule") != 1 {
		t.Errorf("%+v, %d in the schedule", stats, server.Int(t, "ZCARD", "resque:go:schedule"))
	}
	redistest.Eventually(t, daemontest.Soon, "the log says it", func() bool {
		return strings.Contains(log.String(), "redis unavailable, buffering") && strings.Contains(log.String(), "redis available again")
	})
	if receipt, err := client.Enqueue(t.Context(), job(40)); receipt.Buffered || err != nil {
		t.Errorf("after the outage: %+v, %v", receipt, err)
	}
}

// The ids, the expiry and the time of a delayed job are those of the call.
func TestBufferKeepsTimes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(10))
	server.Kill()
	start := time.Now()
	receipt, err := client.Enqueue(t.Context(), job(1), goworker.ExpireAfter(time.Hour))
	if err != nil || receipt.ID == "" {
		t.Fatalf("%+v, %v", receipt, err)
	}
	if _, err := client.Enqueue(t.Context(), job(2), goworker.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	called := time.Now()
	for time.Since(called) < 200*time.Millisecond { // what is computed later differs
		if _, err := client.Enqueue(t.Context(), job(3)); err != nil && !errors.Is(err, goworker.ErrBufferFull) {
			t.Fatal(err)
		}
	}
	server.Restart(t)
	drained(t, client)
	var at int64
	text := queued(t, server)[0]
	if _, err := fmt.Sscanf(text, `{"class":"C","args":[1],"expires_at":%d,"id":`, &at); err != nil || !strings.Contains(text, receipt.ID) {
		t.Fatalf("%s: %v", text, err)
	}
	if got := time.UnixMilli(at).Add(-time.Hour); got.Before(start.Truncate(time.Millisecond)) || got.After(called) {
		t.Errorf("it expires an hour after %v; the call was from %v to %v", got, start, called)
	}
	due := time.UnixMilli(int64(server.Int(t, "ZSCORE", "resque:go:schedule", server.List(t, "ZRANGE", "resque:go:schedule", 0, 0)[0]))).Add(-time.Hour)
	if due.Before(start.Truncate(time.Millisecond)) || due.After(called.Add(time.Millisecond)) {
		t.Errorf("it is due an hour after %v; the call was from %v to %v", due, start, called)
	}
}

// A full buffer refuses the whole call, and says so.
func TestBufferIsFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(3))
	server.Kill()
	for n := range 2 {
		if _, err := client.Enqueue(t.Context(), job(n)); err != nil {
			t.Fatal(err)
		}
	}
	receipts, err := client.EnqueueMany(t.Context(), goworker.Item{Job: job(2)}, goworker.Item{Job: job(3)})
	if !errors.Is(err, goworker.ErrBufferFull) || errors.Is(err, goworker.ErrUnconfirmed) || len(receipts) > 0 {
		t.Fatalf("%+v, %v", receipts, err)
	}
	for _, part := range []string{"goworker: the buffer of jobs is full: it has 2 of at most 3 jobs", "Redis is away: nothing listens at", "; nothing was enqueued"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if _, err := client.Enqueue(t.Context(), job(2)); err != nil {
		t.Errorf("there is room for one more: %v", err)
	}
	big, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(1_000_000))
	text := strings.Repeat("x", 30<<20)
	for n := range 3 {
		_, err := big.Enqueue(t.Context(), goworker.NewJob("q", "C", text))
		if full := errors.Is(err, goworker.ErrBufferFull); full != (n == 2) || !full && err != nil {
			t.Errorf("job %d of 30 MiB: %.200v", n+1, err)
		}
	}
	server.Restart(t)
	if stats := drained(t, client); stats != (goworker.BufferStats{Drained: 3, Refused: 2}) {
		t.Errorf("%+v", stats)
	}
	if diff := cmp.Diff(payloads(0, 1, 2), queued(t, server)[:3]); diff != "" && len(queued(t, server)) == 3 {
		t.Error(diff)
	}
	drained(t, big)
}

// Without the option, and after a call that Redis may have had, nothing is buffered.
func TestBufferTakesOnlyWhatWasNotSent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := newProxy(t, server)
	client, _ := newClient(t, way.uri(), goworker.WorkerSettings{}, goworker.WithBuffer(10))
	if _, err := client.Enqueue(t.Context(), job(0)); err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int32{before, halfway, after} {
		way.cut.Store(cut)
		receipt, err := client.Enqueue(t.Context(), job(1))
		if !errors.Is(err, goworker.ErrUnconfirmed) || receipt != (goworker.Receipt{}) || client.Buffered() != (goworker.BufferStats{}) {
			t.Errorf("cut %d: %+v, %v, %+v", cut, receipt, err, client.Buffered())
		}
	}
	off, _ := newClient(t, server.URI(), goworker.WorkerSettings{})
	server.Kill()
	if receipt, err := off.Enqueue(t.Context(), job(1)); err == nil || receipt.Buffered || !strings.Contains(err.Error(), "nothing was enqueued") {
		t.Errorf("without a buffer: %+v, %v", receipt, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // with an empty buffer, and with one that is not
		if _, err := client.Enqueue(ended, job(2)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing was enqueued") {
			t.Errorf("with a context that is over: %v", err)
		}
		if receipt, err := client.Enqueue(t.Context(), job(3)); err != nil || !receipt.Buffered {
			t.Errorf("%+v, %v", receipt, err)
		}
	}
	server.Restart(t)
	drained(t, client)
	if diff := cmp.Diff(payloads(3, 3), queued(t, server)); diff != "" {
		t.Error(diff)
	}
}

// A call that ends with its deadline while Redis hangs is buffered, if it could not be sent.
func TestBufferTakesCallsOfAHangingRedis(t *testing.T) {
	t.Parallel()
	daemontest.Punctually(t, func() error { // else the deadline may be over before the call
		server := redistest.Start(t)
		client, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(10))
		server.Pause()
		defer server.Resume()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if receipt, err := client.Enqueue(ctx, job(1)); err != nil || !receipt.Buffered {
			return fmt.Errorf("%+v, %w", receipt, err)
		}
		server.Resume()
		if stats := drained(t, client); stats != (goworker.BufferStats{Drained: 1}) {
			t.Errorf("%+v", stats)
		}
		return nil
	})
}

// What Redis refuses at the drain is dropped: each job is counted and logged, and holds up no other.
func TestBufferDropsWhatIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	client, log := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(100))
	first, err := client.Enqueue(t.Context(), job(1), goworker.Unique())
	if err != nil {
		t.Fatal(err)
	}
	server.Do(t, "SET", "resque:queue:spoilt", "x")
	server.Kill()
	items := []goworker.Item{
		{Job: job(1), Options: []goworker.EnqueueOption{goworker.Unique(), goworker.WithID("again")}},
		{Job: job(2)},
		{Job: goworker.NewJob("spoilt", "D"), Options: []goworker.EnqueueOption{goworker.WithID("bad")}},
		{Job: job(3)},
	}
	for _, item := range items {
		if _, err := client.EnqueueMany(t.Context(), item); err != nil {
			// the first connection of before the outage may be there still
			if !errors.Is(err, goworker.ErrUnconfirmed) {
				t.Fatal(err)
			}
			if _, err := client.EnqueueMany(t.Context(), item); err != nil {
				t.Fatal(err)
			}
		}
	}
	server.Restart(t)
	if stats := drained(t, client); stats != (goworker.BufferStats{Drained: 2, Dropped: 2}) {
		t.Errorf("%+v", stats)
	}
	if got := queued(t, server); len(got) != 3 || !slices.Equal(got[1:], payloads(2, 3)) {
		t.Errorf("%q", got)
	}
	redistest.Eventually(t, daemontest.Soon, "both are logged", func() bool { return strings.Count(log.String(), "a buffered job was dropped") == 2 })
	for _, part := range []string{"class=C queue=q job=again", first.ID, "class=D queue=spoilt job=bad", "WRONGTYPE"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %q:\n%s", part, log)
		}
	}
}

// If the connection breaks while the buffer drains, no job is doubled and none is lost without a count.
func TestBufferDoublesNothing(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]int32{"before": before, "halfway": halfway, "after": afterText} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			way := newProxy(t, server)
			client, log := newClient(t, way.uri(), goworker.WorkerSettings{}, goworker.WithBuffer(100))
			server.Kill()
			for n := range 5 {
				if _, err := client.Enqueue(t.Context(), job(n)); err != nil {
					t.Fatal(err)
				}
			}
			way.cut.Store(cut)
			server.Restart(t)
			stats := drained(t, client)
			if stats != (goworker.BufferStats{Drained: 4, Unconfirmed: 1}) {
				t.Errorf("%+v", stats)
			}
			want := payloads(1, 2, 3, 4)
			if cut == afterText {
				want = payloads(0, 1, 2, 3, 4)
			}
			redistest.Eventually(t, daemontest.Soon, "Redis has the jobs", func() bool { return len(queued(t, server)) >= len(want) })
			if diff := cmp.Diff(want, queued(t, server)); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(log.String(), "a buffered job may be in its queue or not") {
				t.Error(log)
			}
		})
	}
}

// While Redis says that it may accept later, jobs stay in the buffer.
func TestBufferWaitsOutARefusal(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{ConnectTimeout: 2 * time.Second}, goworker.WithBuffer(100))
	server.Do(t, "REPLICAOF", "127.0.0.1", "1")
	if receipt, err := client.Enqueue(t.Context(), job(1)); err != nil || !receipt.Buffered {
		t.Fatalf("a replica: %+v, %v", receipt, err)
	}
	server.Do(t, "REPLICAOF", "NO", "ONE")
	drained(t, client)
	server.Do(t, "CONFIG", "SET", "maxmemory", 1)
	if receipt, err := client.Enqueue(t.Context(), job(2)); err == nil || receipt.Buffered || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("out of memory: %+v, %v", receipt, err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", 0)
	server.Do(t, "REPLICAOF", "127.0.0.1", "1")
	if receipt, err := client.Enqueue(t.Context(), job(3)); err != nil || !receipt.Buffered {
		t.Fatalf("a replica: %+v, %v", receipt, err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", 1)
	server.Do(t, "REPLICAOF", "NO", "ONE")
	redistest.Eventually(t, daemontest.Soon, "the drain is refused", func() bool {
		return strings.Contains(server.Text(t, "INFO", "errorstats"), "errorstat_OOM:count=2")
	})
	server.Do(t, "CONFIG", "SET", "maxmemory", 0)
	if stats := drained(t, client); stats != (goworker.BufferStats{Drained: 2}) {
		t.Errorf("%+v", stats)
	}
	if diff := cmp.Diff(payloads(1, 3), queued(t, server)); diff != "" {
		t.Error(diff)
	}
}

// Close waits until the buffer is empty, and otherwise says how many jobs are lost.
func TestBufferCloses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	kept, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(100))
	lost, log := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(100))
	server.Kill()
	for n := range 3 {
		for _, client := range []*goworker.Client{kept, lost} {
			if _, err := client.Enqueue(t.Context(), job(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := lost.CloseContext(ctx); err == nil || !strings.Contains(err.Error(), "goworker: 3 jobs in the buffer are lost") {
		t.Errorf("%v", err)
	}
	if stats := lost.Buffered(); stats != (goworker.BufferStats{Dropped: 3}) {
		t.Errorf("%+v", stats)
	}
	if !strings.Contains(log.String(), "buffered jobs are lost") || !strings.Contains(log.String(), "jobs=3") {
		t.Errorf("%s", log)
	}
	if _, err := lost.Enqueue(t.Context(), job(9)); !errors.Is(err, goworker.ErrClosed) {
		t.Errorf("after the Close: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- kept.CloseContext(t.Context()) }()
	redistest.Eventually(t, daemontest.Soon, "it is closing", func() bool {
		_, err := kept.Enqueue(t.Context(), job(9))
		return errors.Is(err, goworker.ErrClosed)
	})
	server.Restart(t)
	if err := <-closed; err != nil {
		t.Errorf("with Redis back: %v", err)
	}
	if got := queued(t, server); len(got) < 3 || !slices.Equal(got[:3], payloads(0, 1, 2)) {
		t.Errorf("%q", got)
	}
}

// Many callers at the same time: every job that was accepted is enqueued once, in its caller's order.
func TestBufferKeepsTheOrderOfEachCaller(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 60
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(callers*each))
	server.Kill()
	var wg sync.WaitGroup
	accepted := make([][]int, callers)
	for caller := range callers {
		wg.Go(func() {
			for n := range each {
				switch _, err := client.Enqueue(t.Context(), job(caller*each+n)); {
				case err == nil:
					accepted[caller] = append(accepted[caller], caller*each+n)
				case !errors.Is(err, goworker.ErrUnconfirmed):
					t.Error(err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	redistest.Eventually(t, daemontest.Soon, "some wait", func() bool { return client.Buffered().Waiting > callers })
	server.Restart(t)
	wg.Wait()
	drained(t, client)
	got := make([][]string, callers)
	for _, text := range queued(t, server) {
		var n int
		if _, err := fmt.Sscanf(text, `{"class":"C","args":[%d]}`, &n); err != nil {
			t.Fatal(err)
		}
		got[n/each] = append(got[n/each], text)
	}
	for caller := range callers {
		if diff := cmp.Diff(payloads(accepted[caller]...), got[caller]); diff != "" {
			t.Errorf("caller %d: %s", caller, diff)
		}
	}
}

// A Daemon's Client has the buffer of the settings, and over shards each shard has its own.
func TestBufferOfShards(t *testing.T) {
	t.Parallel()
	here, away := redistest.Start(t), redistest.Start(t)
	s := goworker.NewShards(goworker.WorkerSettings{EnqueueBuffer: 10, Logger: daemontest.Quiet},
		goworker.Shard{URI: here.URI(), Queues: []string{"q"}}, goworker.Shard{URI: away.URI(), Queues: []string{"r"}})
	defer s.Close()
	away.Kill()
	receipts, err := s.Client().EnqueueMany(t.Context(), goworker.Item{Job: job(1)}, goworker.Item{Job: goworker.NewJob("r", "C", 2)})
	if err != nil || receipts[0].Buffered || !receipts[1].Buffered {
		t.Errorf("%+v, %v", receipts, err)
	}
	if stats := s.Client().Buffered(); stats != (goworker.BufferStats{Waiting: 1}) {
		t.Errorf("%+v", stats)
	}
	away.Restart(t)
	drained(t, s.Client())
	if got := away.List(t, "LRANGE", "resque:queue:r", 0, -1); !slices.Equal(got, payloads(2)) {
		t.Errorf("%q", got)
	}
	if diff := cmp.Diff(payloads(1), queued(t, here)); diff != "" {
		t.Error(diff)
	}
}

// A number that makes no sense is an error.
func TestBufferOfNoSize(t *testing.T) {
	t.Parallel()
	if _, err := goworker.NewClient(goworker.WorkerSettings{}, goworker.WithBuffer(-1)); err == nil || !strings.Contains(err.Error(), "EnqueueBuffer is -1") {
		t.Errorf("%v", err)
	}
}

// While the buffer drains, a call waits for its turn, and its receipt is complete.
func TestBufferMakesCallsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	const jobs = 3000
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{}, goworker.WithBuffer(jobs+10))
	server.Kill()
	for n := range jobs {
		if _, err := client.Enqueue(t.Context(), job(n)); err != nil {
			t.Fatal(err)
		}
	}
	server.Restart(t)
	redistest.Eventually(t, daemontest.Soon, "it drains", func() bool { return client.Buffered().Drained > 0 })
	first, err := client.Enqueue(t.Context(), job(0), goworker.Unique())
	if err != nil || first.Buffered {
		t.Errorf("%+v, %v", first, err)
	}
	second, err := client.Enqueue(t.Context(), job(0), goworker.Unique())
	if !errors.Is(err, goworker.ErrDuplicate) || second.Duplicate == nil || second.Duplicate.Holder != first.ID {
		t.Errorf("%+v, %v", second, err)
	}
	if got := queued(t, server); len(got) != jobs+1 || !strings.Contains(got[jobs], first.ID) {
		t.Errorf("%d jobs, the last one %s", len(got), got[len(got)-1])
	}
}
