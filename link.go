package goworker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/resque"
)

// pingEvery is how often the poller's idle subscription is asked whether it still lives; a
// silence of three times as long is its end.
const pingEvery = 10 * time.Second

// link is the poller's way to Redis: a connection for the exchanges and, where the
// server can track keys, a second one on which it tells that a queue has filled.
// When either breaks both are made anew, since a subscription that lost its other
// half is silent.
type link struct {
	store    resque.Store
	conn     redis.Conn
	wake     redis.Conn // nil: this server cannot tell, poll
	untold   error      // why not
	pings    time.Duration
	requests chan *resque.Exchange
	replies  chan reply
	signal   chan<- struct{}
	wg       sync.WaitGroup
	used     atomic.Bool // an exchange was sent since the last PING

	mu       sync.Mutex
	changed  []string // watched names that changed since the last take
	all      bool     // anything may have changed
	broken   error    // the subscription ended
	unproven bool     // it is time to prove that the other connection lives
}

type reply struct {
	link *link
	resque.Exchanged
	err error
}

// dialLink connects, proves that the server can do what we need and, if asked,
// sets up the tracking, with a PING to its connection this often. The signal channel
// gets a value, if it has room, whenever there is something to take.
func dialLink(ctx context.Context, d conn.Dialer, store resque.Store, track bool, pings time.Duration, signal chan<- struct{}, replies chan reply) (*link, error) {
	c, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{store: store, conn: c, pings: pings, requests: make(chan *resque.Exchange), replies: replies, signal: signal}
	if track {
		stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // reaches a read that waits
		defer stop()
		l.untold = l.subscribe(ctx, d)
		if l.untold != nil && (c.Err() != nil || conn.Elsewhere(l.untold)) {
			l.shut()
			return nil, l.untold
		}
	}
	l.wg.Add(1)
	go l.exchange()
	return l, nil
}

// subscribe opens the second connection and proves that a message comes through:
// behind some proxies all commands succeed and nothing ever arrives.
func (l *link) subscribe(ctx context.Context, d conn.Dialer) error {
	wake, err := d.Dial(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = wake.Close() })
	defer stop()
	if err := l.store.Track(l.conn, wake); err != nil {
		_ = wake.Close()
		return err
	}
	l.wake = wake
	l.wg.Add(2)
	done := make(chan struct{})
	go l.listen(done)
	go l.ping(done)
	return nil
}

// send starts an exchange; its reply comes on the channel of replies.
func (l *link) send(x *resque.Exchange) {
	l.used.Store(true)
	l.requests <- x
}

func (l *link) exchange() {
	defer l.wg.Done()
	for x := range l.requests {
		err := l.store.Send(l.conn, x)
		var out resque.Exchanged
		if err == nil {
			out, err = l.store.Receive(l.conn, x)
		}
		l.replies <- reply{link: l, Exchanged: out, err: err}
	}
}

func (l *link) listen(done chan struct{}) {
	defer l.wg.Done()
	defer close(done)
	for {
		keys, all, err := l.store.ReceiveChanges(l.wake, 3*l.pings)
		l.mu.Lock()
		l.changed = append(l.changed, keys...)
		l.all = l.all || all
		l.broken = err
		l.mu.Unlock()
		if err != nil || all || len(keys) > 0 {
			select {
			case l.signal <- struct{}{}:
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) ping(done <-chan struct{}) {
	defer l.wg.Done()
	tick := time.NewTicker(l.pings)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			// An error here shows in listen, which reads from the same connection.
			_ = l.store.Ping(l.wake)
			if l.used.Swap(false) {
				continue
			}
			l.unprove()
			select {
			case l.signal <- struct{}{}:
			default:
			}
		}
	}
}

func (l *link) unprove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unproven = true
}

// take returns what changed since it was last called.
func (l *link) take() (changed []string, all bool, broken error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, all = l.changed, l.all
	l.changed, l.all = nil, false
	return changed, all, l.broken
}

// prove reports that an exchange is to be sent even if it has nothing to say, because
// there was none between two PINGs: of a server that dropped the connection we would hear of no
// change any more, and nothing of that on the other connection.
func (l *link) prove() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.unproven
	l.unproven = false
	return due
}

// shut closes both connections and waits for the goroutines. An exchange under way
// ends with an error.
func (l *link) shut() {
	_ = l.conn.Close()
	if l.wake != nil {
		_ = l.wake.Close()
	}
	close(l.requests)
	l.wg.Wait()
}

// tellsWhy is the sentence for the log when a server cannot track keys.
func tellsWhy(err error, interval time.Duration) string {
	text := err.Error()
	if strings.Contains(text, "NOPERM") {
		text += "; add &__redis__:invalidate +subscribe +client to the user's rules (docs/redis.md)"
	}
	return fmt.Sprintf("Redis cannot tell when a queue fills, so queues are looked at every %s: %s", interval, text)
}
