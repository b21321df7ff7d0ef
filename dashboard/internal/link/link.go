// Package link is the dashboard's way to Redis: connections of its own, whose commands are counted.
package link

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/resque"
)

// Connections is how many connections a dashboard has to each Redis, at most.
const Connections = 4

// Cost is what Redis was asked for one page, or for one tick.
type Cost struct {
	within *Cost // what it is a part of; nil: of nothing

	mu       sync.Mutex
	commands int
	trips    int
}

// Commands returns how many commands were sent. Those inside of scripts do not count.
func (c *Cost) Commands() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands
}

// Trips returns how many round trips they took.
func (c *Cost) Trips() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips
}

func (c *Cost) add(commands, trips int) {
	if c == nil {
		return
	}
	c.within.add(commands, trips)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands += commands
	c.trips += trips
}

type costKey struct{}

// Count returns a context whose questions are counted in the Cost, and in that of the context that it is made of: a page is a part of its tick.
func Count(ctx context.Context) (context.Context, *Cost) {
	c := &Cost{within: costOf(ctx)}
	return context.WithValue(ctx, costKey{}, c), c
}

func costOf(ctx context.Context) *Cost {
	c, _ := ctx.Value(costKey{}).(*Cost)
	return c
}

// Link asks the same Redises as an Inspector. It dials at its first use, and again after Rest. It is safe for concurrent use.
type Link struct {
	of *inspect.Inspector

	mu   sync.Mutex
	ends []func()
	open []*door
}

// Open returns a Link. It does not dial.
func Open(of *inspect.Inspector) *Link {
	l := &Link{of: of}
	for _, d := range of.Doors() {
		l.open = append(l.open, &door{Door: d, link: l})
	}
	return l
}

// Inspect returns the Inspector on the Link's connections.
func (l *Link) Inspect() *inspect.Inspector {
	all := make([]access.Redis, len(l.open))
	for n, d := range l.open {
		all[n] = d
	}
	return inspect.New(all...)
}

// Rest closes the connections. Calls that are under way end with an error.
func (l *Link) Rest() {
	l.mu.Lock()
	ends := l.ends
	l.ends = nil
	for _, d := range l.open {
		d.pool = nil
	}
	l.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// door is one Redis.
type door struct {
	inspect.Door
	link *Link
	pool access.Redis // of link.mu
}

func (d *door) redis() (access.Redis, error) {
	d.link.mu.Lock()
	defer d.link.mu.Unlock()
	if d.pool == nil {
		pool, end, err := d.Door.Pool(Connections)
		if err != nil {
			return nil, err
		}
		d.pool, d.link.ends = pool, append(d.link.ends, end)
	}
	return d.pool, nil
}

// Do runs f on a connection of the Link, and counts what it sends.
func (d *door) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	pool, err := d.redis()
	if err != nil {
		return err
	}
	return pool.Do(ctx, func(s resque.Store, c redis.Conn) error { return f(s, counting(ctx, c)) })
}

// Alone runs f on a connection beside those of the Link.
func (d *door) Alone(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return d.Door.Alone(ctx, func(s resque.Store, c redis.Conn) error { return f(s, counting(ctx, c)) })
}

// counted is a connection that counts.
type counted struct {
	redis.Conn
	cost    *Cost
	waiting bool // commands were sent since the last flush
}

func counting(ctx context.Context, c redis.Conn) redis.Conn {
	if cost := costOf(ctx); cost != nil {
		return &counted{Conn: c, cost: cost}
	}
	return c
}

func (c *counted) sends(command string) {
	if command != "" {
		c.cost.add(1, 0)
		c.waiting = true
	}
}

func (c *counted) flushes() {
	if c.waiting {
		c.cost.add(0, 1)
		c.waiting = false
	}
}

func (c *counted) Send(command string, args ...any) error {
	c.sends(command)
	return c.Conn.Send(command, args...)
}

func (c *counted) Flush() error {
	c.flushes()
	return c.Conn.Flush()
}

func (c *counted) Do(command string, args ...any) (any, error) {
	c.sends(command)
	c.flushes()
	return c.Conn.Do(command, args...)
}

func (c *counted) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	c.sends(command)
	c.flushes()
	return redis.DoWithTimeout(c.Conn, d, command, args...)
}

func (c *counted) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	c.sends(command)
	c.flushes()
	return redis.DoContext(c.Conn, ctx, command, args...)
}

func (c *counted) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func (c *counted) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(c.Conn, ctx)
}
