package health

import (
	"context"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/health"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

// Jobs on all workers are no reason to restart. Jobs that all run past their time limits are one, after a
// while. A daemon that stops is live and not ready.
func TestBusyAndStuckWorkers(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Slow", func(id string) { b.Runs.Start(id); <-b.Gate; b.Runs.End(id) }, goworker.Timeout(time.Millisecond))
	h, never := health.Handler(b.Daemon, health.Stuck(time.Millisecond)), health.Handler(b.Daemon, health.Stuck(0))
	b.Start()
	b.Push(daemontest.Jobs("Deaf", 1)...)
	b.Push(daemontest.Jobs("Slow", 3)...)
	b.Reaches("jobs that run", 4, b.Runs.Started)
	b.Eventually("three are stuck", func() bool { return len(b.Daemon.StuckJobs()) == 3 })
	daemontest.Answers(t, h, "/healthz", 200)
	daemontest.Answers(t, h, "/readyz", 200)
	b.Open()
	b.Reaches("jobs that ended", 4, b.Runs.Finished)
	b.Gate = make(chan struct{})
	b.Push(daemontest.Jobs("Slow", 4)...)
	if body := daemontest.Answers(t, h, "/healthz", 503); !strings.Contains(body, `"workers":{"ok":false`) {
		t.Errorf("the answer is %s", body)
	}
	daemontest.Answers(t, never, "/healthz", 200)
	daemontest.Answers(t, h, "/readyz", 200)
	b.Cancel()
	if body := daemontest.Answers(t, h, "/readyz", 503); !strings.Contains(body, "the daemon stops") {
		t.Errorf("the answer is %s", body)
	}
	daemontest.Answers(t, never, "/healthz", 200)
	b.Open()
	if err := b.Wait(); err != nil {
		t.Error(err)
	}
	daemontest.Answers(t, h, "/healthz", 200)
	daemontest.Answers(t, h, "/startupz", 503)
}

// away is how long Redis is away: longer than a loop may stand.
const away = health.DefaultHung + 5*time.Second

// A daemon whose workers are all busy is live through a minute in which Redis is gone or does not answer.
func TestLiveWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*daemontest.Bundle){
		"gone":   func(b *daemontest.Bundle) { b.Redis.Kill() },
		"silent": func(b *daemontest.Bundle) { b.Redis.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = time.Second })
			h := health.Handler(b.Daemon)
			b.Push(daemontest.Jobs("Hold", 4)...)
			b.Start()
			b.Reaches("jobs that run", 4, b.Runs.Started)
			daemontest.Answers(t, h, "/readyz", 200)
			leave(b)
			notReady := false
			for began := time.Now(); time.Since(began) < away; time.Sleep(100 * time.Millisecond) {
				if status, body := daemontest.Get(h, "/healthz"); status != 200 {
					t.Fatalf("after %v without Redis: %s", time.Since(began), body)
				}
				status, _ := daemontest.Get(h, "/readyz")
				notReady = status == 503
			}
			if !notReady {
				t.Error("it is ready without Redis")
			}
		})
	}
}

// heldConn waits for a gate when a function of goworker uses it.
type heldConn struct {
	redis.ConnWithTimeout
	in   string
	held *atomic.Bool
	gate chan struct{}
}

func (c heldConn) holds() {
	if c.held.Load() && strings.Contains(string(debug.Stack()), c.in) {
		<-c.gate
	}
}

func (c heldConn) Do(command string, args ...any) (any, error) {
	c.holds()
	return c.ConnWithTimeout.Do(command, args...)
}

func (c heldConn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	c.holds()
	return c.ConnWithTimeout.DoWithTimeout(d, command, args...)
}

func (c heldConn) Send(command string, args ...any) error {
	c.holds()
	return c.ConnWithTimeout.Send(command, args...)
}

// Whichever loop stands, Health names it after a minute and the time that Redis may take. Without the loops of the poller and of the
// lease the daemon is not live. Without another one it is: jobs run, and a long turn may end.
func TestLoopsThatStand(t *testing.T) {
	t.Parallel()
	for loop, tc := range map[string]struct {
		in   string
		live bool
		says string
	}{
		"poller":  {"goworker.(*poller).run", false, "the poller has not answered for"},
		"lease":   {"fleet.(*Lease).turn", false, "the lease's loop has not turned for"},
		"control": {"control.(*Control).turn", true, "the loop control has been in one turn for"},
		"rules":   {"rule.(*Keeper).turn", true, "the loop rules has been in one turn for"},
		"history": {"record.(*Keeper).turn", true, "the loop history has been in one turn for"},
	} {
		t.Run(loop, func(t *testing.T) {
			t.Parallel()
			held, gate := new(atomic.Bool), make(chan struct{})
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
				s.URI = strings.Replace(s.URI, "redis", "held", 1)
				s.ConnectTimeout, s.ReadTimeout, s.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
			})
			b.Daemon.RegisterDialer("held", func(_ context.Context, uri string, _ goworker.DialOptions) (goworker.Dialer, error) {
				return goworker.DialerFunc(func(context.Context) (redis.Conn, error) {
					c, err := redis.DialURL(strings.Replace(uri, "held", "redis", 1))
					if err != nil {
						return nil, err
					}
					return heldConn{c.(redis.ConnWithTimeout), tc.in, held, gate}, nil
				}), nil
			})
			h := health.Handler(b.Daemon)
			client, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI()})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			operator := control.New(client)
			b.Start()
			b.Idle()
			held.Store(true)
			b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			b.Daemon.Pause()
			b.Daemon.Resume()                                                        // the poller looks again, finds its connection broken, and reads its record back on another
			if err := operator.Timeout(t.Context(), "Mark", time.Hour); err != nil { // from then on the keeper of the rules has something to look after
				t.Fatal(err)
			}
			b.Redis.Do(t, "HSET", "resque:go:notice", "command", "9999999999999-0") // there is a command to read
			redistest.Eventually(t, 4*daemontest.Soon, "health names the loop", func() bool {
				daemontest.Get(h, "/healthz") // the poller owes an answer from the first probe on
				return strings.Contains(strings.Join(b.Daemon.Health().Reasons, "\n"), tc.says)
			})
			want := map[bool]int{true: 200, false: 503}[tc.live]
			daemontest.Answers(t, h, "/healthz", want)
			if got := b.Daemon.Health(); got.Live != tc.live {
				t.Errorf("live: %v", got.Live)
			}
			held.Store(false)
			close(gate)
			redistest.Eventually(t, daemontest.Soon, "it goes on", func() bool { return b.Daemon.Health().Ready })
			daemontest.Answers(t, h, "/healthz", 200)
		})
	}
}
