package producer

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/redistest"
)

// Whatever happens to the connections and to the callers' contexts, a push that was acknowledged is in its queue once, one that was
// refused is not, and one that was not answered is at most once.
func TestPushesAmongFaults(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	proxy := l.server.StartProxy(t)
	dialer, err := conn.NewDialer(t.Context(), conn.Config{URI: strings.Replace(l.server.URI(), l.server.Addr, proxy.Addr, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.use(conn.NewPool(dialer, 3))
	l.server.Do(t, "SET", "resque:queue:spoiled", "text")
	over, stop := context.WithCancel(t.Context())
	var faults sync.WaitGroup
	defer faults.Wait()
	defer stop()
	faults.Go(func() {
		for i := 0; sleep(over, time.Duration(rand.IntN(5)+1)*time.Millisecond); i++ {
			if i%2 == 0 {
				proxy.Refuse(true)
				proxy.Refuse(false)
			} else {
				release := proxy.Hold()
				sleep(over, 2*time.Millisecond)
				release()
			}
		}
	})
	kinds := map[string]int{}
	for p := range 20 {
		l.pushes.Go(func() {
			for i := range 50 {
				name, queue, opts := fmt.Sprintf("%d-%d", p, i), fmt.Sprint("q", i%2), (*outcome.Options)(nil)
				switch i % 7 {
				case 1:
					queue = "spoiled"
				case 2:
					opts = options(locked(name, false))
				case 3:
					opts = options(locked(fmt.Sprint("same", i), false))
				case 4:
					opts = options(expiring)
				}
				within := 10 * time.Second
				if i%3 > 0 {
					within = time.Duration(rand.IntN(20)+1) * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), within)
				receipts, err := enqueueFreed(ctx, l.client, l.set, outcome.Push{Queue: queue, Name: "C", Args: []any{name}, Options: opts})
				cancel()
				l.mu.Lock()
				l.ends[name] = end{receipts, err}
				l.mu.Unlock()
			}
		})
	}
	ends := l.ended()
	stop()
	faults.Wait()
	l.server.Do(t, "CLIENT", "KILL", "TYPE", "normal") // what was sent is done, or never will be
	l.idle()
	there := make(map[string]int)
	for _, queue := range []string{"q0", "q1"} {
		for _, job := range l.server.List(t, "LRANGE", "resque:queue:"+queue, 0, -1) {
			_, rest, _ := strings.Cut(job, `"args":["`)
			name, _, _ := strings.Cut(rest, `"`)
			there[name]++
		}
	}
	for name, e := range ends {
		n := there[name]
		switch {
		case Unconfirmed(e.err):
			kinds["unconfirmed"]++
			if n > 1 {
				t.Errorf("%s: %d times, unconfirmed: %v", name, n, e.err)
			}
		case e.err != nil || e.receipts[0].Err != nil:
			kinds["refused"]++
			if n != 0 {
				t.Errorf("%s: %d times, refused: %v", name, n, e.err)
			}
		default:
			kinds["acknowledged"]++
			if n != 1 {
				t.Errorf("%s: %d times, acknowledged", name, n)
			}
		}
	}
	t.Log(kinds)
	if kinds["acknowledged"] == 0 || kinds["refused"] == 0 {
		t.Errorf("of %d pushes: %v", len(ends), kinds)
	}
}

// frightened is a Dialer that panics while its switch is on.
type frightened struct {
	conn.Dialer
	panics *atomic.Bool
}

func (f frightened) Dial(ctx context.Context) (redis.Conn, error) {
	if f.panics.CompareAndSwap(true, false) {
		panic("no network")
	}
	return f.Dialer.Dial(ctx)
}

// A Dialer that panics while pushes wait for a call together harms none of them: each is sent by its own goroutine then.
func TestDialerPanicsForSeveral(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	dialer, err := conn.NewDialer(t.Context(), conn.Config{URI: l.server.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	panics := new(atomic.Bool)
	l.use(conn.NewPool(frightened{gates{dialer, l.gate}, panics}, 1))
	l.hold()
	l.push(t.Context(), "lost", "q", nil)
	l.wait(1)
	l.answer(nil)
	redistest.Eventually(t, 10*time.Second, "the job is there", func() bool { return l.count("lost") == 1 })
	for i := range 3 {
		l.push(t.Context(), fmt.Sprint("next", i), "q", nil)
	}
	l.wait(3)
	panics.Store(true)
	l.answer(io.EOF) // so that the next call dials
	for name, e := range l.ended() {
		if lost := name == "lost"; lost != Unconfirmed(e.err) || !lost && e.err != nil || l.count(name) != 1 {
			t.Errorf("%s: %v, %d times in its queue", name, e.err, l.count(name))
		}
	}
	l.idle()
	if panics.Load() {
		t.Error("the Dialer did not panic")
	}
}
