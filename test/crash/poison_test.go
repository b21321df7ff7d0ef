package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A job that ends its process beside 24 good ones: it alone becomes a failure,
// although the good ones are found in as many dead processes at first.
func TestPoison(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var all []string
	for i := range 25 {
		all = append(all, nap(fmt.Sprint("good", i), 1000))
	}
	all[12] = job("Die", "poison")
	f.push(all...)

	// The supervisor.
	began := time.Now()
	deaths := 0
	p := f.launch("-concurrency=25")
	f.eventually(4*recovery, "the poison is filed and the good ones are done", func() bool {
		select {
		case <-p.exited:
			if status := exitStatus(p.err); status != 7 {
				t.Fatalf("the process exits with %d", status)
			}
			deaths++
			p = f.launch("-concurrency=25")
		default:
		}
		return len(f.redis.List(t, "LRANGE", "resque:failed", 0, -1)) > 0 && f.stat("processed") >= 24
	})
	t.Logf("%d deaths, over after %.1f s", deaths, time.Since(began).Seconds())
	f.eventually(soon, "the last is counted", func() bool { return len(f.events("end")) >= 24 && len(f.queue()) == 0 })
	f.buried()
	p.stop()

	failed := f.redis.List(t, "LRANGE", "resque:failed", 0, -1)
	if len(failed) != 1 || !strings.Contains(failed[0], `{"class":"Die","args":["poison"]}`) || !strings.Contains(failed[0], "Resque::DirtyExit") {
		t.Errorf("failures %q", failed)
	}
	ends := counts(f.events("end"))
	for i := range 25 {
		if id := fmt.Sprint("good", i); i != 12 && ends[id] == 0 {
			t.Errorf("%s is not done", id)
		}
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}
