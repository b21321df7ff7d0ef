//go:build unix

package isolated

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/control"
)

// A time limit that an operator gives a class holds in the children of its jobs too, from the next run on.
func TestTimeoutByRule(t *testing.T) {
	b := setup(t)
	if err := control.New(b.daemon).Timeout(t.Context(), "Soft", 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	b.eventually("a job runs by the rule", func() bool { // a process learns of a rule a moment after it was set
		f, _ := b.failure(`{"class":"Soft","args":[]}`)
		return strings.HasPrefix(f.Error, "Soft ran longer than its timeout of 200ms: ")
	})
}
