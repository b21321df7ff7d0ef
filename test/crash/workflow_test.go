package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goworker/goworker"
)

func step(class string, args ...any) *goworker.Node {
	return goworker.Step(goworker.NewJob("work", class, args...), goworker.Immutable())
}

func (f *fleet) begin(c *goworker.Client, n *goworker.Node, opts ...goworker.WorkflowOption) string {
	f.t.Helper()
	r, err := c.Start(f.t.Context(), n, opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	return r.ID
}

func (f *fleet) workflow(id, field string) string {
	f.t.Helper()
	return f.redis.Text(f.t, "HGET", "resque:go:wf:"+id, field)
}

func (f *fleet) letters(id string) string {
	f.t.Helper()
	return f.redis.Text(f.t, "GET", "resque:go:wf-steps:"+id)
}

// Behaviour 6: members whose process is killed run again, and the callback comes once.
func TestChordOutlivesAKill(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim, other := f.start("-concurrency=3"), f.start("-concurrency=3")
	var all []*goworker.Node
	for i := range 6 {
		all = append(all, step("Hold", fmt.Sprint("member-", i)))
	}
	id := f.begin(f.client(), goworker.Chord(goworker.Group(all...), step("Nap", "callback", 0)))
	f.eventually(soon, "all members run", func() bool { return len(f.events("start")) == 6 })
	victim.kill()
	f.open(other)
	f.eventually(recovery, "the workflow is done", func() bool { return f.workflow(id, "state") == "done" })
	runs := counts(f.events("start"))
	if runs["callback"] != 1 || len(f.events("start")) != 6+3+1 || !strings.HasPrefix(f.letters(id), "ddddddd") {
		t.Errorf("runs %v, letters %s", runs, f.letters(id))
	}
	if dead := len(f.events("end", victim)); dead > 0 {
		t.Errorf("a killed process ended %d jobs", dead)
	}
	f.buried()
	other.stop()
}

// Behaviour 6: a member that ran in a process which stood still, and again in another one, is counted once. The end that came first
// is the one that counts.
func TestMemberEndsInTwoProcesses(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	zombie := f.start("-concurrency=1")
	id := f.begin(f.client(), goworker.Chord(goworker.Group(step("Hold", "member"), step("Hold", "last")), step("Nap", "callback", 0)))
	f.eventually(soon, "a member runs", func() bool { return len(f.events("start", zombie)) == 1 })
	dead := zombie.id()
	zombie.signal(syscall.SIGSTOP)
	heir := f.start("-concurrency=2")
	f.eventually(recovery, "both run in the other one", func() bool { return len(f.events("start", heir)) == 2 })
	f.open(zombie)
	zombie.signal(syscall.SIGCONT)
	f.eventually(soon, "the zombie is back under another name", func() bool { return zombie.id() != "" && zombie.id() != dead })
	f.renewed(1, heir, zombie)
	if !strings.HasPrefix(f.letters(id), "ssw") {
		t.Errorf("a zombie has moved the letters to %s", f.letters(id))
	}
	f.open()
	f.eventually(recovery, "the workflow is done", func() bool { return f.workflow(id, "state") == "done" })
	if runs := counts(f.events("start")); runs["callback"] != 1 || !strings.HasPrefix(f.letters(id), "ddd") {
		t.Errorf("runs %v, letters %s", runs, f.letters(id))
	}
	zombie.stop()
	heir.stop()
}

// Behaviour 11: a member that ends each process which runs it is filed once and counts as failed.
func TestPoisonMember(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	watcher := f.start("-queues=rare", "-concurrency=1")
	id := f.begin(f.client(), goworker.Chord(goworker.Group(step("Die", "poison"), step("Nap", "good", 0)).Collect(), goworker.Step(goworker.NewJob("behind", "Nap", "callback", 0))))
	p := f.launch("-concurrency=1")
	f.eventually(4*recovery, "it is filed", func() bool {
		select {
		case <-p.exited:
			p = f.launch("-concurrency=1")
		default:
		}
		return f.redis.Int(t, "LLEN", "resque:queue:behind") == 1
	})
	callback := f.redis.Text(t, "LINDEX", "resque:queue:behind", 0)
	if filed := f.redis.List(t, "LRANGE", "resque:failed", 0, -1); len(filed) != 1 || !strings.Contains(filed[0], "Resque::DirtyExit") {
		t.Errorf("filed are %q", filed)
	}
	if !strings.Contains(callback, `{"error":{"step":0,`) || !strings.Contains(callback, "Resque::DirtyExit") || !strings.HasPrefix(f.letters(id), "fds") {
		t.Errorf("the callback is %s, letters %s", callback, f.letters(id))
	}
	p.stop()
	watcher.stop()
}

// Behaviour 18: Redis comes back without what it wrote last. All workflows end, and each callback is sent once in the history that
// Redis has.
func TestWorkflowsWhenRedisForgets(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
	c := f.client()
	const workflows = 150
	var began []string
	begin := func(n int) {
		for range n {
			k := len(began)
			members := goworker.Group(step("Nap", fmt.Sprint("a", k), 90), goworker.Chain(step("Nap", fmt.Sprint("b", k), 60), step("Nap", fmt.Sprint("c", k), 60)))
			began = append(began, f.begin(c, goworker.Chord(members, step("Nap", fmt.Sprint("callback", k), 30)), goworker.WithID(fmt.Sprint("w", k))))
		}
	}
	ended := func(of []string) (n int) {
		for _, id := range of {
			if f.workflow(id, "state") == "done" {
				n++
			}
		}
		return n
	}
	begin(workflows)
	p := f.start("-concurrency=8") // now, so that a slow machine has not run them all before the copy
	// It asks for few of them: on a slow machine all would have ended before it had asked for all.
	f.eventually(soon, "some have ended", func() bool { return ended(began[:10]) > 5 })
	kept := copyOf(t, filepath.Join(f.redis.Dir, "appendonlydir"))
	before := ended(began)
	f.eventually(soon, "more have ended", func() bool { return ended(began) >= min(before+10, workflows) })
	f.redis.Kill()
	kept()
	f.redis.Restart(t)
	f.eventually(recovery, "all have ended", func() bool { return ended(began) == workflows })
	f.eventually(soon, "nothing is left to run", func() bool { return len(f.queue()) == 0 && f.redis.Int(t, "ZCARD", "resque:go:schedule") == 0 })
	runs, twice := counts(f.events("start")), 0
	for _, n := range runs {
		if n > 1 {
			twice++
		}
	}
	if twice == 0 {
		t.Error("no job ran twice, so Redis has forgotten nothing")
	}
	for k, id := range began {
		if letters := f.letters(id); strings.Trim(letters, "dg") != "" {
			t.Errorf("workflow %s has the letters %s", id, letters)
		}
		if n := runs[fmt.Sprint("callback", k)]; n < 1 || n > 2 {
			t.Errorf("the callback of %s ran %d times", id, n)
		}
	}
	p.stop()
}

// copyOf copies a folder, and returns what puts the copy in its place.
func copyOf(t *testing.T, dir string) (restore func()) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(copied)); err != nil {
			t.Fatal(err)
		}
	}
}
