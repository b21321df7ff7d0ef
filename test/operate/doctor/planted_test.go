package doctor

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/redistest"
)

// fault is something wrong that a check is to find.
type fault struct {
	number int
	name   string   // where one check finds several things
	args   []string // of a server of its own, beside durable; nil: the shared server will do

	// rewrite is what a proxy makes of what the server says once the fault is planted, for what cannot be made on a real server.
	rewrite func(text string) string

	plant  func(w *world)
	expect string // in the sentence
	remedy string // in the words or the command; "": any
	also   []int  // other checks that find something too, because the fault is theirs as well
	born   bool   // the server has the fault from its start
	blinds bool   // other checks cannot look

	mended func(w *world) // looks at what the fix has left; the check itself is run again by itself
}

// own are the arguments of a server that no other fault is planted on.
var own = []string{}

// faults are the planted faults of all checks. A file of each subject has its rows.
var faults = slices.Concat(serverFaults, idFaults,
	workerFaults, failureFaults, queueFaults, delayedFaults, limitFaults, runningFaults)

// TestPlantedFaults plants one fault after the other, and each is found by its check and by no other. Before that
// the check says ok, and after its fix it does so again.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	shared := redistest.Start(t, durable...)
	for _, f := range faults {
		t.Run(strings.TrimSpace(fmt.Sprint(f.number, " ", f.name)), func(t *testing.T) {
			t.Parallel()
			server := shared
			if f.args != nil {
				server = redistest.Start(t, slices.Concat(durable, f.args)...)
			}
			var planted atomic.Bool
			w := newWorld(t, server, func(text string) string {
				if planted.Load() && f.rewrite != nil {
					return f.rewrite(text)
				}
				return sound(text)
			})
			check := checks.ByNumber(f.number)
			if check == nil {
				t.Fatalf("there is no check %d", f.number)
			}
			if found := bad(w.look(f.number)); len(found) > 0 && !f.born {
				t.Fatalf("before the fault was planted:\n%s", text(found))
			}
			planted.Store(true)
			if f.plant != nil {
				f.plant(w)
			}
			all := bad(w.look())
			var found []checks.Finding
			for _, g := range all {
				switch {
				case g.Check.Number == f.number:
					found = append(found, g)
				case f.blinds && g.State == checks.CouldNotLook:
				case !slices.Contains(f.also, g.Check.Number):
					t.Errorf("another check found something:\n%s", text([]checks.Finding{g}))
				}
			}
			if len(found) == 0 || found[0].State != checks.Found || !strings.Contains(found[0].Sentence, f.expect) ||
				!strings.Contains(found[0].Remedy.Words+"\n"+found[0].Remedy.Command, f.remedy) {
				t.Fatalf("found\n%swanted %q, %q", text(found), f.expect, f.remedy)
			}
			t.Logf("\n%s", text(found))
			f.fixes(t, w, check, found)
		})
	}
}

// fixes has the check mend what it found, if it can.
func (f fault) fixes(t *testing.T, w *world, check *checks.Check, found []checks.Finding) {
	if !check.HasFix() {
		return
	}
	for _, g := range found {
		if changed, err := checks.Fix(t.Context(), w.inspect().By("test", "it is planted"), g); !changed || err != nil {
			t.Fatalf("the fix of %q: %v, %v", g.Sentence, changed, err)
		}
	}
	if left := bad(w.look(f.number)); len(left) > 0 {
		t.Errorf("after its fix:\n%s", text(left))
	}
	if changed, err := checks.Fix(t.Context(), w.inspect(), found[0]); changed || err != nil {
		t.Errorf("mended twice: %v, %v", changed, err)
	}
	if f.mended != nil {
		f.mended(w)
	}
}

// TestEveryCheckHasItsFault: each number of doctor's table has a planted fault.
func TestEveryCheckHasItsFault(t *testing.T) {
	t.Parallel()
	for _, c := range checks.Table {
		if c.In(checks.Doctor) && !slices.ContainsFunc(faults, func(f fault) bool { return f.number == c.Number }) {
			t.Errorf("no fault is planted for check %d, %s", c.Number, c.Title)
		}
	}
}

// becomes returns a rewriting of what the server says.
func becomes(old, new string) func(string) string {
	return func(text string) string { return strings.Replace(sound(text), old, new, 1) }
}
