package mixed

import (
	"fmt"
	"syscall"
	"time"

	"github.com/goworker/goworker"
)

// rolls replaces the processes of one release by those of the other one by one, and back, while jobs come. No job is lost, and none
// runs twice: each stop is one in order.
func (f *fleet) rolls() {
	var all []string
	n := 0
	push := func() {
		ids := some(fmt.Sprint("rolled", n), 150)
		n++
		all = append(all, ids...)
		f.push("Note", ids...)
	}
	names := 0
	next := func(program string) *process {
		names++
		return f.start(program, fmt.Sprintf("p%d-%d", names%2, names)) // of changing rank: sometimes the older release leads
	}
	running := []*process{next(f.older), next(f.older)}
	for _, program := range []string{f.newer, f.newer, f.older, f.older} {
		push()
		coming := next(program)
		push()
		leaving := running[0]
		running = append(running[1:], coming)
		leaving.end(syscall.SIGTERM)
		if !leaving.cmd.ProcessState.Success() {
			f.t.Errorf("a process ended with %v", leaving.cmd.ProcessState)
		}
	}
	push()
	f.ran(all...)
	for _, id := range all {
		if runs := f.redis.Int(f.t, "HGET", "book:ran", id); runs != 1 {
			f.t.Errorf("%s ran %d times", id, runs)
		}
	}
	f.eventually("all are counted", func() bool { return f.redis.Int(f.t, "GET", "resque:stat:processed") == len(all) })
	if failed := f.redis.Int(f.t, "LLEN", "resque:failed"); failed > 0 {
		f.t.Errorf("%d jobs failed", failed)
	}
}

// goesBack runs what this release leaves behind with the older release alone: jobs that wait for their time, that wait for a retry,
// that a killed process had, that wait in lanes, and that are unique. What only this release knows stays, and harms nothing.
func (f *fleet) goesBack() {
	now := f.start(f.newer, "newer")
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI()})
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	enqueue := func(class, id string, options ...goworker.EnqueueOption) {
		f.t.Helper()
		if _, err := client.Enqueue(f.t.Context(), goworker.NewJob("work", class, id), options...); err != nil {
			f.t.Fatal(err)
		}
	}
	const soon = 3 * time.Second
	var left []string
	leave := func(ids ...string) { left = append(left, ids...) }
	for _, id := range some("flaky", 3) { // each waits for its retry
		enqueue("Flaky", id)
		leave(id)
	}
	f.eventually("the first runs have failed", func() bool { return f.redis.Int(f.t, "HLEN", "book:tried") == 3 })
	for _, id := range some("delayed", 3) {
		enqueue("Note", id, goworker.ProcessIn(soon))
		leave(id)
	}
	held := some("held", 3)
	f.push("Stuck", held...)
	leave(held...)
	f.eventually("its workers are busy", func() bool { return f.redis.Int(f.t, "HLEN", "book:tried") == 6 })
	limited := some("limited", 5)
	f.push("Limited", limited...)
	leave(limited...)
	enqueue("Note", "unique", goworker.Unique())
	enqueue("Note", "expiring", goworker.ExpireAfter(time.Hour))
	enqueue("Note", "result", goworker.WithResult(time.Hour))
	leave("unique", "expiring", "result")
	in := client.Inspect()
	if err := in.PauseClass(f.t.Context(), "Note", 0); err != nil { // which the older release does not obey
		f.t.Fatal(err)
	}
	unaware, err := in.UnawareOfRules(f.t.Context())
	if err != nil || len(unaware) > 0 {
		f.t.Errorf("without the older release %+v obey no rules, %v", unaware, err)
	}
	now.end(syscall.SIGKILL)

	before := f.start(f.older, "older")
	if unaware, err = in.UnawareOfRules(f.t.Context()); err != nil || len(unaware) == 0 {
		f.t.Errorf("with the older release %+v obey no rules, %v", unaware, err)
	}
	f.ran(left...)
	f.eventually("the lock of a unique job that the older release ran is free", func() bool { // its commit comes after the run
		_, err := client.Enqueue(f.t.Context(), goworker.NewJob("work", "Note", "unique"), goworker.Unique())
		return err == nil
	})
	before.end(syscall.SIGTERM)

	after := f.start(f.newer, "newer2") // and forward again: the rule holds once more
	f.push("Note", "paused")
	f.push("Flaky", "flaky-last")
	f.ran("flaky-last")
	if f.redis.Int(f.t, "HEXISTS", "book:ran", "paused") != 0 {
		f.t.Error("this release ran a job of a paused class")
	}
	if err := in.ResumeClass(f.t.Context(), "Note"); err != nil {
		f.t.Fatal(err)
	}
	f.ran("paused")
	after.end(syscall.SIGTERM)
}
