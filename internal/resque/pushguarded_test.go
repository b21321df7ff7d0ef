package resque

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// lockedJob is pushed only if its lock is free, and takes it.
func lockedJob(s Store, queue, payload, lock string) GuardedJob {
	return GuardedJob{Queue: queue, Payload: []byte(payload), Effects: []Effect{
		Command("HSET", s.HashKey("lock:"+lock), "by", payload),
		Guard("HLEN", s.HashKey("lock:"+lock), "0"),
		Command("HINCRBY", s.HashKey("counts"), queue, 1).Soft(),
	}}
}

// reasons are what became of the jobs of a push.
func (p GuardedPush) reasons() []string {
	texts := make([]string, len(p.Jobs))
	for i, err := range p.Jobs {
		switch e := (KeyError{}); {
		case err == nil:
			texts[i] = "pushed"
		case errors.Is(err, ErrGuard):
			texts[i] = "left"
		case errors.Is(err, ErrWithheld):
			texts[i] = "withheld"
		case errors.As(err, &e):
			texts[i] = e.Key
		}
	}
	return texts
}

func TestPushGuarded(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	counted := func(job GuardedJob, of int) GuardedJob {
		job.Effects = append(job.Effects, arrival(w.s, of, "next"))
		return job
	}
	later := lockedJob(w.s, "low", "l4", "d")
	later.At = time.UnixMilli(1_900_000_000_123)
	for name, tt := range map[string]struct {
		jobs   []GuardedJob
		want   []string
		queues []string // low, high, next
		locks  string   // that are held then; b was before
	}{
		"one":        {[]GuardedJob{lockedJob(w.s, "low", "l1", "a")}, []string{"pushed"}, []string{"low: l1", "high:", "next:"}, "ab"},
		"held":       {[]GuardedJob{lockedJob(w.s, "low", "l1", "b")}, []string{"left"}, []string{"low:", "high:", "next:"}, "b"},
		"scheduled":  {[]GuardedJob{later}, []string{"pushed"}, []string{"low:", "high:", "next:"}, "bd"},
		"no effects": {[]GuardedJob{{Queue: "low", Payload: []byte("l1")}}, []string{"pushed"}, []string{"low: l1", "high:", "next:"}, "b"},
		"several, one of which is held": {
			[]GuardedJob{lockedJob(w.s, "low", "l1", "a"), lockedJob(w.s, "high", "h1", "b"), lockedJob(w.s, "low", "l2", "c")},
			[]string{"pushed", "left", "pushed"}, []string{"low: l1 l2", "high:", "next:"}, "abc"},
		"twins": {
			[]GuardedJob{lockedJob(w.s, "low", "l1", "a"), lockedJob(w.s, "high", "h1", "a")},
			[]string{"pushed", "left"}, []string{"low: l1", "high:", "next:"}, "ab"},
		"a verb": {
			[]GuardedJob{counted(lockedJob(w.s, "low", "l1", "a"), 2), counted(lockedJob(w.s, "low", "l2", "c"), 2)},
			[]string{"pushed", "pushed"}, []string{"low: l1 l2", "high:", "next: after"}, "abc"},
	} {
		for _, known := range []bool{true, false} {
			w.do("FLUSHALL")
			w.do("HSET", "resque:go:lock:b", "by", "b")
			if !known {
				w.do("SCRIPT", "FLUSH")
			}
			out, err := w.s.PushGuarded(w.c, tt.jobs)
			w.must(err)
			w.same(name+": jobs", tt.want, out.reasons())
			w.same(name+": soft", []KeyError(nil), out.Soft)
			w.same(name+": queues", tt.queues, w.queues("low", "high", "next"))
			held := ""
			for _, lock := range []string{"a", "b", "c", "d"} {
				if w.server.Int(t, "EXISTS", "resque:go:lock:"+lock) == 1 {
					held += lock
				}
			}
			w.same(name+": locks", tt.locks, held)
			if name == "scheduled" {
				w.same(name, []string{"3:lowl4", "1900000000123"}, w.server.List(t, "ZRANGE", w.s.KeyOfSchedule(), 0, -1, "WITHSCORES"))
			}
			for _, queue := range w.server.List(t, "SMEMBERS", w.s.KeyOfQueues()) {
				if w.server.Int(t, "LLEN", w.s.KeyOfQueue(queue)) == 0 {
					t.Errorf("%s: queue %s is named without a job", name, queue)
				}
			}
		}
	}
	out, err := w.s.PushGuarded(w.c, nil)
	w.must(err)
	w.same("nothing", 0, len(out.Jobs))
	w.unchanged("a job without a queue", func() {
		if _, err := w.s.PushGuarded(w.c, []GuardedJob{lockedJob(w.s, "low", "l9", "e"), {Payload: []byte("{}")}}); !errors.Is(err, errNoQueue) {
			t.Error(err)
		}
	})
}

// A key of the wrong type in any row: nothing is written, for no job of the call.
func TestPushGuardedOfWrongType(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	job := lockedJob(w.s, "low", "l1", "a")
	job.Effects = append(job.Effects, arrival(w.s, 1, "next"))
	scheduled := lockedJob(w.s, "low", "l2", "b")
	scheduled.At = time.UnixMilli(1_900_000_000_123)
	jobs := []GuardedJob{job, scheduled, {Queue: "other", Payload: []byte("o1")}}
	for key, want := range map[string][]string{
		"resque:go:lock:a":      {"resque:go:lock:a", "withheld", "withheld"},
		"resque:go:lock:b":      {"withheld", "resque:go:lock:b", "withheld"},
		"resque:go:join:1":      {"resque:go:join:1", "withheld", "withheld"},
		w.s.KeyOfQueue("low"):   {w.s.KeyOfQueue("low"), "withheld", "withheld"},
		w.s.KeyOfQueue("next"):  {w.s.KeyOfQueue("next"), "withheld", "withheld"},
		w.s.KeyOfQueue("other"): {"withheld", "withheld", w.s.KeyOfQueue("other")},
		w.s.KeyOfQueues():       {w.s.KeyOfQueues(), "withheld", w.s.KeyOfQueues()},
		w.s.KeyOfSchedule():     {"withheld", w.s.KeyOfSchedule(), "withheld"},
		"resque:go:counts":      {"pushed", "pushed", "pushed"},
		"resque:go:irrelevant":  {"pushed", "pushed", "pushed"},
	} {
		w.do("FLUSHALL")
		w.spoil(key)
		before := w.dump()
		out, err := w.s.PushGuarded(w.c, jobs)
		w.must(err)
		w.same(key, want, out.reasons())
		if want[0] != "pushed" {
			w.same(key+": keys", before, w.dump())
		}
		if soft := key == "resque:go:counts"; soft != (len(out.Soft) == 2) {
			t.Errorf("%s: soft: %v", key, out.Soft)
		}
	}
}

// An error that no read foresees refuses one job, which is then not in its queue.
func TestPushGuardedRefusedLate(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	bad := misbehaving["it raises an error"]
	jobs := []GuardedJob{
		lockedJob(w.s, "low", "l1", "a"),
		{Queue: "low", Payload: []byte("l2"), Effects: []Effect{bad.Effect([]Key{w.s.HashKey("own")})}},
		lockedJob(w.s, "low", "l3", "c"),
		{Queue: "low", Payload: []byte("l4"), Effects: w.s.Head(Reserved{Ticket: 1, Queue: "high"})},
	}
	out, err := w.s.PushGuarded(w.c, jobs)
	w.must(err)
	w.same("jobs", []string{"pushed", "resque:go:own", "pushed", w.s.KeyOfQueue("high")}, out.reasons())
	w.same("queue", []string{"l1", "l3"}, w.queue("low"))
}

// A Redis out of memory refuses the push.
func TestPushGuardedRefused(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	freeing := lockedJob(w.s, "low", "l1", "a")
	freeing.Effects = append([]Effect{Command("HDEL", w.s.HashKey("old"), "a"), Command("DEL", w.s.AnyKey("older"))}, freeing.Effects...)
	for name, tt := range map[string]struct {
		command []any
		says    string
	}{
		"out of memory": {[]any{"SET", "maxmemory", "1"}, "maxmemory"},
		"no replicas":   {[]any{"SET", "min-replicas-to-write", "1"}, "NOREPLICAS"},
	} {
		w.do("HSET", "resque:go:old", "a", 1, "b", 1)
		w.do("CONFIG", tt.command...)
		w.unchanged(name, func() {
			_, err := w.s.PushGuarded(w.c, []GuardedJob{freeing, {Queue: "low", Payload: []byte("l2")}})
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "pushing 2 jobs") {
				t.Errorf("%s: %v", name, err)
			}
		})
		w.do("CONFIG", "SET", tt.command[1], "0")
	}
	_ = w.c.Close()
	if _, err := w.s.PushGuarded(w.c, []GuardedJob{freeing}); err == nil {
		t.Error("no error on a closed connection")
	}
}

// If too few replicas confirm the push, it is answered all the same.
func TestPushGuardedReplicas(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	s := w.s.Replicated(1, time.Millisecond)
	var few *ReplicasError
	for _, want := range []string{"pushed", "left"} {
		out, err := s.PushGuarded(w.c, []GuardedJob{lockedJob(s, "low", "l1", "a")})
		w.same("jobs", []string{want}, out.reasons())
		if errors.As(err, &few) != (want == "pushed") || want == "left" && err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
	w.same("queue", []string{"l1"}, w.queue("low"))
}
