package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// sharded is an Inspector over three Redises.
func sharded(t *testing.T) (*inspect.Inspector, []*redistest.Server) {
	t.Helper()
	t.Parallel()
	var redises []access.Redis
	var servers []*redistest.Server
	for n := range 3 {
		server := redistest.Start(t)
		servers = append(servers, server)
		redises = append(redises, &lender{server: server, t: t, settings: access.Settings{
			Style: payload.Plain, MaxPayload: 1 << 20, Server: fmt.Sprint("redis://shard", n)}})
	}
	return inspect.New(redises...), servers
}

// A walk goes shard by shard, its cursor names the shard, and a change finds the shard of each job.
func TestShardsWalk(t *testing.T) {
	i, servers := sharded(t)
	ctx := t.Context()
	for n, server := range servers {
		everywhere(t, server)
		for k := range 30 {
			server.Do(t, "RPUSH", "resque:queue:low", fmt.Sprintf(`{"class":"S","args":[%d],"id":"s%d-%d"}`, k, n, k))
		}
	}
	for _, count := range []int{1, 7, 500} {
		said := found(t, i, inspect.Query{Class: "S"}, count)
		want(t, "found", 90, len(said), nil)
		want(t, "the last shard last", "queued low S s2-0", said[89], nil)
	}
	page, err := i.Find(ctx, inspect.Query{Class: "A", Args: []any{1}, Places: []inspect.Place{inspect.Queued}}, "", 500)
	if err != nil || page.Next == "" || page.Jobs[0].Shard != "redis://shard0" || !strings.Contains(page.Jobs[0].String(), "of shard redis://shard0") {
		t.Errorf("%+v, %v", page, err)
	}
	listed := 0
	for after := ""; ; {
		page, err := i.List(ctx, "mail", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		listed += len(page.Jobs)
		if after = page.Next; after == "" {
			break
		}
	}
	want(t, "listed", 9, listed, nil)

	var jobs []inspect.Entry
	for n := range servers {
		jobs = append(jobs, one(t, i, inspect.Query{ID: fmt.Sprintf("s%d-3", n)}))
	}
	n, err := i.By("ada", "shards").Move(ctx, "new", jobs...)
	want(t, "moved", 3, n, err)
	for n, server := range servers {
		want(t, "on its shard", []string{fmt.Sprintf(`{"class":"S","args":[3],"id":"s%d-3"}`, n)}, queue(t, server, "new"), nil)
	}
	_, err = i.Remove(ctx, jobs...)
	if !errors.Is(err, inspect.ErrNoJob) || !strings.Contains(err.Error(), "redis://shard2") {
		t.Errorf("removed where it was: %v", err)
	}
	edited, err := i.Edit(ctx, one(t, i, inspect.Query{ID: "s1-4"}), inspect.Edit{Class: "E"})
	want(t, "edited", "redis://shard1", edited.Shard, err)
	n, err = i.Remove(ctx, edited)
	want(t, "removed the edited one", 1, n, err)
	n, err = i.Dequeue(ctx, &inspect.Job{Queue: "low", Class: "S"})
	want(t, "dequeued", 86, n, err)
	removed := 0
	for after := ""; ; {
		done, err := i.RemoveWhere(ctx, inspect.Query{Class: "A"}, after)
		if err != nil {
			t.Fatal(err)
		}
		removed += done.Changed
		if after = done.Next; after == "" {
			break
		}
	}
	want(t, "removed", 30, removed, nil)
	audit, err := i.Audit(ctx, 10)
	want(t, "audited", 3, len(audit), err)
	if _, err := i.Find(ctx, inspect.Query{}, strings.Repeat("x", 8), 1); err == nil {
		t.Error("a broken cursor is taken")
	}
}

// Sums are merged, and a shard that is away hides no other.
func TestShardsMerge(t *testing.T) {
	i, servers := sharded(t)
	ctx := t.Context()
	for n, server := range servers {
		server.Do(t, "SADD", "resque:queues", "all", fmt.Sprint("q", n))
		server.Do(t, "RPUSH", "resque:queue:all", `{"class":"A","args":[]}`)
		server.Do(t, "SADD", "resque:workers", fmt.Sprintf("h:%d:all", n))
		server.Do(t, "RPUSH", "resque:failed", record("A", 10*n), record("B", 10*n+1))
		plainly(t, server, 1_900_000_000+n, `{"class":"A","args":[],"queue":"all"}`)
	}
	f, d := i.Failures(), i.Delayed()
	queues, err := i.Queues(ctx)
	want(t, "queues", []string{"all", "q0", "q1", "q2"}, queues, err)
	size, err := i.QueueSize(ctx, "all")
	want(t, "size", int64(3), size, err)
	info, err := i.Fleet(ctx)
	want(t, "info", []any{int64(3), 4, 3, int64(6), 3, int64(3)}, []any{info.Pending, info.Queues, info.Workers, info.Failed, len(info.Servers), info.QueueSizes["all"]}, err)
	text, err := i.StatsText(ctx)
	want(t, "stats", true, strings.HasSuffix(text, "queues.all=3\nqueues.q0=0\nqueues.q1=0\nqueues.q2=0"), err)
	workers, err := i.Workers(ctx)
	want(t, "workers", "redis://shard2", workers[2].Shard, err)
	if err := errors.Join(i.PauseQueue(ctx, "q1"), i.ResumeQueue(ctx, "q1"), i.PauseQueue(ctx, "all")); err != nil {
		t.Error(err)
	}
	paused, err := i.PausedQueues(ctx)
	want(t, "paused", []string{"all"}, paused, err)
	waiting, err := i.Waiting(ctx, "all")
	want(t, "waiting", 0, len(waiting), err)

	count, err := f.Count(ctx)
	want(t, "failures", int64(6), count, err)
	list, err := f.List(ctx, -5, 3)
	want(t, "listed", []string{"B", "A", "B"}, classes(list), err)
	var searched []string
	for after := ""; ; {
		page, next, err := f.Search(ctx, inspect.FailureFilter{Class: "A"}, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		searched = append(searched, classes(page)...)
		if after = next; after == "" {
			break
		}
	}
	want(t, "searched", []string{"A", "A", "A"}, searched, nil)
	groups, err := f.Groups(ctx, inspect.FailureFilter{})
	want(t, "groups", []int64{3, 3}, []int64{groups[0].Count, groups[1].Count}, err)
	last, err := f.Get(ctx, list[2].ID)
	want(t, "got", string(list[2].Raw), string(last.Raw), err)
	if err := f.Retry(ctx, list[2]); err != nil {
		t.Error(err)
	}
	want(t, "retried on its shard", 1, servers[1].Int(t, "LLEN", "resque:queue:q"), nil)
	n, err := f.RetryID(ctx, list[0].ID, list[1].ID)
	want(t, "retried by id", 2, n, err)
	_, err = f.RetryID(ctx, strings.Repeat("0", 28))
	if !errors.Is(err, inspect.ErrNoFailure) {
		t.Errorf("an id that no shard has: %v", err)
	}
	n, err = f.RetryAll(ctx)
	want(t, "retried all", 3, n, err)
	steps := 0
	for after := ""; ; {
		done, err := f.RemoveStep(ctx, inspect.FailureFilter{Class: "B"}, after)
		if err != nil {
			t.Fatal(err)
		}
		steps += done.Changed
		if after = done.Next; after == "" {
			break
		}
	}
	want(t, "removed in steps", 3, steps, nil)
	n, err = f.RemoveWhere(ctx, inspect.FailureFilter{Class: "A"})
	want(t, "removed", 3, n, err)

	delayed, err := d.List(ctx, time.Time{}, 1, 1)
	want(t, "delayed", int64(1_900_000_001), delayed[0].At.Unix(), err)
	n, err = d.Remove(ctx, delayed...)
	want(t, "removed from its shard", 1, n, err)
	n, err = i.RemoveDelayed(ctx, job("all", "A"))
	want(t, "removed delayed", 2, n, err)
	if err := i.RemoveQueue(ctx, "q2"); err != nil {
		t.Error(err)
	}

	servers[1].Kill()
	queues, err = i.Queues(ctx)
	if want(t, "queues of the others", []string{"all", "q", "q0"}, queues, nil); err == nil || !strings.Contains(err.Error(), "shard redis://shard1") {
		t.Errorf("with a shard that is away: %v", err)
	}
	var jobs, errs int
	for after := ""; ; {
		page, err := i.Find(ctx, inspect.Query{Queue: "all"}, after, 10)
		if err != nil {
			errs++
		}
		jobs += len(page.Jobs)
		if after = page.Next; after == "" {
			break
		}
	}
	want(t, "found, and errors", []int{2, 1}, []int{jobs, errs}, nil)
}

func TestProcesses(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	s, c := resque.New(""), server.Dial(t)
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	p := resque.Process{ID: "h:7:b", Host: "h", PID: 7, Version: "1.0", Queues: "a,b", Concurrency: 3, Started: since, IDHead: "h.go:7-", IDQueues: "a,b"}
	now, err := s.Now(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Enter(c, p, resque.LeasePeriod, since); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "HSET", "resque:go:inflight:h:7:b", 1, `1:a{}`, 2, `1:a{}`)
	server.Do(t, "ZADD", "resque:go:processes", now.Add(3*time.Second).UnixMilli(), "h:8:late", -now.Add(-4*time.Second).UnixMilli(), "h:9:dead")
	server.Do(t, "SET", "resque:go:process:h:8:late", "spoiled")
	all, err := i.Processes(ctx)
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	then, err := s.Now(c)
	if err != nil {
		t.Fatal(err)
	}
	for n, least := range []time.Duration{0, 5 * time.Second, 12 * time.Second} {
		if age := all[n].LeaseAge; age < least || age > least+then.Sub(now)+time.Millisecond { // Redis has it in milliseconds
			t.Errorf("the lease of %s is %v old", all[n].ID, age)
		}
	}
	all[0].LeaseAge = 0
	want(t, "the first", inspect.ProcessInfo{ID: "h:7:b", Host: "h", PID: 7, Version: "1.0", Queues: "a,b", Concurrency: 3, Since: since, Jobs: 2}, all[0], nil)
	want(t, "dead", []bool{false, false, true}, []bool{all[0].Dead, all[1].Dead, all[2].Dead}, nil)
	want(t, "one whose record is spoiled", "h:8:late", all[1].ID, nil)
}

// No Redis is an error of each call, not a panic.
func TestNoRedis(t *testing.T) {
	t.Parallel()
	i := inspect.New()
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := i.Queues(ctx); return err },
		func(ctx context.Context) error { _, err := i.Find(ctx, inspect.Query{}, "", 1); return err },
		func(ctx context.Context) error { _, err := i.Processes(ctx); return err },
	} {
		if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no Redis to ask") {
			t.Error(err)
		}
	}
}
