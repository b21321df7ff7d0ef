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
