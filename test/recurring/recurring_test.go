// Package recurring kills and stops the processes that fire recurring schedules, and
// checks that every tick was fired once. The test binary is the worker program as well:
// with a URI in its environment it works instead of testing.
package recurring

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

const uriVar = "GOWORKER_RECURRING_URI"

// killsVar is how many processes are killed, replaced or stopped; more than by default for a longer run.
const killsVar = "GOWORKER_RECURRING_KILLS"

// schedules are those of the program: a cron, one that Ruby has too, a period.
var schedules = map[string]goworker.Recurring{
	"cron":   {Cron: "* * * * * *"},
	"shared": {Cron: "* * * * * * Europe/Berlin", Shared: true},
	"period": {Every: time.Second},
}

var names = []string{"cron", "shared", "period"}

func TestMain(m *testing.M) {
	if uri := os.Getenv(uriVar); uri != "" {
		os.Exit(program(uri))
	}
	os.Exit(m.Run())
}

func program(uri string) int {
	goworker.SetSettings(goworker.WorkerSettings{URI: uri, QueuesString: "work", Concurrency: 1, AllowNoHandlers: true})
	for name, r := range schedules {
		r.Class, r.Queue, r.TickArg = "Tick", name, true
		if err := goworker.Schedule(name, r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	if err := goworker.Work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

type fleet struct {
	t     *testing.T
	redis *redistest.Server
	alive map[int]*exec.Cmd
}

func (f *fleet) start() {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), uriVar+"="+f.redis.URI(), "GORACE=atexit_sleep_ms=0")
	if os.Getenv("VERBOSE") != "" {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.alive[cmd.Process.Pid] = cmd
}

func (f *fleet) end(pid int, signal syscall.Signal) {
	cmd := f.alive[pid]
	delete(f.alive, pid)
	_ = cmd.Process.Signal(signal)
	err := cmd.Wait()
	if signal == syscall.SIGTERM && err != nil {
		f.t.Errorf("process %d: %v", pid, err)
	}
}

// owner is the process that fired a schedule's last tick, 0 if it is none of this test's.
func (f *fleet) owner(schedule string) int {
	fields := strings.Fields(f.redis.Text(f.t, "HGET", "resque:go:ticks", schedule))
	if len(fields) < 3 {
		return 0
	}
	parts := strings.Split(fields[1], ":")
	if len(parts) < 2 {
		return 0
	}
	pid, _ := strconv.Atoi(parts[len(parts)-2])
	if f.alive[pid] == nil {
		return 0
	}
	return pid
}

func (f *fleet) fired(schedule string) int {
	return f.redis.Int(f.t, "LLEN", "resque:queue:"+schedule)
}

// goOn waits until live processes fire all schedules.
func (f *fleet) goOn() {
	f.t.Helper()
	for _, name := range names {
		n := f.fired(name)
		redistest.Eventually(f.t, time.Minute, "the ticks of "+name+" go on", func() bool { return f.fired(name) > n+1 && f.owner(name) != 0 })
	}
}

// nearTick waits for a moment shortly before or after a full second.
func nearTick() {
	next := time.Now().Truncate(time.Second).Add(time.Second)
	time.Sleep(time.Until(next) - 15*time.Millisecond + rand.N(30*time.Millisecond))
}

func TestTicksSurviveKills(t *testing.T) {
	t.Parallel()
	kills := 5
	if n, err := strconv.Atoi(os.Getenv(killsVar)); err == nil {
		kills = n
	}
	f := &fleet{t: t, redis: redistest.Start(t), alive: make(map[int]*exec.Cmd)}
	t.Cleanup(func() {
		for pid := range f.alive {
			f.end(pid, syscall.SIGKILL)
		}
	})
	for range 3 {
		f.start()
	}
	stops, deploys := 0, 0
	for n := range kills {
		f.goOn()
		owner := f.owner(names[n%len(names)])
		if owner == 0 {
			continue
		}
		nearTick()
		switch {
		case n%5 == 4: // it stands still while another takes its place, and then goes on
			stops++
			stopped := f.alive[owner]
			_ = stopped.Process.Signal(syscall.SIGSTOP)
			f.goOn()
			_ = stopped.Process.Signal(syscall.SIGCONT)
		case n%5 == 3: // a deploy
			deploys++
			f.start()
			f.end(owner, syscall.SIGTERM)
		default:
			f.end(owner, syscall.SIGKILL)
			f.start()
		}
	}
	f.goOn()
	for pid := range f.alive {
		f.end(pid, syscall.SIGTERM)
	}
	total, missed, doubled := f.count(names)
	t.Logf("%d ticks, %d processes killed, %d replaced, %d stopped for a while: missed %d, doubled %d", total, kills-stops-deploys, deploys, stops, missed, doubled)
}

// Redis itself is killed and starts again with what it has on disk, which is all.
func TestTicksSurviveKillsOfRedis(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, redis: redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always"), alive: make(map[int]*exec.Cmd)}
	t.Cleanup(func() {
		for pid := range f.alive {
			f.end(pid, syscall.SIGKILL)
		}
	})
	for range 2 {
		f.start()
	}
	const kills = 3
	for range kills {
		f.goOn()
		nearTick()
		f.redis.Kill()
		f.redis.Restart(t)
	}
	f.goOn()
	for pid := range f.alive {
		f.end(pid, syscall.SIGTERM)
	}
	total, missed, doubled := f.count(names)
	t.Logf("%d ticks, Redis killed %d times: missed %d, doubled %d", total, kills, missed, doubled)
}

// count looks for ticks that were fired twice or not at all.
func (f *fleet) count(schedules []string) (total, missed, doubled int) {
	f.t.Helper()
	for _, name := range schedules {
		seen := make(map[int64]int)
		var first, last int64
		for i, text := range f.redis.List(f.t, "LRANGE", "resque:queue:"+name, 0, -1) {
			var job struct {
				Args []time.Time `json:"args"`
			}
			if err := json.Unmarshal([]byte(text), &job); err != nil || len(job.Args) != 1 {
				f.t.Fatalf("job %s: %v", text, err)
			}
			at := job.Args[0].UnixMilli()
			if seen[at]++; seen[at] > 1 {
				doubled++
				f.t.Errorf("%s: tick %v was fired twice", name, job.Args[0])
			}
			if i == 0 {
				first = at
			}
			last = max(last, at)
			total++
		}
		for at := first; at <= last; at += 1000 {
			if seen[at] == 0 {
				missed++
				f.t.Errorf("%s: tick %v was not fired", name, time.UnixMilli(at).UTC())
			}
		}
	}
	return total, missed, doubled
}
