package doctor

import (
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/redistest"
)

// TestLargeFleet: ten thousand workers of Ruby, a million jobs in 500 queues, and then 400 processes of goworker beside them. With time
// enough all is seen and ok; in the usual time each check answers, and says ok only of what it has seen.
func TestLargeFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.do("EVAL", `for i = 1, 10000 do
		local id = 'vm' .. math.floor(i / 25) .. ':' .. i .. ':q' .. (i % 500) .. ',high'
		redis.call('SADD', KEYS[1], id)
		redis.call('HSET', KEYS[2], id, ARGV[1])
	end
	for q = 0, 499 do
		redis.call('SADD', KEYS[3], 'q' .. q)
		local batch = {}
		for i = 1, 2000 do batch[i] = ARGV[2] end
		redis.call('RPUSH', KEYS[4] .. q, unpack(batch))
	end`, 4, "~workers", "~workers:heartbeat", "~queues", "~queue:q", w.now(0), job)
	look := func(fleet string) {
		t.Helper()
		w.options.Budget = time.Hour
		if found := bad(w.look()); len(found) > 0 {
			t.Errorf("%s, with an hour:\n%s", fleet, text(found))
		}
		w.options.Budget = 0
		all := w.look()
		for _, f := range all {
			if (f.State != checks.OK || f.Seen != 1) && (f.State != checks.NotAllSeen || f.Seen == 1) {
				t.Errorf("%s, in the usual time: check %d says %s of %v", fleet, f.Check.Number, f.State, f.Seen)
			}
		}
		if len(all) != len(numbered()) {
			t.Errorf("%s: %d answers", fleet, len(all))
		}
	}
	look("only Ruby's workers")
	for n := range 400 {
		w.process(fmt.Sprint("go", n), fmt.Sprintf("q%d,low", n))
	}
	look("with processes of goworker")
}
