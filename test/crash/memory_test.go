package crash

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
)

var manyJobs = flag.Int("crash.jobs", 200_000, "over which TestMemoryIsFlat weighs a process")

// What a process holds does not grow with the jobs it has run.
func TestMemoryIsFlat(t *testing.T) {
	t.Parallel()
	jobs := *manyJobs
	f := newFleet(t)
	f.program = withoutRaceDetector(t)
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
	// Four bytes a job at the default number: half a pointer.
	if g2 > g+5 || h2 > h+h/8+1<<19 {
		t.Error("it has grown")
	}
}

// withoutRaceDetector is this program without the race detector, under which a million jobs take half a minute.
func withoutRaceDetector(t *testing.T) string {
	info, ok := debug.ReadBuildInfo()
	if ok && !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return os.Args[0]
	}
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "test", "-c", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}
