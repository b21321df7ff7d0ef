package record

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/stuck"
)

// The record of a process says which of its parts do not run and which of its jobs are stuck, twenty of each, also without a history.
func TestVitals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, b := server.Dial(t), base(clock.System, "")
	p := resque.Process{ID: "m", Started: time.Unix(1, 0)}
	if err := b.Store.Enter(c, p, time.Hour, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	down := []string{"schedule", strings.Repeat("x", 3000)}
	for n := range 30 {
		down = append(down, fmt.Sprint("part ", n))
	}
	h := New(b, Config{
		Off: true, Now: time.Now, Process: func() resque.Process { return p }, Workers: 4, Busy: func() int { return 3 },
		Down:  func() []string { return down },
		Stuck: func() []stuck.Job { return make([]stuck.Job, 30) },
	})
	cargo := &resque.Cargo{Number: 1}
	h.Load(cargo)
	if _, err := b.Store.Renew(c, "m", time.Hour, time.Hour, cargo); err != nil {
		t.Fatal(err)
	}
	live, _, err := b.Store.LiveProcesses(c)
	if err != nil || len(live) != 1 {
		t.Fatalf("%+v, %v", live, err)
	}
	v := live[0].Vitals
	if v.Workers != 4 || v.Busy != 3 || len(v.Down) != resque.MostDown || v.Down[0] != "schedule" || len(v.Down[1]) > 128 || len(live[0].Stuck) != resque.MostStuck {
		t.Errorf("%+v, %d stuck", v, len(live[0].Stuck))
	}
	if !slices.Contains(down, "part 29") || len(down) != 32 {
		t.Errorf("what the process said was changed: %q", down)
	}
}
