// Package history kills processes while the fleet counts, and compares the history with Resque's totals.
package history

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

type fleet struct {
	t     *testing.T
	redis *redistest.Server
	in    *inspect.Inspector
	alive map[int]*exec.Cmd // by process id
}

// start starts a daemon in a process of its own.
func (f *fleet) start() {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerOf+"="+f.redis.URI())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.alive[cmd.Process.Pid] = cmd
	f.t.Cleanup(func() {
		if f.alive[cmd.Process.Pid] != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
}

func (f *fleet) end(pid int, how os.Signal) {
	f.t.Helper()
	cmd := f.alive[pid]
	delete(f.alive, pid)
	if cmd == nil {
		f.t.Fatalf("process %d is not one of these", pid)
	}
	_ = cmd.Process.Signal(how)
	_ = cmd.Wait()
}

func (f *fleet) eventually(what string, cond func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(2 * daemontest.Soon); !cond(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within %s: %s", 2*daemontest.Soon, what)
		}
	}
}

// processed returns how many jobs the workers of a process have ended, as Resque's totals say.
func (f *fleet) processed(pid int) (n int) {
	f.t.Helper()
	for _, key := range f.redis.List(f.t, "KEYS", fmt.Sprintf("resque:stat:processed:*.go:%d-*", pid)) {
		n += f.redis.Int(f.t, "GET", key)
	}
	return n
}

// folded is how many jobs the history has.
func (f *fleet) folded() int64 {
	f.t.Helper()
	h, err := f.in.History(context.Background(), inspect.HistoryQuery{})
	if err != nil {
		f.t.Fatal(err)
	}
	return h.Total().Jobs().Processed
}

// The process that folds is killed while three count. The history has every job that Resque's totals have, but for what the killed one
// counted in its last ten seconds. No job is in it twice.
func TestHistoryAddsUpWhereTheKeeperDies(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, redis: redistest.Start(t), alive: make(map[int]*exec.Cmd)}
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	f.in = client.Inspect()
	const jobs = 6000
	for n := range jobs {
		f.redis.Do(t, "RPUSH", "resque:queue:work", fmt.Sprintf(`{"class":"Nap","args":[%d]}`, 10+n%40))
	}
	for range 3 {
		f.start()
	}
	f.eventually("something is folded", func() bool { return f.folded() > 0 })
	all, err := f.in.Processes(context.Background())
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	keeper := all[0].PID // the first by its id
	counted := f.processed(keeper)
	time.Sleep(5 * time.Second) // it counts what is in no pack
	f.end(keeper, syscall.SIGKILL)
	lost := f.processed(keeper) - counted + 1200 // and 12 s of three workers, between what they counted and the fold
	f.start()
	f.eventually("all jobs have run", func() bool {
		return f.redis.Int(t, "LLEN", "resque:queue:work") == 0 && f.redis.Int(t, "GET", "resque:stat:processed") >= jobs-20
	})
	for pid := range f.alive {
		f.end(pid, syscall.SIGTERM)
	}
	f.start()
	f.eventually("the tally is folded", func() bool { return f.redis.Int(t, "LLEN", "resque:go:tally") == 0 })
	var has int64
	f.eventually("the history stands still", func() bool {
		now := f.folded()
		still := now == has
		has = now
		return still
	})
	total := int64(f.redis.Int(t, "GET", "resque:stat:processed"))
	if has > total || has < total-int64(lost) {
		t.Errorf("the history has %d jobs, the totals %d; the killed process may have taken %d with it", has, total, lost)
	}
	for _, step := range []time.Duration{10 * time.Minute, time.Hour, 24 * time.Hour} {
		h, err := f.in.History(context.Background(), inspect.HistoryQuery{Step: step})
		if n := h.Total().Jobs().Processed; err != nil || n != has {
			t.Errorf("by %s it has %d jobs, by minute %d; %v", step, n, has, err)
		}
	}
	f.eventually("the log has who came, left and was lost", func() bool {
		entries, _, err := f.in.Log(context.Background(), "", 100)
		kinds := make(map[string]int)
		for _, e := range entries {
			kinds[e.Kind]++
		}
		return err == nil && kinds[inspect.LogLost] == 1 && kinds[inspect.LogOffline] == 3 && kinds[inspect.LogOnline] == 5
	})
}
