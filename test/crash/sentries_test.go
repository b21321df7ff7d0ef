package crash

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
)

// Nine processes have four sentries. Two of these are killed and two stand still, and jobs start all the same: those that wait look once
// in a lease period, although their interval is a minute. Then four others are sentries.
func TestSentriesDie(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var all []*process
	for range 9 {
		all = append(all, f.launch("-concurrency=1"))
	}
	done := 0
	run := func(n int) {
		t.Helper()
		var naps []string
		for i := range n {
			naps = append(naps, nap(fmt.Sprint(done+i), 1))
		}
		f.push(naps...)
		done += n
		// One whose process ends before it has said that the job is done runs again.
		f.eventually(recovery, "all jobs have run", func() bool { return len(counts(f.events("end"))) == done })
	}
	f.eventually(soon, "they are in the fleet", func() bool { return f.redis.Int(t, "ZCARD", "resque:go:processes") == len(all) })
	sentries := func() []string {
		keys := f.redis.List(t, "KEYS", "resque:go:sentries:*")
		if len(keys) != 1 {
			return nil
		}
		return f.redis.List(t, "ZRANGEBYSCORE", keys[0], 0, 0)
	}
	f.eventually(soon, "four are sentries", func() bool { run(1); return len(sentries()) == 4 })
	run(40)
	var dead []string
	f.eventually(soon, "four are sentries", func() bool { dead = sentries(); return len(dead) == 4 })
	for _, p := range all {
		if i := slices.Index(dead, p.id()); i >= 2 {
			p.signal(syscall.SIGSTOP)
		} else if i >= 0 {
			p.kill()
		}
	}
	run(10)
	f.eventually(recovery, "the others are sentries", func() bool {
		run(1)
		now := sentries()
		return len(now) == 4 && !slices.ContainsFunc(now, func(p string) bool { return slices.Contains(dead, p) })
	})
	run(10)
}
