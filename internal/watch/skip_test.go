package watch

import (
	"testing"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// A job that was reserved and then goes back to the head of its queue is asked for once more before the queue rests,
// whether it goes back before or after Redis has reported the length of the queue.
func TestReturnedJobsAreAskedFor(t *testing.T) {
	const size = 3
	now := time.Now()
	job := &outcome.Job{Reserved: resque.Reserved{Queue: "q"}}
	goesBack := func(o *Order) { o.Ended(job, &outcome.Commit{State: outcome.Returned}, true) }
	for name, before := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			o := testWatch(t, "q", queues.Strict, false)
			o.Ended(job, &outcome.Commit{State: outcome.Passed}, false)
			x := plan(o, now, 2, true)
			if len(x.Sizes) != 1 || asks(x) {
				t.Fatalf("an exchange that leaves a job asks for the lengths of %q and for jobs of %v", x.Sizes, x.Asks)
			}
			if before {
				goesBack(o)
			}
			o.Answered(x, resque.Exchanged{Sizes: []int{size}}, now)
			left := size
			if before {
				left++
			}
			for range left {
				x = plan(o, now, 1, false)
				if !asks(x) {
					t.Fatalf("the queue rests before %d jobs were reserved", left)
				}
				o.Answered(x, resque.Exchanged{Jobs: []resque.Reserved{{Queue: "q"}}}, now)
			}
			if asks(plan(o, now, 1, false)) {
				t.Fatal("the queue does not rest")
			}
			if goesBack(o); !asks(plan(o, now, 1, false)) {
				t.Error("the queue rests although a job went back to it")
			}
		})
	}
}

func asks(x *resque.Exchange) bool { return len(x.Asks) > 0 }
