package goworker_test

import (
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

func TestLimitsHoldHoweverJobsAreWritten(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	b.Daemon.Register("Slow", func(_ string, n int) { g.Run("", n, 5*time.Millisecond) }, goworker.Concurrency(1))
	b.Start()
	for range 5 {
		b.Push(
			`{"class":"Slow","args":["a",1]}`,
			`{ "class": "Slow", "args": ["a", 1] }`,
			`{"args":["a",1],"class":"Slow"}`,
			`{"class":"\u0053low","args":["a",1]}`,
			`{"class":"Mark","args":["a",1],"class":"Slow"}`,
			`{"class":"Mark","args":["a",1],"cl\u0061ss":"Slow"}`,
			`{"class":"`+goworker.ActiveJobWrapper+`","args":[{"job_class":"Slow","arguments":["a",1]}]}`,
		)
	}
	b.Eventually("all run", func() bool { return g.Done.Load() == 35 })
	if most := g.Mosts()[""]; most != 1 {
		t.Errorf("%d ran at a time, want 1", most)
	}
}
