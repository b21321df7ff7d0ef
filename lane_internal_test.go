package goworker

import (
	"strings"
	"testing"
)

// Every job of a process that has limits anywhere is looked at, one after the other.
func TestJobsWithoutLimitsCostNoMemoryBesideOthersWith(t *testing.T) {
	r := newRegistry()
	nothing := func(string, ...any) error { return nil }
	r.register("Limited", nothing, []Option{Concurrency(1)})
	r.register("Free", nothing, nil)
	for name, payload := range map[string]string{
		"of a class without limits": `{"class":"Free","args":["a",1]}`,
		"long":                      `{"class":"Free","args":["` + strings.Repeat("a", 1<<16) + `"]}`,
	} {
		raw := []byte(payload)
		if n := testing.AllocsPerRun(100, func() {
			if _, held := r.limits.Lane("q", raw); held {
				t.Fatalf("a job %s is held", name)
			}
		}); n > 0 {
			t.Errorf("a job %s costs %v allocations", name, n)
		}
	}
}
