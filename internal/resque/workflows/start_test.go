package workflows

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// full is a plan that has all that Start writes.
func full(w *wire) *Plan {
	p := chain("w")
	p.Name, p.Deadline, p.Keep, p.Lock, p.Meta = "nightly", time.Minute, 2*time.Hour, "report", []byte(`{"a":"b"}`)
	p.Jobs = append(p.Jobs, Job{Step: 1, Queue: "high", Payload: []byte("later"), Delay: time.Hour})
	p.Hashes = []resque.NewHash{
		{Keys: []string{w.s.KeyOfResult("w.0")}, TTL: 60000, Fields: []any{"state", "pending"}},
		{Keys: []string{w.s.KeyOfResult("w.1"), w.s.KeyOfProgress("w.1")}, TTL: 60000, Fields: []any{"state", "pending", "ttl", 5}},
	}
	return p
}

func TestStart(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.do("SET", w.s.KeyOfProgress("w.1"), "old")
	w.do("HSET", w.s.KeyOfResult("w"), "state", "done", "result", "7")
	w.do("SET", w.s.LettersKey("w"), "of an earlier one, longer than it")
	w.start(full(w))
	for name, want := range map[string]string{
		"id": "w", "state": "running", "name": "nightly", "meta": `{"a":"b"}`, "lock": "report", "deadline": "60000", "keep": "7200000",
		"j0": "1 0 0 j 0 0 - - - -", "result": "v 2", "open": "", "next": "",
	} {
		w.same(name, want, w.field("w", name))
	}
	w.same("letters", "swwbh", w.letters("w"))
	var began, until, score int
	fmt.Sscan(w.field("w", "began")+" "+w.field("w", "until")+" "+w.server.Text(t, "ZSCORE", w.s.IndexKey(), "w"), &began, &until, &score)
	if until != began+60000 || score != until || time.Since(time.UnixMilli(int64(began))).Abs() > time.Minute {
		t.Errorf("began %d, until %d, looked at %d", began, until, score)
	}
	w.same("document", map[string]string{"state": "running", "workflow": "nightly", "enqueued": "then", "ttl": "7200000"}, w.document("w"))
	w.same("it stays", -1, w.server.Int(t, "PTTL", w.s.KeyOfResult("w")))
	w.same("lock", "w", w.server.Text(t, "GET", w.s.LockKey("report")))
	w.same("queues", []string{"low"}, w.server.List(t, "SMEMBERS", w.s.NamesKey("")))
	w.same("jobs", 1, w.server.Int(t, "LLEN", w.s.QueueKey("low")))
	w.same("schedule", []string{"4:highlater"}, w.server.List(t, "ZRANGE", w.s.ScheduleKey(), 0, -1))
	w.same("progress", 0, w.server.Int(t, "EXISTS", w.s.KeyOfProgress("w.1")))
	w.same("document of a step", []string{"state", "pending", "ttl", "5"}, w.server.List(t, "HGETALL", w.s.KeyOfResult("w.1")))
	if ms := w.server.Int(t, "PTTL", w.s.KeyOfResult("w.0")); ms <= 0 || ms > 60000 {
		t.Errorf("the document of a step goes in %d ms", ms)
	}

	before := w.server.Dump(t, "")
	again, err := w.s.Start(w.c, full(w)) // the reply was lost
	w.must(err)
	w.same("again", Started{}, again)
	w.same("keys", before, w.server.Dump(t, ""))
}

func TestStartNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(&Plan{ID: "w", Fields: []any{"j0", "0 0 0 j 0 0 - - - -", "result", "v []"}, Keep: time.Minute})
	w.state("w", "done")
	w.same("result", "[]", w.document("w")["result"])
	w.same("index", 0, w.server.Int(t, "ZCARD", w.s.IndexKey()))
	if ms := w.server.Int(t, "PTTL", w.s.WorkflowKey("w")); ms <= 0 || ms > 60000 {
		t.Errorf("the workflow goes in %d ms", ms)
	}
}

// A key of the wrong type, whichever it is, leaves nothing written.
func TestStartWrongType(t *testing.T) {
	t.Parallel()
	s := New(resque.New(""))
	for _, key := range []string{
		s.LettersKey("w").String(), s.WorkflowKey("w").String(), s.IndexKey().String(), s.KeyOfResult("w"), s.NamesKey("").String(),
		s.ScheduleKey().String(), s.LockKey("report").String(), s.KeyOfQueue("low"), s.KeyOfResult("w.0"), s.KeyOfResult("w.1"),
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.spoil(key)
			before := w.server.Dump(t, "")
			got, err := w.s.Start(w.c, full(w))
			if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || !strings.Contains(err.Error(), key) {
				t.Errorf("Start: %+v, %v", got, err)
			}
			w.same("keys", before, w.server.Dump(t, ""))
			w.do("DEL", key)
			w.start(full(w))
		})
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(batch("b"))
	a, piece := client("b"), members("b", 2, 2)
	at, err := w.s.Reserve(w.c, a, 2, 0, 0)
	w.must(err)
	w.do("CONFIG", "SET", "maxmemory", "1")
	before := w.server.Dump(t, "")
	calls := map[string]func() error{
		"Start":   func() error { _, err := w.s.Start(w.c, full(w)); return err },
		"Reserve": func() error { _, err := w.s.Reserve(w.c, Adder{"b", 1, "other", -1}, 2, 0, 0); return err },
		"Add":     func() error { _, err := w.s.Add(w.c, a, at, Added{Count: 2, Hash: "h"}, piece); return err },
		"Close":   func() error { _, err := w.s.Close(w.c, "b"); return err },
	}
	for name, call := range calls {
		if err := call(); err == nil || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("%s: %v", name, err)
		}
		w.same(name+" wrote", before, w.server.Dump(t, ""))
	}
	w.do("CONFIG", "SET", "maxmemory", "0")
	for _, name := range []string{"Start", "Reserve", "Add", "Close"} {
		if err := calls[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnique(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	plan := func(id string) *Plan { p := chain(id); p.Lock = "n"; return p }
	w.start(plan("a"))
	before := w.server.Dump(t, "")
	got, err := w.s.Start(w.c, plan("b"))
	w.must(err)
	w.same("a second one", Started{Holder: "a"}, got)
	w.same("keys", before, w.server.Dump(t, ""))
	for n := range 3 {
		w.end(fmt.Sprint("C", n), Done, "")
	}
	w.state("a", "done")
	w.start(plan("b"))
	w.do("DEL", w.s.WorkflowKey("b"))
	w.start(plan("c"))
	w.do("HSET", w.s.WorkflowKey("c"), "state", "retrying")
	got, err = w.s.Start(w.c, plan("d"))
	w.must(err)
	w.same("beside one that is retried", Started{Holder: "c"}, got)
	w.do("HSET", w.s.WorkflowKey("c"), "state", "failed")
	w.start(plan("d"))
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	many := members("w", 0, MostSent+1)
	large := chain("w")
	large.Jobs[0].Payload = make([]byte, MostBytes)
	for _, p := range []*Plan{many, large} {
		if _, err := w.s.Start(w.c, p); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Start: %v", err)
		}
		if _, err := w.s.Add(w.c, client("w"), Added{}, Added{}, p); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Add: %v", err)
		}
	}
}

// batch is an open batch without members. Its callback is step 1; letter 0 is the branch, 2 and 3 are reserved later.
func batch(id string) *Plan {
	return &Plan{ID: id, Letters: []byte("bw"), Open: true, OpenJoin: 1, Fields: []any{
		"j0", "1 0 0 j 0 0 - - - -", "j1", "1 0 0 j 1 1 0 0 - -",
		"s1", stepOf{1, "low", "0 0 - - - 1 -", ""}.template(id, "s n - 0 0"), "rest", "1", "p0", "- - -",
	}}
}

// members are steps of an open batch, from a number on.
func members(id string, first, n int) *Plan {
	p := &Plan{ID: id, Letters: []byte(strings.Repeat("s", n)), Members: n}
	for i := range n {
		p.Jobs = append(p.Jobs, stepOf{first + i, "low", "1 - - 0 - 0 low", ""}.job(id))
	}
	return p
}

func client(id string) Adder { return Adder{Workflow: id, Join: 1, Step: -1} }

func TestBatch(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(batch("w"))
	a := client("w")
	have, err := w.s.Reserve(w.c, a, 3, 2, 1)
	w.must(err)
	want := Added{Hash: "-", State: "running", First: 2, FirstJoin: 2, FirstScope: 1}
	w.same("reserved", want, have)
	have, err = w.s.Reserve(w.c, a, 3, 2, 1)
	w.must(err)
	w.same("reserved again", want, have)

	behind := Added{Count: 3, Hash: "abc"}
	piece := members("w", 2, 3)
	piece.Fields = []any{"n:x", 2}
	piece.Hashes = []resque.NewHash{{Keys: []string{w.s.KeyOfResult("w.2")}, TTL: 60000, Fields: []any{"state", "pending"}}}
	added, err := w.s.Add(w.c, a, have, behind, piece)
	w.must(err)
	w.same("added", Added{Count: 3, Hash: "abc", State: "running"}, added)
	before := w.server.Dump(t, "resque:")
	added, err = w.s.Add(w.c, a, have, behind, piece)
	w.must(err)
	w.same("added again", Added{Count: 3, Hash: "abc", State: "running"}, added)
	w.same("keys", before, w.server.Dump(t, "resque:"))
	w.same("letters", "bwsss", w.letters("w"))
	w.same("join", "4 0 0 j 1 1 0 0 - -", w.field("w", "j1"))
	w.same("name", "2", w.field("w", "n:x"))

	for n := 2; n < 5; n++ {
		w.end(fmt.Sprint("C", n), Done, "")
	}
	w.none("C1")
	for range 2 {
		state, err := w.s.Close(w.c, "w")
		w.must(err)
		w.same("state", "running", state)
	}
	w.end("C1", Done, "")
	w.state("w", "done")
	for name, err := range map[string]error{"reserve": second(w.s.Reserve(w.c, a, 1, 0, 0)), "add": second(w.s.Add(w.c, a, added, Added{Count: 4, Hash: "x"}, members("w", 9, 1)))} {
		if !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The pieces of a large plan bring jobs whose letters the first one brought. They keep no job twice.
func TestPiecesOfLargePlanKeepNoJobs(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	p := batch("w")
	p.Letters = append(p.Letters, strings.Repeat("s", 1500)...)
	p.Fields = append(p.Fields, "next", 1502)
	w.start(p)
	a := client("w")
	have, err := w.s.Reserve(w.c, a, 0, 0, 0)
	w.must(err)
	piece := members("w", 900, 3)
	piece.Letters = nil
	_, err = w.s.Add(w.c, a, have, Added{Count: 3, Hash: "abc"}, piece)
	w.must(err)
	w.same("template of a job", "", w.field("w", "s901"))
	w.same("where the jobs stand", "3 1 - - 0 - 0 low", w.field("w", "i900"))
}

func second(_ Added, err error) error { return err }

// An adder that is killed after any script, and runs again, adds exactly what is missing.
func TestAdderRunsAgain(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.start(batch("w"))
	seed, err := w.s.Reserve(w.c, client("w"), 1, 0, 0)
	w.must(err)
	_, err = w.s.Add(w.c, client("w"), seed, Added{Count: 1, Hash: "s"}, members("w", seed.First, 1))
	w.must(err)
	_, err = w.s.Close(w.c, "w")
	w.must(err)

	adder := Adder{Workflow: "w", Join: 1, Name: "w.2", Step: 2}
	for calls := 1; ; calls++ { // each run is killed after one call more
		at, err := w.s.Reserve(w.c, adder, 2, 0, 0)
		w.must(err)
		left := calls - 1
		for at.Count < 10 && left > 0 {
			behind := Added{Count: at.Count + 2, Hash: fmt.Sprint("h", at.Count+2)}
			_, err = w.s.Add(w.c, adder, at, behind, members("w", at.First, 2))
			w.must(err)
			if left--; left > 0 {
				at, err = w.s.Reserve(w.c, adder, 2, 0, 0)
				w.must(err)
				left--
			}
		}
		if at.Count == 10 {
			break
		}
	}
	w.same("letters", "bw"+strings.Repeat("s", 11), strings.TrimRight(w.letters("w"), "\x00"))
	w.same("jobs", 11, w.server.Int(t, "LLEN", w.s.QueueKey("low")))

	before := w.server.Dump(t, "resque:")
	at := Added{Count: 8, Hash: "h8"}
	if _, err := w.s.Add(w.c, adder, at, Added{Count: 10, Hash: "other"}, members("w", 11, 2)); !errors.Is(err, ErrChangedSequence) {
		t.Errorf("another sequence: %v", err)
	}
	at = Added{Count: 10, Hash: "other", First: 13}
	if _, err := w.s.Add(w.c, adder, at, Added{Count: 12, Hash: "x"}, members("w", 13, 2)); !errors.Is(err, ErrChangedSequence) {
		t.Errorf("behind another sequence: %v", err)
	}
	at = Added{Count: 20, Hash: "h20"}
	if have, err := w.s.Add(w.c, adder, at, Added{Count: 22, Hash: "h22"}, members("w", 23, 2)); !errors.Is(err, ErrBehind) || have.Count != 10 || have.Hash != "h10" {
		t.Errorf("behind what is there: %+v, %v", have, err)
	}
	if _, err := w.s.Reserve(w.c, client("w"), 1, 0, 0); !errors.Is(err, ErrEnded) {
		t.Errorf("a client adds to a closed batch: %v", err)
	}
	w.same("keys", before, w.server.Dump(t, "resque:"))

	w.end("C2", Done, "") // the adder
	for _, err := range []error{
		second(w.s.Reserve(w.c, adder, 1, 0, 0)), second(w.s.Add(w.c, adder, Added{Count: 10, Hash: "h10"}, Added{Count: 12, Hash: "x"}, members("w", 13, 2))),
	} {
		if !errors.Is(err, ErrAdderEnded) {
			t.Errorf("a late run: %v", err)
		}
	}
	for n := 3; n < 13; n++ {
		w.end(fmt.Sprint("C", n), Done, "")
	}
	w.end("C1", Done, "")
	w.state("w", "done")
}

// A key of the wrong type leaves nothing written.
func TestAddersWrongType(t *testing.T) {
	t.Parallel()
	s := New(resque.New(""))
	hash, letters := s.WorkflowKey("w").String(), s.LettersKey("w").String()
	document, index := s.KeyOfResult("w"), s.IndexKey().String()
	calls := map[string]struct {
		keys []string
		call func(w *wire) error
	}{
		"Reserve": {[]string{hash, letters}, func(w *wire) error {
			return second(w.s.Reserve(w.c, Adder{Workflow: "w", Join: 1, Name: "w.2", Step: 2}, 2, 0, 0))
		}},
		"Add": {[]string{hash, letters, s.NamesKey("").String(), s.KeyOfQueue("low"), s.KeyOfResult("w.3")}, func(w *wire) error {
			p := members("w", 3, 2)
			p.Hashes = []resque.NewHash{{Keys: []string{s.KeyOfResult("w.3")}, TTL: 60000, Fields: []any{"state", "pending"}}}
			return second(w.s.Add(w.c, client("w"), Added{Count: 1, Hash: "s", First: 3}, Added{Count: 3, Hash: "x"}, p))
		}},
		"Close": {[]string{hash, letters, s.ScheduleKey().String()}, func(w *wire) error {
			_, err := w.s.Close(w.c, "w")
			return err
		}},
		"Close, and the workflow is done": {[]string{document, index}, func(w *wire) error {
			w.do("HSET", hash, "j1", "1 0 0 j 0 0 0 0 - -")
			before := w.server.Dump(w.t, "resque:")
			_, err := w.s.Close(w.c, "w")
			if err != nil {
				w.same("keys", before, w.server.Dump(w.t, "resque:"))
			}
			w.do("HSET", hash, "j1", "1 0 0 j 1 1 0 0 - -")
			return err
		}},
	}
	for name, tt := range calls {
		for _, key := range tt.keys {
			t.Run(name+" "+key, func(t *testing.T) {
				t.Parallel()
				w := newWire(t)
				w.start(batch("w"))
				seed, err := w.s.Reserve(w.c, client("w"), 1, 0, 0)
				w.must(err)
				_, err = w.s.Add(w.c, client("w"), seed, Added{Count: 1, Hash: "s"}, members("w", 2, 1))
				w.must(err)
				_, err = w.s.Reserve(w.c, client("w"), 2, 0, 0)
				w.must(err)
				if strings.HasPrefix(name, "Close") {
					w.end("C2", Done, "")
				}
				saved, _ := redis.String(w.c.Do("DUMP", key))
				w.spoil(key)
				before := w.server.Dump(t, "resque:")
				if err := tt.call(w); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
					t.Errorf("error %v", err)
				}
				w.same("keys", before, w.server.Dump(t, "resque:"))
				w.do("DEL", key)
				if saved != "" {
					w.do("RESTORE", key, 0, saved)
				}
				w.must(tt.call(w))
			})
		}
	}
}

func TestNoWorkflow(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	_, err := w.s.Close(w.c, "w")
	for _, err := range []error{err, second(w.s.Reserve(w.c, client("w"), 1, 0, 0)), second(w.s.Add(w.c, client("w"), Added{}, Added{}, members("w", 0, 1)))} {
		if !errors.Is(err, ErrNoWorkflow) {
			t.Errorf("error %v", err)
		}
	}
}
