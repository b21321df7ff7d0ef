package resque

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// until returns until when an entry is kept, in ms from now; 0: there is none.
func (w *wire) until(entry string) int64 {
	w.t.Helper()
	kept := w.server.Int(w.t, "EVAL", `local s = redis.call('ZSCORE', KEYS[1], ARGV[1]) local t = redis.call('TIME')
		return s and math.floor(s - t[1] * 1000 - t[2] / 1000) or 0`, 1, w.s.KeyOfCancelled(), entry)
	return int64(kept)
}

// near reports whether a time in ms is what is wanted, or less than a minute before.
func near(ms int64, want time.Duration) bool {
	return ms <= want.Milliseconds() && ms > want.Milliseconds()-60_000
}

// document writes what becomes of a job, with all three keys.
func (w *wire) begun(id, state string, fields ...any) {
	w.t.Helper()
	w.do("HSET", append([]any{w.s.KeyOfResult(id), "state", state, "ttl", 60_000}, fields...)...)
	w.do("SET", w.s.KeyOfProgress(id), "{}")
	w.do("RPUSH", w.s.KeyOfJobLogs(id), "{}")
	for _, key := range []string{w.s.KeyOfResult(id), w.s.KeyOfProgress(id), w.s.KeyOfJobLogs(id)} {
		w.do("PEXPIRE", key, CancelKept.Milliseconds())
	}
}

func (w *wire) fields(id string) string {
	w.t.Helper()
	all := w.server.List(w.t, "HMGET", w.s.KeyOfResult(id), "state", "was")
	if w.server.Int(w.t, "HEXISTS", w.s.KeyOfResult(id), "ended") == 1 {
		all = append(all, "ended")
	}
	return strings.Join(all, " ")
}

func (w *wire) ttl(id string, want time.Duration) {
	w.t.Helper()
	for _, key := range []string{w.s.KeyOfResult(id), w.s.KeyOfProgress(id), w.s.KeyOfJobLogs(id)} {
		if got := int64(w.server.Int(w.t, "PTTL", key)); !near(got, want) {
			w.t.Errorf("%s goes in %d ms, want %s", key, got, want)
		}
	}
}

// What a cancel does to the document of a job in each state, and what Lift makes of that.
func TestCancelByState(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for _, state := range []string{"pending", "retrying", "snoozed"} {
		w.begun(state, state)
		found, err := w.s.Cancel(w.c, state)
		w.must(err)
		w.same(state, Cancelled{State: state}, found)
		w.same(state, "cancelled "+state+" ended", w.fields(state))
		w.ttl(state, time.Minute)
		found, err = w.s.Cancel(w.c, state)
		w.must(err)
		w.same(state+" again", Cancelled{State: "cancelled", Known: true}, found)
		lifted, err := w.s.LiftCancel(w.c, state)
		w.must(err)
		w.same(state+" lifted", "true "+state+" ", map[bool]string{true: "true ", false: "false "}[lifted]+w.fields(state))
		w.ttl(state, CancelKept)
	}
	w.begun("runs", "running", "due", "12")
	w.unchanged("cancelling a running job", func() {
		if found, err := w.s.Cancel(w.c, "runs"); err != nil || found != (Cancelled{State: "running"}) {
			t.Errorf("%+v, %v", found, err)
		}
		w.do("DEL", w.s.KeyOfCancelled())
	})
	for _, state := range []string{"done", "failed", "discarded", "expired", "cancelled"} {
		w.begun("over", state)
		w.unchanged("cancelling a job that is "+state, func() {
			if found, err := w.s.Cancel(w.c, "over"); err != nil || found != (Cancelled{State: state, Over: true}) {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
	w.unchanged("lifting what is not cancelled", func() {
		if lifted, err := w.s.LiftCancel(w.c, "runs"); lifted || err != nil {
			t.Error(lifted, err)
		}
	})
}

// An entry stays a week from when its job is due, and the set goes with its last entry.
func TestCancelIsKept(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	kept := func(entry string, want time.Duration) {
		t.Helper()
		if got := w.until(entry); !near(got, want) {
			t.Errorf("%s is kept for %d ms, want %s", entry, got, want)
		}
	}
	now, err := w.s.Now(w.c)
	w.must(err)
	w.begun("later", "pending", "due", now.Add(24*time.Hour).UnixMilli())
	for _, id := range []string{"a", "later", "b"} {
		_, err := w.s.Cancel(w.c, id)
		w.must(err)
	}
	kept("j:a", CancelKept)
	kept("j:later", CancelKept+24*time.Hour)
	w.must(w.s.KeepCancelled(w.c, "a", now.Add(time.Hour)))
	w.must(w.s.KeepCancelled(w.c, "b", now.Add(-time.Hour)))
	w.must(w.s.KeepCancelled(w.c, "gone", now.Add(time.Hour)))
	kept("j:a", CancelKept+time.Hour)
	kept("j:b", CancelKept)
	if w.until("j:gone") != 0 {
		t.Error("an entry that was not there was kept")
	}
	_, err = w.s.Cancel(w.c, "a")
	w.must(err)
	kept("j:a", CancelKept+time.Hour)
	if got := int64(w.server.Int(t, "PTTL", w.s.KeyOfCancelled())); !near(got, CancelKept+24*time.Hour) {
		t.Errorf("the set goes in %d ms", got)
	}
	lifted, err := w.s.LiftCancel(w.c, "later")
	w.must(err)
	w.ttl("later", CancelKept+24*time.Hour)
	w.same("lifted", true, lifted)

	w.do("ZADD", w.s.KeyOfCancelled(), 1, "j:old", 2, "t:p:1")
	_, err = w.s.Cancel(w.c, "new")
	w.must(err)
	w.same("entries", []string{"j:b", "j:new", "j:a"}, w.server.List(t, "ZRANGE", w.s.KeyOfCancelled(), 0, -1))
}

func TestCancelTicket(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.do("HSET", w.s.inflight("h:1:a"), "entered", "mark", 7, `1:q{"class":"A","args":[]}`)
	for ticket, want := range map[int64]bool{7: true, 8: false} {
		there, err := w.s.CancelTicket(w.c, "h:1:a", ticket)
		w.must(err)
		w.same("the ticket is there", want, there)
	}
	w.same("entries", []string{"t:h:1:a:7"}, w.server.List(t, "ZRANGE", w.s.KeyOfCancelled(), 0, -1))
}

func TestReadCancelled(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for n, id := range []string{"a", "b", "c"} {
		w.do("ZADD", w.s.KeyOfCancelled(), n, CancelledID(id))
	}
	for most, want := range map[int][]string{3: {"j:a", "j:b", "j:c"}, 2: {"j:b", "j:c"}} {
		entries, more, err := w.s.ReadCancelled(w.c, most)
		w.must(err)
		w.same("entries", want, entries)
		w.same("there are more", most < 3, more)
	}
	there, err := w.s.AreCancelled(w.c, []string{"j:c", "j:x", "t:p:1", "j:a"})
	w.must(err)
	w.same("these are there", []string{"j:c", "j:a"}, there)
	for _, want := range []bool{true, false} {
		was, err := w.s.ForgetCancel(w.c, "b")
		w.must(err)
		w.same("it was there", want, was)
	}
}

// Where the set is of another type nothing is written, and the error names the key. Without memory a
// job can be cancelled all the same.
func TestCancelRefused(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.begun("a", "pending")
	w.do("HSET", w.s.inflight("p"), "1", "x")
	calls := map[string]func() error{
		"Cancel":        func() error { _, err := w.s.Cancel(w.c, "a"); return err },
		"CancelTicket":  func() error { _, err := w.s.CancelTicket(w.c, "p", 1); return err },
		"KeepCancelled": func() error { return w.s.KeepCancelled(w.c, "a", time.Now()) },
		"LiftCancel":    func() error { _, err := w.s.LiftCancel(w.c, "a"); return err },
		"ForgetCancel":  func() error { _, err := w.s.ForgetCancel(w.c, "a"); return err },
		"ReadCancelled": func() error { _, _, err := w.s.ReadCancelled(w.c, 10); return err },
	}
	w.spoil(w.s.KeyOfCancelled())
	w.unchanged("calls with a set of another type", func() {
		for name, call := range calls {
			if named := new(KeyTypeError); !errors.As(call(), &named) || named.Key != w.s.KeyOfCancelled() {
				t.Errorf("%s: %v", name, call())
			}
		}
	})
	w.do("DEL", w.s.KeyOfCancelled())
	w.spoil(w.s.KeyOfResult("a"))
	for _, name := range []string{"Cancel", "LiftCancel"} {
		if err := calls[name](); !IsWrongType(err) {
			t.Errorf("%s with a document of another type: %v", name, err)
		}
	}
	w.do("DEL", w.s.KeyOfResult("a"))
	w.begun("a", "pending")
	w.do("CONFIG", "SET", "maxmemory", 1)
	for _, name := range []string{"Cancel", "CancelTicket", "KeepCancelled", "LiftCancel"} {
		w.must(calls[name]())
	}
}
