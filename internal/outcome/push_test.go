package outcome_test

import (
	"testing"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// A Push that is used again has nothing of the job before, and a kept one has nothing of the job behind it.
func TestPushAgain(t *testing.T) {
	p := new(outcome.Push)
	fill := func(name string) {
		p.Reset()
		if p.Options = p.NewOptions(); !p.Options.Empty() || !p.Plain() || p.Name != "" {
			t.Errorf("before %s it has %+v", name, p)
		}
		p.Name = name
		outcome.Put(p.Options, name)
		p.Fields = append(p.Fields, payload.TextField("f", name))
		p.Guarded = append(p.Guarded, resque.Guarded{Placed: name == "a"})
		p.Lifts = resque.New(name).CancelledKey()
		p.Begins = append(p.Begins, resque.NewHash{Keys: []string{name}})
	}
	fill("a")
	kept := p.Keep()
	fill("b")
	option, _ := outcome.Get[string](kept.Options)
	if kept.Name != "a" || option != "a" || string(kept.Fields[0].Value) != `"a"` || !kept.Guarded[0].Placed || kept.Lifts != resque.New("a").CancelledKey() || kept.Begins[0].Keys[0] != "a" {
		t.Errorf("kept, it has %+v", kept)
	}
	if n := testing.AllocsPerRun(100, func() {
		p.Reset()
		p.Options = p.NewOptions()
		p.Fields, p.Guarded = append(p.Fields, payload.Field{}), append(p.Guarded, resque.Guarded{})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
