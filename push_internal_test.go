package goworker

import (
	"testing"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
)

// Features see whether the program chose the job's id.
func TestPushSaysWhoChoseTheID(t *testing.T) {
	t.Parallel()
	class := func(string) *outcome.Class { return nil }
	for name, tt := range map[string]struct {
		opts   []EnqueueOption
		chosen bool
	}{
		"plain": {}, "made up": {[]EnqueueOption{ExpireAfter(1)}, false}, "chosen": {[]EnqueueOption{WithID("x")}, true},
	} {
		p := new(outcome.Push)
		if err := push(class, &Item{Job: NewJob("q", "C"), Options: tt.opts}, p, new(enqueueOptions)); err != nil || p.Chosen != tt.chosen || p.Chosen != (p.ID == "x") {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// The jobs of a call use the same room one after the other, so that an id costs no allocation but that of its option.
func TestPushUsesItsRoomAgain(t *testing.T) {
	item := Item{NewJob("q", "C"), []EnqueueOption{WithID("a")}}
	p, o := new(outcome.Push), new(enqueueOptions)
	n := testing.AllocsPerRun(100, func() {
		if err := push(func(string) *outcome.Class { return nil }, &item, p, o); err != nil || p.ID != "a" || len(p.Fields) > 0 {
			t.Fatal(err, p)
		}
		p.Fields = append(p.Fields, payload.Field{})
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
