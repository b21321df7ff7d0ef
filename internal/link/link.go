package link

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// PingEvery is how often the poller's idle subscription is pinged. After three times as long
// a silence it counts as broken.
const PingEvery = 10 * time.Second

// Link is the poller's pair of connections to Redis: one for exchanges and, if the server can track
// keys, one on which Redis notifies us that a queue has filled. When either breaks both are
// redialed: without the first one Redis stops tracking, and the second just stays silent.
type Link struct {
	base      part.Base
	Conn      redis.Conn
	Wake      redis.Conn // nil: this server does not track keys
	Untracked error      // why not
	pings     time.Duration
	requests  chan *resque.Exchange
	replies   chan Reply
	signal    chan<- struct{}
	keys      []string    // that are notified beside those of queues and lanes
	unhook    func() bool // the end of Dial's context closes the connections no more
	wg        sync.WaitGroup
	used      atomic.Bool // an exchange was sent since the last PING

	mu       sync.Mutex
	changed  []string // tracked names that changed since the last Take
	all      bool     // anything may have changed
	broken   error    // the subscription ended
	unproven bool     // prove with the next exchange that the other connection lives
}

// Reply is the answer to an exchange that Send has started.
type Reply struct {
	Link *Link
	resque.Exchanged
	Err error
}

// Dial connects and, if asked, sets up tracking, with a PING to its connection this often. The signal
// channel gets a value, if it has room, whenever there is something to take. The end of ctx breaks the
// connections, so that no read outlives it. Changes of these keys are notified too, once they are watched.
func Dial(ctx context.Context, b part.Base, track bool, pings time.Duration, signal chan<- struct{}, replies chan Reply, keys ...string) (*Link, error) {
	c, err := b.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &Link{base: b, Conn: c, pings: pings, requests: make(chan *resque.Exchange), replies: replies, signal: signal, keys: keys}
	l.unhook = context.AfterFunc(ctx, func() { _ = c.Close() })
	if track {
		l.Untracked = l.subscribe(ctx)
		if l.Untracked != nil && (c.Err() != nil || conn.Elsewhere(l.Untracked)) {
			l.Shut()
			return nil, l.Untracked
		}
	}
	l.wg.Add(1)
	go l.exchange()
	return l, nil
}

// subscribe opens the second connection and proves that a message arrives:
// behind some proxies all commands succeed but no message ever comes.
func (l *Link) subscribe(ctx context.Context) error {
	wake, err := l.base.Dialer.Dial(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = wake.Close() })
	defer stop()
	if err := l.base.Store.Track(l.Conn, wake); err != nil {
		_ = wake.Close()
		return err
	}
	l.Wake = wake
	l.wg.Add(2)
	done := make(chan struct{})
	go l.listen(done)
	go l.ping(done)
	return nil
}

// Send starts an exchange. Its reply comes on the channel of replies.
func (l *Link) Send(x *resque.Exchange) {
	l.used.Store(true)
	l.requests <- x
}

func (l *Link) exchange() {
	defer l.wg.Done()
	for x := range l.requests {
		err := l.base.Store.Send(l.Conn, x)
		var out resque.Exchanged
		if err == nil {
			out, err = l.base.Store.Receive(l.Conn, x)
		}
		l.replies <- Reply{Link: l, Exchanged: out, Err: err}
	}
}

func (l *Link) listen(done chan struct{}) {
	defer l.wg.Done()
	defer close(done)
	for {
		keys, all, err := l.base.Store.ReceiveChanges(l.Wake, 3*l.pings, l.keys...)
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

func (l *Link) ping(done <-chan struct{}) {
	defer l.wg.Done()
	timer := l.base.Clock.NewTimer(l.pings)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-timer.C():
			timer.Reset(l.pings)
			// listen reads from the same connection and gets the error too.
			_ = l.base.Store.Ping(l.Wake)
			if l.used.Swap(false) {
				continue
			}
			l.Unprove()
			select {
			case l.signal <- struct{}{}:
			default:
			}
		}
	}
}

// Unprove makes the next Prove report true.
func (l *Link) Unprove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unproven = true
}

// Take returns what changed since the last Take.
func (l *Link) Take() (changed []string, all bool, broken error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, all = l.changed, l.all
	l.changed, l.all = nil, false
	return changed, all, l.broken
}

// Prove reports, once, that an exchange is due, even an empty one, because there was none between two
// PINGs. If the server dropped the exchange connection it stopped tracking, and the other
// connection does not show that.
func (l *Link) Prove() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.unproven
	l.unproven = false
	return due
}

// Shut closes both connections and waits for the goroutines. An exchange in flight
// ends with an error.
func (l *Link) Shut() {
	l.unhook()
	_ = l.Conn.Close()
	if l.Wake != nil {
		_ = l.Wake.Close()
	}
	close(l.requests)
	l.wg.Wait()
}

// whyUntracked is the sentence for the log when a server cannot track keys.
func whyUntracked(err error, interval time.Duration) string {
	text := err.Error()
	if strings.Contains(text, "NOPERM") {
		text += "; add &__redis__:invalidate +subscribe +client to the user's rules (docs/redis.md)"
	}
	return fmt.Sprintf("Redis cannot tell when a queue fills, so queues are looked at every %s: %s", interval, text)
}
