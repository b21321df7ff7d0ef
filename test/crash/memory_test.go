package crash

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a process holds does not grow with the jobs it has run. Its program is built without the race
// detector, under which a million jobs take half a minute.
func TestMemoryIsFlatOverAMillionJobs(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "test", "-c", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	jobs := 1_000_000
	if testing.Short() {
		jobs = 50_000
	}
	f := newFleet(t)
	f.program = program
	f.start("-concurrency=25", "-log-level=warn")
	pushed := 0
	allDone := func() bool { return f.redis.Int(t, "GET", "resque:stat:processed") == pushed }
	run := func(jobs int) {
		t.Helper()
		const batch = 10_000
		args := []any{"resque:queue:work"}
		for range batch {
			args = append(args, `{"class":"Nothing","args":[]}`)
		}
		for range jobs / batch {
			f.redis.Do(t, "RPUSH", args...)
		}
		pushed += jobs
		f.eventually(6*recovery, "the jobs are done", allDone)
	}
	weighings := 0
	weigh := func() (goroutines, heap int) {
		t.Helper()
		weighings++
		f.push(`{"class":"Weigh","args":["me"]}`)
		pushed++
		f.eventually(soon, "it is weighed", func() bool { return allDone() && len(f.events("weighed")) == weighings })
		if _, err := fmt.Sscan(f.events("weighed")[weighings-1].detail, &goroutines, &heap); err != nil {
			t.Fatal(err)
		}
		return goroutines, heap
	}
	run(20_000)
	g, h := weigh()
	run(jobs)
	g2, h2 := weigh()
	t.Logf("%d goroutines and %d KiB of heap before, %d and %d after %d jobs", g, h>>10, g2, h2>>10, jobs)
	if g2 > g+5 || h2 > h+h/2+1<<20 {
		t.Error("it has grown")
	}
}
