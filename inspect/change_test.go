package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// one finds the one job that matches.
func one(t *testing.T, i *inspect.Inspector, q inspect.Query) inspect.Entry {
	t.Helper()
	var jobs []inspect.Entry
	for e, err := range i.All(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, e)
	}
	if len(jobs) != 1 {
		t.Fatalf("found %v; want one job", jobs)
	}
	return jobs[0]
}

func queue(t *testing.T, server *redistest.Server, name string) []string {
	t.Helper()
	return append([]string(nil), server.List(t, "LRANGE", "resque:queue:"+name, 0, -1)...)
}

func id(id string) inspect.Query { return inspect.Query{ID: id} }

var inMail = resque.NewLane("mail", resque.Limit{Kind: resque.LimitRunning, Name: "A/key", Keyed: true, Key: "x"})

// In every place a job can be removed, and once it was, it is not removed again and nothing changes.
func TestRemoveEverywhere(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	for _, q := range []inspect.Query{
		id("later"), id("mine"), id("laned"), id("odd"),
		{Class: "A", Args: []any{4}, Places: []inspect.Place{inspect.Delayed}},
		{Class: "A", Places: []inspect.Place{inspect.Failed}},
		{Class: "B", Places: []inspect.Place{inspect.Queued}},
	} {
		e := one(t, i, q)
		n, err := i.Remove(t.Context(), e)
		want(t, "removed "+e.String(), 1, n, err)
		want(t, "left of it", []string(nil), found(t, i, q, 500), nil)
		before := server.Dump(t, "")
		n, err = i.Remove(t.Context(), e)
		if n != 0 || !errors.Is(err, inspect.ErrNoJob) || !strings.Contains(err.Error(), "removing "+e.String()) {
			t.Errorf("removed again: %d, %v", n, err)
		}
		for what, again := range map[string]func() (int, error){
			"moved": func() (int, error) { return i.Move(t.Context(), "elsewhere", e) },
			"run":   func() (int, error) { return i.RunNow(t.Context(), inspect.Head, e) },
			"edited": func() (int, error) {
				_, err := i.Edit(t.Context(), e, inspect.Edit{Class: "C"})
				return 0, err
			},
		} {
			if n, err := again(); n != 0 || !errors.Is(err, inspect.ErrNoJob) {
				t.Errorf("%s after it was removed: %d, %v", what, n, err)
			}
		}
		want(t, "keys", before, server.Dump(t, ""), nil)
	}
	e := one(t, i, id("runs"))
	if n, err := i.Remove(t.Context(), e); n != 0 || err == nil || !strings.Contains(err.Error(), "only its handler ends it") {
		t.Errorf("a running job: %d, %v", n, err)
	}
	invalid, err := i.Find(t.Context(), inspect.Query{Queue: "low", Places: []inspect.Place{inspect.Queued}}, "", 1)
	if err != nil || invalid.Jobs[0].Invalid == nil {
		t.Fatal(invalid, err)
	}
	n, err := i.Remove(t.Context(), invalid.Jobs...)
	want(t, "removed what is no job", 1, n, err)
	want(t, "left", []string{`{"class":"A","args":[1]}`, `{"class":"A","args":[2]}`, `{"class":"A","args":[1]}`}, queue(t, server, "low"), nil)
	want(t, "the seconds of resque-scheduler", 0, server.Int(t, "EXISTS", `resque:timestamps:{"class":"A","args":[4],"queue":"low"}`), nil)
}

// Of equal jobs one goes, and each is taken once, wherever they have moved.
func TestEqualJobs(t *testing.T) {
	i, server, _ := setup(t)
	const job = `{"class":"A","args":[]}`
	for range 5 {
		server.Do(t, "RPUSH", "resque:queue:q", job)
	}
	page, err := i.List(t.Context(), "q", "", 9)
	if err != nil {
		t.Fatal(err)
	}
	server.Do(t, "LPUSH", "resque:queue:q", "first", "", "")
	server.Do(t, "RPUSH", "resque:queue:q", "last")
	n, err := i.Remove(t.Context(), page.Jobs[:2]...)
	want(t, "removed", 2, n, err)
	want(t, "left", []string{"", "", "first", job, job, job, "last"}, queue(t, server, "q"), nil)
	n, err = i.Remove(t.Context(), page.Jobs...)
	if n != 3 || !errors.Is(err, inspect.ErrNoJob) {
		t.Errorf("removed %d of 3, %v", n, err)
	}
	want(t, "left in the end", []string{"", "", "first", "last"}, queue(t, server, "q"), nil)
}

// Jobs are found again after the queue has moved far, and a worker's job is not touched.
func TestChangeAfterTheQueueMoved(t *testing.T) {
	i, server, _ := setup(t)
	for n := range 5000 {
		server.Do(t, "RPUSH", "resque:queue:q", fmt.Sprintf(`{"class":"A","args":[%d]}`, n))
	}
	done, err := i.Find(t.Context(), inspect.Query{Queue: "q"}, "", 500)
	if err != nil {
		t.Fatal(err)
	}
	server.Do(t, "LPOP", "resque:queue:q", 3000)
	server.Do(t, "RPOP", "resque:queue:q", 100)
	n, err := i.Remove(t.Context(), done.Jobs...)
	if n != 400 || !errors.Is(err, inspect.ErrNoJob) || !strings.Contains(err.Error(), "80 more jobs") {
		t.Errorf("removed %d of 400 that were there, %v", n, err)
	}
	want(t, "left", 1500, server.Int(t, "LLEN", "resque:queue:q"), nil)
	want(t, "the last", `{"class":"A","args":[4499]}`, server.Text(t, "LINDEX", "resque:queue:q", -1), nil)
}

// Several jobs that are run now are at the head of their queue in the order given, wherever they were.
func TestRunNowKeepsTheOrder(t *testing.T) {
	i, server, _ := setup(t)
	payload := func(n int) string { return fmt.Sprintf(`{"class":"A","args":[%d]}`, n) }
	const jobs = 1100 // several steps
	for n := range jobs {
		server.Do(t, "RPUSH", "resque:queue:low", payload(n))
	}
	server.Do(t, "SADD", "resque:queues", "low")
	for n := range 3 {
		item := fmt.Sprintf(`{"class":"A","args":[%d],"queue":"low"}`, jobs+n)
		server.Do(t, "RPUSH", fmt.Sprintf("resque:delayed:%d", 1900000000+n), item)
		server.Do(t, "ZADD", "resque:delayed_queue_schedule", 1900000000+n, 1900000000+n)
	}
	entries := func(place inspect.Place) (all []inspect.Entry) {
		for e, err := range i.All(t.Context(), inspect.Query{Class: "A", Places: []inspect.Place{place}}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		return all
	}
	queued := entries(inspect.Queued)
	rand.Shuffle(len(queued), func(a, b int) { queued[a], queued[b] = queued[b], queued[a] })
	n, err := i.RunNow(t.Context(), inspect.Head, queued...)
	want(t, "run", jobs, n, err)
	n, err = i.RunNow(t.Context(), inspect.Head, entries(inspect.Delayed)...)
	want(t, "run", 3, n, err)
	var order []string
	for n := range 3 {
		order = append(order, payload(jobs+n))
	}
	for _, e := range queued {
		order = append(order, string(e.Payload))
	}
	want(t, "queue", order, queue(t, server, "low"), nil)
}

func TestRunNow(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	server.Do(t, "DEL", "resque:queue:low", "resque:queue:mail")
	server.Do(t, "RPUSH", "resque:queue:low", "waits")
	run := func(to inspect.End, q inspect.Query) {
		t.Helper()
		n, err := i.RunNow(t.Context(), to, one(t, i, q))
		want(t, "run", 1, n, err)
	}
	run(inspect.Head, id("later"))
	run(inspect.Tail, id("other"))
	run(inspect.Head, inspect.Query{Class: "A", Args: []any{1}, Places: []inspect.Place{inspect.Delayed}})
	run(inspect.Tail, inspect.Query{Class: "A", Args: []any{4}, Places: []inspect.Place{inspect.Delayed}})
	want(t, "queue", []string{`{"class":"A","args":[1]}`, `{"class":"A","args":[1],"id":"later"}`, "waits", `{"class":"B","args":[1],"id":"other"}`, `{"class":"A","args":[4]}`},
		queue(t, server, "low"), nil)
	run(inspect.Head, inspect.Query{Class: "A", Places: []inspect.Place{inspect.Failed}})
	want(t, "retried", []string{`{"class":"A","args":[1],"id":"x"}`}, queue(t, server, "q"), nil)
	if f := one(t, i, inspect.Query{Class: "A", Places: []inspect.Place{inspect.Failed}}).Failure; f.RetriedAt == "" {
		t.Error("the record is not marked as retried")
	}

	// In its lane the job is the next, and so is the lane.
	run(inspect.Head, inspect.Query{Class: "A", Args: []any{3}})
	want(t, "lane", []string{`{"class":"A","args":[3]}`, `{"class":"A","args":[1],"id":"laned"}`}, server.List(t, "LRANGE", resque.New("").KeyOfLane(inMail), 0, -1), nil)
	want(t, "turn", "0", server.Text(t, "ZSCORE", "resque:go:lanes:4:mailf:A%2Fkey", inMail.Own), nil)
	run(inspect.Tail, id("laned"))
	want(t, "the lane's queue", []string{`{"class":"A","args":[1],"id":"laned"}`}, queue(t, server, "mail"), nil)
	run(inspect.Tail, id("laned"))
	want(t, "delayed jobs", 0, server.Int(t, "EXISTS", "resque:go:schedule", "resque:delayed_queue_schedule", "resque:delayed:1900000000"), nil)
}

func TestMove(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	jobs := []inspect.Entry{
		one(t, i, id("mine")), one(t, i, id("laned")), one(t, i, id("later")), one(t, i, inspect.Query{Class: "A", Places: []inspect.Place{inspect.Failed}}),
		one(t, i, inspect.Query{Class: "A", Args: []any{4}, Places: []inspect.Place{inspect.Delayed}}),
	}
	n, err := i.Move(t.Context(), "new", jobs...)
	want(t, "moved", 5, n, err)
	want(t, "is a queue", 1, server.Int(t, "SISMEMBER", "resque:queues", "new"), nil)
	want(t, "where they are", []string{"delayed new A later", "delayed new A ", "queued new A laned", "queued new A mine", "queued new A x"},
		found(t, i, inspect.Query{Queue: "new"}, 500), nil)
	later := one(t, i, id("later"))
	want(t, "time", time.UnixMilli(1_900_000_000_000), later.At, nil)
	want(t, "item", []string{`{"class":"A","args":[1],"queue":"low"}`, `{"class":"A","args":[4],"queue":"new"}`}, server.List(t, "LRANGE", "resque:delayed:1900000000", 0, -1), nil)
	want(t, "Ruby finds it", []string{"delayed:1900000000"}, server.List(t, "SMEMBERS", `resque:timestamps:{"class":"A","args":[4],"queue":"new"}`), nil)
	want(t, "and not the old one", 0, server.Int(t, "EXISTS", `resque:timestamps:{"class":"A","args":[4],"queue":"low"}`), nil)
}

func TestEdit(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	edit := func(q inspect.Query, e inspect.Edit) inspect.Entry {
		t.Helper()
		edited, err := i.Edit(t.Context(), one(t, i, q), e)
		if err != nil {
			t.Fatal(err)
		}
		return edited
	}
	edit(inspect.Query{Queue: "low", Class: "A", Args: []any{2}, Places: []inspect.Place{inspect.Queued}}, inspect.Edit{Args: []any{"two"}})
	edit(id("odd"), inspect.Edit{Class: "C"})
	want(t, "queue, in its places", []string{`{"class":"A","args":[1]}`, `{"class":"A","args":["two"]}`, `{"class":"A","args":[1]}`, `{"class":"B","args":[]}`,
		`{"args": [1], "class": "C", "id": "odd"}`, "not JSON"}, queue(t, server, "low"), nil)

	laned := edit(id("laned"), inspect.Edit{Args: []any{}})
	want(t, "of a lane, at the head", []string{`{"class":"A","args":[],"id":"laned"}`, `{"class":"A","args":[1],"id":"mine"}`}, queue(t, server, "mail"), nil)
	want(t, "its place", inspect.Queued, laned.Place, nil)

	later := edit(id("later"), inspect.Edit{Class: "D", Queue: "mail"})
	want(t, "delayed", []string{`4:mail{"class":"D","args":[1],"id":"later"}`, `3:low{"class":"B","args":[1],"id":"other"}`}, server.List(t, "ZRANGE", "resque:go:schedule", 0, -1), nil)
	later = func() inspect.Entry {
		n, err := i.RunNow(t.Context(), inspect.Tail, later)
		want(t, "run what Edit returned", 1, n, err)
		return one(t, i, id("later"))
	}()
	want(t, "then", "job D, id later, in queue mail", later.String(), nil)

	plain := edit(inspect.Query{Class: "A", Args: []any{4}, Places: []inspect.Place{inspect.Delayed}}, inspect.Edit{Args: []any{5}})
	want(t, "plain", []string{`{"class":"A","args":[1],"queue":"low"}`, `{"class":"A","args":[5],"queue":"low"}`}, server.List(t, "LRANGE", "resque:delayed:1900000000", 0, -1), nil)
	n, err := i.Remove(t.Context(), plain)
	want(t, "removed what Edit returned", 1, n, err)

	edit(inspect.Query{Class: "A", Places: []inspect.Place{inspect.Failed}}, inspect.Edit{Args: []any{9}, Queue: "low"})
	want(t, "failed, at the tail", `{"class":"A","args":[9],"id":"x"}`, server.Text(t, "LINDEX", "resque:queue:low", -1), nil)
	f := one(t, i, inspect.Query{Class: "A", Places: []inspect.Place{inspect.Failed}})
	if f.Failure.RetriedAt == "" || string(f.Failure.Payload) != `{"class":"A","args":[1],"id":"x"}` {
		t.Errorf("its record is %+v", f.Failure)
	}
	for says, edit := range map[string]inspect.Edit{"MaxPayload": {Args: []any{strings.Repeat("x", 2<<20)}}, "cannot be encoded": {Args: []any{func() {}}}} {
		if _, err := i.Edit(t.Context(), f, edit); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// A unique job keeps its lock when it is moved or edited, and gives it up when it is removed.
func TestLocksFollow(t *testing.T) {
	i, server, _ := setup(t)
	payload := func(name string) string {
		return fmt.Sprintf(`{"class":"A","args":[],"unique":"done:%s","id":"%[1]s"}`, name)
	}
	server.Do(t, "SADD", "resque:queues", "q")
	for _, name := range []string{"moved", "edited", "removed", "delayed", "gone"} {
		member := "1:q" + payload(name)
		server.Do(t, "HSET", "resque:go:unique:"+name, name, "done 1 2  "+member)
		if name == "delayed" || name == "gone" {
			server.Do(t, "ZADD", "resque:go:schedule", 1_900_000_000_000, member)
		} else {
			server.Do(t, "RPUSH", "resque:queue:q", payload(name))
		}
	}
	n, err := i.Move(t.Context(), "new", one(t, i, id("moved")), one(t, i, id("delayed")))
	want(t, "moved", 2, n, err)
	_, err = i.Edit(t.Context(), one(t, i, id("edited")), inspect.Edit{Class: "B"})
	want(t, "edited", nil, err, nil)
	n, err = i.Remove(t.Context(), one(t, i, id("removed")), one(t, i, id("gone")))
	want(t, "removed", 2, n, err)
	want(t, "moved", "done 1 2  3:new"+payload("moved"), server.Text(t, "HGET", "resque:go:unique:moved", "moved"), nil)
	want(t, "delayed", "done 1 2  3:new"+payload("delayed"), server.Text(t, "HGET", "resque:go:unique:delayed", "delayed"), nil)
	want(t, "edited", "done 1 2  1:q"+strings.Replace(payload("edited"), `"A"`, `"B"`, 1), server.Text(t, "HGET", "resque:go:unique:edited", "edited"), nil)
	want(t, "removed", 0, server.Int(t, "EXISTS", "resque:go:unique:removed", "resque:go:unique:gone"), nil)
}

// Changes of many jobs work in steps of at most 500, and say what they did.
func TestPieces(t *testing.T) {
	i, server, _ := setup(t)
	for n := range 1200 {
		server.Do(t, "RPUSH", "resque:queue:q", fmt.Sprintf(`{"class":"A","args":[%d]}`, n))
		server.Do(t, "ZADD", "resque:go:schedule", 1_900_000_000_000+n, fmt.Sprintf(`1:q{"class":"A","args":[%d],"id":"i%[1]d"}`, n))
		server.Do(t, "RPUSH", "resque:failed", record("A", n))
	}
	server.Do(t, "SADD", "resque:queues", "q")
	server.Do(t, "RPUSH", "resque:queue:q", `{"class":"B","args":[]}`)
	by := i.By("ada", "INC-12")
	steps := func(name string, step func(after string) (inspect.Done, error)) (changed int) {
		t.Helper()
		for after, n := "", 0; ; n++ {
			done, err := step(after)
			if err != nil || len(done.Refused) > 0 || done.Changed > 500 || n > 100 {
				t.Fatalf("%s, step %d: %+v, %v", name, n, done, err)
			}
			changed += done.Changed
			if after = done.Next; after == "" {
				return changed
			}
		}
	}
	ctx := t.Context()
	want(t, "moved", 1200, steps("move", func(after string) (inspect.Done, error) {
		return by.MoveWhere(ctx, inspect.Query{Class: "A", Places: []inspect.Place{inspect.Queued}}, "new", after)
	}), nil)
	want(t, "left in the queue", []string{`{"class":"B","args":[]}`}, queue(t, server, "q"), nil)
	want(t, "run", 1200, steps("run", func(after string) (inspect.Done, error) {
		return by.RunWhere(ctx, inspect.Query{Class: "A", Queue: "q"}, inspect.Tail, after)
	}), nil)
	want(t, "retried", 1200, steps("retry", func(after string) (inspect.Done, error) {
		return by.Failures().RetryStep(ctx, inspect.FailureFilter{Class: "A"}, after)
	}), nil)
	want(t, "retried again", 0, steps("retry", func(after string) (inspect.Done, error) {
		return by.RunWhere(ctx, inspect.Query{Class: "A", Places: []inspect.Place{inspect.Failed}}, inspect.Tail, after)
	}), nil)
	want(t, "in the queue", 2401, server.Int(t, "LLEN", "resque:queue:q"), nil)
	want(t, "removed", 2400, steps("remove", func(after string) (inspect.Done, error) {
		return by.RemoveWhere(ctx, inspect.Query{Class: "A", Queue: "q"}, after)
	}), nil)
	want(t, "removed failures", 1200, steps("remove failures", func(after string) (inspect.Done, error) {
		return by.Failures().RemoveStep(ctx, inspect.FailureFilter{Class: "A"}, after)
	}), nil)
	want(t, "failures left", 0, server.Int(t, "LLEN", "resque:failed"), nil)

	audit, err := i.Audit(ctx, 1000)
	sums := make(map[string]int64)
	for _, e := range audit {
		sums[e.What] += e.Changed
		if e.Who != "ada" || e.Why != "INC-12" || e.Error != "" || e.On == "" || e.Changed > 500 || time.Since(e.At) > time.Hour {
			t.Errorf("audited %+v", e)
		}
	}
	want(t, "audit", map[string]int64{"MoveWhere": 1200, "RunWhere": 1200, "Failures.RetryStep": 1200, "RemoveWhere": 2400, "Failures.RemoveStep": 1200}, sums, err)
}

// Among equal jobs none is passed over: what a step removed is not taken for an equal job further on.
func TestRemoveWhereAmongEqualJobs(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "EVAL", `for copy = 1, 4 do
  for n = 1, 70 + copy do redis.call('RPUSH', KEYS[1], '{"class":"B","args":[' .. copy .. ',' .. n .. ']}') end
  for n = 1, 300 do redis.call('RPUSH', KEYS[1], '{"class":"A","args":[' .. n .. ']}') end
end`, 1, "resque:queue:q")
	server.Do(t, "SADD", "resque:queues", "q")
	removed := 0
	for after := ""; ; {
		page, err := i.Find(t.Context(), inspect.Query{Queue: "q", Class: "A"}, after, 130)
		if err != nil {
			t.Fatal(err)
		}
		n, err := i.Remove(t.Context(), page.Jobs...)
		if removed += n; err != nil {
			t.Fatal(err)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	want(t, "removed", 1200, removed, nil)
}

// The record of changes is bounded, and changes without By are not in it.
func TestAudit(t *testing.T) {
	redistest.OwnUser(t)
	i, server, _ := setup(t)
	ctx := t.Context()
	server.Do(t, "SADD", "resque:queues", "q")
	if err := i.PauseQueue(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	want(t, "without By", 0, server.Int(t, "EXISTS", "resque:go:audit"), nil)
	by := i.By("ada", "a test")
	server.Do(t, "EVAL", "for i = 1, 9990 do redis.call('RPUSH', KEYS[1], '{}') end", 1, "resque:go:audit")
	for range 10 {
		if err := errors.Join(by.PauseQueue(ctx, "q"), by.ResumeQueue(ctx, "q")); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "kept", 10_000, server.Int(t, "LLEN", "resque:go:audit"), nil)
	server.Do(t, "LPUSH", "resque:go:audit", "another program's")
	audit, err := i.Audit(ctx, 3)
	want(t, "audit", []string{"another program's ", "ResumeQueue queue q", "PauseQueue queue q"}, func() (said []string) {
		for _, e := range audit {
			said = append(said, e.What+" "+e.On)
		}
		return said
	}(), err)
	server.Do(t, "DEL", "resque:go:audit")
	want(t, "recordable", nil, by.Recordable(ctx), nil)
	want(t, "by that", 0, server.Int(t, "EXISTS", "resque:go:audit"), nil)
	want(t, "paused", nil, by.Face("dashboard").PauseQueue(ctx, "q"), nil)
	audit, err = i.Audit(ctx, 1)
	want(t, "face and user", "dashboard default", audit[0].Face+" "+audit[0].User, err)
	// A process of an older release pushes its line too, and keeps 1,000.
	server.Do(t, "LPUSH", "resque:go:audit", `{"at":"2026-11-22T10:00:00Z","who":"bob","what":"ResumeQueue","on":"queue q","changed":1}`)
	server.Do(t, "LTRIM", "resque:go:audit", 0, 999)
	audit, err = i.Audit(ctx, 10_000)
	want(t, "both", "bob ada", audit[0].Who+" "+audit[1].Who, err)
	server.Do(t, "DEL", "resque:go:audit")
	server.Do(t, "SET", "resque:go:audit", "x")
	server.Do(t, "DEL", "resque:go:paused")
	if err := by.PauseQueue(ctx, "q"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a record of the wrong type: %v", err)
	}
	if err := by.Recordable(ctx); err == nil || !strings.Contains(err.Error(), "nothing is changed, because it could not be recorded") || !strings.Contains(err.Error(), "resque:go:audit") {
		t.Errorf("it says that it could be recorded: %v", err)
	}
	if err := i.Recordable(ctx); err != nil {
		t.Errorf("without By: %v", err)
	}
	want(t, "it is not paused, because that cannot be recorded", 0, server.Int(t, "SISMEMBER", "resque:go:paused", "q"), nil)
}

// A change whose source or target has another type changes nothing, and says which key to repair.
func TestChangesAmongWrongTypes(t *testing.T) {
	for _, test := range []struct{ key, id string }{
		{"resque:queue:new", "mine"}, {"resque:queue:new", "laned"}, {"resque:queues", "mine"}, {"resque:go:lanes", "laned"},
		{"resque:queue:mail", "mine"}, {"resque:go:schedule", "later"}, {"resque:queue:q", "x"}, {"resque:failed", "x"},
	} {
		t.Run(test.key+" "+test.id, func(t *testing.T) {
			i, server, _ := setup(t)
			everywhere(t, server)
			e := one(t, i, inspect.Query{ID: test.id, Class: "A"})
			server.Do(t, "DEL", test.key)
			server.Do(t, "SET", test.key, "spoiled")
			before := server.Dump(t, "")
			change := func() (int, error) { return i.Move(t.Context(), "new", e) }
			if test.id == "x" {
				change = func() (int, error) { return i.RunNow(t.Context(), inspect.Tail, e) }
			}
			if n, err := change(); n != 0 || err == nil || errors.Is(err, inspect.ErrNoJob) || !strings.Contains(err.Error(), "rename or remove that key") {
				t.Errorf("%d, %v", n, err)
			}
			want(t, "keys", before, server.Dump(t, ""), nil)
		})
	}
}

// An operator can make room in a Redis that is full: what takes a job away or moves it is not refused.
func TestChangesOutOfMemory(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	jobs := []inspect.Entry{one(t, i, id("mine")), one(t, i, id("laned")), one(t, i, id("later")),
		one(t, i, inspect.Query{Class: "A", Args: []any{4}, Places: []inspect.Place{inspect.Delayed}})}
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	n, err := i.Move(t.Context(), "new", jobs...)
	want(t, "moved", 4, n, err)
	n, err = i.Dequeue(t.Context(), &inspect.Job{Queue: "low", Class: "A"})
	want(t, "dequeued", 4, n, err)
	n, err = i.Remove(t.Context(), one(t, i, id("mine")), one(t, i, id("later")))
	want(t, "removed", 2, n, err)
}

// away is a Redis that is away for one call, counted from 1.
type away struct {
	access.Redis
	on    int
	calls *int
}

var errAway = errors.New("redis is away")

func (a away) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	if *a.calls++; *a.calls == a.on {
		return errAway
	}
	return a.Redis.Do(ctx, f)
}

// A step that ended with an error passes over no job: those that it has not changed are for the next one.
func TestStepsGoOnAfterAnError(t *testing.T) {
	for name, shards := range map[string]int{"one Redis": 1, "shards": 2} {
		for what, step := range map[string]func(ctx context.Context, i *inspect.Inspector, after string) (inspect.Done, error){
			"RemoveWhere": func(ctx context.Context, i *inspect.Inspector, after string) (inspect.Done, error) {
				return i.RemoveWhere(ctx, inspect.Query{Queue: "mail", Class: "A"}, after)
			},
			"MoveWhere": func(ctx context.Context, i *inspect.Inspector, after string) (inspect.Done, error) {
				return i.MoveWhere(ctx, inspect.Query{Queue: "mail", Class: "A"}, "new", after)
			},
			"RemoveStep": func(ctx context.Context, i *inspect.Inspector, after string) (inspect.Done, error) {
				return i.Failures().RemoveStep(ctx, inspect.FailureFilter{Class: "A"}, after)
			},
			"RetryStep": func(ctx context.Context, i *inspect.Inspector, after string) (inspect.Done, error) {
				return i.Failures().RetryStep(ctx, inspect.FailureFilter{Class: "A"}, after)
			},
		} {
			t.Run(what+" of "+name, func(t *testing.T) {
				_, server, l := setup(t)
				conn := server.Dial(t)
				for call := 1; call <= 5; call++ {
					server.Do(t, "FLUSHALL")
					for n := range 700 {
						_ = conn.Send("RPUSH", "resque:queue:mail", fmt.Sprintf(`{"class":"A","args":[%d]}`, n))
						_ = conn.Send("RPUSH", "resque:failed", fmt.Sprintf(`{"failed_at":"x","payload":{"class":"A","args":[%d]},"queue":"mail"}`, n))
					}
					if _, err := conn.Do("SADD", "resque:queues", "mail"); err != nil {
						t.Fatal(err)
					}
					calls, errs, changed, left := 0, 0, 0, false
					redises := []access.Redis{away{l, call, &calls}}
					for range shards - 1 { // the others are empty
						redises = append(redises, &lender{server: redistest.Start(t), t: t, settings: l.settings})
					}
					i := inspect.New(redises...)
					for after := ""; ; {
						done, err := step(t.Context(), i, after)
						if changed += done.Changed; err != nil {
							errs++
							left = done.Looked == 0 && shards > 1 // a shard that does not answer is left out
							if !errors.Is(err, errAway) || done.Next == "" {
								t.Fatalf("Redis away for call %d: Next is %q, %v", call, done.Next, err)
							}
						}
						if after = done.Next; after == "" {
							break
						}
					}
					if changed != 700 && !left || errs > 1 {
						t.Errorf("Redis away for call %d: changed %d with %d errors", call, changed, errs)
					}
				}
			})
		}
	}
}

// Two who change one job at a time change it once.
func TestChangesAtOneTime(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	for _, q := range []inspect.Query{id("later"), id("mine"), id("laned"), {Class: "A", Args: []any{4}, Places: []inspect.Place{inspect.Delayed}}} {
		e := one(t, i, q)
		results := make(chan int)
		for range 4 {
			go func() {
				n, _ := i.Move(context.WithoutCancel(t.Context()), "new", e)
				results <- n
			}()
		}
		total := 0
		for range 4 {
			total += <-results
		}
		want(t, "moved at one time", 1, total, nil)
	}
	want(t, "in the new queue", 4, len(found(t, i, inspect.Query{Queue: "new"}, 500)), nil)
}

// Dequeue, RemoveDelayed and Find mean the same jobs by one that is named.
func TestOneMeaningOfEqual(t *testing.T) {
	forms := map[string]bool{ // as they are in a queue; true: equal to A with the arguments 1 and "a"
		`{"class":"A","args":[1,"a"]}`:                        true,
		`{"class":"A","args":[1,"a"],"id":"x"}`:               true,
		`{"class":"A","args":[1,"a"],"attempt":2,"id":"y"}`:   true,
		`{"class":"A","queue":"q","args":[1,"a"]}`:            true, // node-resque
		`{"args":[1, "a"], "class": "A", "id":"z"}`:           true,
		`{"class":"A","args":[1.0,"a"],"id":"n"}`:             false,
		`{"class":"A","args":[1,"a","b"],"id":"m"}`:           false,
		`{"class":"A","args":["1","a"],"id":"s"}`:             false,
		`{"class":"B","args":[1,"a"],"id":"b"}`:               false,
		`{"class":"A","args":[[1,"a"]],"id":"l"}`:             false,
		`{"class":"A","args":[1,"\u0061"],"id":"e"}`:          false,
		`{"class":"K","args":[{"class":"A","args":[1,"a"]}]}`: false,
	}
	i, server, _ := setup(t)
	ctx := t.Context()
	equal, plain := 0, 0
	for form, same := range forms {
		server.Do(t, "RPUSH", "resque:queue:q", form)
		server.Do(t, "ZADD", "resque:go:schedule", 1_900_000_000_000, "1:q"+form)
		if same {
			equal++
		}
	}
	plainly(t, server, 1_900_000_000, `{"class":"A","args":[1,"a"],"queue":"q"}`, `{"class":"A","queue":"q","args":[1,"a"]}`)
	plain = 2
	q := inspect.Query{Queue: "q", Class: "A", Args: []any{1, "a"}}
	want(t, "found", 2*equal+plain, len(found(t, i, q, 500)), nil)
	like, err := i.Delayed().Like(ctx, job("q", "A", 1, "a"))
	want(t, "like", equal+plain, len(like), err)
	x := job("q", "A", 1, "a")
	x.ID = "x"
	n, err := i.Dequeue(ctx, x)
	want(t, "dequeued by id", 1, n, err)
	n, err = i.RemoveDelayed(ctx, x)
	want(t, "removed by id", 1, n, err)
	n, err = i.Dequeue(ctx, job("q", "A", 1, "a"))
	want(t, "dequeued", equal-1, n, err)
	n, err = i.RemoveDelayed(ctx, job("q", "A", 1, "a"))
	want(t, "removed", equal-1+plain, n, err)
	for _, left := range queue(t, server, "q") {
		if forms[left] {
			t.Errorf("%s is left", left)
		}
	}
	n, err = i.Dequeue(ctx, &inspect.Job{Queue: "q", Class: "A"})
	want(t, "dequeued the class", 5, n, err)
	laned(t, server, inMail, `{"class":"A","args":[1]}`)
	n, err = i.Dequeue(ctx, job("mail", "A", 1))
	want(t, "dequeued from a lane", 1, n, err)
}

// All retries keep what the producer wrote, and PlainPayload is Ruby's way.
func TestRetriesKeepThePayload(t *testing.T) {
	i, server, _ := setup(t)
	const whole = `{"class":"F","args":[1],"unique":"done:lock","meta":{"a":"b"},"attempt":3,"id":"mine"}`
	failed, err := json.Marshal(map[string]any{"failed_at": "2026/11/21 12:00:00 UTC", "payload": json.RawMessage(whole), "queue": "q", "exception": "E", "error": "e", "worker": "w", "backtrace": []string{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, f := t.Context(), i.Failures()
	for name, retry := range map[string]func() error{
		"Retry": func() error {
			all, err := f.List(ctx, 0, 1)
			return errors.Join(err, f.Retry(ctx, all[0]))
		},
		"RetryAll":     func() error { _, err := f.RetryAll(ctx); return err },
		"RetryWhere":   func() error { _, err := f.RetryWhere(ctx, inspect.FailureFilter{Class: "F"}); return err },
		"RetryStep":    func() error { _, err := f.RetryStep(ctx, inspect.FailureFilter{Class: "F"}, ""); return err },
		"KeepPayload":  func() error { _, err := f.KeepPayload().RetryAll(ctx); return err },
		"PlainPayload": func() error { _, err := f.PlainPayload().RetryAll(ctx); return err },
	} {
		server.Do(t, "DEL", "resque:failed", "resque:queue:q")
		server.Do(t, "RPUSH", "resque:failed", failed)
		if err := retry(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		pushed := `{"args":[1],"class":"F","id":"mine","meta":{"a":"b"},"unique":"done:lock"}`
		if name == "PlainPayload" {
			pushed = `{"args":[1],"class":"F"}`
		}
		var fields map[string]json.RawMessage
		_ = json.Unmarshal([]byte(strings.Join(queue(t, server, "q"), "")), &fields)
		got, _ := json.Marshal(fields)
		want(t, name, pushed, string(got), nil)
	}
}

func TestIDsOfFailures(t *testing.T) {
	i, _, _ := setup(t)
	for _, call := range []func(context.Context, ...string) (int, error){i.Failures().RetryID, i.Failures().RemoveID} {
		_, err := call(t.Context(), "abc")
		if !errors.Is(err, inspect.ErrNoFailure) {
			t.Errorf("%v", err)
		}
		want(t, "text", "abc is no failure id (28 hex digits)", err.Error(), nil)
		_, err = call(t.Context(), strings.Repeat("a", 28))
		if !errors.Is(err, inspect.ErrNoFailure) || strings.Contains(err.Error(), "is no failure id") {
			t.Errorf("%v", err)
		}
	}
}

// A name that nothing knows is an error. A pause is made all the same.
func TestUnknownNames(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	server.Do(t, "SADD", "resque:workers", "h:1:named,other", "h:2:*")
	laned(t, server, inMail, "x")
	server.Do(t, "RPUSH", "resque:queue:list", "x")
	server.Do(t, "HSET", "resque:persistent_schedules", "nightly", "{}")
	for _, name := range []string{"named", "mail", "list"} {
		if err := errors.Join(i.PauseQueue(ctx, name), i.ResumeQueue(ctx, name), i.RemoveQueue(ctx, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	before := server.Dump(t, "")
	for what, call := range map[string]func(context.Context, string) error{"removing": i.RemoveQueue, "resuming": i.ResumeQueue} {
		if err := call(ctx, "mial"); !errors.Is(err, inspect.ErrUnknownQueue) || !strings.Contains(err.Error(), what+" queue mial") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := i.ResumeSchedule(ctx, "nigthly"); !errors.Is(err, inspect.ErrUnknownSchedule) {
		t.Error(err)
	}
	if diff := cmp.Diff(before, server.Dump(t, "")); diff != "" {
		t.Errorf("keys changed:\n%s", diff)
	}
	if err := i.PauseQueue(ctx, "mial"); !errors.Is(err, inspect.ErrUnknownQueue) || !strings.Contains(err.Error(), "it is paused all the same") {
		t.Error(err)
	}
	want(t, "is paused", 1, server.Int(t, "SISMEMBER", "resque:go:paused", "mial"), nil)
	if err := i.ResumeQueue(ctx, "mial"); err != nil {
		t.Error(err)
	}
	if err := i.PauseSchedule(ctx, "nightly"); err != nil {
		t.Error(err)
	}
	if err := i.PauseSchedule(ctx, "nigthly"); !errors.Is(err, inspect.ErrUnknownSchedule) {
		t.Error(err)
	}
	want(t, "paused schedules", 2, server.Int(t, "HLEN", "resque:go:paused-schedules"), nil)
}
