package isolated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/resque"
)

var held [][]byte // by handlers of Again

// registerKept registers classes whose children are kept.
func registerKept(d *goworker.Daemon, note func(string, ...any), env goworker.IsolatedOption) {
	counted := 0
	d.Register("Thrice", func(ctx context.Context) (int, error) {
		counted++
		run := goworker.FromContext(ctx)
		note("thrice %d %d id=%s attempt=%d", os.Getpid(), counted, run.ID, run.Attempt)
		return counted, nil
	}, goworker.Isolated(goworker.Reuse(3), env))

	again := func(ctx context.Context, does string) error {
		note("again %d", os.Getpid())
		switch does {
		case "leave":
			leave(note)
		case "say":
			fmt.Fprintln(os.Stderr, "panic: only a text of the job before")
		case "panic":
			panic("it does not work")
		case "goexit":
			runtime.Goexit()
		case "error":
			return errNoLuck
		case "exit":
			os.Exit(3)
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case "crash":
			go panic("boom")
			select {}
		case "goroutine":
			go func() { select {} }()
		case "memory":
			b := make([]byte, 100<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		case "hold":
			note("held")
			<-ctx.Done()
			note("cause %v", context.Cause(ctx))
			return ctx.Err()
		case "forever":
			leave(note)
			note("held")
			select {}
		}
		return nil
	}
	d.Register("Again", again, goworker.Isolated(goworker.Reuse(1000), goworker.KillGrace(200*time.Millisecond), env))
	d.Register("Within", again, goworker.Isolated(goworker.Reuse(1000), goworker.HardTimeout(ample), goworker.KillGrace(0), env))
	d.Register("Patient", again, goworker.Isolated(goworker.Reuse(1000), goworker.KillGrace(time.Minute), env))
	d.Register("Roomy", again, goworker.Isolated(goworker.Reuse(1000), goworker.MaxMemory(1<<30), env))
}

// leave starts two processes, one of them in a session of its own, and notes them.
func leave(note func(string, ...any)) {
	for _, apart := range []bool{false, true} {
		sleep := exec.Command("sh", "-c", "sleep 1000 & echo $!; exec sleep 1000")
		sleep.SysProcAttr = &syscall.SysProcAttr{Setsid: apart}
		out, err := sleep.StdoutPipe()
		if err == nil {
			err = sleep.Start()
		}
		var second int
		if err == nil {
			_, err = fmt.Fscan(out, &second)
		}
		if err != nil {
			panic(err)
		}
		note("pids %d %d", sleep.Process.Pid, second)
		out.Close()
	}
}

func one(s *goworker.WorkerSettings) { s.Concurrency = 1 }

// children are the processes in which the jobs of Again ran, in their order.
func (b *bundle) children() []string { return b.noted("again ") }

// run runs a job that ends as done or failed, and returns its process.
func (b *bundle) run(class, does string) string {
	b.t.Helper()
	before := b.stat("processed") + b.stat("failed")
	b.push(fmt.Sprintf(`{"class":%q,"args":[%q]}`, class, does))
	b.eventually(class+" has ended that does: "+does, func() bool { return b.stat("processed")+b.stat("failed") > before })
	all := b.children()
	return all[len(all)-1]
}

// A child runs so many jobs and ends, and its parts run as long as it does.
func TestReuse(t *testing.T) {
	t.Parallel()
	b := setup(t, one)
	for n := range 7 {
		b.push(fmt.Sprintf(`{"class":"Thrice","args":[],"id":"j%d"}`, n))
	}
	b.eventually("the jobs are done", func() bool { return b.stat("processed") == 7 })
	var pids []string
	for n, line := range b.noted("thrice ") {
		pid, rest, _ := strings.Cut(line, " ")
		if want := fmt.Sprintf("%d id=j%d attempt=1", n%3+1, n); rest != want {
			t.Errorf("job %d noted %s, want %s", n, rest, want)
		}
		if pids = append(pids, pid); n%3 > 0 && pid != pids[n-1] || n%3 == 0 && n > 0 && pid == pids[n-1] {
			t.Errorf("the jobs ran in the processes %v", pids)
		}
	}
	b.mu.Lock()
	if got := strings.Join(b.results, " "); got != "1 2 3 1 2 3 1" {
		t.Errorf("the results are %s", got)
	}
	b.mu.Unlock()
	if closed := len(b.noted("database closed")); closed != 2 {
		t.Errorf("%d children have stopped their parts, want 2", closed)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	// The run has ended, and with it the child that waited.
	var last int
	if _, err := fmt.Sscan(pids[6], &last); err != nil || alive(last) {
		t.Errorf("process %d is there after the end of the run: %v", last, err)
	}
	if closed := len(b.noted("database closed")); closed != 3 {
		t.Errorf("%d children have stopped their parts, want 3", closed)
	}
}

// What a job does in a kept child costs that job only, with the record that it has in a child of its own. A child goes on after
// it if it is as before.
func TestReuseAfter(t *testing.T) {
	t.Parallel()
	b := setup(t, one)
	for _, tt := range []struct {
		class, does     string
		exception, text string // "": it is done
		frame           string // in the first line of the backtrace
		fresh           bool   // the next job has a new child
	}{
		{does: "nothing"},
		{does: "error", exception: "*errors.errorString", text: "no luck"},
		{does: "panic", exception: "PanicError", text: "panic: it does not work", frame: "kept_linux_test.go:"},
		{does: "goexit", exception: "Error", text: regexp.QuoteMeta(goworker.ErrGoexit.Error())},
		{does: "leave"},
		{does: "say"},
		{does: "exit", exception: "Resque::DirtyExit", text: "the child process of Again exited with status 3 before the handler returned", fresh: true},
		{does: "say"},
		{does: "crash", exception: "Resque::DirtyExit", text: "the child process of Again exited with status 2 before .*: panic: boom.*", frame: "panic: boom", fresh: true},
		{does: "kill", exception: "Resque::DirtyExit", text: `the child process of Again was killed by signal 9 \(killed\) before the handler returned, .*`, fresh: true},
		{does: "goroutine", fresh: true},
		{does: "memory", fresh: true},
		{class: "Roomy", does: "memory"},
		{class: "Within", does: "hold", exception: "goworker.TimeLimitError", text: "Within reached its hard time limit of 8s and was .*", fresh: true},
	} {
		class := tt.class
		if class == "" {
			class = "Again"
		}
		failed := b.stat("failed")
		pid := b.run(class, tt.does)
		switch {
		case tt.exception == "":
			if b.stat("failed") != failed {
				t.Errorf("%s %s failed: %v", class, tt.does, b.redis.List(t, "LRANGE", "resque:failed", -1, -1))
			}
		default:
			f := b.lastFailure()
			if f.Exception != tt.exception && tt.does != "error" || !regexp.MustCompile("^(?:"+tt.text+")$").MatchString(f.Error) {
				t.Errorf("the record of %s says %s: %s", tt.does, f.Exception, f.Error)
			}
			if tt.frame != "" && (len(f.Backtrace) == 0 || !strings.HasPrefix(f.Backtrace[0], tt.frame)) || strings.Contains(strings.Join(f.Backtrace, "\n"), "only a text") {
				t.Errorf("the backtrace of %s is %q", tt.does, f.Backtrace)
			}
		}
		for _, left := range b.pids() { // they were gone before the job had ended
			if alive(left) {
				t.Errorf("process %d is left of %s", left, tt.does)
			}
		}
		if next := b.run(class, "nothing"); (next != pid) != tt.fresh {
			t.Errorf("after %s of process %s the next job ran in %s", tt.does, pid, next)
		}
	}
	if left := b.pids(); len(left) != 4 {
		t.Errorf("the handlers noted the processes %v", left)
	}
}

// A job that was cancelled ends its child, and so does one that does not heed it, with all it has started.
func TestReuseAfterCancel(t *testing.T) {
	t.Parallel()
	b := setup(t, one)
	for n, job := range [][2]string{{"Patient", "hold"}, {"Again", "forever"}} {
		class, does := job[0], job[1]
		first := b.run(class, "nothing")
		b.push(fmt.Sprintf(`{"class":%q,"args":[%q],"id":%q}`, class, does, does))
		b.eventually("it runs: "+does, func() bool { return len(b.noted("held")) == n+1 })
		if err := b.daemon.Client().Cancel(t.Context(), does); err != nil {
			t.Fatal(err)
		}
		b.eventually("it is dropped: "+does, func() bool { return strings.Count(b.logged(), `msg="job cancelled"`) == n+1 })
		if b.run(class, "nothing") == first {
			t.Errorf("after %s the child goes on", does)
		}
	}
	b.gone(4)
	if cause := b.noted("cause "); len(cause) != 1 {
		t.Errorf("the causes were %q", cause)
	}
}

// After its lease was lost, a daemon gives no job to a child of before: neither to one that waited for a job, nor to one whose job
// was cancelled by it.
func TestReuseAfterLeaseLost(t *testing.T) {
	t.Parallel()
	b := setup(t, one)
	before := b.run("Patient", "nothing")
	if again := b.run("Patient", "nothing"); again != before {
		t.Fatalf("before the loss the jobs ran in %s and %s", before, again)
	}
	b.loseLease()
	if after := b.run("Patient", "nothing"); after == before {
		t.Error("the child that waited goes on after the loss")
	}

	b.push(`{"class":"Patient","args":["hold"]}`)
	b.eventually("it runs", func() bool { return len(b.noted("held")) == 1 })
	b.loseLease()
	b.eventually("it runs again", func() bool { return len(b.noted("held")) == 2 })
	all := b.children()
	if was, is := all[len(all)-2], all[len(all)-1]; was == is {
		t.Error("the child whose job was cancelled goes on after the loss")
	}
	if causes := b.noted("cause "); len(causes) != 1 || causes[0] != goworker.ErrLeaseLost.Error() {
		t.Errorf("the causes are %q", causes)
	}
}

// loseLease has the daemon found dead, and waits until it has another lease.
func (b *bundle) loseLease() {
	b.t.Helper()
	const said = "starting again under a new identity"
	store, c, before := resque.New("resque"), b.redis.Dial(b.t), strings.Count(b.logged(), said)
	b.eventually("the daemon is found dead", func() bool { // between two renewals
		lease := b.redis.List(b.t, "ZRANGE", "resque:go:processes", 0, -1, "WITHSCORES")
		if len(lease) != 2 { // the process of before is still to be recovered
			return false
		}
		taken, err := store.Fence(c, lease[0], lease[1])
		return taken && err == nil
	})
	b.eventually("it learns so", func() bool { return strings.Count(b.logged(), said) > before })
}

// A child that holds more than half of MaxMemory gets no other job, and costs none.
func TestReuseAfterMemory(t *testing.T) {
	t.Parallel()
	b := setup(t, one)
	first := b.run("Roomy", "memory")
	for n := 2; b.run("Roomy", "memory") == first; n++ { // half of it are 512 MiB
		if n == 6 {
			t.Fatalf("after %d times 100 MiB the child goes on", n)
		}
	}
	if n := b.stat("failed"); n != 0 {
		t.Errorf("%d failed: %v", n, b.redis.List(t, "LRANGE", "resque:failed", 0, -1))
	}
}

// A child that dies without a job costs none.
func TestReuseOfADeadChild(t *testing.T) {
	t.Parallel()
	b := setup(t, one)
	for range 3 {
		var pid int
		if _, err := fmt.Sscan(b.run("Again", "nothing"), &pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	b.run("Again", "nothing")
	if n := b.stat("failed"); n != 0 {
		t.Errorf("%d failed: %v", n, b.redis.List(t, "LRANGE", "resque:failed", 0, -1))
	}
}

// A daemon that is killed leaves no child behind, with a job or without, and nothing that a job has started.
func TestReuseOfAKilledDaemon(t *testing.T) {
	t.Parallel()
	b, cmd := daemonProcess(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	b.push(`{"class":"Again","args":["nothing"]}`, `{"class":"Within","args":["nothing"]}`)
	b.eventually("two are done", func() bool { return b.stat("processed") == 2 })
	b.push(`{"class":"Again","args":["forever"]}`)
	b.eventually("one runs", func() bool { return len(b.noted("held")) == 1 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.gone(4)
	b.eventually("the children are gone", func() bool {
		for _, text := range b.children() {
			var pid int
			if _, err := fmt.Sscan(text, &pid); err != nil || alive(pid) {
				return false
			}
		}
		return true
	})
}

// Each mistake is one sentence at the registration.
func TestReuseMistakes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		0:  "Reuse(0): a child runs at least one job; leave it out for one",
		-1: "Reuse(-1): a child runs at least one job; leave it out for one",
		1:  "",
	} {
		err := func() (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("%v", v)
				}
			}()
			d := goworker.New(goworker.WorkerSettings{URI: "redis://localhost:1/", QueuesString: "work"})
			defer d.Close()
			d.Register("Some", func() {}, goworker.Isolated(goworker.Reuse(n)))
			return nil
		}()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Reuse(%d): %v", n, errors.Join(err))
		}
	}
}
