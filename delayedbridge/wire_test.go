package delayedbridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cluster"
	"github.com/goworker/goworker/delayedbridge"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

const twoInts = "92 a7'pkg.Two' c4 03 92 01 02"

// many pushes n tasks for pkg.Int, numbered from first, without notifications.
func (b *bundle) many(first, n int) {
	b.T.Helper()
	args := []any{"calc"}
	for i := range n {
		args = append(args, append([]byte("\x92\xa7pkg.Int\xc4\x03\xcd"), byte((first+i)>>8), byte(first+i)))
	}
	b.Redis.Do(b.T, "RPUSH", args...)
}

// ints returns the calls of pkg.Int that are expected of many.
func ints(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("Int ", i))
	}
	slices.Sort(all)
	return all
}

func (b *bundle) ranAll(n int) {
	b.T.Helper()
	b.Reaches("tasks that ran", n, func() int { return len(b.called()) })
	if got := b.called(); !slices.Equal(slices.Sorted(slices.Values(got)), ints(n)) {
		b.T.Errorf("%d tasks ran, not each of %d once", len(got), n)
	}
}

// Notifications of many tasks are missing: delayed's own sweeper fails at 8,000. One goes beyond what Lua can unpack.
func TestMissingNotifications(t *testing.T) {
	t.Parallel()
	b := setup(t, delayedbridge.Queue{Name: "calc", Ahead: 3000})
	b.many(0, 8100)
	b.Start()
	b.ranAll(8100)
	b.nothingLeft()
}

// The same for a queue that no bridge works: a sweeper makes the notifications, and brings back the tasks of dead workers.
func TestSweeper(t *testing.T) {
	t.Parallel()
	b := &bundle{Bundle: daemontest.Setup(t)}
	b.many(0, 8100)
	hands := []any{"calc_processing"}
	for i := range 250 {
		hands = append(hands, fmt.Sprint("dead", i), "\xa4dead")
	}
	b.Redis.Do(t, "HSET", append(hands, "alive", "\xa5alive")...)
	b.Redis.Do(t, "SET", "alive", 1)
	b.Redis.Do(t, "HSET", "empty_processing", "gone", "\xa4gone")
	b.Daemon.AddPart(delayedbridge.Sweeper(b.Daemon, "empty", "calc"))
	b.Start()
	b.Reaches("tasks that have notifications", 8350, func() int { return b.Redis.Int(t, "LLEN", "calc_noti") })
	b.Eventually("both queues are swept", func() bool {
		return b.Redis.Int(t, "LLEN", "empty_noti") == 1 && slices.Equal(b.Redis.List(t, "HKEYS", "calc_processing"), []string{"alive"})
	})
	for key, want := range map[string]int{"calc": 8350, "calc_noti": 8350, "empty": 1} {
		if n := b.Redis.Int(t, "LLEN", key); n != want {
			t.Errorf("%s has %d elements, want %d", key, n, want)
		}
	}
}

// A bridge passes over notifications without tasks.
func TestSurplusNotifications(t *testing.T) {
	t.Parallel()
	b := setup(t, delayedbridge.Queue{Name: "calc"})
	b.Redis.Do(t, "RPUSH", "calc_noti", "1", "1", "1")
	b.Start()
	b.Eventually("they are gone", func() bool { return b.Redis.Int(t, "EXISTS", "calc_noti") == 0 })
	b.task(twoInts)
	b.Eventually("a task runs", func() bool { return len(b.called()) == 1 })
	if b.Log.Count("level=ERROR")+b.Log.Count("redis unavailable") > 0 {
		t.Error(b.Log.Text())
	}
}

// No more than Ahead jobs wait: the others stay where workers of delayed find them, each with its notification.
func TestAhead(t *testing.T) {
	t.Parallel()
	b := setup(t, delayedbridge.Queue{Name: "calc", To: "jobs", Ahead: 7})
	b.Redis.Do(t, "SADD", "resque:go:paused", "jobs")
	for range 20 {
		b.task(twoInts)
	}
	b.Start()
	b.Eventually("seven jobs wait", func() bool { return len(b.Queue("jobs")) == 7 })
	b.Renewed(1)
	for key, want := range map[string]int{"resque:queue:jobs": 7, "calc": 13, "calc_noti": 13} {
		if n := b.Redis.Int(t, "LLEN", key); n != want {
			t.Errorf("%s has %d elements, want %d", key, n, want)
		}
	}
	if err := b.Daemon.ResumeQueue("jobs"); err != nil {
		t.Fatal(err)
	}
	b.Eventually("all tasks run", func() bool { return len(b.called()) == 20 })
	b.nothingLeft()
}

// Several bridges of several daemons take each task once.
func TestSeveralBridges(t *testing.T) {
	t.Parallel()
	b := setup(t, delayedbridge.Queue{Name: "calc"})
	for range 2 {
		other := goworker.New(b.Settings)
		b.functions(other)
		other.AddPart(delayedbridge.Part(other, delayedbridge.Queue{Name: "calc"}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- other.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			other.Close()
		})
	}
	b.Start()
	for i := range 40 {
		b.many(i*50, 50)
		b.Redis.Do(t, "RPUSH", redis.Args{"calc_noti"}.AddFlat(slices.Repeat([]string{"1"}, 50))...)
	}
	b.ranAll(2000)
	b.nothingLeft()
}

// A stop in whatever moment leaves as many notifications as tasks, and what has become a job is one.
func TestStopLeavesTheQueueWhole(t *testing.T) {
	t.Parallel()
	b := setup(t, delayedbridge.Queue{Name: "calc", Ahead: 10})
	b.Start()
	b.Idle()
	var all []delayedbridge.Task
	for i := range 500 {
		all = append(all, delayedbridge.GoTask("pkg.Int", i))
	}
	if err := delayedbridge.Enqueue(t.Context(), b.Daemon.Client(), "calc", all...); err != nil {
		t.Fatal(err)
	}
	b.Eventually("some run", func() bool { return len(b.called()) > 20 })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	tasks, notes := b.Redis.Int(t, "LLEN", "calc"), b.Redis.Int(t, "LLEN", "calc_noti")
	jobs := b.Redis.Int(t, "LLEN", "resque:go:queue:calc")
	if tasks != notes || tasks+jobs+len(b.called()) != 500 {
		t.Errorf("%d tasks with %d notifications, %d jobs, and %d ran", tasks, notes, jobs, len(b.called()))
	}
}

// cutter makes connections of which one breaks at the nth command of the bridge: before Redis has it, or after.
type cutter struct {
	goworker.Dialer
	nth   int64
	after bool
	calls *atomic.Int64 // since the daemon has started; before, it is far below 0
}

func (d cutter) Dial(ctx context.Context) (redis.Conn, error) {
	c, err := d.Dialer.Dial(ctx)
	return cutConn{c, d}, err
}

type cutConn struct {
	redis.Conn
	cutter
}

func (c cutConn) Do(command string, args ...any) (any, error) {
	return c.cut(args, func() (any, error) { return c.Conn.Do(command, args...) })
}

func (c cutConn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	return c.cut(args, func() (any, error) { return redis.DoWithTimeout(c.Conn, timeout, command, args...) })
}

func (c cutConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, timeout)
}

func (c cutConn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	return redis.DoContext(c.Conn, ctx, command, args...)
}

func (c cutConn) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(c.Conn, ctx)
}

func (c cutConn) cut(args []any, do func() (any, error)) (any, error) {
	if !slices.Contains(args, any("calc_noti")) || c.calls.Add(1) != c.nth {
		return do()
	}
	if c.after {
		_, _ = do()
	}
	_ = c.Close()
	return nil, io.EOF
}

// Each command of the bridge loses its request once, and its answer once. Every task runs exactly once: no command is
// repeated that was done.
func TestEveryCommandIsCut(t *testing.T) {
	t.Parallel()
	for nth := int64(1); nth < 12; nth++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, after: %t", nth, after), func(t *testing.T) {
				t.Parallel()
				server, calls := redistest.Start(t), new(atomic.Int64)
				calls.Store(-1000000)
				b := setupOn(t, server, delayedbridge.Queue{Name: "calc"}, func(s *goworker.WorkerSettings) {
					s.URI = "cut" + server.URI()[len("redis"):]
				})
				b.Daemon.RegisterDialer("cut", func(_ context.Context, uri string, o goworker.DialOptions) (goworker.Dialer, error) {
					d, err := o.Server("redis" + uri[len("cut"):])
					return cutter{d, nth, after, calls}, err
				})
				b.Start()
				b.Idle()
				calls.Store(0)
				for i := range 6 {
					b.many(i*10, 10)
					b.Redis.Do(t, "RPUSH", redis.Args{"calc_noti"}.AddFlat(slices.Repeat([]string{"1"}, 10))...)
					b.Eventually("they run", func() bool { return len(b.called()) >= (i+1)*10 })
				}
				b.ranAll(60)
				b.nothingLeft()
				if err := b.Stop(); err != nil {
					t.Error(err)
				}
				if calls.Load() < nth {
					t.Errorf("the bridge called Redis %d times only", calls.Load())
				}
			})
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, s goworker.WorkerSettings, parts ...func(d *goworker.Daemon) goworker.Part) error {
		t.Helper()
		s.QueuesString, s.AllowNoHandlers = "work", true
		if strings.HasPrefix(s.URI, "redis+cluster:") {
			s.Namespace = "{resque}"
		}
		d := goworker.New(s)
		defer d.Close()
		d.RegisterDialer("redis+cluster", cluster.Open)
		for _, p := range parts {
			d.AddPart(p(d))
		}
		ctx, cancel := context.WithTimeout(t.Context(), daemontest.Soon)
		defer cancel()
		return d.Run(ctx)
	}
	bridge := func(q delayedbridge.Queue) func(d *goworker.Daemon) goworker.Part {
		return func(d *goworker.Daemon) goworker.Part { return delayedbridge.Part(d, q) }
	}
	sweeper := func(names ...string) func(d *goworker.Daemon) goworker.Part {
		return func(d *goworker.Daemon) goworker.Part { return delayedbridge.Sweeper(d, names...) }
	}
	calc := bridge(delayedbridge.Queue{Name: "calc"})
	says := func(t *testing.T, err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("the error is %v, without %q", err, w)
			}
		}
	}
	enqueue := func(t *testing.T, uri, namespace string) error {
		t.Helper()
		c, err := goworker.NewClient(goworker.WorkerSettings{URI: uri, Namespace: namespace}, goworker.WithDialer("redis+cluster", cluster.Open))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return delayedbridge.Enqueue(t.Context(), c, "calc", delayedbridge.GoTask("pkg.None"))
	}
	t.Run("a Cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		for _, p := range []func(*goworker.Daemon) goworker.Part{calc, sweeper("calc")} {
			says(t, run(t, goworker.WorkerSettings{URI: c.URI()}, p), "queue calc of delayed cannot be on a Redis Cluster", "use a Redis that is no Cluster")
		}
		says(t, enqueue(t, c.URI(), "{resque}"), "cannot be on a Redis Cluster")
	})
	t.Run("the minimal ACL", func(t *testing.T) {
		t.Parallel()
		redistest.OwnUser(t)
		s := redistest.Start(t)
		s.Do(t, "ACL", redis.Args{"SETUSER"}.AddFlat(redistest.MinimalACL(t))...)
		uri := "redis://worker:secret@" + s.Addr
		for _, p := range []func(*goworker.Daemon) goworker.Part{calc, sweeper("calc")} {
			says(t, run(t, goworker.WorkerSettings{URI: uri}, p), "lacks a permission", "have no namespace", "~calc ~calc_noti ~calc_processing")
		}
		says(t, enqueue(t, uri, ""), "lacks a permission", "~calc ~calc_noti ~calc_processing")
		s.Do(t, "ACL", "SETUSER", "worker", "~calc", "~calc_noti", "~calc_processing", "%R~*", "+blpop")
		b := &bundle{Bundle: daemontest.SetupOn(t, s, func(w *goworker.WorkerSettings) { w.URI, w.QueuesString = uri, "msgpack:calc" })}
		b.functions(b.Daemon)
		b.Daemon.AddPart(calc(b.Daemon))
		s.Do(t, "HSET", "calc_processing", "gone", recordedBytes(t, twoInts))
		b.Start()
		b.task(twoInts)
		b.Eventually("with what the sentence names both tasks run", func() bool { return len(b.called()) == 2 })
	})
	t.Run("mistakes", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		says(t, run(t, goworker.WorkerSettings{URI: s.URI()}, bridge(delayedbridge.Queue{})), "has no name")
		says(t, run(t, goworker.WorkerSettings{URI: s.URI()}, bridge(delayedbridge.Queue{Name: "calc", Ahead: -1})), "Queue.Ahead", "-1")
		says(t, run(t, goworker.WorkerSettings{URI: s.URI()}, sweeper()), "names of its queues")
		says(t, run(t, goworker.WorkerSettings{URI: s.URI()}, calc, calc), "two parts named")
		s.Do(t, "SET", "calc_noti", "x")
		says(t, run(t, goworker.WorkerSettings{URI: s.URI()}, calc), "queue calc of delayed", "another type")
	})
}

// A key that gets another type while the bridge works is reported once, and the bridge goes on when it is mended.
func TestWrongType(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"calc", "calc_noti", "resque:queue:jobs", "resque:queues", "resque:failed"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			b := setup(t, delayedbridge.Queue{Name: "calc", To: "jobs"})
			b.Start()
			b.task(twoInts)
			b.Eventually("a task runs", func() bool { return len(b.called()) == 1 })
			b.Redis.Do(t, "DEL", key)
			b.Redis.Do(t, "SET", key, "x")
			if key == "calc" {
				b.Redis.Do(t, "RPUSH", "calc_noti", "1")
			} else {
				b.Redis.Do(t, "RPUSH", "calc", recordedBytes(t, twoInts))
			}
			b.Eventually("the log says so", func() bool { return strings.Contains(b.Log.Text(), "another type") })
			b.Redis.Do(t, "DEL", key)
			b.task(twoInts)
			want := 3
			if key == "calc" {
				want = 2
			}
			b.Eventually("the tasks run", func() bool { return len(b.called()) == want })
		})
	}
}

// Redis refuses the bridge's call, whole, when it is out of memory.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	b := setup(t, delayedbridge.Queue{Name: "calc"})
	b.task(twoInts, "90", twoInts)
	b.Redis.Do(t, "CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", "noeviction")
	c, err := goworker.NewClient(b.Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := delayedbridge.Enqueue(t.Context(), c, "calc", delayedbridge.GoTask("pkg.None")); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("enqueued: %v", err)
	}
	if n := b.Redis.Int(t, "LLEN", "calc"); n != 3 {
		t.Errorf("%d tasks wait, want 3", n)
	}
	b.Redis.Do(t, "CONFIG", "SET", "maxmemory", 0)
	b.Start()
	b.Eventually("the tasks run", func() bool { return len(b.called()) == 2 && len(b.Failures()) == 1 })
	b.nothingLeft()
}

// The embedded Redis does not notify.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	s, err := embedded.Open(t.Context(), "embedded:", goworker.DialOptions{ConnectTimeout: time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.(*embedded.Server).Close()
	d := goworker.New(goworker.WorkerSettings{URI: "embedded:", QueuesString: "jobs"})
	defer d.Close()
	d.RegisterDialer("embedded", func(context.Context, string, goworker.DialOptions) (goworker.Dialer, error) {
		return goworker.DialerFunc(s.Dial), nil
	})
	ran := make(chan int, 1)
	d.Register("pkg.Int", func(n int) { ran <- n })
	d.AddPart(delayedbridge.Part(d, delayedbridge.Queue{Name: "calc", To: "jobs"}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	if err := delayedbridge.Enqueue(t.Context(), d.Client(), "calc", delayedbridge.GoTask("pkg.Int", 7)); err != nil {
		t.Error(err)
	}
	select {
	case n := <-ran:
		if n != 7 {
			t.Errorf("ran with %d", n)
		}
	case <-time.After(daemontest.Soon):
		t.Error("the task did not run")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	c, err := goworker.NewClient(goworker.WorkerSettings{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := delayedbridge.Enqueue(t.Context(), c, "calc", delayedbridge.GoTask("pkg.None")); !errors.Is(err, goworker.ErrClosed) {
		t.Errorf("a closed client answers %v", err)
	}
	s := goworker.NewShards(goworker.WorkerSettings{}, goworker.Shard{URI: "redis://a", Queues: []string{"a"}}, goworker.Shard{URI: "redis://b", Queues: []string{"b"}})
	defer s.Close()
	err = delayedbridge.Enqueue(t.Context(), s.Client(), "calc", delayedbridge.GoTask("pkg.None"))
	if err == nil || err.Error() != "goworker: the Client has several shards; use the Client of one Daemon, or of NewClient" {
		t.Errorf("the client of two shards answers %v", err)
	}
}

// A process that does not know MessagePack queues could put their jobs where Ruby reads.
func TestOlderRelease(t *testing.T) {
	t.Parallel()
	b := setup(t, delayedbridge.Queue{Name: "calc"})
	b.Redis.Do(t, "ZADD", "resque:go:processes", time.Now().Add(time.Hour).UnixMilli(), "h:1:old")
	b.Redis.Do(t, "HSET", "resque:go:process:h:1:old", "host", "h", "pid", 1, "version", "v0.1.0", "queues", "work", "concurrency", 1, "epoch", 1)
	b.Start()
	b.task(twoInts)
	b.Eventually("the bridge waits", func() bool { return strings.Contains(b.Log.Text(), "a bridge of delayed waits") })
	if !strings.Contains(b.Log.Text(), "h:1:old") || b.Redis.Int(t, "LLEN", "calc") != 1 {
		t.Errorf("%d tasks wait:\n%s", b.Redis.Int(t, "LLEN", "calc"), b.Log.Text())
	}
	b.Redis.Do(t, "ZREM", "resque:go:processes", "h:1:old")
	b.Eventually("the bridge takes the task", func() bool { return b.Redis.Int(t, "LLEN", "resque:go:queue:calc") == 1 })
}

// Enqueue waits for replicas, in one call for all its tasks, if the settings say so.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	s := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: s.URI(), WaitReplicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	enqueue := func() error {
		return delayedbridge.Enqueue(t.Context(), c, "calc", delayedbridge.GoTask("pkg.Int", 1), delayedbridge.GoTask("pkg.Int", 2))
	}
	if err := delayedbridge.Enqueue(t.Context(), c, "calc"); err != nil {
		t.Errorf("no tasks, without a replica: %v", err)
	}
	if err := enqueue(); !errors.Is(err, goworker.ErrTooFewReplicas) ||
		!strings.HasPrefix(err.Error(), "goworker: 2 jobs for queue calc of delayed: pushed, and workers take them, but 0 of the 1 replica wanted have them") {
		t.Errorf("without a replica: %v", err)
	}
	replica := redistest.Start(t, "--replicaof", strings.Replace(s.Addr, ":", " ", 1))
	redistest.Eventually(t, daemontest.Soon, "the replica follows", func() bool { return s.Int(t, "WAIT", 1, 100) == 1 })
	redistest.Eventually(t, daemontest.Soon, "the tasks have a replica in time", func() bool { return enqueue() == nil })
	if n, all := replica.Int(t, "LLEN", "calc"), s.Int(t, "LLEN", "calc"); n != all {
		t.Errorf("the replica has %d tasks of %d at once", n, all)
	}
}
