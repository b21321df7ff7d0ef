package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// errCut is what a connection says that was cut.
var errCut = errors.New("the connection was cut")

// cutter is a way to Redis on which a script is the last: its answer is lost, or it is not even sent.
type cutter struct {
	server  *redistest.Server
	scripts atomic.Int64 // that may pass
	late    atomic.Bool  // the last one reaches Redis
}

func (c *cutter) open(context.Context, string, goworker.DialOptions) (goworker.Dialer, error) {
	return goworker.DialerFunc(func(ctx context.Context) (redis.Conn, error) {
		conn, err := redis.DialURLContext(ctx, c.server.URI())
		return &cutConn{conn, c}, err
	}), nil
}

type cutConn struct {
	redis.Conn
	by *cutter
}

func (c *cutConn) Do(command string, args ...any) (any, error) {
	if !strings.HasPrefix(command, "EVAL") || c.by.scripts.Add(-1) >= 0 {
		return c.Conn.Do(command, args...)
	}
	if c.by.late.Load() {
		_, _ = c.Conn.Do(command, args...)
	}
	_ = c.Conn.Close()
	return nil, errCut
}

// A fleet goes back to Ruby though its drain is interrupted five times: node-resque then runs each job once, those of a dead process, of clients over
// HTTP, of lanes, delayed ones that are due, and those that waited.
func TestNodeRunsWhatWasDrained(t *testing.T) {
	server, peer := setup(t)
	next := 0
	job := func(more string) string {
		next++
		return fmt.Sprintf(`{"class":"Echo","args":[%d]%s}`, next, more)
	}
	store := resque.New("")
	server.Do(t, "SADD", "resque:queues", "mail")
	for range 20 {
		server.Do(t, "RPUSH", "resque:queue:mail", job(""))
	}
	for _, tenant := range []string{"acme", "umbra", "wayne"} {
		lane := resque.NewLane("mail", resque.Limit{Kind: resque.LimitRunning, Name: "Echo/key", Keyed: true, Key: tenant})
		server.Do(t, "SADD", "resque:go:lanes", resque.JobPrefix("mail")+lane.Shared)
		server.Do(t, "ZADD", "resque:go:lanes:"+resque.JobPrefix("mail")+lane.Shared, len(tenant), lane.Own)
		for range 100 {
			server.Do(t, "RPUSH", store.KeyOfLane(lane), job(`,"id":"`+tenant+`"`))
		}
	}
	for n := range 40 {
		server.Do(t, "ZADD", "resque:go:schedule", 1700000000000+n, resque.JobPrefix("mail")+job(`,"attempt":2`))
	}
	for n := range 10 {
		place := resque.PlaceOf("mail", fmt.Sprint("held", n))
		server.Do(t, "HSET", "resque:go:leased", place, job(""))
		server.Do(t, "ZADD", "resque:go:leases", 1700000000000+n, place)
	}
	dead := resque.Process{ID: "web:1:dead", Host: "web", PID: 1, Concurrency: 1, IDHead: "web.go:1-", IDQueues: "mail"}
	if err := store.Enter(server.Dial(t), dead, time.Millisecond, time.Now()); err != nil {
		t.Fatal(err)
	}
	for n := range 15 {
		server.Do(t, "HSET", "resque:go:inflight:"+dead.ID, n+1, resque.JobPrefix("mail")+job(""))
	}

	cut := &cutter{server: server}
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "cut:"}, goworker.WithDialer("cut", cut.open))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for n := range 5 {
		cut.scripts.Store(3)
		cut.late.Store(n%2 == 0)
		report, err := client.DrainToResque(t.Context())
		if !errors.Is(err, errCut) {
			t.Fatalf("drain %d was not interrupted: %v\n%s", n+1, err, report)
		}
	}
	cut.scripts.Store(1 << 30)
	if report, err := client.DrainToResque(t.Context()); err != nil || len(report.Left) > 0 {
		t.Fatalf("the last drain: %v\n%s", err, report)
	}

	worker := peer.start(t, "worker.mjs", "mail")
	runs := make(map[string]int)
	for range next {
		runs[string(worker.next(t, "success").Result)]++
	}
	for n := 1; n <= next; n++ {
		if got := runs[fmt.Sprintf("[%d]", n)]; got != 1 {
			t.Errorf("job %d ran %d times", n, got)
		}
	}
	if left := server.List(t, "LRANGE", "resque:queue:mail", 0, -1); len(left) > 0 {
		t.Errorf("after %d jobs these are left: %q", next, left)
	}
}
