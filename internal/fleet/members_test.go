package fleet

import (
	"testing"

	"github.com/goworker/goworker/internal/resque"
)

func TestLeaderIsALiveProcess(t *testing.T) {
	t.Parallel()
	got := leader([]resque.Lease{{Process: "a", Value: "-1"}, {Process: "c", Value: "5"}, {Process: "b", Value: "9"}})
	if got != "b" {
		t.Errorf("leader %q, want b", got)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	var m members
	if m.Leads() || m.Peers() != 1 || !m.Alive("a") || m.all() != nil {
		t.Error("before the first renewal: want to be alone with processes that are all alive")
	}
	m.update("b", []resque.Lease{{Process: "a", Value: "-1"}, {Process: "b", Value: "9"}})
	if !m.Leads() || m.Peers() != 2 || m.Alive("a") || !m.Alive("b") || m.Alive("c") {
		t.Error("a is dead, b leads, and there is no c")
	}
}
