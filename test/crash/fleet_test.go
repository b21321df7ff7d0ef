package crash

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// recovery is how long a test waits for jobs of a killed process to run again. It
// takes about 10 s, and 12 at most on an idle machine.
const recovery = time.Minute

// soon is how long a test waits for what needs no recovery.
const soon = time.Minute

// fleet is a Redis, the processes that work on it, and their ledger.
type fleet struct {
	t       *testing.T
	redis   *redistest.Server
	ledger  string
	program string // of its processes

	mu       sync.Mutex
	programs []*process
}

func newFleet(t *testing.T, redisArgs ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, redis: redistest.Start(t, redisArgs...), ledger: filepath.Join(t.TempDir(), "ledger"), program: os.Args[0]}
	t.Cleanup(f.cleanup)
	return f
}

// cleanup ends what still runs and fails the test where a program raced or crashed
// by itself.
func (f *fleet) cleanup() {
	for _, p := range f.programs {
		p.signal(syscall.SIGKILL)
		<-p.exited
		out := p.output()
		for _, sign := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
			if strings.Contains("\n"+out, "\n"+sign) {
				f.t.Errorf("process %d: %s", p.pid, sign)
			}
		}
		if f.t.Failed() {
			f.t.Logf("process %d wrote:\n%s", p.pid, out)
		}
	}
}

// process is one running worker program.
type process struct {
	f      *fleet
	cmd    *exec.Cmd
	pid    int
	exited chan struct{}
	err    error // of its end; valid after exited

	mu  sync.Mutex
	out bytes.Buffer
}

// start runs a worker program on the queue "work", with further flags, and returns
// when it is in the fleet.
func (f *fleet) start(flags ...string) *process {
	f.t.Helper()
	p := f.launch(flags...)
	redistest.Eventually(f.t, soon, "the process enters the fleet", func() bool {
		p.mustRun()
		return p.id() != ""
	})
	return p
}

func (f *fleet) launch(flags ...string) *process { f.t.Helper(); return f.startWith(nil, flags...) }

// startWith runs a worker program with additions to its environment.
func (f *fleet) startWith(environment []string, flags ...string) *process {
	f.t.Helper()
	args := append([]string{"-uri=" + f.redis.URI(), "-queues=work", "-interval=60"}, flags...)
	p := &process{f: f, cmd: exec.Command(f.program, args...), exited: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), ledgerVar+"="+f.ledger), environment...)
	// The race detector would hold up each exit by a second.
	p.cmd.Env = append(p.cmd.Env, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.programs = append(f.programs, p)
	return p
}

// Write takes the program's output.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// id is the process's name in the fleet, "" before it is there.
func (p *process) id() string {
	p.f.t.Helper()
	for _, id := range p.f.redis.List(p.f.t, "ZRANGE", "resque:go:processes", 0, -1) {
		if strings.Contains(id, ":"+strconv.Itoa(p.pid)+":") {
			return id
		}
	}
	return ""
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

func (p *process) mustRun() {
	p.f.t.Helper()
	select {
	case <-p.exited:
		p.f.t.Fatalf("process %d ended by itself: %v", p.pid, p.err)
	default:
	}
}

// wait returns the exit status.
func (p *process) wait() int {
	p.f.t.Helper()
	select {
	case <-p.exited:
		return exitStatus(p.err)
	case <-time.After(recovery):
		p.f.t.Fatalf("process %d does not end", p.pid)
		return 0
	}
}

// stop sends TERM and expects a clean exit.
func (p *process) stop() {
	p.f.t.Helper()
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 {
		p.f.t.Errorf("process %d exits with %d", p.pid, status)
	}
}

// open lets the waiting handlers of a process end; of all without an argument.
func (f *fleet) open(of ...*process) {
	f.t.Helper()
	names := []string{f.ledger + ".gate"}
	if len(of) > 0 {
		names = nil
	}
	for _, p := range of {
		names = append(names, fmt.Sprintf("%s.gate.%d", f.ledger, p.pid))
	}
	for _, name := range names {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// event is a line of the ledger.
type event struct {
	kind, id string
	pid      int
	detail   string
}

// events reads the ledger: those of the given kind, of one process if given.
func (f *fleet) events(kind string, of ...*process) (events []event) {
	f.t.Helper()
	text, err := os.ReadFile(f.ledger)
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 4 || !strings.HasSuffix(line, "\n") {
			continue // just being written
		}
		e := event{kind: fields[0], id: fields[1], detail: fields[3]}
		e.pid, _ = strconv.Atoi(fields[2])
		if e.kind == kind && (len(of) == 0 || of[0].pid == e.pid) {
			events = append(events, e)
		}
	}
	return events
}

// ids are the jobs of events, in order.
func ids(events []event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.id)
	}
	return ids
}

func counts(events []event) map[string]int {
	n := make(map[string]int)
	for _, e := range events {
		n[e.id]++
	}
	return n
}

func (f *fleet) eventually(within time.Duration, what string, cond func() bool) {
	f.t.Helper()
	redistest.Eventually(f.t, within, what, cond)
}

func job(class, id string) string { return fmt.Sprintf(`{"class":%q,"args":[%q]}`, class, id) }

func nap(id string, ms int) string { return fmt.Sprintf(`{"class":"Nap","args":[%q,%d]}`, id, ms) }

func jobs(class string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = job(class, fmt.Sprintf("%s%03d", class, i))
	}
	return all
}

// push enqueues as Ruby does.
func (f *fleet) push(payloads ...string) {
	f.t.Helper()
	f.redis.Do(f.t, "SADD", "resque:queues", "work")
	args := []any{"resque:queue:work"}
	for _, p := range payloads {
		args = append(args, p)
	}
	f.redis.Do(f.t, "RPUSH", args...)
}

func (f *fleet) queue() []string {
	f.t.Helper()
	return f.redis.List(f.t, "LRANGE", "resque:queue:work", 0, -1)
}

func (f *fleet) stat(name string) int {
	f.t.Helper()
	return f.redis.Int(f.t, "GET", "resque:stat:"+name)
}

// renewed waits until the leases of all processes were renewed n times.
func (f *fleet) renewed(n int, processes ...*process) {
	f.t.Helper()
	last := make(map[string]string)
	seen := make(map[string]int)
	f.eventually(recovery, "the leases are renewed", func() bool {
		done := true
		for _, p := range processes {
			id := p.id()
			if value := f.redis.Text(f.t, "ZSCORE", "resque:go:processes", id); value != last[id] {
				last[id] = value
				seen[id]++
			}
			done = done && id != "" && seen[id] > n
		}
		return done
	})
}

// buried waits until the living have taken all the dead out of the fleet. A process that
// is stopped before leaves that to the next one.
func (f *fleet) buried() {
	f.t.Helper()
	f.eventually(recovery, "the dead are out of the fleet", func() bool {
		living := 0
		for _, p := range f.programs {
			select {
			case <-p.exited:
			default:
				if p.id() != "" {
					living++
				}
			}
		}
		return f.redis.Int(f.t, "ZCARD", "resque:go:processes") == living
	})
}

// left returns the keys that are there besides queues, failures, totals and what
// the living processes need.
func (f *fleet) left(alive ...*process) (keys []string) {
	f.t.Helper()
	for _, key := range f.redis.Keys(f.t) {
		name := strings.TrimPrefix(key, "resque:")
		switch {
		case name == "queues", name == "failed", name == "stat:processed", name == "stat:failed":
			continue
		case strings.HasPrefix(name, "queue:"), strings.HasPrefix(name, "go:probe:"), strings.HasPrefix(name, "go:sentries:"), daemontest.OfHistory(name):
			continue
		case strings.HasPrefix(name, "go:reaped:"), name == "go:recovered":
			continue // what others must remember of the dead
		case len(alive) > 0 && (name == "workers" || name == "workers:heartbeat" || name == "go:processes" || name == "go:pulse"):
			continue
		}
		owned := false
		for _, p := range alive {
			pid := strconv.Itoa(p.pid)
			owned = owned || strings.Contains(name, ":"+pid+":") || strings.Contains(name, ".go:"+pid+"-")
		}
		if !owned {
			keys = append(keys, key)
		}
	}
	return keys
}

// of returns the members of a set or the fields of a hash that belong to a process.
func (f *fleet) of(p *process, command, key string) (own []string) {
	f.t.Helper()
	for _, id := range f.redis.List(f.t, command, key) {
		if strings.Contains(id, ".go:"+strconv.Itoa(p.pid)+"-") {
			own = append(own, id)
		}
	}
	return own
}
