package taker

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const soon = time.Minute

type dialer struct{ *redistest.Server }

func (d dialer) Dial(context.Context) (redis.Conn, error) { return redis.DialURL(d.URI()) }

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func setup(t *testing.T) (server *redistest.Server, base part.Base, log *lines) {
	t.Helper()
	server, log = redistest.Start(t), new(lines)
	to := slog.New(slog.NewTextHandler(log, nil))
	return server, part.Base{
		Log: to, Outages: logging.NewOutages(to, clock.System), Clock: clock.System, Store: resque.New(""), Dialer: dialer{server},
	}, log
}

func start(t *testing.T, b part.Base, id string) *Taker {
	t.Helper()
	k := New(b, fleet.NewClock(clock.System), Config{
		Taker: leases.Taker{ID: id, Host: "host", PID: 7, Version: "1", Address: ":7777", Started: time.UnixMilli(5)}, Tracking: true,
		Now: func(t *leases.Taker) { t.Waiting, t.Queues = 3, []string{"a", "b"} },
	})
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop(context.Background()) })
	return k
}

// The first server by its id moves delayed jobs where no daemon lives, and the next one when it has gone.
func TestLeads(t *testing.T) {
	t.Parallel()
	server, base, _ := setup(t)
	second, first := start(t, base, "b"), start(t, base, "a")
	redistest.Eventually(t, soon, "only the first one leads", func() bool { return first.Leads() && !second.Leads() })
	delay := func(id string) {
		server.Do(t, "ZADD", "resque:go:schedule", time.Now().UnixMilli(), `4:work{"class":"C","args":[],"id":"`+id+`"}`)
	}
	moved := func(n int) {
		t.Helper()
		redistest.Eventually(t, soon, "the delayed job is in its queue", func() bool { return server.Int(t, "LLEN", "resque:queue:work") == n })
	}
	delay("1")
	moved(1)
	c := server.Dial(t)
	all, err := leases.New(base.Store).Takers(c)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if a := all[0]; a.ID != "a" || a.Host != "host" || a.PID != 7 || a.Version != "1" || a.Address != ":7777" || a.Started != time.UnixMilli(5) ||
		a.Waiting != 3 || len(a.Queues) != 2 {
		t.Errorf("%+v", a)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	redistest.Eventually(t, soon, "the second one leads", second.Leads)
	delay("2")
	moved(2)
	if n := server.Int(t, "EXISTS", "resque:go:taker:a"); n != 0 {
		t.Error("the record of the server that stopped is left")
	}
	if n := server.Int(t, "ZCARD", "resque:go:takers"); n != 1 {
		t.Errorf("%d servers in the set", n)
	}
}

// Where a daemon lives no server leads. A daemon that does not know leases is named once.
func TestDaemonLives(t *testing.T) {
	t.Parallel()
	server, base, log := setup(t)
	c := server.Dial(t)
	if err := base.Store.Enter(c, resque.Process{ID: "p", Started: time.Unix(1, 0)}, time.Hour, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "HSET", "resque:go:process:p", "knows", "workflows")
	k := start(t, base, "a")
	if k.Leads() {
		t.Error("the server leads")
	}
	if n := strings.Count(log.String(), "older release"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, log)
	}
	server.Do(t, "ZADD", "resque:go:processes", -5, "p") // it counts as dead
	redistest.Eventually(t, soon, "the server leads", k.Leads)
}

// Keys of the wrong type are named, and a server that Redis refuses does not start.
func TestRefused(t *testing.T) {
	t.Parallel()
	server, base, _ := setup(t)
	server.Do(t, "SET", "resque:go:takers", "x")
	k := New(base, fleet.NewClock(clock.System), Config{Taker: leases.Taker{ID: "a"}})
	if err := k.Start(t.Context()); err == nil || !resque.IsWrongType(err) && !strings.Contains(err.Error(), "go:takers") {
		t.Errorf("error %v", err)
	}
	if err := k.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := leases.New(base.Store).Takers(server.Dial(t)); err == nil {
		t.Error("no error")
	}
}

// Redis that is out of memory renews the record.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server, base, _ := setup(t)
	k := New(base, fleet.NewClock(clock.System), Config{Taker: leases.Taker{ID: "a"}})
	defer k.line.Close()
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if err := k.renew(t.Context()); err != nil {
		t.Error(err)
	}
}

// loader has each renewal carry what a test wants.
type loader func(*resque.Cargo)

func (l loader) Load(c *resque.Cargo)      { l(c) }
func (l loader) Answered(bool, resque.Due) {}

// A renewal of the record does not fail again and again through what it carries.
func TestRenewalWithoutItsCargo(t *testing.T) {
	t.Parallel()
	_, base, log := setup(t)
	spoiled := false
	k := New(base, fleet.NewClock(clock.System), Config{Taker: leases.Taker{ID: "a"}}, loader(func(c *resque.Cargo) {
		if !spoiled {
			c.Read(nil, "HMGET", base.Store.HashKey("numbers"), make([]any, 9000)...) // Lua cannot unpack so many
		}
		spoiled = true
	}))
	defer k.line.Close()
	k.renewed = time.Now()
	for i, fails := range []bool{true, false, true, false, false} {
		if err := k.renew(t.Context()); (err != nil) != fails {
			t.Errorf("renewal %d: error %v", i, err)
		}
	}
	if n := strings.Count(log.String(), "is lost"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log)
	}
}

// What Redis may have written already is not written again once the record may be gone that would say so.
func TestUnansweredRenewal(t *testing.T) {
	t.Parallel()
	for name, ago := range map[string]time.Duration{"the record is there": 0, "the record is gone": lease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base, _ := setup(t)
			loads := 0
			k := New(base, fleet.NewClock(clock.System), Config{Taker: leases.Taker{ID: "a"}}, loader(func(c *resque.Cargo) {
				loads++
				c.Write(nil, "HINCRBY", base.Store.HashKey("numbers"), "a", 1)
			}))
			defer k.line.Close()
			fleet.Load(&k.cargo, k.riders)
			_ = k.cargo.Send(base.Log, func(cargo *resque.Cargo) error { // the server does not hear the answer
				copied := *cargo
				if _, _, err := k.store.RenewTaker(server.Dial(t), k.about(), lease, &copied); err != nil {
					t.Error(err)
				}
				return io.ErrUnexpectedEOF
			})
			k.renewed = time.Now().Add(-ago)
			if ago > 0 {
				server.Do(t, "DEL", "resque:go:taker:a")
			}
			for range 3 { // the first goes without
				if err := k.renew(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := server.Int(t, "HGET", "resque:go:numbers", "a"); n != loads {
				t.Errorf("written %d times, loaded %d times", n, loads)
			}
		})
	}
}

// A server that stops sends what was not answered, and then what is left. It leaves also if Redis refuses that.
func TestStopUnloads(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"taken": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, base, _ := setup(t)
			k := New(base, fleet.NewClock(clock.System), Config{Taker: leases.Taker{ID: "a"}}, loader(func(c *resque.Cargo) {
				c.Write(nil, "HINCRBY", base.Store.HashKey("numbers"), strconv.FormatBool(c.Last), 1)
				if refused && c.Last {
					c.Read(nil, "HMGET", base.Store.HashKey("numbers"), make([]any, 9000)...) // Lua cannot unpack so many
				}
			}))
			if err := k.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			k.loop.Stop(t.Context())
			fleet.Load(&k.cargo, k.riders)
			_ = k.cargo.Send(base.Log, func(*resque.Cargo) error { return io.ErrUnexpectedEOF }) // Redis does not hear it
			written := server.Int(t, "HGET", "resque:go:numbers", "false")
			if err := k.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := server.Int(t, "HGET", "resque:go:numbers", "false"); n != written+1 {
				t.Errorf("what was not answered was written %d times", n-written)
			}
			if n := server.Int(t, "HGET", "resque:go:numbers", "true"); n != 1 {
				t.Errorf("what was left was written %d times", n)
			}
			if n := server.Int(t, "EXISTS", "resque:go:taker:a") + server.Int(t, "ZCARD", "resque:go:takers"); n != 0 {
				t.Error("the record is left")
			}
		})
	}
}
