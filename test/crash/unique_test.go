package crash

import (
	"strings"
	"testing"
)

// Of many that several processes enqueue at once one job is taken. Its lock holds while it
// waits, while it runs, when its process is killed and while it runs again, and it is
// given up in the step in which the job ends.
func TestUniqueOutlivesAKill(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	rivals := []*process{f.start("-concurrency=5"), f.start("-concurrency=5"), f.start("-concurrency=5")}
	compete := func(when string, winners int) {
		t.Helper()
		before := len(f.events("enqueued")) + len(f.events("refused"))
		won := len(f.events("enqueued"))
		f.push(jobs("Rival", 60)...)
		f.eventually(soon, "all have tried", func() bool {
			return len(f.events("enqueued"))+len(f.events("refused")) == before+60
		})
		if n := len(f.events("enqueued")) - won; n != winners {
			t.Errorf("%s: %d jobs were taken, want %d", when, n, winners)
		}
	}
	locks := func() []string { return f.redis.List(t, "KEYS", "resque:go:unique:"+strings.Repeat("?", 32)) }
	compete("at first", 1)

	victim := f.start("-queues=rare", "-concurrency=1")
	f.eventually(soon, "it runs", func() bool { return len(f.events("start", victim)) == 1 })
	compete("while it runs", 0)
	victim.kill()
	compete("when its process is dead", 0)
	f.eventually(recovery, "it is back", func() bool { return f.redis.Int(t, "LLEN", "resque:queue:rare") == 1 })
	compete("when it is back", 0)
	heir := f.start("-queues=rare", "-concurrency=1")
	f.eventually(soon, "it runs again", func() bool { return len(f.events("start", heir)) == 1 })
	compete("while it runs again", 0)
	if n := len(locks()); n != 1 {
		t.Errorf("%d locks, want 1", n)
	}

	const tried = 5 * 60
	f.eventually(soon, "all that tried are counted", func() bool { return f.stat("processed") == tried })
	f.open(heir)
	f.eventually(soon, "its lock is given up", func() bool { return len(locks()) == 0 })
	if n := f.stat("processed"); n != tried+1 {
		t.Errorf("when the lock is given up stat:processed is %d, want %d", n, tried+1)
	}
	f.eventually(soon, "it has ended", func() bool { return len(f.events("end")) == 1 })
	heir.stop()
	compete("when it is done", 1)
	for _, p := range rivals {
		p.stop()
	}
}
