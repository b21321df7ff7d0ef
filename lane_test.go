package goworker

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/args"
)

func TestLimitsHoldHoweverJobsAreWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := newGauge()
	b.daemon.Register("Slow", func(_ string, n int) { g.run("", n, 5*time.Millisecond) }, Concurrency(1))
	b.start()
	for range 5 {
		b.push(
			`{"class":"Slow","args":["a",1]}`,
			`{ "class": "Slow", "args": ["a", 1] }`,
			`{"args":["a",1],"class":"Slow"}`,
			`{"class":"\u0053low","args":["a",1]}`,
			`{"class":"Mark","args":["a",1],"class":"Slow"}`,
			`{"class":"Mark","args":["a",1],"cl\u0061ss":"Slow"}`,
			`{"class":"`+args.ActiveJobWrapper+`","args":[{"job_class":"Slow","arguments":["a",1]}]}`,
		)
	}
	b.eventually("all run", func() bool { return g.done.Load() == 35 })
	if most := g.mosts()[""]; most != 1 {
		t.Errorf("%d ran at a time, want 1", most)
	}
}

// Every job of a process that has limits anywhere is looked at, one after the other.
func TestJobsWithoutLimitsCostNoMemoryBesideOthersWith(t *testing.T) {
	r := &registry{}
	nothing := func(string, ...any) error { return nil }
	r.register("Limited", nothing, []Option{Concurrency(1)})
	r.register("Free", nothing, nil)
	for name, payload := range map[string]string{
		"of a class without limits": `{"class":"Free","args":["a",1]}`,
		"long":                      `{"class":"Free","args":["` + strings.Repeat("a", 1<<16) + `"]}`,
	} {
		raw := []byte(payload)
		if n := testing.AllocsPerRun(100, func() {
			if _, held := r.lane("q", raw); held {
				t.Fatalf("a job %s is held", name)
			}
		}); n > 0 {
			t.Errorf("a job %s costs %v allocations", name, n)
		}
	}
}
