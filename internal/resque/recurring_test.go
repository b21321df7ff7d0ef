package resque

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// fired is when the tests of this file fire: Redis refuses ticks in the future.
var fired = time.Date(2023, 11, 15, 12, 0, 0, 0, time.UTC)

func (w *wire) fire(f Fire) (Fired, Ticks) {
	w.t.Helper()
	outcome, ticks, err := w.s.Fire(w.c, f)
	w.must(err)
	return outcome, ticks
}

// aTick is a tick of a schedule without a state.
func (w *wire) aTick(payloads ...string) Fire {
	f := Fire{
		Schedule: "nightly", Last: time.UnixMilli(1700000000123), Owner: "vm:1:a", Timing: "t", Shared: true,
		Lock: w.s.MasterLock("vm:1:0000000a", "", false), Queue: "low", At: fired,
	}
	for _, p := range payloads {
		f.Payloads = append(f.Payloads, []byte(p))
	}
	return f
}

func TestFire(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	f := w.aTick("1", "2")
	outcome, ticks := w.fire(f)
	w.same("outcome", FiredOK, outcome)
	w.same("last", f.Last.UnixMilli(), ticks.Last.UnixMilli())
	w.same("keys", map[string]any{
		"resque:go:ticks":                 map[string]string{"nightly": "1700000000123 vm:1:a t 2023-11-15 12:00:00 +0000"},
		"resque:delayed:last_enqueued_at": map[string]string{"nightly": "2023-11-15 12:00:00 +0000"},
		"resque:queues":                   []string{"low"},
		"resque:queue:low":                []string{"1", "2"},
	}, w.server.Dump(t, ""))
	read, err := w.s.ReadTicks(w.c, "other", "nightly")
	w.must(err)
	if read[0] != (Ticks{}) || !read[1].Last.Equal(f.Last) || read[1].Owner != "vm:1:a" || read[1].Timing != "t" || read[1].Foreign || !read[1].Enqueued.Equal(fired) {
		t.Errorf("read %+v", read)
	}

	// A process that has read the state before comes too late, and gets the new state.
	w.unchanged("the same tick again", func() {
		outcome, now := w.fire(f)
		w.same("outcome", FiredMoved, outcome)
		if now != read[1] {
			t.Errorf("it stands at %+v, want %+v", now, read[1])
		}
	})
	// A Ruby scheduler that fired it notes only when.
	f.Was = read[1]
	w.do("HSET", "resque:delayed:last_enqueued_at", "nightly", "2023-11-15 13:00:00 +0100")
	w.unchanged("a tick that Ruby has fired", func() {
		outcome, now := w.fire(f)
		w.same("outcome", FiredMoved, outcome)
		w.same("when", fired.UnixMilli(), now.Enqueued.UnixMilli())
		w.same("is Ruby's", true, now.Foreign)
		f.Was = now
	})

	f.Last = time.Now().Add(time.Hour)
	w.unchanged("a tick that is not yet", func() {
		outcome, now := w.fire(f)
		w.same("outcome", FiredEarly, outcome)
		if d := time.Since(now.Last); d < 0 || d > time.Minute {
			t.Errorf("Redis's time is %v", now.Last)
		}
	})

	lock := "resque:resque:resque_scheduler_master_lock"
	f.Last = time.UnixMilli(1700000001000)
	f.At = time.Now().Add(time.Hour)
	w.unchanged("a tick of a process whose clock is ahead", func() {
		outcome, _ := w.fire(f)
		w.same("outcome", FiredEarly, outcome)
	})
	f.At = fired
	for _, ruby := range []string{"localhost:1428", "web-1.example.com:77", "x"} {
		w.do("SET", lock, ruby)
		w.unchanged("a tick while Ruby holds its lock", func() {
			outcome, _ := w.fire(f)
			w.same("outcome", FiredForeign, outcome)
		})
	}
	w.do("SET", lock, "web-1:77:0123abcd") // one of our holders
	w.must(w.s.PauseSchedule(w.c, "nightly", noon))
	paused, err := w.s.PausedSchedules(w.c)
	w.must(err)
	w.same("paused", []string{"nightly"}, paused)
	outcome, f.Was = w.fire(f)
	w.same("outcome", FiredPaused, outcome)
	w.same("noted", "1700000001000 vm:1:a t 2023-11-15 13:00:00 +0100", w.server.Text(t, "HGET", "resque:go:ticks", "nightly"))
	w.same("is Ruby's", false, f.Was.Foreign)
	w.must(w.s.ResumeSchedule(w.c, "nightly"))
	w.same("jobs", 2, w.server.Int(t, "LLEN", "resque:queue:low"))
	f.Last = time.UnixMilli(1700000002000)
	f.Payloads = make([][]byte, 2500)
	outcome, _ = w.fire(f)
	w.same("outcome", FiredOK, outcome)
	w.same("jobs", 2502, w.server.Int(t, "LLEN", "resque:queue:low"))
	f.Shared = false
	w.do("SET", lock, "ruby")
	outcome, _ = w.fire(f)
	w.same("outcome of one that Ruby does not know", FiredMoved, outcome)
}

func TestRemovedOwner(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1700000000123)
	for owner, removed := range map[string]time.Time{RemovedOwner(at): at, NoOwner: {}, "vm:1:00000001": {}} {
		w := newWire(t)
		f := w.aTick()
		f.Owner = owner
		w.fire(f)
		read, err := w.s.ReadTicks(w.c, "nightly")
		w.must(err)
		w.same("owner", owner, read[0].Owner)
		if got := read[0].Removed(); !got.Equal(removed) {
			t.Errorf("%s: removed at %v, want %v", owner, got, removed)
		}
	}
}

// Redis refuses a tick as a whole or not at all; see TestScriptsRefusedChangeNothing as well.
func TestFireRefused(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.do("CONFIG", "SET", "maxmemory", "1")
	w.unchanged("a tick when out of memory", func() {
		_, _, err := w.s.Fire(w.c, w.aTick("1"))
		wantError(t, err, "nightly", "out of memory")
	})
}

// Many processes fire the same ticks at once, each knowing only what it has read itself.
func TestEveryTickIsFiredOnce(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	const processes, ticks = 8, 200
	done := make(chan error, processes)
	for p := range processes {
		c := w.server.Dial(t)
		go func() { done <- w.race(c, fmt.Sprint("p", p), ticks) }()
	}
	for range processes {
		w.must(<-done)
	}
	var want []string
	for n := range ticks {
		want = append(want, fmt.Sprint(n+1))
	}
	w.same("jobs", strings.Join(want, " "), strings.Join(w.server.List(t, "LRANGE", "resque:queue:low", 0, -1), " "))
}

// race fires a schedule that ticks each millisecond, until tick n.
func (w *wire) race(c redis.Conn, owner string, n int64) error {
	f := w.aTick("")
	f.Owner = owner
	for {
		last := int64(0)
		if !f.Was.Last.IsZero() {
			last = f.Was.Last.UnixMilli()
		}
		if last >= n {
			return nil
		}
		f.Last = time.UnixMilli(last + 1)
		f.Payloads = [][]byte{[]byte(fmt.Sprint(last + 1))}
		_, now, err := w.s.Fire(c, f)
		if err != nil {
			return err
		}
		f.Was = now
	}
}

// What a Ruby application reads, and what it leaves.
func TestPersistentSchedules(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	golden := redistest.Golden(t, "schedule_recurring")
	entry := `{"class":"Echo","cron":"0 3 * * *","queue":"low","args":["a"],"description":"d"}`
	w.must(w.s.SaveSchedule(w.c, "nightly", []byte(entry)))
	w.must(w.s.SaveSchedule(w.c, "often", []byte("{}")))
	removed, err := w.s.RemoveSchedule(w.c, "often")
	if !removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	if removed, err := w.s.RemoveSchedule(w.c, "often"); removed || err != nil {
		t.Errorf("removed again: %v, %v", removed, err)
	}
	w.same("keys", redistest.Values(golden.Snapshots["set"]), w.server.Dump(t, ""))
	all, err := w.s.PersistentSchedules(w.c)
	w.must(err)
	w.same("read back", map[string]string{"nightly": entry}, all)
	text, there, err := w.s.PersistentSchedule(w.c, "nightly")
	if text != entry || !there || err != nil {
		t.Errorf("read %s, %v, %v", text, there, err)
	}
	if text, there, err := w.s.PersistentSchedule(w.c, "often"); text != "" || there || err != nil {
		t.Errorf("read of one that is removed: %s, %v, %v", text, there, err)
	}
	w.do("DEL", "resque:persistent_schedules")
	w.do("SET", "resque:persistent_schedules", "spoiled")
	_, _, err = w.s.PersistentSchedule(w.c, "nightly")
	wantError(t, err, "nightly", "WRONGTYPE")
}
