package conn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"vitess.io/vitess/go/pools"
)

const (
	// poolWait is how long Get waits for a connection while all are borrowed.
	poolWait = 10 * time.Second
	// poolPeekAfter is the idle time after which a connection is looked at before it is borrowed: whether the
	// server has closed it. A call on such a connection would be sent, and nobody could say whether it was
	// carried out.
	poolPeekAfter = time.Millisecond
	// poolPingAfter is the idle time after which a connection is tested before it is borrowed.
	poolPingAfter = 30 * time.Second
	// poolIdleTimeout is the idle time after which a connection is closed.
	poolIdleTimeout = 5 * time.Minute
)

var (
	ErrReplaced = errors.New("redis: the settings were replaced while this call waited for a connection; nothing was done, so make the call again")
	errReturned = errors.New("redis: this connection was given back with PutConn and is no longer yours; take another with GetConn")
)

// Pool hands out at most a fixed number of connections, dialed when first needed.
//
// vitess' pool holds slots, which may be empty. It counts them, queues the waiting callers and
// closes connections that are idle for too long. Dialing, testing and closing connections
// happens here, where there is a context. So a failed dial costs no
// capacity, and the pool can close while connections are still borrowed, for which
// vitess' own Close would wait forever.
type Pool struct {
	dialer    Dialer
	capacity  int
	wait      time.Duration
	pingAfter time.Duration

	slots   *pools.ResourcePool
	closing context.Context // ends when the pool closes, with the error Get then returns: wakes and interrupts Get
	stop    context.CancelCauseFunc

	mu       sync.Mutex
	closed   bool
	borrowed map[*borrowed]struct{} // taken and not returned; their slots are out of the pool
}

// slot is a place for a connection. vitess' pool owns it, or the caller that took it.
type slot struct {
	conn redis.Conn // nil: empty
	used time.Time  // when conn was last returned
}

// Close empties the slot. vitess calls it for idle slots.
func (s *slot) Close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// NewPool returns a pool of up to capacity (≥ 1) connections. It does not dial.
// It runs one goroutine, which ends with Close.
func NewPool(d Dialer, capacity int) *Pool {
	p := &Pool{
		dialer: d, capacity: capacity, wait: poolWait, pingAfter: poolPingAfter,
		borrowed: make(map[*borrowed]struct{}),
	}
	p.closing, p.stop = context.WithCancelCause(context.Background())
	empty := func() (pools.Resource, error) { return &slot{}, nil }
	p.slots = pools.NewResourcePool(empty, capacity, capacity, poolIdleTimeout)
	return p
}

// Capacity returns how many connections the pool has at most.
func (p *Pool) Capacity() int { return p.capacity }

// Get lends a connection to the program: an idle one, or a new one. It waits for a returned one no longer
// than ctx and p.wait allow; ctx and the dialer's own limit bound the dial. If a server went
// away, that costs each call at most one PING and one dial.
func (p *Pool) Get(ctx context.Context) (redis.Conn, error) {
	l, err := p.get(ctx, true)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (p *Pool) get(ctx context.Context, program bool) (*borrowed, error) {
	s, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	lent := false
	defer func() {
		if !lent { // also where the dialer panics
			p.slots.Put(s) // Close waits for it
		}
	}()
	if err := p.fill(ctx, s); err != nil {
		return nil, notSent(ctx, err)
	}
	l := &borrowed{conn: s.conn, slot: s, pool: p, program: program, since: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		s.Close()
		return nil, context.Cause(p.closing)
	}
	lent = true
	p.borrowed[l] = struct{}{}
	return l, nil
}

// Do runs f on a connection and puts it back. Each wait of f for Redis ends with the context: the
// connection is then closed, because the answer may come later, and its commands return an
// *InterruptedError.
func (p *Pool) Do(ctx context.Context, f func(redis.Conn) error) error {
	l, err := p.get(ctx, false)
	if err != nil {
		return err
	}
	defer PutBack(l)
	if ctx.Done() == nil {
		return f(l)
	}
	l.ctx = ctx
	stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	defer func() {
		if !stop() {
			l.spoiled = true // it is being closed, perhaps only when another call has it
		}
	}()
	return f(l)
}

// take waits for a slot.
func (p *Pool) take(ctx context.Context) (*slot, error) {
	if p.closing.Err() != nil {
		return nil, context.Cause(p.closing)
	}
	if err := Over(ctx); err != nil {
		return nil, err
	}
	start := time.Now()
	wait := &slotWait{Context: ctx, pool: p}
	defer wait.end()
	r, err := p.slots.Get(wait)
	switch {
	case err == nil && p.closing.Err() == nil:
		return r.(*slot), nil
	case err == nil:
		p.slots.Put(r) // Close waits for it
		return nil, context.Cause(p.closing)
	case p.closing.Err() != nil:
		return nil, context.Cause(p.closing)
	}
	text := fmt.Sprintf("redis: no connection was free within %s: %s", round(time.Since(start)), p.busy())
	if ended(ctx) != nil {
		return nil, interruptedBy(ctx, text)
	}
	return nil, errors.New(text)
}

// slotWait is the context of a wait for a slot. It ends with the call's, and from when the call really waits also after the pool's
// limit, and when the pool closes. Mostly a slot is there, and the limits would cost more than all else that take does. vitess' pool
// asks for Done once before it looks whether a slot is there, and again to wait for one.
type slotWait struct {
	context.Context
	pool   *Pool
	asked  bool
	cancel context.CancelFunc // nil: it has no limits yet
	stop   func() bool
}

func (w *slotWait) Done() <-chan struct{} {
	if !w.asked {
		w.asked = true
		return w.Context.Done()
	}
	if w.cancel == nil {
		w.Context, w.cancel = context.WithTimeout(w.Context, w.pool.wait)
		w.stop = context.AfterFunc(w.pool.closing, w.cancel)
	}
	return w.Context.Done()
}

func (w *slotWait) end() {
	if w.cancel != nil {
		w.stop()
		w.cancel()
	}
}

// busy says what the connections do while none is free.
func (p *Pool) busy() string {
	now, oldest, programs := time.Now(), time.Duration(0), 0
	p.mu.Lock()
	for l := range p.borrowed {
		oldest = max(oldest, now.Sub(l.since))
		if l.program {
			programs++
		}
	}
	p.mu.Unlock()
	all, verb := fmt.Sprintf("all %d", p.capacity), "are"
	if p.capacity == 1 {
		all, verb = "the only one", "is"
	}
	if programs > 0 {
		return fmt.Sprintf("%s %s in use, %d by the program; raise -connections, or return connections with PutConn", all, verb, programs)
	}
	return fmt.Sprintf("%s %s waiting for Redis, the longest for %s; if Redis answers slowly find out why, else raise -connections", all, verb, round(oldest))
}

// round shortens a duration for a message.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// fill puts a living connection into s.
func (p *Pool) fill(ctx context.Context, s *slot) error {
	if s.conn != nil && s.conn.Err() != nil {
		s.Close() // a dialer that follows a master closes connections to the old one
	}
	if s.conn != nil {
		idle := time.Since(s.used)
		if idle > poolPeekAfter && HungUp(s.conn) {
			s.Close()
		} else if idle < p.pingAfter {
			return nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.closing, cancel)()
	if s.conn != nil {
		if alive(ctx, s.conn) {
			return nil
		}
		s.Close()
	}
	conn, err := p.dialer.Dial(ctx)
	if err != nil {
		if p.closing.Err() != nil {
			return context.Cause(p.closing)
		}
		return err
	}
	s.conn = conn
	return nil
}

// alive tests whether the server of an idle connection is still there. Firewalls
// drop silent connections without notice to either end, hence the limit.
func alive(ctx context.Context, c redis.Conn) bool {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var err error
	if cc, ok := c.(redis.ConnWithContext); ok {
		_, err = cc.DoContext(ctx, "PING")
	} else {
		_, err = c.Do("PING")
	}
	return err == nil || Classify(err) == KindNoPerm
}

// PutBack returns a connection to the pool it was borrowed from. A second return does nothing.
// A connection that no pool handed out is closed.
func PutBack(c redis.Conn) {
	l, ok := c.(*borrowed)
	if !ok {
		if c != nil {
			_ = c.Close()
		}
		return
	}
	if l.returned.CompareAndSwap(false, true) {
		l.pool.takeBack(l)
	}
}

func (p *Pool) takeBack(l *borrowed) {
	s := l.slot
	if l.reusable() {
		s.used = time.Now()
	} else {
		s.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		s.Close()
		return
	}
	delete(p.borrowed, l)
	p.slots.Put(s)
}

// Close closes the idle connections and makes Get fail with why, waiting calls too.
// Borrowed connections stay usable and are closed when returned. Close waits for
// dials in progress, which it interrupts. A second Close does nothing.
func (p *Pool) Close(why error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.stop(why)
	for range p.borrowed {
		// Their slots return empty, so that vitess need not wait.
		p.slots.Put(&slot{})
	}
	p.borrowed = nil
	p.mu.Unlock()
	p.slots.Close()
}
