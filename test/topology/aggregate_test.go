package topology

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// gathers makes jobs of groups that are full, and of one whose time has come.
func gathers(t *testing.T, _ shape, d *goworker.Daemon) {
	var runs, items atomic.Int64
	d.Register("Index", func(_ context.Context, _ string, ids []int) {
		runs.Add(1)
		items.Add(int64(len(ids)))
	}, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(10), goworker.MaxWait(500*time.Millisecond)))
	for id := range 25 {
		enqueue(t, d, job("Index", "books{1}", id))
	}
	start(t, d)
	eventually(t, "all items are in jobs", func() bool { return items.Load() == 25 })
	if runs.Load() < 3 {
		t.Errorf("%d jobs had them", runs.Load())
	}
	groups, err := d.Client().Inspect().AggregateGroups(t.Context(), 10)
	if len(groups) > 0 || err != nil {
		t.Errorf("there are still %v, %v", groups, err)
	}
}
