package goworker

import (
	"testing"

	"github.com/goworker/goworker/internal/outcome"
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
