package gateway

import (
	"fmt"
	"testing"

	"github.com/goworker/goworker/internal/payload"
)

// A job ends under the class that its payload had when a client got it, if that is one of the server's. A flood of jobs that no
// client acknowledges pushes none of the latest out, and costs no more memory than twice mostHeld.
func TestClasses(t *testing.T) {
	t.Parallel()
	c := newClasses([]string{"Mail", "Report"})
	give := func(id, class string) {
		c.gave([]Job{{Queue: "q", ID: id, Parsed: payload.Payload{Class: class}}})
	}
	give("1", "Mail")
	give("2", "Report")
	give("3", "invented")
	for id, want := range map[string]string{"1": "Mail", "2": "Report", "3": "", "4": ""} {
		if got := c.done("q", id); got != want {
			t.Errorf("%s is of %q, want %q", id, got, want)
		}
	}
	if got := c.done("q", "1"); got != "" {
		t.Errorf("a job that has ended is of %q", got)
	}
	give("first", "Mail")
	give("other", "Mail")
	for n := range mostHeld {
		give(fmt.Sprint("flood", n), "Mail")
	}
	if got := c.done("q", "first"); got != "Mail" {
		t.Errorf("after %d jobs the first is of %q", mostHeld, got)
	}
	for n := range 2 * mostHeld {
		give(fmt.Sprint("more", n), "Mail")
	}
	if got := c.done("q", "other"); got != "" || len(c.young)+len(c.old) > 2*mostHeld {
		t.Errorf("it is of %q, and %d jobs are remembered", got, len(c.young)+len(c.old))
	}
	if none := newClasses(nil); none.done("q", "1") != "" {
		t.Error("a server without a history remembers jobs")
	}
}
