package control

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// soon is long for what happens within seconds.
const soon = 2 * time.Minute

// A process that stands still is named as silent, after the answers of the others. One that is killed is silent until it is recovered. Then
// it is not asked any more, and the log has it as lost. It was the keeper of the fleet, and timed pauses of a queue and of a class end all the same.
func TestKilledKeeper(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	running := make(map[int]*os.Process)
	for range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), workerOf+"="+server.URI()), os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running[cmd.Process.Pid] = cmd.Process
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, in, ctx := control.New(client), client.Inspect(), t.Context()
	signal := func(pid int, how syscall.Signal) {
		t.Helper()
		if err := running[pid].Signal(how); err != nil {
			t.Fatal(err)
		}
	}
	// named asks all, and returns who answered before a process was named as silent.
	named := func(process string) (answered []string, silent *control.SilentError) {
		for reply, err := range c.Inspect(ctx, control.Ping, control.Timeout(3*time.Second)) {
			if errors.As(err, &silent) && silent.Process == process {
				return answered, silent
			}
			answered = append(answered, reply.Process)
		}
		return answered, nil
	}
	var keeper inspect.ProcessInfo
	redistest.Eventually(t, soon, "the others answer before the one that stands still is named", func() bool {
		var all []inspect.ProcessInfo
		redistest.Eventually(t, soon, "three processes answer", func() bool {
			r, err := control.Gather(c.Inspect(ctx, control.Ping, control.Timeout(soon)))
			all, _ = in.Processes(ctx)
			return err == nil && len(r.Replies) == 3 && len(all) == 3
		})
		keeper = slices.MinFunc(all, func(a, b inspect.ProcessInfo) int { return cmp.Compare(a.ID, b.ID) })
		signal(keeper.PID, syscall.SIGSTOP)
		answered, silent := named(keeper.ID)
		signal(keeper.PID, syscall.SIGCONT)
		return len(answered) == 2 && silent != nil && silent.Age > 0 && !silent.Gone // else the machine was slow
	})

	if err := c.PauseClass(ctx, "Mark", control.For(6*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := c.PauseQueue(ctx, "work", control.For(4*time.Second)); err != nil && !errors.Is(err, inspect.ErrUnknownQueue) {
		t.Fatal(err)
	}
	if _, err := client.Enqueue(ctx, goworker.NewJob("work", "Mark")); err != nil {
		t.Fatal(err)
	}
	signal(keeper.PID, syscall.SIGKILL)
	if answered, _ := named(keeper.ID); slices.Contains(answered, keeper.ID) {
		t.Error("it answers, though it is killed")
	}
	redistest.Eventually(t, soon, "the pauses end", func() bool { return server.Text(t, "GET", "resque:stat:processed") == "1" })
	redistest.Eventually(t, soon, "another keeper takes the pause away", func() bool {
		return server.Int(t, "HEXISTS", "resque:go:rules", "pause:work") == 0 && server.Int(t, "SISMEMBER", "resque:go:paused", "work") == 0
	})
	redistest.Eventually(t, soon, "the log has it as lost", func() bool {
		entries, _, err := in.Log(ctx, "", 100)
		return err == nil && slices.ContainsFunc(entries, func(e inspect.LogEntry) bool { return e.Kind == inspect.LogLost && e.Process == keeper.ID })
	})
	r, err := control.Gather(c.Inspect(ctx, control.Ping, control.Timeout(soon)))
	if err != nil || len(r.Replies) != 2 || len(r.Silent) > 0 {
		t.Errorf("after its recovery: %+v, %v", r, err)
	}
}
