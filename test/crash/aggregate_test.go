package crash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// aggregateVar makes the program gather: MaxWait, and how many items a job has at most.
const aggregateVar = "GOWORKER_CRASH_AGGREGATE"

// registerGathered registers Gather, whose items are a key and an id. It notes each item with the id of the job that had it.
func registerGathered(note func(event, id, detail string)) {
	var wait string
	var most int
	_, _ = fmt.Sscan(os.Getenv(aggregateVar), &wait, &most)
	d, err := time.ParseDuration(wait)
	if err != nil {
		panic(err)
	}
	goworker.Register("Gather", func(ctx context.Context, key string, ids []int) {
		for _, id := range ids {
			note("gathered", fmt.Sprint(key, " ", id), goworker.FromContext(ctx).ID)
		}
	}, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxWait(d), goworker.MaxCount(most)))
}

// gatherer starts a program that gathers.
func (f *fleet) gatherer(wait string, most int) *process {
	f.t.Helper()
	p := f.startWith([]string{fmt.Sprintf("%s=%s %d", aggregateVar, wait, most)}, "-concurrency=3")
	f.eventually(soon, "the process enters the fleet", func() bool { p.mustRun(); return p.id() != "" })
	return p
}

func (f *fleet) items(key string, n int) {
	f.t.Helper()
	args := []any{"resque:queue:work"}
	for i := range n {
		args = append(args, fmt.Sprintf(`{"class":"Gather","args":[%q,%d]}`, key, i))
	}
	f.redis.Do(f.t, "SADD", "resque:queues", "work")
	f.redis.Do(f.t, "RPUSH", args...)
}

// groups returns how many groups wait, and how many items they have.
func (f *fleet) groups() (n, items int) {
	for _, id := range f.redis.List(f.t, "ZRANGE", "resque:go:groups", 0, -1) {
		n++
		items += f.redis.Int(f.t, "LLEN", "resque:go:group:"+id) - 1
	}
	return n, items
}

// believed reports whether a process of this id has its place in the fleet: none has found it dead yet.
func (f *fleet) believed(id string) bool {
	return slices.Contains(f.redis.List(f.t, "ZRANGE", "resque:go:processes", 0, -1), id) && f.redis.Int(f.t, "HEXISTS", "resque:go:process:"+id, "epoch") == 1
}

// A group is flushed at its time although the process that gathered it was killed, by the leader; and although the leader
// was killed, by the process that gathered. Neither waits until the dead process is found.
func TestGroupOutlivesAKill(t *testing.T) {
	t.Parallel()
	for name, leaderDies := range map[string]bool{"the gatherer": false, "the leader": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			leader, gatherer := f.gatherer("3s", 100), f.gatherer("3s", 100)
			if leader.id() > gatherer.id() { // the lowest id leads
				leader, gatherer = gatherer, leader
			}
			f.renewed(1, leader, gatherer)
			victim, survivor := gatherer, leader
			if leaderDies {
				victim, survivor = leader, gatherer
			}
			leader.signal(syscall.SIGUSR2) // it takes no jobs; its lease goes on
			f.eventually(soon, "the leader is paused", func() bool { return strings.Contains(leader.output(), "paused") })
			f.items("books", 20)
			f.eventually(soon, "all items are gathered", func() bool { _, items := f.groups(); return items == 20 })
			id := victim.id()
			victim.kill()
			f.eventually(soon, "the group is flushed", func() bool { n, _ := f.groups(); return n == 0 })
			if !f.believed(id) {
				t.Error("the group was flushed after the dead process was found only")
			}
			survivor.signal(syscall.SIGCONT)
			f.eventually(recovery, "the job has all items", func() bool { return len(f.events("gathered")) == 20 })
			f.once(20)
		})
	}
}

// once wants each item in exactly one job.
func (f *fleet) once(n int) {
	f.t.Helper()
	runs := make(map[string]string)
	for _, e := range f.events("gathered") {
		if was, twice := runs[e.id]; twice && was != e.detail {
			f.t.Errorf("item %s is in the jobs %s and %s", e.id, was, e.detail)
		}
		runs[e.id] = e.detail
	}
	if len(runs) != n {
		f.t.Errorf("%d items are in jobs, want %d", len(runs), n)
	}
}

// 1,000 items of one key, while processes are killed and start again: each is in exactly one job.
func TestItemsOutliveKills(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const most = 1000
	alive := []*process{f.gatherer("200ms", 30), f.gatherer("200ms", 30), f.gatherer("200ms", 30)}
	for n := range 5 {
		f.items(fmt.Sprint("k", n), most/5)
		f.eventually(soon, "some are gathered", func() bool { return len(f.events("gathered")) > n*50 })
		alive[n%3].kill()
		alive[n%3] = f.gatherer("200ms", 30)
	}
	f.eventually(2*recovery, "all are in jobs", func() bool {
		seen := make(map[string]bool)
		for _, e := range f.events("gathered") {
			seen[e.id] = true
		}
		return len(seen) == most
	})
	f.once(most)
	f.eventually(soon, "nothing is left", func() bool { n, _ := f.groups(); return n == 0 })
}
