package goworker

import (
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// A program may enqueue with one set of settings and then set others to work with.
func TestSettingsReplacedBetweenEnqueueAndRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := New(WorkerSettings{URI: s.URI(), Namespace: "one", Logger: quiet})
	defer d.Close()
	ran := 0
	d.Register("Count", func() { ran++ })
	if err := d.Enqueue(&Job{"q", Payload{"Count", nil}}); err != nil {
		t.Fatal(err)
	}
	d.SetSettings(WorkerSettings{URI: s.URI(), Namespace: "two", Logger: quiet, QueuesString: "q", Concurrency: 1, ExitOnComplete: true})
	if err := d.Run(t.Context()); err != nil || ran != 0 {
		t.Fatalf("ran %d jobs of another namespace: %v", ran, err)
	}
	if err := d.Enqueue(&Job{"q", Payload{"Count", nil}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != nil || ran != 1 {
		t.Fatalf("ran %d jobs, want 1: %v", ran, err)
	}
	if got := d.Namespace(); got != "two:" {
		t.Errorf("namespace %q", got)
	}
}
