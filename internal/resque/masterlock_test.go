package resque

import (
	"slices"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// The key, the time it lives and the respect for other holders are Ruby's.
func TestMasterLock(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	key := ""
	for _, k := range redistest.Golden(t, "schedule_pump").KeysAfter {
		if k.Type == "string" {
			key = k.Key
			w.same("how long it lives", int(MasterLockTTL.Seconds()), k.TTL)
		}
	}
	ours, theirs := w.s.MasterLock("vm:1:a", "", false), w.s.MasterLock("vm:1:b", "", false)
	hold := func(l MasterLock, wantHeld bool, wantBy string) {
		t.Helper()
		held, by, err := w.s.HoldMasterLock(w.c, l)
		if held != wantHeld || by != wantBy || err != nil {
			t.Errorf("%s: %v by %q, %v; want %v by %q", l.Holder, held, by, err, wantHeld, wantBy)
		}
	}

	// While Ruby holds it no daemon gets it or removes it.
	w.do("SET", key, "localhost:1428", "EX", 100)
	w.unchanged("asking for a lock that Ruby has", func() { hold(ours, false, "localhost:1428") })
	w.must(w.s.ReleaseMasterLock(w.c, ours))
	w.same("Ruby's lock", "localhost:1428", w.server.Text(t, "GET", key))
	w.do("DEL", key)

	// While we hold it Ruby's SETNX does nothing. Only we can prolong it.
	hold(ours, true, "")
	w.same("keys", map[string]any{key: "vm:1:a"}, w.server.Dump(t, ""))
	lasts := func(when string, most int) { // and is read within half a minute
		t.Helper()
		if n := w.server.Int(t, "TTL", key); n > most || n < most-30 {
			t.Errorf("the lock lasts %d s %s, want %d", n, when, most)
		}
	}
	lasts("when it is ours", 180)
	w.do("EXPIRE", key, 50)
	hold(theirs, false, "vm:1:a")
	lasts("after another asked", 50)
	hold(ours, true, "")
	lasts("after we asked", 180)

	w.must(w.s.ReleaseMasterLock(w.c, theirs))
	w.same("lock after another released it", "vm:1:a", w.server.Text(t, "GET", key))
	w.must(w.s.ReleaseMasterLock(w.c, ours))
	w.same("keys after the release", map[string]any{}, w.server.Dump(t, ""))
}

func TestMasterLockKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		namespace, prefix string
		node              bool
		want              []string
	}{
		{"", "", false, []string{"resque:resque:resque_scheduler_master_lock"}},
		{"", "MyApp", false, []string{"resque:resque:MyApp:resque_scheduler_master_lock"}},
		{"a:b", "", false, []string{"a:b:a:b:resque_scheduler_master_lock"}},
		{"", "", true, []string{"resque:resque:resque_scheduler_master_lock", "resque:resque_scheduler_leader_lock"}},
	} {
		if got := New(tt.namespace).MasterLock("me", tt.prefix, tt.node).keys; !slices.Equal(got, tt.want) {
			t.Errorf("%q, prefix %q, node %v: %v, want %v", tt.namespace, tt.prefix, tt.node, got, tt.want)
		}
	}
}

// Both schedulers' locks are ours or none of them is.
func TestMasterLockOfNode(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	l := w.s.MasterLock("me", "", true)
	w.do("SET", l.keys[1], "node")
	w.unchanged("asking for a lock that node has", func() {
		if held, by, err := w.s.HoldMasterLock(w.c, l); held || by != "node" || err != nil {
			t.Errorf("held %v by %q, %v", held, by, err)
		}
	})
	w.do("DEL", l.keys[1])
	w.do("CONFIG", "SET", "maxmemory", "1") // does not keep jobs that are due from being moved
	if held, _, err := w.s.HoldMasterLock(w.c, l); !held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	w.same("keys", map[string]any{l.keys[0]: "me", l.keys[1]: "me"}, w.server.Dump(t, ""))
	w.must(w.s.ReleaseMasterLock(w.c, l))
	w.same("keys after the release", map[string]any{}, w.server.Dump(t, ""))
}
