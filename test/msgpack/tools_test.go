package msgpack

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// No pattern means the queue, and a pattern for such queues is refused.
func TestPatterns(t *testing.T) {
	t.Parallel()
	b, c := setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "*" })
	b.Start()
	enqueue(t, c, job("Mark", "a"))
	b.Redis.Do(t, "SADD", "resque:queues", calc) // as a Ruby program does
	b.Idle()
	if b.Runs.Starts("a") != 0 {
		t.Error("a daemon on * took the job")
	}
	d := goworker.New(goworker.WorkerSettings{URI: b.Redis.URI(), QueuesString: "msgpack:*", Logger: daemontest.Quiet})
	defer d.Close()
	d.Register("Mark", func(string) {})
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no pattern finds a MessagePack queue") {
		t.Errorf("msgpack:*: %v", err)
	}
	if _, err := c.Enqueue(t.Context(), goworker.NewJob(goworker.MessagePack(""), "Mark", "a")); err == nil || !strings.Contains(err.Error(), "no name behind msgpack:") {
		t.Errorf("without a name: %v", err)
	}
	if _, err := c.Enqueue(t.Context(), job("Mark", "a"), goworker.ProcessIn(time.Hour), goworker.ResqueScheduler()); err == nil || !strings.Contains(err.Error(), "leave ResqueScheduler away") {
		t.Errorf("in resque-scheduler's schedule: %v", err)
	}
}

// Beside a pattern the queue is named, and both are worked.
func TestNamedBesidePattern(t *testing.T) {
	t.Parallel()
	b, c := setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "*," + calc })
	b.Start()
	enqueue(t, c, job("Mark", "a"))
	enqueue(t, c, goworker.NewJob("other", "Mark", "b"))
	b.Exactly(2)
	hidden(b)
}

// An operator lists, finds, moves, edits and removes jobs as in any queue.
func TestInspect(t *testing.T) {
	t.Parallel()
	b, c := setup(t)
	in := c.Inspect()
	for _, id := range []string{"a", "b", "c", "d"} {
		enqueue(t, c, job("Mark", id), goworker.WithID(id), goworker.WithResult(time.Hour))
	}
	enqueue(t, c, job("Nap", "e", 5))
	if all, err := in.Queues(t.Context()); err != nil || !slices.Equal(all, []string{calc}) {
		t.Errorf("Queues: %q, %v", all, err)
	}
	if n, err := in.QueueSize(t.Context(), calc); n != 5 || err != nil {
		t.Errorf("QueueSize: %d, %v", n, err)
	}
	if f, err := in.Fleet(t.Context()); err != nil || f.Pending != 5 {
		t.Errorf("Fleet: %+v, %v", f, err)
	}
	list, err := in.List(t.Context(), calc, "", 10)
	if err != nil || len(list.Jobs) != 5 || list.Jobs[0].Invalid != nil {
		t.Fatalf("List: %+v, %v", list, err)
	}
	if e := list.Jobs[0]; !strings.HasPrefix(string(e.Payload), `{"class":"Mark","args":["a"],`) || e.ID != "a" || e.Class != "Mark" {
		t.Errorf("the first is %+v", e)
	}
	find := func(q inspect.Query) []inspect.Entry {
		t.Helper()
		page, err := in.Find(t.Context(), q, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		return page.Jobs
	}
	for name, q := range map[string]inspect.Query{
		"id": {ID: "b"}, "class and args": {Class: "Mark", Args: []any{"b"}}, "ref": {Ref: list.Jobs[1].Ref}, "queue and id": {Queue: calc, ID: "b"},
	} {
		if found := find(q); len(found) != 1 || found[0].ID != "b" {
			t.Errorf("found by %s: %+v", name, found)
		}
	}
	if n, err := in.Remove(t.Context(), find(inspect.Query{ID: "b"})...); n != 1 || err != nil {
		t.Errorf("Remove: %d, %v", n, err)
	}
	if s, err := c.Status(t.Context(), "b"); err != nil || s.State != inspect.StateCancelled {
		t.Errorf("the removed one is %+v, %v", s, err)
	}
	if n, err := in.RunNow(t.Context(), inspect.Head, find(inspect.Query{ID: "d"})...); n != 1 || err != nil {
		t.Errorf("RunNow: %d, %v", n, err)
	}
	if e, err := in.Edit(t.Context(), find(inspect.Query{ID: "c"})[0], inspect.Edit{Args: []any{"edited"}}); err != nil || !strings.Contains(string(e.Payload), `["edited"]`) {
		t.Errorf("Edit: %+v, %v", e, err)
	}
	if n, err := in.Move(t.Context(), "mail", find(inspect.Query{ID: "a"})...); n != 1 || err != nil {
		t.Errorf("Move to Ruby's queue: %d, %v", n, err)
	}
	if q := b.Queue("mail"); len(q) != 1 || !strings.HasPrefix(q[0], `{"class":"Mark","args":["a"],`) {
		t.Errorf("in Ruby's queue: %q", q)
	}
	if n, err := in.Dequeue(t.Context(), &inspect.Job{Queue: calc, Class: "Nap", Args: []any{"e", 5}}); n != 1 || err != nil {
		t.Errorf("Dequeue: %d, %v", n, err)
	}
	b.Start()
	b.Eventually("the others run", func() bool { return b.Runs.Ends("d") == 1 && b.Runs.Ends("edited") == 1 })
	hidden(b)
	if err := in.RemoveQueue(t.Context(), calc); err != nil {
		t.Error(err)
	}
	if b.Redis.Int(t, "SCARD", names) != 0 {
		t.Error("the name is still there")
	}
	if err := in.RemoveQueue(t.Context(), goworker.MessagePack("no")); err == nil {
		t.Error("a queue that nothing knows was removed")
	}
}

// What Ruby's tools push under the queue's name comes home.
func TestAdoption(t *testing.T) {
	t.Parallel()
	b, _ := setup(t, func(s *goworker.WorkerSettings) { s.PollInterval = 50 * time.Millisecond })
	var all []string
	for i := range 1200 {
		all = append(all, daemontest.Jobs("Mark", 1200)[i])
	}
	b.PushTo(calc, all...)
	b.Start()
	b.Exactly(1200)
	hidden(b)
	b.PushTo(calc, daemontest.Job("Mark", "later"))
	b.Eventually("it comes home too", func() bool { return b.Runs.Ends("later") == 1 })
}

// While a process of an older release is in the fleet, jobs are refused with its name, and the queue is not worked.
func TestOlderRelease(t *testing.T) {
	t.Parallel()
	b, c := setup(t, func(s *goworker.WorkerSettings) { s.PollInterval = 50 * time.Millisecond })
	enqueue(t, c, job("Mark", "a"))
	id, gone := older(b)
	fresh, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if _, err := fresh.Enqueue(t.Context(), job("Mark", "b")); err == nil || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "does not know MessagePack queues") {
		t.Errorf("an older process: %v", err)
	}
	if _, err := fresh.Enqueue(t.Context(), goworker.NewJob("work", "Mark", "c")); err != nil {
		t.Errorf("another queue: %v", err)
	}
	b.Start()
	b.Eventually("the log names it", func() bool { return b.Log.Count("MessagePack queues are not worked") == 1 && b.Log.Count(id) > 0 })
	b.Eventually("another queue is worked", func() bool { return b.Runs.Ends("c") == 1 })
	if n := b.Redis.Int(t, "LLEN", list); n != 1 || b.Runs.Starts("a") != 0 {
		t.Errorf("%d jobs wait", n)
	}
	gone()
	b.Eventually("the queue is worked", func() bool { return b.Runs.Ends("a") == 1 })
	enqueue(t, fresh, job("Mark", "b"))
	b.Eventually("and jobs are taken again", func() bool { return b.Runs.Ends("b") == 1 })
}

// A fleet that goes back to Ruby has its jobs as JSON where Ruby reads. Items that are no jobs stay and are named.
func TestDrain(t *testing.T) {
	t.Parallel()
	b, c := setup(t)
	for _, id := range []string{"a", "b"} {
		enqueue(t, c, job("Mark", id))
	}
	enqueue(t, c, job("Mark", "later"), goworker.ProcessIn(time.Hour))
	b.Redis.Do(t, "RPUSH", list, "\x92\x01\x90")
	dry, err := c.DrainToResque(t.Context(), goworker.DrainDryRun(), goworker.DrainNow())
	if err != nil || dry.Own != 2 || dry.Queued != 1 {
		t.Errorf("dry: %+v, %v", dry, err)
	}
	report, err := c.DrainToResque(t.Context(), goworker.DrainNow())
	if err != nil || report.Own != 2 || len(report.Left) != 1 || report.Left[0].Key != list || report.Left[0].Jobs != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	want := []string{daemontest.Job("Mark", "a"), daemontest.Job("Mark", "b")}
	got := b.Redis.List(t, "LRANGE", rubysList, 0, -1)
	got = slices.DeleteFunc(got, func(raw string) bool { return strings.Contains(raw, `"later"`) })
	if !slices.Equal(got, want) || b.Redis.Int(t, "LLEN", rubysList) != 3 {
		t.Errorf("where Ruby reads: %q", got)
	}
	if b.Redis.Int(t, "SISMEMBER", "resque:queues", calc) != 1 || b.Redis.Int(t, "EXISTS", names) != 0 {
		t.Error("the names are not where they should be")
	}
}

// Keys that were removed, or hold another type, stop no other queue.
func TestKeysThatWereRemoved(t *testing.T) {
	t.Parallel()
	b, c := setup(t)
	b.Start()
	enqueue(t, c, job("Mark", "a"))
	b.Eventually("it runs", func() bool { return b.Runs.Ends("a") == 1 })
	b.Redis.Do(t, "DEL", names)
	enqueue(t, c, job("Mark", "b"))
	b.Eventually("the next runs", func() bool { return b.Runs.Ends("b") == 1 })
	if b.Redis.Int(t, "SISMEMBER", names, calc) != 1 {
		t.Error("the name is not back")
	}
	b.Redis.Do(t, "DEL", names)
	b.Redis.Do(t, "SET", names, "text")
	if _, err := c.Enqueue(t.Context(), job("Mark", "c")); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("names of another type: %v", err)
	}
	enqueue(t, c, job("Mark", "late"), goworker.ProcessIn(time.Millisecond))
	enqueue(t, c, goworker.NewJob("work", "Mark", "d"), goworker.ProcessIn(10*time.Millisecond))
	b.Eventually("delayed jobs of other queues run", func() bool { return b.Runs.Ends("d") == 1 })
	b.Redis.Do(t, "DEL", names)
	enqueue(t, c, job("Mark", "e"))
	b.Eventually("it runs", func() bool { return b.Runs.Ends("e") == 1 })
}

// As the user of the page on Redis.
func TestMinimalACL(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	server := redistest.Start(t)
	server.Do(t, "ACL", args("SETUSER", redistest.MinimalACL(t))...)
	b, c := setupOn(t, server, func(s *goworker.WorkerSettings) {
		s.URI = "redis://" + redistest.ACLUser + ":" + redistest.ACLPassword + "@" + server.Addr + "/0"
		s.PollInterval = 50 * time.Millisecond
	})
	b.Start()
	enqueue(t, c, job("Mark", "a"))
	b.PushTo(calc, daemontest.Job("Mark", "b"))
	enqueue(t, c, job("Mark", "c"), goworker.ProcessIn(10*time.Millisecond))
	b.Exactly(3)
	hidden(b)
}

func args(first string, rest []string) []any {
	all := []any{first}
	for _, a := range rest {
		all = append(all, a)
	}
	return all
}
