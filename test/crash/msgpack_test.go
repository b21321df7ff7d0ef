package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/payload"
)

// packed is a job as an item of a MessagePack queue.
func packed(t *testing.T, raw string) string {
	t.Helper()
	item, ok := payload.Pack(nil, []byte(raw))
	if !ok {
		t.Fatalf("%s cannot be packed", raw)
	}
	return string(item)
}

const ownList = "resque:go:queue:calc"

// ownHidden fails the test if Ruby's workers could find the queue.
func (f *fleet) ownHidden() {
	f.t.Helper()
	if names := f.redis.List(f.t, "SMEMBERS", "resque:queues"); slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "calc") }) {
		f.t.Errorf("the set of queues is %q", names)
	}
	if f.redis.Int(f.t, "EXISTS", "resque:queue:msgpack:calc") != 0 {
		f.t.Error("there are jobs where Ruby reads")
	}
}

// A process is killed with jobs of a MessagePack queue: the very items are back at the head of the queue, which stays out of
// sight, and run in the next process.
func TestKilledItemsReturn(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-queues=msgpack:calc", "-concurrency=5")
	witness := f.start("-queues=other", "-concurrency=1")
	var all []string
	for _, raw := range append(jobs("Hold", 5), nap("queued", 0)) {
		all = append(all, packed(t, raw))
		f.redis.Do(t, "RPUSH", ownList, packed(t, raw))
	}
	f.eventually(soon, "five jobs run", func() bool { return len(f.events("start")) == 5 })
	victim.kill()
	f.eventually(recovery, "all items are in the queue", func() bool { return f.redis.Int(t, "LLEN", ownList) == len(all) })
	if got := f.redis.List(t, "LRANGE", ownList, 0, -1); !slices.Equal(got, all) {
		t.Errorf("the queue holds %q", got)
	}
	f.ownHidden()
	next := f.start("-queues=msgpack:calc", "-concurrency=5")
	f.open()
	f.eventually(soon, "all have run", func() bool { return f.stat("processed") == len(all) })
	f.buried()
	next.stop()
	witness.stop()
	f.ownHidden()
}

// An item that kills its process is filed as a failure, in JSON; those beside it are done.
func TestPoisonItem(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.launch("-queues=msgpack:calc", "-concurrency=4")
	f.redis.Do(t, "RPUSH", ownList, packed(t, job("Die", "poison")))
	for i := range 3 {
		f.redis.Do(t, "RPUSH", ownList, packed(t, nap(fmt.Sprint("good", i), 1)))
	}
	f.eventually(recovery*12, "the poison is filed", func() bool {
		select {
		case <-p.exited:
			p = f.launch("-queues=msgpack:calc", "-concurrency=4")
		default:
		}
		return f.redis.Int(t, "LLEN", "resque:failed") > 0 && f.stat("processed") >= 3
	})
	p.stop()
	failed := f.redis.List(t, "LRANGE", "resque:failed", 0, -1)
	if len(failed) != 1 || !strings.Contains(failed[0], `"payload":{"class":"Die","args":["poison"]}`) || !strings.Contains(failed[0], "Resque::DirtyExit") {
		t.Errorf("failures %q", failed)
	}
	f.ownHidden()
}
