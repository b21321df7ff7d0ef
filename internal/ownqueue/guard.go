// Package ownqueue is the part that watches over goworker's own queues, whose jobs may be MessagePack. It runs while the
// list of queues names one.
package ownqueue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// Guard keeps these queues closed while a process of a release that does not know them is in the fleet: as a reaper, or as the
// pump, it would put their jobs where Ruby's workers read, and MessagePack ends a Ruby worker. It also brings home the jobs
// that Ruby's tools push under the name of such a queue, as resque-web's Retry does.
type Guard struct {
	base   part.Base
	every  time.Duration
	opened func(queues []string)
	loop   *part.Loop
	line   conn.Line
	open   atomic.Bool // the loop and Watch write it, the poller reads it
	told   string      // the old process that the log names; of the loop

	mu     sync.Mutex
	queues []string
	ctx    context.Context // of Start; nil: it may not run
	runs   bool            // the loop was started
}

// most is how long it is at most between two looks: an old process may come at any time.
const most = 5 * time.Second

// New returns a guard of queues, which looks once an interval, and at least each 5 s. opened is called by its goroutine when the queues open. With no
// queues the guard does nothing.
func New(b part.Base, names []string, every time.Duration, opened func(queues []string)) *Guard {
	g := &Guard{base: b, queues: names, every: min(every, most), opened: opened, line: b.Line(part.ReplyWithin)}
	g.loop = part.NewLoop(b, "own queues", g.turn)
	g.loop.End = g.line.Close
	return g
}

// Closed returns what reports whether a queue is not to be asked now, for a list with these own queues; nil: it has none. What it
// returns is safe for concurrent use.
func (g *Guard) Closed(own []string) func(queue string) bool {
	if len(own) == 0 {
		return nil
	}
	return func(queue string) bool { return queues.IsOwn(queue) && !g.open.Load() }
}

// Watch has it guard these queues in place of those before. It is safe for concurrent use.
func (g *Guard) Watch(names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queues = names; len(names) == 0 {
		g.open.Store(false)
	}
	g.run()
}

// run has the loop look now, if there is something to guard.
func (g *Guard) run() {
	switch {
	case g.ctx == nil || len(g.queues) == 0:
	case g.runs:
		g.loop.Wake()
	default:
		g.runs = true
		g.loop.Start(g.ctx)
	}
}

// Start begins to look.
func (g *Guard) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx = context.WithoutCancel(ctx)
	g.run()
	return nil
}

// Stop ends it.
func (g *Guard) Stop(ctx context.Context) error {
	g.mu.Lock()
	g.ctx = nil
	g.mu.Unlock()
	g.loop.Stop(ctx)
	return nil
}

func (g *Guard) guarded() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queues
}

func (g *Guard) turn(ctx context.Context) (time.Duration, error) {
	names := g.guarded()
	if len(names) == 0 {
		g.line.Close()
		return part.Never, nil
	}
	err := g.line.Do(ctx, func(c redis.Conn) error { return g.look(c, names) })
	if len(g.guarded()) == 0 { // since Watch, which closed them
		g.open.Store(false)
	}
	return g.every, err
}

func (g *Guard) look(c redis.Conn, names []string) error {
	old, err := g.base.Store.Unaware(c, resque.KnowsMessagePack)
	if err != nil {
		return err
	}
	if len(old) > 0 {
		p := old[0]
		if g.open.Store(false); g.told != p.ID {
			g.told = p.ID
			g.base.Log.Warn("MessagePack queues are not worked while a process of an older release is in the fleet, which would put their jobs "+
				"where Ruby's workers read; update or stop it", "process", p.ID, "version", p.Version, "queues", names)
		}
		return nil
	}
	for _, queue := range names {
		n, err := g.base.Store.Adopt(c, queue)
		if n > 0 {
			g.base.Log.Info("jobs that another program had pushed where Ruby's workers read are in their own queue now", "queue", queue, "jobs", n)
		}
		if err != nil && !resque.IsWrongType(err) {
			return err
		}
	}
	if g.told = ""; !g.open.Swap(true) {
		g.opened(names)
	}
	return nil
}
