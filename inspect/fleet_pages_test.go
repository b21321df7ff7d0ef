package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// lease puts a goworker process into a Redis.
func lease(t *testing.T, server *redistest.Server, id string) {
	t.Helper()
	host, rest, _ := strings.Cut(id, ":")
	pid, _, _ := strings.Cut(rest, ":")
	server.Do(t, "ZADD", "resque:go:processes", time.Now().Add(7*time.Second).UnixMilli(), id)
	server.Do(t, "HSET", "resque:go:process:"+id, "host", host, "pid", pid, "version", "1.2", "queues", "mail", "concurrency", 2,
		"started", "2026-11-21 12:00:00 +0000", "id_head", host+".go:"+pid+"-", "id_queues", "mail", "classes", `["A"]`,
		"vitals", `{"at":1,"workers":2,"busy":1}`)
	server.Do(t, "HSET", "resque:go:inflight:"+id, "entered", "x")
}

// commandsOf is how many commands a call sends as the client counts them.
func commandsOf(t *testing.T, server *redistest.Server, call func()) int {
	t.Helper()
	m := server.Monitor(t)
	call()
	return len(m.Commands())
}

// Pages of processes are sorted by id and read no record of another page. A record of another type hides no other process.
func TestProcessesPage(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	var ids []string
	for n := range 25 {
		id := fmt.Sprintf("web%02d:%d:r", n, n+1)
		ids = append(ids, id)
		lease(t, server, id)
	}
	server.Do(t, "HSET", "resque:go:inflight:"+ids[3], 1, "4:mail{}")
	server.Do(t, "DEL", "resque:go:process:"+ids[4])
	server.Do(t, "SET", "resque:go:process:"+ids[4], "x")
	before := server.Dump(t, "")
	var found []inspect.ProcessInfo
	pages := 0
	n := commandsOf(t, server, func() {
		for after := ""; ; pages++ {
			page, err := i.ProcessesPage(ctx, after, 10)
			if err != nil || page.Of != exact(25) {
				t.Fatalf("%+v, %v", page, err)
			}
			found = append(found, page.Processes...)
			if after = page.Next; after == "" {
				break
			}
		}
	})
	var got []string
	for _, p := range found {
		got = append(got, p.ID)
	}
	want(t, "ids", ids, got, nil)
	if p := found[3]; pages != 2 || n > 3*6 || p.Jobs != 1 || p.Host != "web03" || p.Vitals.Workers != 2 || p.Dead || found[4].Host != "" {
		t.Errorf("%d pages with %d commands, %+v", pages+1, n, p)
	}
	p, err := i.Process(ctx, ids[3])
	p.LeaseAge = found[3].LeaseAge
	want(t, "one process", found[3], p, err)
	if _, err := i.Process(ctx, "gone:1:x"); !errors.Is(err, inspect.ErrUnknownProcess) {
		t.Error(err)
	}
	for _, count := range []int{0, 501} {
		if _, err := i.ProcessesPage(ctx, "", count); err == nil {
			t.Errorf("a page of %d", count)
		}
	}
	want(t, "keys", before, server.Dump(t, ""), nil)
	server.Do(t, "DEL", "resque:go:processes")
	server.Do(t, "SET", "resque:go:processes", "x")
	if _, err := i.ProcessesPage(ctx, "", 10); !resque.IsWrongType(err) {
		t.Error(err)
	}
}

// Pages of workers have what Workers has, in few commands, sorted while there are few. Beyond 2,000 each worker comes at least once.
func TestWorkersPage(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	ids := []string{"h1:1:mail", "h1:2:*", "h2:3:mail,low", "old:4:*", "go.go:5-0:mail"}
	for n, id := range ids {
		server.Do(t, "SADD", "resque:workers", id)
		server.Do(t, "SET", "resque:worker:"+id+":started", "2026-11-21 12:00:00 +0000")
		server.Do(t, "MSET", "resque:stat:processed:"+id, 10+n, "resque:stat:failed:"+id, n)
		server.Do(t, "HSET", "resque:workers:heartbeat", id, resque.HeartbeatAt(time.Now()))
	}
	server.Do(t, "HSET", "resque:workers:heartbeat", "old:4:*", resque.HeartbeatAt(time.Now().Add(-time.Hour)))
	server.Do(t, "SET", "resque:worker:h1:1:mail", `{"queue":"mail","run_at":"2026-11-21T12:00:00Z","payload":{"class":"A","args":[1]}}`)
	large := `{"class":"L","args":["` + strings.Repeat("x", 100_000) + `"]}`
	server.Do(t, "SET", "resque:worker:h1:2:*", `{"queue":"low","run_at":"2026-11-21T12:00:00Z","payload":`+large+`}`)
	server.Do(t, "RPUSH", "resque:worker:h2:3:mail,low", "another type")
	server.Do(t, "SET", "resque:worker:go.go:5-0:mail", "no JSON")
	all, err := i.Workers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var found []inspect.WorkerInfo
	n := commandsOf(t, server, func() {
		for after := ""; ; {
			page, err := i.WorkersPage(ctx, after, 2, "")
			if err != nil || page.Of != 5 || page.Seen > 5 {
				t.Fatalf("%+v, %v", page, err)
			}
			found = append(found, page.Workers...)
			if after = page.Next; after == "" {
				break
			}
		}
	})
	if n > 3*10 {
		t.Errorf("%d commands", n)
	}
	for n := range all {
		all[n].Dead = strings.HasPrefix(all[n].ID, "old")
	}
	cut := slices.IndexFunc(all, func(w inspect.WorkerInfo) bool { return w.ID == "h1:2:*" })
	whole := all[cut]
	without := *whole.Working
	without.Payload = nil
	all[cut].Working = &without
	want(t, "workers", all, found, nil)
	one, err := i.Worker(ctx, "h1:2:*")
	want(t, "one worker", whole, one, err)
	page, err := i.WorkersPage(ctx, "", 500, "mail")
	want(t, "those that match", 3, len(page.Workers), err)
	if _, err := i.Worker(ctx, "h9:9:*"); !errors.Is(err, inspect.ErrUnknownWorker) {
		t.Error(err)
	}
	if _, err := i.WorkersPage(ctx, "!", 5, ""); !errors.Is(err, inspect.ErrCursor) {
		t.Error(err)
	}

	server.Do(t, "EVAL", "for n = 1, 6000 do redis.call('SADD', 'resque:workers', 'many:' .. n .. ':q' .. n % 10) end", 0)
	seen := make(map[string]bool)
	calls := 0
	for after := ""; ; calls++ {
		page, err := i.WorkersPage(ctx, after, 100, "many")
		if err != nil || page.Of != 6005 || len(page.Workers) > 100 {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, w := range page.Workers {
			seen[w.ID] = true
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(seen) != 6000 || calls > 70 {
		t.Errorf("%d workers in %d calls", len(seen), calls)
	}
	if page, err = i.WorkersPage(ctx, "", 5, "nobody"); err != nil || len(page.Workers) > 0 || page.Next == "" || page.Seen > 6000 {
		t.Errorf("%+v, %v", page, err)
	}
}

// Over shards a page is of one of them, and all come.
func TestPagesOverShards(t *testing.T) {
	i, servers := sharded(t)
	ctx := t.Context()
	for n, server := range servers {
		for k := range 3 {
			lease(t, server, fmt.Sprintf("web%d:%d:r", n, k))
			server.Do(t, "SADD", "resque:workers", fmt.Sprintf("h%d:%d:*", n, k))
		}
	}
	var processes, workers []string
	for after := ""; ; {
		page, err := i.ProcessesPage(ctx, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.Processes {
			processes = append(processes, p.Shard+" "+p.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	for after := ""; ; {
		page, err := i.WorkersPage(ctx, after, 2, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range page.Workers {
			workers = append(workers, w.Shard+" "+w.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(processes) != 9 || processes[3] != "redis://shard1 web1:0:r" || len(workers) != 9 || workers[8] != "redis://shard2 h2:2:*" {
		t.Errorf("%q, %q", processes, workers)
	}
	if w, err := i.Worker(ctx, "h2:1:*"); err != nil || w.Shard != "redis://shard2" {
		t.Errorf("%+v, %v", w, err)
	}
	if p, err := i.Process(ctx, "web1:1:r"); err != nil || p.Shard != "redis://shard1" {
		t.Errorf("%+v, %v", p, err)
	}
}
