package inspect_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque"
)

// A lock is released where its job is nowhere, and only there: not in a queue, in a lane, in the schedule, with a process, or with a
// client over HTTP. A look changes nothing, force looks for nothing.
func TestLocks(t *testing.T) {
	i, server, lent := setup(t)
	ctx := t.Context()
	place := map[string]func(member, payload string){
		"queued":  func(_, payload string) { server.Do(t, "RPUSH", "resque:queue:mail", payload) },
		"delayed": func(member, _ string) { server.Do(t, "ZADD", "resque:go:schedule", 1e13, member) },
		"lane": func(_, payload string) {
			server.Do(t, "SADD", "resque:go:lanes", resque.JobPrefix("mail")+inMail.Shared)
			server.Do(t, "ZADD", "resque:go:lanes:"+resque.JobPrefix("mail")+inMail.Shared, 0, inMail.Own)
			server.Do(t, "RPUSH", resque.New("").KeyOfLane(inMail), payload)
		},
		"process": func(member, _ string) {
			server.Do(t, "ZADD", "resque:go:processes", 1e13, "h:1:a")
			server.Do(t, "HSET", "resque:go:inflight:h:1:a", 1, member)
		},
		"client": func(_, payload string) {
			server.Do(t, "HSET", "resque:go:leased", resque.JobPrefix("mail")+"client", payload)
		},
		"nowhere": func(string, string) {},
		"time":    func(string, string) {},
		"forced":  func(_, payload string) { server.Do(t, "RPUSH", "resque:queue:mail", payload) },
	}
	is := map[string]inspect.Place{"queued": inspect.Queued, "delayed": inspect.Delayed, "lane": inspect.InLane,
		"process": inspect.Running, "client": inspect.Running, "forced": inspect.Queued}
	lock := func(name string) string { return resque.Digest([]byte(name)) }
	for name, put := range place {
		hold := resque.HoldDone
		if name == "time" {
			hold = resque.HoldTime
		}
		payload := fmt.Sprintf(`{"class":"A","args":[],"id":"%s","unique":"%s"}`, name, resque.LockField(hold, lock(name), time.Hour))
		member := resque.JobPrefix("mail") + payload
		server.Do(t, "HSET", "resque:go:unique:"+lock(name), name, string(hold)+" 1800000000000 1800000001000  "+member)
		server.Do(t, "PEXPIRE", "resque:go:unique:"+lock(name), 1000000)
		put(member, payload)
	}
	server.Do(t, "SET", "resque:go:unique:"+lock("queued")+":refused", "3 queued")
	server.Do(t, "SET", "resque:go:unique:"+lock("delayed")+":refused", "3 another")
	server.Do(t, "SET", "resque:go:unique-rest", "1", "PX", 50) // a look waits for it
	before := server.Dump(t, "resque:go:unique:")
	seen := make(map[string]inspect.Lock)
	for l, err := range i.Locks(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		seen[l.ID] = l
	}
	want(t, "locks", len(place), len(seen), nil)
	l := seen["queued"]
	want(t, "a lock", []any{lock("queued"), "mail", "A", "done", int64(1800000000), int64(1800000001), int64(3), int64(0)},
		[]any{l.Name, l.Queue, l.Class, l.Hold, l.Since.Unix(), l.Seen.Unix(), l.Refused, seen["delayed"].Refused}, nil)
	if l.Left == 0 && os.Getenv("REDISTEST_ACL") == "" || l.Left > 1000*time.Second { // the minimal ACL does not let a worker ask
		t.Errorf("the lock falls in %v", l.Left)
	}
	for name, l := range seen {
		where, found, err := i.LockHolder(ctx, l)
		want(t, "the job of "+name, []any{is[name], is[name] != ""}, []any{where, found}, err)
	}
	want(t, "the locks after looks", before, server.Dump(t, "resque:go:unique:"), nil)
	for name, l := range seen {
		err := i.By("ann", "stuck").ReleaseLock(ctx, l, name == "forced")
		if gone := name == "nowhere" || name == "forced"; gone != (err == nil) || !gone && !errors.Is(err, inspect.ErrLockHeld) {
			t.Errorf("releasing %s: %v", name, err)
		}
		if _, err := i.Lock(ctx, lock(name)); errors.Is(err, inspect.ErrNoLock) != (name == "nowhere" || name == "forced") {
			t.Errorf("the lock of %s: %v", name, err)
		}
	}
	if err := i.ReleaseLock(ctx, seen["nowhere"], true); !errors.Is(err, inspect.ErrNoLock) {
		t.Errorf("released again: %v", err)
	}
	if err := i.ReleaseLock(ctx, seen["nowhere"], false); !errors.Is(err, inspect.ErrNoLock) {
		t.Errorf("released again: %v", err)
	}
	audit, err := i.Audit(ctx, 10)
	want(t, "audited", 2, len(audit), err)
	lent.closed = true
	for _, err := range i.Locks(ctx) {
		if !errors.Is(err, errClosed) {
			t.Error(err)
		}
	}
}

// The numbers of a limit are read and written as its programs write them, and what it holds back is counted.
func TestLimits(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	server.Do(t, "HSET", "resque:go:limits", "c:Mail", "3", "r:Mail", "100000.000 1", "r:fast", "100.000 100", "c:A%2Fkey", "1", "c:odd", "many", "x", "y")
	server.Do(t, "SADD", "resque:go:lanes", resque.JobPrefix("mail")+inMail.Shared)
	server.Do(t, "ZADD", "resque:go:lanes:"+resque.JobPrefix("mail")+inMail.Shared, 0, inMail.Own)
	server.Do(t, "RPUSH", resque.New("").KeyOfLane(inMail), "{}", "{}")
	server.Do(t, "SADD", "resque:go:slots:c:A%2Fkey=x", "p/1")
	all, err := i.Limits(ctx)
	var got []string
	for _, l := range all {
		got = append(got, fmt.Sprintf("%s %s %s %d %d %d %v", l.Spec, l.Kind, l.Numbers(), l.Running, l.Waiting, l.Lanes, l.Invalid != nil))
	}
	want(t, "limits", []string{
		"c:A%2Fkey running 1 1 2 1 false", "c:Mail running 3 0 0 0 false", "r:Mail starts 10/s 0 0 0 false",
		"r:fast starts 10000/s, 100 at once 0 0 0 false", `c:odd running "many" 0 0 0 true`, `x  "y" 0 0 0 true`,
	}, got, err)
	number := func(spec string) string {
		text, _ := redis.String(server.Dial(t).Do("HGET", "resque:go:limits", spec))
		return text
	}
	for _, tt := range []struct{ limit, numbers, spec, text string }{
		{"A/key", "7", "c:A%2Fkey", "7"},
		{"r:Mail", "5/m", "r:Mail", "12000000.000 1"},
		{"r:Mail", "10/s:4", "r:Mail", "100000.000 4"},
		{"fast", "10000/s", "r:fast", "100.000 100"},
		{"odd", "2", "c:odd", "2"},
	} {
		_, err := i.SetLimit(ctx, tt.limit, tt.numbers)
		want(t, tt.limit, tt.text, number(tt.spec), err)
	}
	for _, tt := range [][2]string{{"Mail", "7"}, {"A/key", "7/s"}, {"A/key", "0"}, {"fast", "7"}, {"fast", "0/s"}, {"fast", "5/d"}, {"fast", "5/s:0"}, {"fast", "2000000/s"}, {"x", "1"}} {
		if _, err := i.SetLimit(ctx, tt[0], tt[1]); err == nil {
			t.Errorf("%s was set to %s", tt[0], tt[1])
		}
	}
	was, err := i.ResetLimit(ctx, "odd")
	want(t, "reset", "2", was, err)
	want(t, "its number", "", number("c:odd"), nil)
	if _, err := i.ResetLimit(ctx, "odd"); !errors.Is(err, inspect.ErrNoLimit) {
		t.Errorf("reset again: %v", err)
	}
}

// Only a dead worker is removed, and what it had in hand becomes a failure, as Ruby's workers do it.
func TestRemoveWorker(t *testing.T) {
	i, server, lent := setup(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	p := resque.Process{ID: "h:9:a", Host: "h", PID: 9, Concurrency: 2, IDHead: "h.go:9-", IDQueues: "mail", Started: now}
	must(lent.Do(ctx, func(s resque.Store, c redis.Conn) error { return s.Enter(c, p, time.Hour, now) }))
	workers := map[string]struct {
		beat string
		err  error
	}{
		"old:1:mail":    {resque.HeartbeatAt(now.Add(-time.Hour)), nil},
		"silent:1:mail": {"", nil},
		"odd:1:mail":    {"yesterday", nil},
		"fresh:1:mail":  {resque.HeartbeatAt(now), inspect.ErrWorkerAlive},
		p.WorkerID(0):   {"", inspect.ErrWorkerAlive},
		p.WorkerID(1):   {resque.HeartbeatAt(now.Add(-time.Hour)), inspect.ErrWorkerAlive},
		"none:1:mail":   {"-", inspect.ErrUnknownWorker},
	}
	for id, w := range workers {
		if w.beat == "-" {
			continue
		}
		server.Do(t, "SADD", "resque:workers", id)
		server.Do(t, "HDEL", "resque:workers:heartbeat", id)
		if w.beat != "" {
			server.Do(t, "HSET", "resque:workers:heartbeat", id, w.beat)
		}
		server.Do(t, "SET", "resque:worker:"+id, `{"queue":"mail","run_at":"2026-11-21T12:00:00Z","payload":{"class":"J","args":["`+id+`"]}}`)
		server.Do(t, "SET", "resque:stat:processed:"+id, 7)
	}
	for id, w := range workers {
		if err := i.RemoveWorker(ctx, id); !errors.Is(err, w.err) {
			t.Errorf("removing %s: %v; want %v", id, err, w.err)
		}
	}
	left := strings.Join(server.Keys(t), " ")
	failed := server.List(t, "LRANGE", "resque:failed", 0, -1)
	for id, w := range workers {
		if w.err == nil && strings.Contains(left, id) {
			t.Errorf("of %s something is left: %s", id, left)
		}
		record := strings.Join(failed, "\n")
		if filed := strings.Contains(record, `"Worker `+id+` did not gracefully exit while processing J"`); filed != (w.err == nil) {
			t.Errorf("the job of %s is filed: %v\n%s", id, filed, record)
		}
	}
	want(t, "failures", 3, len(failed), nil)
	if !strings.Contains(failed[0], `"exception":"Resque::PruneDeadWorkerDirtyExit"`) {
		t.Errorf("the record is not Ruby's: %s", failed[0])
	}
}
