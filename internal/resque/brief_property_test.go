package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestBriefExchangeOfAnyKind draws exchanges in their usual form: of any queues, quotas, sizes and ends, and with any guess of how many jobs
// may be popped. By both ways they leave the same in Redis and have the same answer, and by the short way Redis
// watches all queues that it watches by the long one.
func TestBriefExchangeOfAnyKind(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	watch := newWatcher(w)
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"a", "b", "c", "none"}
		some := func(what string, of ...int) int { return rapid.SampledFrom(of).Draw(rt, what) }
		once := func(in int, what string) bool { return rapid.IntRange(1, in).Draw(rt, what) == 1 }
		sizes, empties, pops := make(map[string]int), make(map[string]int), make(map[string]int)
		for _, q := range names[:3] {
			sizes[q], empties[q] = some("jobs of "+q, 0, 1, 2, 5, 63, 64, 65, 300), some("which one of them is empty", 0, 1, 4, 64)
			pops[q] = some("pops of "+q, 0, 1, 3, 16, popsAtOnce, popsAtOnce)
		}
		x := Exchange{Want: some("want", 0, 1, 2, 3, 10, 64, 65, 129, MaxExchangeJobs), Arm: once(2, "armed")}
		if x.Want > 0 {
			for range some("asks", 1, 1, 2, 4) {
				x.Asks = append(x.Asks, Ask{rapid.SampledFrom(names).Draw(rt, "queue"), some("quota", 0, 1, 3, 64, 100, MaxExchangeJobs)})
			}
		}
		ends, locks, missing := some("done", 0, 1, 2, 3, 40, 100), some("locks", 0, 0, 1, 3, 100), some("missing", 0, 0, 0, 1)
		removed, broken, came := once(20, "the record was removed"), once(8, "locks are of another type"), some("came", 0, 10, MaxExchangeJobs)
		type outcome struct {
			Out   Exchanged
			Err   string
			Redis any
		}
		var outcomes [2]outcome
		var hears [2][]string
		for way := range outcomes {
			w.do("FLUSHALL")
			w.s = New("")
			m := w.enter("p")
			m.last = 99 + int64(ends)
			w.do("ZADD", w.s.processes(), 1<<50, "p")
			for q, n := range sizes {
				for i := range n {
					w.push(q, strings.Repeat(fmt.Sprint(q, i), min(1, (i+1)^empties[q])))
				}
			}
			y := x
			for i := range int64(ends) {
				ticket := 100 + i
				if i >= int64(missing) {
					w.do("HSET", w.s.inflight("p"), ticket, JobPrefix("a")+"old")
				}
				if i >= int64(locks) {
					y.Done = append(y.Done, ticket)
					continue
				}
				lock, id := fmt.Sprint("lock ", ticket), fmt.Sprint("id ", ticket)
				if w.do("HSET", w.s.KeyOfLock(lock), id, "running"); broken {
					w.spoil(w.s.KeyOfLock(lock))
				}
				y.Ended = append(y.Ended, Ended{Ticket: ticket, Counts: CountsDone, Effects: w.s.Released(lock, id)})
			}
			if removed {
				w.do("DEL", w.s.inflight("p"))
			}
			b := &w.s.exchangeKeys("p").briefs
			for q, n := range pops {
				b.of(w.s, q).pops = n
			}
			if b.came = came; way == 1 {
				b.rest = 2
			}
			w.must(watch.begins(w.c))
			out, err := m.try(y)
			slices.Sort(out.Empty)
			o := outcome{Out: out, Redis: w.server.Dump(t, "")}
			if err != nil {
				o.Err = err.Error()
			}
			for _, q := range names {
				w.do("LPUSH", w.s.KeyOfQueue(q), "late")
			}
			outcomes[way], hears[way] = o, watch.heard(w)
		}
		if diff := cmp.Diff(outcomes[1], outcomes[0]); diff != "" {
			rt.Fatalf("by the short way (-long way +short way):\n%s", diff)
		}
		for _, queue := range hears[1] {
			if !slices.Contains(hears[0], queue) {
				rt.Fatalf("by the short way Redis watches %v and not %v", hears[0], hears[1])
			}
		}
	})
}

// watcher hears of which keys Redis notifies a connection.
type watcher struct {
	c  redis.Conn
	id int64
}

func newWatcher(w *wire) *watcher {
	w.t.Helper()
	c := w.server.Dial(w.t)
	id, err := redis.Int64(c.Do("CLIENT", "ID"))
	w.must(err)
	w.must(c.Send("SUBSCRIBE", "__redis__:invalidate"))
	w.must(c.Flush())
	_, err = c.Receive()
	w.must(err)
	return &watcher{c, id}
}

// begins has Redis notify of the keys of this connection that it asks for.
func (n *watcher) begins(of redis.Conn) error {
	if _, err := of.Do("CLIENT", "TRACKING", "OFF"); err != nil {
		return err
	}
	_, err := of.Do("CLIENT", "TRACKING", "ON", "REDIRECT", n.id, "OPTIN", "NOLOOP")
	return err
}

// heard returns the queues of which Redis has notified since the last call.
func (n *watcher) heard(w *wire) (queues []string) {
	w.t.Helper()
	w.must(n.c.Send("PING"))
	w.must(n.c.Flush())
	for {
		reply, err := redis.Values(n.c.Receive())
		w.must(err)
		if kind, _ := redis.String(reply[0], nil); kind == "pong" {
			return sorted(slices.Compact(queues))
		}
		keys, _ := redis.Strings(reply[2], nil)
		queues = append(queues, w.s.queueNames(keys)...)
	}
}
