package workflows

import (
	"testing"

	"github.com/goworker/goworker/internal/resque"
)

// A process reads the halted workflows again after a commit that may have changed them, and after no other: it hears of
// other processes' changes by tracking, which does not report its own.
func TestArriveWritesHalted(t *testing.T) {
	t.Parallel()
	s := New(resque.New(""))
	for name, test := range map[string]struct {
		a    Arrival
		want bool
	}{
		"done":                    {Arrival{Letter: Done}, false},
		"failed":                  {Arrival{Letter: Failed, Again: "x"}, true},
		"not run":                 {Arrival{Letter: NotRun, Again: "x"}, false},
		"done, of a halted one":   {Arrival{Letter: Done, Halted: true}, true},
		"failed, of a halted one": {Arrival{Letter: Failed, Halted: true}, true},
	} {
		test.a.Workflow, test.a.Place = "w", "0 - - - - 0 q"
		if e := s.Arrive(&test.a); e.Writes(s.HaltedKey().String()) != test.want || !e.Writes(s.WorkflowKey("w").String()) {
			t.Errorf("%s: %v", name, !test.want)
		}
	}
}
