package crash

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// partVar adds a part to the program that fails as soon as the first job runs, in this way; "restart" may be started again three times
// and panics each time.
const partVar = "GOWORKER_CRASH_PART"

var errPort = errors.New("the port is in use")

// addBadPart adds that part.
func addBadPart() {
	kind := os.Getenv(partVar)
	if kind == "" {
		return
	}
	d := goworker.Default()
	p := goworker.Part{Name: "metrics", Requires: []string{"poller"}, Run: func(ctx context.Context) error {
		for d.Stats().Busy == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
		}
		switch kind {
		case "restart", "panic":
			panic(errPort)
		case "exit":
			runtime.Goexit()
		case "return":
			return nil
		}
		return errPort
	}}
	if kind == "restart" {
		p.Restart = &goworker.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond, Most: 3}
	}
	d.AddPart(p)
}

// A program whose part has failed for good ends in order: the jobs that run end and are committed. Its status is 1, and what it writes
// names the part.
func TestFailedPartEndsTheProgram(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]struct {
		restarts int
		says     string
	}{
		"restart": {3, "goworker: part metrics failed: it was started 4 times in 10m0s, and failed again: panic: the port is in use"},
		"error":   {0, "goworker: part metrics failed: the port is in use"},
		"panic":   {0, "goworker: part metrics failed: panic: the port is in use"},
		"exit":    {0, "goworker: part metrics failed: its Run ended its goroutine and did not return"},
		"return":  {0, "goworker: part metrics failed: its Run returned, and the daemon had not stopped it"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			p := f.startWith([]string{partVar + "=" + kind}, "-concurrency=2")
			f.push(job("Hold", "a"), job("Hold", "b"))
			f.eventually(soon, "it stops", func() bool { return strings.Contains(p.output(), "stopping: taking no more jobs") })
			f.push(job("Hold", "c"))
			f.renewed(1, p)
			p.mustRun()
			f.open()
			status := p.wait()
			ran := len(f.events("start"))
			if status != 1 || !strings.Contains(p.output(), want.says) {
				t.Errorf("exit status %d", status)
			}
			if n := strings.Count(p.output(), "part failed, starting it again"); n != want.restarts || !strings.Contains(p.output(), "part failed, stopping") {
				t.Errorf("it was started again %d times, want %d", n, want.restarts)
			}
			if ended := len(f.events("end")); ran == 0 || ended != ran || f.stat("processed") != ran || f.stat("failed") != 0 || len(f.queue()) != 3-ran || !slices.Contains(f.queue(), job("Hold", "c")) {
				t.Errorf("%d started, %d ended, %d processed, the queue holds %q", ran, ended, f.stat("processed"), f.queue())
			}
			if keys := f.left(); len(keys) > 0 {
				t.Errorf("left behind: %q", keys)
			}
		})
	}
}
