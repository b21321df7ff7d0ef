package gateway_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque/leases"
)

func ackOf(j gateway.Job) gateway.Ack { return gateway.Ack{Queue: j.Queue, ID: j.ID, Lease: j.Lease} }

// one reserves the one job of a queue.
func one(t *testing.T, g *gateway.Gateway, queue string) gateway.Job {
	t.Helper()
	jobs := reserve(t, g, long, 1, queue)
	if len(jobs) != 1 {
		t.Fatalf("%+v", jobs)
	}
	return jobs[0]
}

func expect(t *testing.T, what string, w gateway.What, err error, want gateway.What) {
	t.Helper()
	if err != nil || w != want {
		t.Errorf("%s: %q, %v; want %q", what, w, err, want)
	}
}

func TestNackAndFail(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	p := body("mail", "ada")
	p.Tries = 3
	id := publish(t, g, p)[0]
	j := one(t, g, "mail")
	w, err := g.Nack(t.Context(), ackOf(j), 0, "no luck")
	expect(t, "the nack", w, err, gateway.Acked)
	w, err = g.Nack(t.Context(), ackOf(j), 0, "no luck")
	expect(t, "a nack of what went back", w, err, gateway.Back)
	again := one(t, g, "mail")
	if again.ID != id || again.Attempt != 2 || again.Tries != 3 {
		t.Errorf("%+v", again)
	}
	w, err = g.Nack(t.Context(), ackOf(j), 0, "")
	expect(t, "a nack with an old lease", w, err, gateway.Changed)
	w, err = g.GiveBack(t.Context(), ackOf(again))
	expect(t, "giving it back", w, err, gateway.Acked)
	again = one(t, g, "mail")
	if again.Attempt != 2 {
		t.Errorf("%+v", again)
	}
	lease, w, err := g.Touch(t.Context(), ackOf(again), time.Hour)
	expect(t, "a touch", w, err, gateway.Acked)
	_, w, err = g.Touch(t.Context(), ackOf(again), time.Hour)
	expect(t, "a touch with an old lease", w, err, gateway.Changed)
	again.Lease = lease
	w, err = g.Fail(t.Context(), ackOf(again), "hopeless")
	expect(t, "the fail", w, err, gateway.Acked)
	r, n, err := g.DeadPeek(t.Context(), "mail")
	if err != nil || n != 1 || r.ID != id || !strings.Contains(r.Error, "hopeless") {
		t.Errorf("%+v, %d, %v", r, n, err)
	}
	w, err = g.Fail(t.Context(), ackOf(again), "hopeless")
	expect(t, "another fail", w, err, gateway.Dead)
	moved, err := g.Respawn(t.Context(), "mail", 10, time.Hour)
	if err != nil || moved != 1 {
		t.Errorf("respawned %d, %v", moved, err)
	}
	if back := one(t, g, "mail"); back.ID != id || back.Attempt != 1 || back.Tries != 1 || back.Parsed.ExpiresAt == 0 {
		t.Errorf("%+v", back)
	}
}

// What is acknowledged late ends as done when the same bytes are taken again; when it was filed, its record goes.
func TestLateAck(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	p := body("mail", "ada")
	p.Tries = 2
	publish(t, g, p)
	j := one(t, g, "mail")
	if w, err := g.Nack(t.Context(), ackOf(j), 0, ""); err != nil || w != gateway.Acked {
		t.Fatal(w, err)
	}
	j.Lease = ""
	if w := ack(t, g, j); w != gateway.Back {
		t.Errorf("late: %s", w)
	}
	if w := ack(t, g, j); w != gateway.Late {
		t.Errorf("later: %s", w)
	}
	publish(t, g, body("mail", "bob"))
	next := one(t, g, "mail")
	if string(next.Parsed.Args[0]) != `"bob"` {
		t.Errorf("%+v", next)
	}
	redistest.Eventually(t, long, "the first has ended", func() bool { return s.Int(t, "HLEN", "resque:go:leased") == 1 })
	if w, err := g.Fail(t.Context(), ackOf(next), "no"); err != nil || w != gateway.Acked {
		t.Fatal(w, err)
	}
	if w := ack(t, g, next); w != gateway.Dead {
		t.Errorf("after it was filed: %s", w)
	}
	if _, n, err := g.DeadPeek(t.Context(), "mail"); err != nil || n != 0 {
		t.Errorf("%d dead letters, %v", n, err)
	}
}

// An id that its producer chose again is a job of its own, whatever became of the one before.
func TestOwnID(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	p := body("mail", "ada")
	p.ID, p.Chosen = "nightly", true
	publish(t, g, p)
	j := one(t, g, "mail")
	if _, err := g.Publish(t.Context(), p); !errors.Is(err, gateway.ErrExists) {
		t.Errorf("while a consumer has it: %v", err)
	}
	var of *gateway.PublicationError
	if _, err := g.Publish(t.Context(), body("mail", "bob"), p); !errors.As(err, &of) || of.N != 1 || !errors.Is(err, gateway.ErrExists) {
		t.Errorf("the second of two: %v", err)
	}
	if n := len(waiting(t, s, "mail")); n != 0 {
		t.Errorf("%d jobs were published", n)
	}
	if w, err := g.GiveBack(t.Context(), ackOf(j)); err != nil || w != gateway.Acked {
		t.Fatal(w, err)
	}
	s.Do(t, "LPOP", "resque:queue:mail") // a worker
	j.Lease = ""
	if w := ack(t, g, j); w != gateway.Unknown {
		t.Errorf("late: %s", w)
	}
	publish(t, g, p)
	again := one(t, g, "mail")
	if again.ID != "nightly" {
		t.Errorf("%+v", again)
	}
	w, err := g.Fail(t.Context(), ackOf(again), "no luck")
	expect(t, "a failure", w, err, gateway.Acked)
	p.Args = json.RawMessage(`["bob"]`)
	publish(t, g, p)
	again = one(t, g, "mail")
	for _, want := range []gateway.What{gateway.Acked, gateway.Unknown} { // the dead letter is of the job before
		if w := ack(t, g, again); w != want {
			t.Errorf("%s, want %s", w, want)
		}
	}
	if n := s.Int(t, "LLEN", "resque:mail_failed"); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

// A job with a lock, one with a result, one with a priority, and ends that have effects.
func TestEffects(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	p := body("mail", "ada")
	p.Unique, p.Result = &gateway.Unique{}, time.Hour
	p.Args = json.RawMessage(`[{"a" : 1}]`)
	id := publish(t, g, p)[0]
	var held *producer.Duplicate
	if _, err := g.Publish(t.Context(), p); !errors.As(err, &held) || held.ID != id {
		t.Errorf("another one: %v", err)
	}
	j := one(t, g, "mail")
	if string(j.Parsed.Args[0]) != `{"a" : 1}` || j.ID != id {
		t.Errorf("%s", j.Payload)
	}
	if _, err := g.Publish(t.Context(), p); !errors.As(err, &held) {
		t.Errorf("another one while a consumer has it: %v", err)
	}
	w, err := g.AckResult(t.Context(), ackOf(j), json.RawMessage(`{"sent":true}`))
	expect(t, "the acknowledgement", w, err, gateway.Acked)
	if got := s.Text(t, "HGET", "resque:go:result:"+leases.Place("mail", id), "result"); got != `{"sent":true}` {
		t.Errorf("the result: %q", got)
	}
	publish(t, g, p)
	if w := ack(t, g, one(t, g, "mail")); w != gateway.Acked {
		t.Errorf("an acknowledgement with effects: %s", w)
	}
	low, high := body("mail", "low"), body("mail", "high")
	high.Priority = 2
	publish(t, g, low)
	publish(t, g, high)
	if j := one(t, g, "mail"); string(j.Parsed.Args[0]) != `"high"` {
		t.Errorf("%s", j.Payload)
	}
}

// A job whose id other fields follow is given with its own id all the same.
func TestMisplacedID(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	s.Do(t, "RPUSH", "resque:queue:mail", `{"class":"C","args":[],"unique":"done x","id":"own","retry_id":"r"}`)
	j := one(t, g, "mail")
	if j.ID != "own" || !strings.HasSuffix(string(j.Payload), `,"id":"own"}`) {
		t.Errorf("%s: %s", j.ID, j.Payload)
	}
	if w := ack(t, g, j); w != gateway.Acked {
		t.Error(w)
	}
}

// A job with an own id that was used before is found, and given although a job of this id was cancelled before it came.
func TestOwnIDAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	own := body("mail", "nightly")
	own.ID, own.Chosen = "report", true
	for range 2 {
		publish(t, g, own)
		redistest.Eventually(t, long, "it is found", func() bool { // a queue rests from a search
			f, err := g.Find(t.Context(), "mail", "report")
			return err == nil && f.State == gateway.Ready
		})
		one(t, g, "mail")
		if w, err := g.Ack(t.Context(), gateway.Ack{Queue: "mail", ID: "report"}); err != nil || w[0] != gateway.Acked {
			t.Fatal(w, err)
		}
		redistest.Eventually(t, long, "it is cancelled", func() bool {
			w, err := g.Cancel(t.Context(), "mail", "report", true)
			return err == nil && w == gateway.Unknown && s.Int(t, "ZCARD", "resque:go:cancelled") == 1
		})
	}
}

func TestRepublish(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	publish(t, g, body("mail", "ada"))
	j := one(t, g, "mail")
	id, _, err := g.Republish(t.Context(), leases.Once{}, "mail", j.ID, body("post", "bob"))
	if err != nil || id == j.ID {
		t.Fatal(id, err)
	}
	if w := ack(t, g, j); w != gateway.Unknown {
		t.Errorf("the old one: %s", w)
	}
	later := body("mail", "eve")
	later.Delay = time.Hour
	if _, _, err := g.Republish(t.Context(), leases.Once{}, "post", id, later); err != nil { // it waits
		t.Fatal(err)
	}
	if n := s.Int(t, "LLEN", "resque:queue:post"); n != 0 {
		t.Errorf("%d jobs wait", n)
	}
	if n := s.Int(t, "ZCARD", "resque:go:schedule"); n != 1 {
		t.Errorf("%d jobs are delayed", n)
	}
	bad := body("mail", "x")
	bad.Tries = -1
	if _, _, err := g.Republish(t.Context(), leases.Once{}, "mail", j.ID, bad); err == nil {
		t.Error("a bad one was published")
	}
}

func TestFindAndCancel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	ready := publish(t, g, body("mail", "ready"))[0]
	p := body("mail", "later")
	p.Delay = time.Hour
	delayed := publish(t, g, p)[0]
	p = body("mail", "at")
	p.At, p.ID, p.Chosen = time.Now().Add(time.Hour), "own", true
	publish(t, g, p)
	publish(t, g, body("held", "held"))
	held := one(t, g, "held")
	find := func(queue, id string) (f gateway.Found) {
		t.Helper()
		redistest.Eventually(t, long, "the queue does not rest", func() bool {
			var err error
			f, err = g.Find(t.Context(), queue, id)
			return !errors.Is(err, gateway.ErrResting)
		})
		return f
	}
	for id, want := range map[string]gateway.State{ready: gateway.Ready, delayed: gateway.Delayed, "own": gateway.Delayed, "none": ""} {
		if f := find("mail", id); f.State != want || want != "" && f.ID != id {
			t.Errorf("%s: %+v, want %s", id, f, want)
		}
	}
	if f := find("held", held.ID); f.State != gateway.Reserved || f.Lease != held.Lease {
		t.Errorf("%+v", f)
	}
	cancel := func(queue, id string, force bool) (w gateway.What, err error) {
		t.Helper()
		redistest.Eventually(t, long, "the queue does not rest", func() bool {
			w, err = g.Cancel(t.Context(), queue, id, force)
			return !errors.Is(err, gateway.ErrResting)
		})
		return w, err
	}
	for _, id := range []string{ready, delayed, "own"} {
		w, err := cancel("mail", id, false)
		expect(t, "cancelling "+id, w, err, gateway.Acked)
	}
	searches := g.Stats().Searches
	if _, err := g.Find(t.Context(), "mail", ready); !errors.Is(err, gateway.ErrNoJob) || g.Stats().Searches != searches {
		t.Errorf("one that ended here is searched for: %v", err)
	}
	if _, err := cancel("held", held.ID, false); !errors.Is(err, gateway.ErrReserved) {
		t.Errorf("one that a consumer has: %v", err)
	}
	w, err := cancel("held", held.ID, true)
	expect(t, "by force", w, err, gateway.Acked)
	w, err = cancel("mail", "none", false)
	expect(t, "one that is not there", w, err, gateway.Unknown)
	if n := s.Int(t, "EXISTS", "resque:queue:mail", "resque:go:schedule", "resque:go:leases", "resque:go:leased"); n != 0 {
		t.Errorf("%d keys of jobs are left", n)
	}
	w, err = cancel("mail", "to-come", true)
	expect(t, "one that may come", w, err, gateway.Unknown)
	redistest.Eventually(t, long, "a job that was cancelled before it came is passed over", func() bool { // Redis notifies the desk a little later
		s.Do(t, "RPUSH", "resque:queue:mail", `{"class":"C","args":[],"id":"to-come"}`, `{"class":"C","args":[],"id":"other"}`)
		j := one(t, g, "mail")
		if j.ID != "other" {
			for _, id := range []string{j.ID, one(t, g, "mail").ID} {
				if _, err := g.Ack(t.Context(), gateway.Ack{Queue: "mail", ID: id}); err != nil {
					t.Error(err)
				}
			}
		}
		return j.ID == "other"
	})
}

// A queue that one server has searched rests for all servers.
func TestSearchRestsEverywhere(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	one, other := start(t, s.URI()), start(t, s.URI())
	var many []gateway.Publication
	for range 5000 {
		many = append(many, body("mail", "x"))
	}
	publish(t, one, many...)
	redistest.Eventually(t, long, "a queue rests after a search", func() bool {
		if _, err := one.Find(t.Context(), "mail", "none"); !errors.Is(err, gateway.ErrNoJob) && !errors.Is(err, gateway.ErrResting) {
			t.Fatal(err)
		}
		rest := s.Int(t, "PTTL", "resque:go:http:rest:mail")
		if rest > 8000 {
			t.Fatalf("it rests for %d ms, which is how long a search may take whose server died", rest)
		}
		return rest > 0
	})
	s.Do(t, "SET", "resque:go:http:rest:mail", "1", "PX", 600_000)
	if _, err := other.Find(t.Context(), "mail", "none"); !errors.Is(err, gateway.ErrResting) {
		t.Errorf("the other server's search: %v", err)
	}
	if n := other.Stats().Searches; n != 0 {
		t.Errorf("the other server made %d searches", n)
	}
	s.Do(t, "DEL", "resque:go:http:rest:mail")
	redistest.Eventually(t, long, "the other server searches", func() bool {
		_, err := other.Find(t.Context(), "mail", "none")
		return errors.Is(err, gateway.ErrNoJob)
	})
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	redistest.Eventually(t, long, "a Redis without memory is searched", func() bool {
		_, err := one.Find(t.Context(), "mail", "none")
		return errors.Is(err, gateway.ErrNoJob)
	})
}

func TestLooks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g := start(t, s.URI())
	gone := body("mail", "gone")
	gone.TTL = time.Millisecond
	publish(t, g, gone)
	publish(t, g, body("mail", "ada"), body("mail", "bob"))
	later := body("mail", "later")
	later.Delay = time.Hour
	publish(t, g, later)
	redistest.Eventually(t, long, "the first is expired", func() bool {
		j, there, err := g.Peek(t.Context(), "mail")
		return err == nil && there && string(j.Parsed.Args[0]) == `"ada"`
	})
	if j := one(t, g, "mail"); string(j.Parsed.Args[0]) != `"ada"` {
		t.Errorf("%s", j.Payload)
	}
	redistest.Eventually(t, long, "the expired one has ended", func() bool { return s.Int(t, "ZCARD", "resque:go:leases") == 1 })
	sizes, err := g.Sizes(t.Context(), "mail", "none")
	if err != nil || len(sizes) != 2 || sizes[0].Ready != 1 || sizes[0].Reserved != 1 || sizes[0].OldestReadyMs == 0 || sizes[1].Ready != 0 {
		t.Errorf("%+v, %v", sizes, err)
	}
	for state, want := range map[gateway.State]int{gateway.Ready: 1, gateway.Reserved: 1, gateway.Delayed: 1} {
		if p, err := g.Jobs(t.Context(), "mail", state, 10, ""); err != nil || len(p.Jobs) != want || p.Next != "" {
			t.Errorf("%s: %+v, %v", state, p, err)
		}
	}
	if _, err := g.Jobs(t.Context(), "mail", gateway.Ready, 10, "?"); !errors.Is(err, leases.ErrPage) {
		t.Errorf("a page that is none: %v", err)
	}
	if names, err := g.Queues(t.Context()); err != nil || len(names) != 1 || names[0] != "mail" {
		t.Errorf("%v, %v", names, err)
	}
	if err := g.Destroy(t.Context(), "mail"); err != nil {
		t.Fatal(err)
	}
	if n := s.Int(t, "EXISTS", "resque:queue:mail", "resque:go:schedule", "resque:go:leases", "resque:go:leased"); n != 0 {
		t.Errorf("%d keys of jobs are left", n)
	}
}
