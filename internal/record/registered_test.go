package record

import (
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// It is written at the start, after a change, as another process, and before it expires; else a renewal carries nothing.
func TestRegistered(t *testing.T) {
	t.Parallel()
	now, version, process, read := time.Unix(1_800_000_000, 0), uint64(1), "p", 0
	r := NewRegistered(part.Base{Store: resque.New(""), Clock: fixed{clock.System, &now}}, RegisteredConfig{
		Process: func() resque.Process { return resque.Process{ID: process} }, Now: func() time.Time { return now },
		Version: func() uint64 { return version },
		Read:    func() resque.Registered { read++; return resque.Registered{} },
	})
	for _, step := range []struct {
		what    string
		change  func()
		written bool
	}{
		{"at the start", func() {}, true},
		{"without a change", func() {}, false},
		{"after a change", func() { version++ }, true},
		{"under another id", func() { process = "q" }, true},
		{"hours later", func() { now = now.Add(11 * time.Hour) }, false},
		{"before it expires", func() { now = now.Add(2 * time.Hour) }, true},
		{"when the clock was set back", func() { now = now.Add(-time.Hour) }, true},
	} {
		step.change()
		c, before := new(resque.Cargo), read
		r.Load(c)
		if c.Empty() == step.written || (read > before) != step.written {
			t.Errorf("%s: written %v, read %d times", step.what, !c.Empty(), read-before)
		}
	}
	version++
	c := &resque.Cargo{Last: true}
	if r.Load(c); !c.Empty() {
		t.Error("it is written at the stop")
	}
}

// fixed is a clock whose time the test sets.
type fixed struct {
	clock.Clock
	now *time.Time
}

func (f fixed) Now() time.Time { return *f.now }
