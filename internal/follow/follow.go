// Package follow dials a Redis master that moves from server to server, as under
// Sentinel and in a Cluster. It closes the connections to a master that has moved.
package follow

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// lookEvery is how often the advisers are asked while there are connections. If a
	// master was replaced, and is silent instead of dead, its callers wait
	// this long and not for a read timeout.
	lookEvery = time.Second
	// lookWithin bounds one look, with the proof that the new master serves us.
	lookWithin = 5 * time.Second

	retryFirst = 50 * time.Millisecond
	retryMost  = 500 * time.Millisecond
)

var errClosed = errors.New("redis: the way to Redis was closed; call Init before it is used again")

// Config says how a master is found and dialed.
type Config struct {
	// Advisers know where the master is.
	Advisers Advisers
	// Dial connects to the server at an address from the advisers. It returns an
	// error unless the server is the master and serves.
	Dial func(ctx context.Context, addr string) (redis.Conn, error)
	// Limit is how long the Dialer's Dial may take. While the advisers answer, it
	// tries that long: a fail-over takes a few seconds.
	Limit time.Duration
}

// Dialer makes connections to the master. It is a goworker.Dialer; its methods may
// be called by several goroutines.
type Dialer struct {
	config Config
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	ways    map[*way]struct{}
	looking bool // the goroutine that looks runs
}

// way is a connection, or the attempt to make one.
type way struct {
	addr   string     // where it leads
	conn   redis.Conn // nil while it is being made
	giveUp func()
}

// New returns a Dialer. It does not dial yet.
func New(c Config) *Dialer {
	d := &Dialer{config: c, ways: make(map[*way]struct{})}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// Dial finds the master and connects to it. It returns the connection
// itself, without a wrapper.
func (d *Dialer) Dial(ctx context.Context) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.Limit)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := d.search(ctx)
	if err != nil && d.ctx.Err() != nil {
		err = errClosed // it ended the search, whatever the search says of it
	}
	return conn, err
}

// search asks for the master and dials it, until one serves or waiting will not help.
func (d *Dialer) search(ctx context.Context) (redis.Conn, error) {
	var before error // why the attempt before this one failed
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		addr, err := d.config.Advisers.Find(ctx)
		if err != nil && !passes(err) {
			return nil, err // no adviser answers
		}
		if err == nil {
			var conn redis.Conn
			if conn, err = d.dial(ctx, addr); err == nil {
				return conn, nil
			}
			if refuses(err) {
				return nil, err
			}
		}
		if ctx.Err() != nil && before != nil {
			return nil, before // a better error than that the time is over
		}
		before = err
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// dial connects to the server that an adviser named as the master.
func (d *Dialer) dial(ctx context.Context, addr string) (redis.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &way{addr: addr, giveUp: cancel}
	if err := d.watch(w); err != nil {
		return nil, err
	}
	conn, err := d.config.Dial(ctx, addr)
	if err != nil && ctx.Err() == nil {
		d.config.Advisers.Doubt()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && ctx.Err() == nil {
		w.conn, w.giveUp = conn, func() { _ = conn.Close() }
		return conn, nil
	}
	delete(d.ways, w)
	if err == nil {
		_ = conn.Close()
		err = ctx.Err()
	}
	return nil, err
}

// passes reports whether a server's answer will change by itself: the server starts, or
// is no longer or not yet the master.
func passes(err error) bool {
	switch replyCode(err) {
	case "LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN":
		return true
	}
	return false
}

// refuses reports whether the master itself refuses us: the
// password or a permission is missing. Any other error may be a fail-over, and the advisers
// will name another master.
func refuses(err error) bool {
	return errors.Is(err, errClosed) || replyCode(err) != "" && !passes(err)
}

func replyCode(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	code, _, _ := strings.Cut(string(reply), " ")
	return code
}

// watch adds a way to those that the goroutine watches.
func (d *Dialer) watch(w *way) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return errClosed
	}
	d.ways[w] = struct{}{}
	if !d.looking {
		d.looking = true
		d.wg.Go(d.look)
	}
	return nil
}

// look runs while there are connections, or attempts to make one.
func (d *Dialer) look() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-d.ctx.Done():
			return
		}
		if !d.forgetClosed() {
			d.config.Advisers.Leave()
			return
		}
		d.lookOnce()
	}
}

// forgetClosed drops the connections that are closed, and reports whether
// there are others. Without any, the advisers are not asked.
func (d *Dialer) forgetClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.ways {
		if w.conn != nil && w.conn.Err() != nil {
			delete(d.ways, w)
		}
	}
	if len(d.ways) == 0 {
		d.looking = false
	}
	return d.looking
}

// lookOnce closes the ways that do not lead to the master. First it proves
// the new master, because an adviser may be behind.
func (d *Dialer) lookOnce() {
	ctx, cancel := context.WithTimeout(d.ctx, lookWithin)
	defer cancel()
	addr, err := d.config.Advisers.Find(ctx)
	if err != nil || len(d.elsewhere(addr)) == 0 {
		return // an adviser that does not know the master does not say that it has moved
	}
	conn, err := d.config.Dial(ctx, addr)
	if err != nil {
		d.config.Advisers.Doubt()
		return
	}
	_ = conn.Close()
	for _, giveUp := range d.elsewhere(addr) {
		giveUp() // the pending commands end with an error
	}
}

func (d *Dialer) elsewhere(addr string) (giveUp []func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.ways {
		if w.addr != addr {
			giveUp = append(giveUp, w.giveUp)
		}
	}
	return giveUp
}

// Close stops the looking. It closes no connections but those to the advisers.
func (d *Dialer) Close() error {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.wg.Wait()
	d.config.Advisers.Leave()
	return nil
}
