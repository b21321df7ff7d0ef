package daemon

import (
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A program may enqueue with one set of settings and then set others to work with.
func TestSettingsReplacedBetweenEnqueueAndRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: s.URI(), Namespace: "one", Logger: daemontest.Quiet})
	defer d.Close()
	ran := 0
	d.Register("Count", func() { ran++ })
	if err := d.Enqueue(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "Count", Args: nil}}); err != nil {
		t.Fatal(err)
	}
	d.SetSettings(goworker.WorkerSettings{URI: s.URI(), Namespace: "two", Logger: daemontest.Quiet, QueuesString: "q", Concurrency: 1, ExitOnComplete: true})
	if err := d.Run(t.Context()); err != nil || ran != 0 {
		t.Fatalf("ran %d jobs of another namespace: %v", ran, err)
	}
	if err := d.Enqueue(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "Count", Args: nil}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != nil || ran != 1 {
		t.Fatalf("ran %d jobs, want 1: %v", ran, err)
	}
	if got := d.Namespace(); got != "two:" {
		t.Errorf("namespace %q", got)
	}
}
