// Package mixed tests the last release beside this one: a rolling deploy, or one forgotten binary.
package mixed

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// fleet is processes of both releases on a Redis.
type fleet struct {
	t *testing.T
	programs
	redis *redistest.Server
}

// process is one of them.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start starts a program that works the queue work under a hostname, and waits until it is in the fleet. Hostnames decide whose
// id is the smallest.
func (f *fleet) start(program, hostname string) *process {
	f.t.Helper()
	p := &process{cmd: exec.Command(program, f.redis.URI(), "work", hostname), ended: make(chan struct{})}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	f.t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if f.t.Failed() {
			f.t.Logf("%s:\n%s", hostname, p.text())
		}
	})
	f.eventually(hostname+" is in the fleet", func() bool { return f.id(hostname) != "" })
	return p
}

// end sends a signal and waits for the end.
func (p *process) end(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s)
	<-p.ended
}

// id is the id of the process of a hostname in the fleet; "": it has none.
func (f *fleet) id(hostname string) string {
	for _, id := range f.redis.List(f.t, "ZRANGE", "resque:go:processes", 0, -1) {
		if strings.HasPrefix(id, hostname+":") {
			return id
		}
	}
	return ""
}

func (f *fleet) push(class string, ids ...string) {
	f.t.Helper()
	f.redis.Do(f.t, "SADD", "resque:queues", "work")
	for _, id := range ids {
		f.redis.Do(f.t, "RPUSH", "resque:queue:work", fmt.Sprintf(`{"class":%q,"args":[%q]}`, class, id))
	}
}

// some are ids of jobs.
func some(name string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-%d", name, i))
	}
	return ids
}

func (f *fleet) eventually(what string, cond func() bool) {
	f.t.Helper()
	redistest.Eventually(f.t, 90*time.Second, what, cond)
}

// by is how many jobs a hostname has done.
func (f *fleet) by(hostname string) int { return f.redis.Int(f.t, "HGET", "book:by", hostname) }

// ran waits until each of these jobs has run.
func (f *fleet) ran(ids ...string) {
	f.t.Helper()
	f.eventually("all jobs have run", func() bool {
		for _, id := range ids {
			if f.redis.Int(f.t, "HGET", "book:ran", id) == 0 {
				return false
			}
		}
		return true
	})
}

func (f *fleet) depth() resque.Depth {
	all, err := resque.New("").Depths(f.redis.Dial(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	return all["work"]
}

func TestMixed(t *testing.T) {
	t.Parallel()
	both := build(t)
	for name, test := range map[string]func(*fleet){
		"dead of the older release":     func(f *fleet) { f.recovers(f.older, f.newer) },
		"dead of this release":          func(f *fleet) { f.recovers(f.newer, f.older) },
		"nothing is lost":               (*fleet).losesNothing,
		"pauses and limits":             (*fleet).pauses,
		"ages of queues and the keeper": (*fleet).ages,
		"an idle process":               (*fleet).idle,
		"rolled and rolled back":        (*fleet).rolls,
		"the way back":                  (*fleet).goesBack,
		"large payloads of the dead":    (*fleet).leavesLarge,
		"large payloads side by side":   (*fleet).joinsLarge,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&fleet{t: t, programs: both, redis: redistest.Start(t)})
		})
	}
}

// recovers kills a process of one release that runs jobs, and one of the other release runs them, whichever has the smaller id.
func (f *fleet) recovers(dying, heir string) {
	for n, names := range [][2]string{{"a1", "z1"}, {"z2", "a2"}} {
		dead := f.start(dying, names[0])
		id := f.id(names[0])
		held := some(fmt.Sprint("held", n), 3)
		f.push("Hold", held...)
		f.eventually("its workers are busy", func() bool { return f.redis.Int(f.t, "HGET", "book:holds", names[0]) == 3 })
		after := f.start(heir, names[1])
		dead.end(syscall.SIGKILL)
		f.eventually("the other one has the jobs", func() bool { return f.redis.Int(f.t, "HGET", "book:holds", names[1]) == 3 })
		f.eventually("nothing is left of the dead", func() bool {
			return f.redis.Int(f.t, "EXISTS", "resque:go:inflight:"+id, "resque:go:process:"+id) == 0 && f.id(names[0]) == ""
		})
		after.end(syscall.SIGTERM)
		f.eventually("the jobs are back, and no worker is left", func() bool {
			return f.redis.Int(f.t, "LLEN", "resque:queue:work") == 3 && f.redis.Int(f.t, "SCARD", "resque:workers") == 0
		})
		f.redis.Do(f.t, "DEL", "resque:queue:work")
	}
}

// losesNothing kills processes of both releases while jobs come. Each job runs, and the totals are those of both.
func (f *fleet) losesNothing() {
	f.start(f.older, "older-0")
	f.start(f.newer, "newer-0")
	var all []string
	for n := range 4 {
		victim := f.start([]string{f.older, f.newer}[n%2], fmt.Sprint("victim-", n))
		ids := some(fmt.Sprint("job", n), 150)
		all = append(all, ids...)
		f.push("Note", ids...)
		f.eventually("the victim works", func() bool { return f.by(fmt.Sprint("victim-", n)) > 5 })
		victim.end(syscall.SIGKILL)
	}
	f.ran(all...)
	f.eventually("all are counted", func() bool { return f.redis.Int(f.t, "GET", "resque:stat:processed") >= len(all) })
	if f.by("older-0") == 0 || f.by("newer-0") == 0 {
		f.t.Errorf("the older release did %d jobs, this one %d", f.by("older-0"), f.by("newer-0"))
	}
	if n := f.redis.Int(f.t, "LLEN", "resque:failed"); n > 0 {
		f.t.Errorf("%d jobs failed: %q", n, f.redis.List(f.t, "LRANGE", "resque:failed", 0, 2))
	}
}

// pauses holds a queue for both releases, and one limit for the jobs of both.
func (f *fleet) pauses() {
	f.start(f.older, "older")
	f.start(f.newer, "newer")
	f.push("Note", "warm")
	f.ran("warm")
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI()})
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	in := client.Inspect()
	if err := in.PauseQueue(f.t.Context(), "work"); err != nil {
		f.t.Fatal(err)
	}
	ids := some("paused", 20)
	f.push("Note", ids...)
	renewed := func() string {
		return strings.Join(f.redis.List(f.t, "ZRANGE", "resque:go:processes", 0, -1, "WITHSCORES"), " ")
	}
	for range 3 { // each has looked meanwhile
		before := renewed()
		f.eventually("leases are renewed", func() bool { return renewed() != before })
	}
	if n := f.redis.Int(f.t, "LLEN", "resque:queue:work"); n != 20 {
		f.t.Errorf("%d of 20 jobs are left in a paused queue", n)
	}
	if err := in.ResumeQueue(f.t.Context(), "work"); err != nil {
		f.t.Fatal(err)
	}
	f.ran(ids...)
	f.pausesForAWhile(in)

	if most := f.limited("one", 86); most > 1 {
		f.t.Errorf("%d jobs ran at a time under a limit of 1", most)
	}
	if _, err := in.SetLimit(f.t.Context(), "Limited", "3"); err != nil { // an operator's number, for the processes of both
		f.t.Fatal(err)
	}
	if most := f.limited("three", 146); most > 3 {
		f.t.Errorf("%d jobs ran at a time where an operator lets 3 of 6 workers", most)
	}
	if now := f.redis.Text(f.t, "HGET", "resque:go:limits", "c:Limited"); now != "3" {
		f.t.Errorf("the operator's number 3 has become %q", now)
	}
}

// pausesForAWhile pauses the queue with an end: until then it holds for both releases, and after it the jobs run though no operator resumes
// the queue.
func (f *fleet) pausesForAWhile(in *inspect.Inspector) {
	const d = 10 * time.Second
	if err := in.PauseQueueFor(f.t.Context(), "work", d); err != nil {
		f.t.Fatal(err)
	}
	began := time.Now()
	ids := some("timed", 5)
	f.push("Note", ids...)
	for time.Since(began) < d-time.Second {
		n := f.redis.Int(f.t, "LLEN", "resque:queue:work")
		if at := time.Since(began); n < len(ids) && at < d-time.Second {
			f.t.Fatalf("%d of 5 jobs are left in a paused queue, %v before its pause ends", n, d-at)
		}
		time.Sleep(200 * time.Millisecond)
	}
	f.ran(ids...)
}

// limited runs sixty jobs of a limit, and returns how many ran at a time. all is how many jobs have run then.
func (f *fleet) limited(name string, all int) (most int) {
	f.push("Limited", some(name, 60)...)
	f.eventually("the limited jobs have run", func() bool {
		sum := 0 // of one moment
		for _, running := range f.redis.List(f.t, "HVALS", "book:running") {
			n, _ := strconv.Atoi(running)
			sum += n
		}
		most = max(most, sum)
		return f.redis.Int(f.t, "HLEN", "book:ran") == all
	})
	return most
}

// ages are not counted where the older release takes, and the keeper is of this release though the leader is not. When the older
// one has gone, they are.
func (f *fleet) ages() {
	old := f.start(f.older, "a-older")
	f.start(f.newer, "z-newer")
	f.push("Note", some("first", 40)...)
	f.eventually("the keeper has looked, and does not count", func() bool {
		f.push("Note", "more")
		d := f.depth()
		return !d.At.IsZero() && d.Method != resque.AgeCounted
	})
	f.eventually("the jobs of both are done", func() bool { return f.by("a-older") > 0 && f.by("z-newer") > 0 })
	f.historyOfThis("z-newer")
	if d := f.depth(); d.Method == resque.AgeCounted {
		f.t.Errorf("a queue of the older release is counted: %+v", d)
	}
	old.end(syscall.SIGTERM)
	f.eventually("the keeper counts", func() bool { f.push("Note", "last"); return f.depth().Method == resque.AgeCounted })
}

// historyOfThis waits until the history has the jobs that the process of this release ran, and none of the older one's.
func (f *fleet) historyOfThis(hostname string) {
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI()})
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	f.eventually("the history has what the process of this release ran, and no more", func() bool {
		h, err := client.Inspect().History(f.t.Context(), inspect.HistoryQuery{})
		return err == nil && h.Total().Jobs().Processed == int64(f.by(hostname))
	})
}
