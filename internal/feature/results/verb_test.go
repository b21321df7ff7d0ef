package results

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// wire is a Redis with a process that has three jobs in hand.
type wire struct {
	t       *testing.T
	server  *redistest.Server
	c       redis.Conn
	store   resque.Store
	process resque.Process
	jobs    []resque.Reserved
}

const documentKey = "resque:go:result:i"

func newWire(t *testing.T) *wire {
	t.Helper()
	server := redistest.Start(t)
	w := &wire{t: t, server: server, c: server.Dial(t), store: resque.New("")}
	w.process = resque.Process{ID: "host:1:aaaaaaaa", Host: "host", PID: 1, Concurrency: 3, IDHead: "host.go:1-", IDQueues: "q", Queues: "q"}
	if err := w.store.Enter(w.c, w.process, 8*time.Second, time.Now()); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "RPUSH", "resque:queue:q", "1", "2", "3")
	w.jobs = w.exchange(resque.Exchange{Want: 3, Asks: []resque.Ask{{Queue: "q"}}}).Jobs
	if len(w.jobs) != 3 {
		t.Fatalf("the jobs are %v", w.jobs)
	}
	return w
}

func (w *wire) exchange(x resque.Exchange) resque.Exchanged {
	w.t.Helper()
	x.Process, x.Epoch = w.process.ID, 1
	if err := w.store.Send(w.c, &x); err != nil {
		w.t.Fatal(err)
	}
	out, err := w.store.Receive(w.c, &x)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *wire) document() map[string]string {
	w.t.Helper()
	m, err := redis.StringMap(w.c.Do("HGETALL", documentKey))
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *wire) logs() []string { return w.server.List(w.t, "LRANGE", "resque:go:logs:i", 0, -1) }

// end is the row of an end.
func (w *wire) end(e resque.EndOfDocument) []resque.Effect {
	if e.TTL == 0 {
		e.TTL = 60_000
	}
	e.Process = w.process.ID
	return []resque.Effect{resultVerb.Effect(w.store.DocumentKeys("i", true), e.Args()...).Soft()}
}

// The verb writes under each guard of a commit, and goes with the ticket.
func TestVerbUnderEachGuard(t *testing.T) {
	t.Parallel()
	failed := resque.EndOfDocument{
		State: "failed", Over: true, Try: `{"attempt":1}`,
		Note: resque.Note{Ticket: 1, Begun: []any{"error", "no luck", "ended", 5}, Progress: []byte("half"), Lines: [][]byte{[]byte("a"), []byte("b")}},
	}
	want := map[string]string{"state": "failed", "error": "no luck", "ended": "5", "tries": "1", "t1": `{"attempt":1}`, "log_bytes": "2", "logged": "host:1:aaaaaaaa:1 2", "class": "C"}
	for guard, commit := range map[string]func(w *wire) error{
		"process": func(w *wire) error {
			out := w.exchange(resque.Exchange{Ended: []resque.Ended{{Ticket: 1, Effects: w.end(failed)}}})
			if len(out.Refused) > 0 || len(out.Broken) > 0 {
				return fmt.Errorf("%v, %v", out.Refused, out.Broken)
			}
			return nil
		},
		"dead": func(w *wire) error {
			if fenced, err := w.store.Fence(w.c, w.process.ID, w.server.Text(w.t, "ZSCORE", "resque:go:processes", w.process.ID)); !fenced {
				return fmt.Errorf("not fenced: %v", err)
			}
			_, err := w.store.Recover(w.c, w.process, 3, time.Now(), func(d resque.DeadJob) []resque.Effect {
				if d.Ticket == 1 {
					return append(w.store.Head(d.Reserved), w.end(failed)...)
				}
				return w.store.Head(d.Reserved)
			})
			return err
		},
		"lease": func(w *wire) error {
			w.server.Do(w.t, "HSET", "resque:go:leased", "place", "1:qx")
			w.server.Do(w.t, "ZADD", "resque:go:leases", 7, "place")
			out, err := w.store.CommitLeased(w.c, []resque.Ended{{Place: "place", Effects: append(w.store.EndLease("place", "7"), w.end(failed)...)}})
			if err == nil && len(out.Refused) > 0 {
				err = fmt.Errorf("%v", out.Refused)
			}
			return err
		},
	} {
		t.Run(guard, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.server.Do(t, "HSET", documentKey, "state", "running", "class", "C", "due", 1, "result", "old")
			if err := commit(w); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, w.document()); diff != "" {
				t.Errorf("the document (-want +got):\n%s", diff)
			}
			if !slices.Equal(w.logs(), []string{"a", "b"}) || w.server.Text(t, "GET", "resque:go:progress:i") != "half" {
				t.Errorf("the lines are %q", w.logs())
			}
			for _, key := range []string{documentKey, "resque:go:logs:i", "resque:go:progress:i"} {
				if ttl := w.server.Int(t, "PTTL", key); ttl <= 0 || ttl > 60_000 {
					t.Errorf("%s stays %d ms", key, ttl)
				}
			}
		})
	}
}

// A document that is not there stays so, and one that says cancelled goes on to say so while the job is not over.
func TestVerbLeaves(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		before, want map[string]string
		end          resque.EndOfDocument
	}{
		{"forgotten", nil, map[string]string{}, resque.EndOfDocument{State: "done", Over: true, Note: resque.Note{Progress: []byte("x"), Lines: [][]byte{[]byte("a")}}}},
		{"another program's hash", map[string]string{"a": "b"}, map[string]string{"a": "b"}, resque.EndOfDocument{State: "done", Over: true}},
		{"cancelled, and retried", map[string]string{"state": "cancelled", "was": "running"}, map[string]string{"state": "cancelled", "was": "retrying"}, resque.EndOfDocument{State: "retrying"}},
		{"cancelled, and done", map[string]string{"state": "cancelled", "was": "running"}, map[string]string{"state": "done"}, resque.EndOfDocument{State: "done", Over: true}},
		{"cancelled, and over", map[string]string{"state": "cancelled", "was": "running"}, map[string]string{"state": "cancelled", "ended": "1"}, resque.EndOfDocument{State: "cancelled", Over: true, Note: resque.Note{Begun: []any{"ended", 1}}}},
		{"odd numbers", map[string]string{"state": "running", "tries": "many", "log_bytes": "few"}, map[string]string{"state": "failed", "tries": "1", "t1": "{}", "log_bytes": "1", "logged": "host:1:aaaaaaaa:0 1"},
			resque.EndOfDocument{State: "failed", Over: true, Try: "{}", Note: resque.Note{Lines: [][]byte{[]byte("a")}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			for field, value := range tt.before {
				w.server.Do(t, "HSET", documentKey, field, value)
			}
			if out := w.exchange(resque.Exchange{Ended: []resque.Ended{{Ticket: 1, Effects: w.end(tt.end)}}}); len(out.Broken)+len(out.Refused) > 0 {
				t.Errorf("refused: %v, %v", out.Refused, out.Broken)
			}
			if diff := cmp.Diff(tt.want, w.document()); diff != "" {
				t.Errorf("the document (-want +got):\n%s", diff)
			}
			if tt.before == nil && w.server.Int(t, "EXISTS", "resque:go:progress:i", "resque:go:logs:i") != 0 {
				t.Error("a forgotten document has progress or lines")
			}
		})
	}
}

// A note of a job that the process does not hold changes nothing, and neither does one without a document. Lines that
// come twice are written once, also if they come with the end.
func TestNotes(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	note := resque.Note{ID: "i", Ticket: 1, TTL: 50_000, Begun: []any{"attempt", 1}, Progress: []byte("half"), Lines: [][]byte{[]byte("a"), []byte("b")}}
	write := func(n ...resque.Note) {
		t.Helper()
		if err := w.store.WriteNotes(w.c, w.process.ID, n); err != nil {
			t.Fatal(err)
		}
	}
	write(note)
	if w.server.Int(t, "EXISTS", documentKey, "resque:go:progress:i", "resque:go:logs:i") != 0 {
		t.Error("a note wrote without a document")
	}
	w.server.Do(t, "HSET", documentKey, "state", "failed", "ended", 1, "due", 2, "result", 3, "left", 4)
	before := w.document()
	stray, other := note, note
	stray.Ticket = 9
	other.ID, other.Ticket = "other", 2
	write(stray)
	if !maps.Equal(before, w.document()) || len(w.logs()) > 0 {
		t.Errorf("a note of a job that the process does not hold wrote %v", w.document())
	}
	w.server.Do(t, "SET", "resque:go:result:wrong", "x")
	wrong := note
	wrong.ID, wrong.Ticket = "wrong", 3
	w.server.Do(t, "HSET", "resque:go:result:other", "state", "cancelled")
	write(wrong, note, other)
	want := map[string]string{"state": "running", "attempt": "1", "log_bytes": "2", "logged": "host:1:aaaaaaaa:1 2"}
	if diff := cmp.Diff(want, w.document()); diff != "" {
		t.Errorf("the document (-want +got):\n%s", diff)
	}
	if got := w.server.List(t, "HMGET", "resque:go:result:other", "state", "was"); !slices.Equal(got, []string{"cancelled", "running"}) {
		t.Errorf("the document of a cancelled job says %q", got)
	}
	for _, key := range []string{documentKey, "resque:go:logs:i", "resque:go:progress:i"} {
		if ttl := w.server.Int(t, "PTTL", key); ttl <= 0 || ttl > 50_000 {
			t.Errorf("%s stays %d ms", key, ttl)
		}
	}
	write(note) // its answer was lost
	w.exchange(resque.Exchange{Ended: []resque.Ended{{Ticket: 1, Effects: w.end(resque.EndOfDocument{
		State: "done", Over: true, Note: resque.Note{Ticket: 1, Before: 1, Lines: [][]byte{[]byte("b"), []byte("c")}},
	})}}})
	if got := w.logs(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the lines are %q", got)
	}
	write(note)
	if got := w.document()["state"]; got != "done" || len(w.logs()) != 3 {
		t.Errorf("after a late note the state is %q", got)
	}
}
