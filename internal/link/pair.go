package link

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
)

// Pair is two connections to Redis: one for commands and, if the server can track keys, one on which
// Redis notifies us that a key has changed which the first one read. When either breaks both are
// redialed: without the first one Redis stops tracking, and the second just stays silent.
type Pair struct {
	base      part.Base
	Conn      redis.Conn
	Wake      redis.Conn // nil: this server does not track keys
	Untracked error      // why not
	pings     time.Duration
	signal    chan<- struct{}
	unhook    func() bool // the end of DialPair's context closes the connections no more
	wg        sync.WaitGroup
	used      atomic.Bool // a command was sent since a PING was due
	heard     atomic.Bool // a message came since a PING was due

	mu       sync.Mutex
	changed  []string // tracked names that changed since the last Take
	all      bool     // anything may have changed
	broken   error    // the subscription ended
	unproven bool     // prove with the next command that the other connection lives
}

// Tracking is how a Pair is notified of keys.
type Tracking struct {
	// Start sets tracking up on both connections, and proves that a message arrives: behind some
	// proxies all commands succeed but no message ever comes.
	Start func(conn, wake redis.Conn) error
	// Spares says that no PING goes where a message came since the last one was due: an idle Pair then sends half as many. One that must
	// notice soon does not spare them.
	Spares bool
	// Receive waits for the next message.
	Receive func(wake redis.Conn, timeout time.Duration) (names []string, all bool, err error)
}

// DialPair connects and, if asked, sets up tracking, with a PING to its connection this often, or half as often: see Tracking. The signal
// channel gets a value, if it has room, whenever there is something to take. The end of ctx breaks the
// connections, so that no read outlives it. A panic of their goroutines has the part fail that b is of; see part.Base.Of.
func DialPair(ctx context.Context, b part.Base, tracking *Tracking, pings time.Duration, signal chan<- struct{}) (*Pair, error) {
	c, err := b.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	p := &Pair{base: b, Conn: c, pings: pings, signal: signal}
	p.unhook = context.AfterFunc(ctx, func() { _ = c.Close() })
	if tracking != nil {
		p.Untracked = p.subscribe(ctx, tracking)
		if p.Untracked != nil && (c.Err() != nil || conn.Elsewhere(p.Untracked)) {
			p.Shut()
			return nil, p.Untracked
		}
	}
	return p, nil
}

// subscribe opens the second connection.
func (p *Pair) subscribe(ctx context.Context, tracking *Tracking) error {
	wake, err := p.base.Dialer.Dial(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = wake.Close() })
	defer stop()
	if err := tracking.Start(p.Conn, wake); err != nil {
		_ = wake.Close()
		return err
	}
	p.Wake = wake
	p.wg.Add(2)
	done := make(chan struct{})
	go p.listen(tracking, done)
	go p.ping(tracking.Spares, done)
	return nil
}

// Used is called before each command. A Pair that is used needs no proof.
func (p *Pair) Used() { p.used.Store(true) }

func (p *Pair) listen(tracking *Tracking, done chan struct{}) {
	defer p.wg.Done()
	defer close(done)
	for p.hear(tracking) {
	}
}

// errDialer is the end of a connection or of an attempt to connect, if a function of the program's Dialer panics or
// ends the goroutine.
var errDialer = errors.New("the Dialer of the program, or a connection of it, did not return: it panicked or ended its goroutine")

// hear waits for the next message, and reports whether there may be more.
func (p *Pair) hear(tracking *Tracking) bool {
	var keys []string
	var all bool
	err := errDialer
	defer func() {
		p.mu.Lock()
		p.changed = append(p.changed, keys...)
		p.all = p.all || all
		p.broken = err
		p.mu.Unlock()
		if err != nil || all || len(keys) > 0 {
			p.wake()
		}
	}()
	defer p.base.Catch("connection")
	keys, all, err = tracking.Receive(p.Wake, 3*p.pings)
	p.heard.Store(true)
	return err == nil
}

func (p *Pair) wake() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

func (p *Pair) ping(spares bool, done <-chan struct{}) {
	defer p.wg.Done()
	defer p.base.Catch("connection")
	timer := p.base.Clock.NewTimer(p.pings)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-timer.C():
			timer.Reset(p.pings)
			if heard := p.heard.Swap(false); !heard || !spares {
				// listen reads from the same connection and gets the error too.
				_ = p.base.Store.Ping(p.Wake)
			}
			if p.used.Swap(false) {
				continue
			}
			p.Unprove()
			p.wake()
		}
	}
}

// Unprove makes the next Prove report true.
func (p *Pair) Unprove() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unproven = true
}

// Take returns what changed since the last Take.
func (p *Pair) Take() (changed []string, all bool, broken error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, all = p.changed, p.all
	p.changed, p.all = nil, false
	return changed, all, p.broken
}

// Prove reports, once, that a command is due, even an empty one, because there was none between two
// PINGs. If the server dropped the connection for commands it stopped tracking, and the other
// connection does not show that.
func (p *Pair) Prove() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.unproven
	p.unproven = false
	return due
}

// Shut closes both connections and waits for the goroutines. A command in flight
// ends with an error.
func (p *Pair) Shut() {
	p.unhook()
	_ = p.Conn.Close()
	if p.Wake != nil {
		_ = p.Wake.Close()
	}
	p.wg.Wait()
}

// WhyUntracked returns why a server cannot track keys, with the way out if it is a permission.
func WhyUntracked(err error) string {
	text := err.Error()
	if strings.Contains(text, "NOPERM") {
		text += "; add &__redis__:invalidate +subscribe +client to the user's rules (docs/redis.md)"
	}
	return text
}
