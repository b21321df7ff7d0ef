package workflow

import (
	"testing"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
)

// A job that is no step, and has fields of other features, is found to be none without an allocation.
func TestOtherJobsCostNothing(t *testing.T) {
	parsed, err := payload.Parse([]byte(`{"class":"C","args":[],"unique":"done:x","id":"i"}`))
	if err != nil {
		t.Fatal(err)
	}
	j := &outcome.Job{Parsed: parsed}
	if n := testing.AllocsPerRun(100, func() {
		if _, _, _, ok := Standing(j); ok {
			t.Error("it is a step")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
