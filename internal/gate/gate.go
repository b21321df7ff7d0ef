// Package gate asks a function of the program, again and again, whether the daemon may take jobs.
package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
)

const (
	// Every is how often the function is asked.
	Every = time.Second

	// Patience is how long the function may take. Then its context ends, it is reported, and its last
	// answer holds on.
	Patience = 5 * time.Second
)

// Func is the function of the program. nil opens the gate; an error closes it and says why.
type Func func(ctx context.Context) error

var (
	errUnasked = errors.New("the gate has not answered yet")
	errGoexit  = errors.New("the gate's function ended its goroutine instead of returning")
)

// Gate is one gate for one daemon, or for several that run side by side. It asks its function only while
// at least one of them runs, each second, in a goroutine of its own. It is safe for concurrent use.
type Gate struct {
	mu      sync.Mutex
	base    part.Base    // of the member that joined first
	log     *slog.Logger // for all members; nil: the one of base
	members []*member
	loop    *part.Loop // nil: it does not run
	asking  *asking    // nil: there is no function
}

// member is a daemon that runs.
type member struct{ hold func(bool) }

// asking is one function and what it answered. Another function has another asking, so that a late answer
// of the former one changes nothing.
type asking struct {
	f       Func
	closed  error     // why the gate is closed; nil: it is open
	since   time.Time // since when it is open or closed
	asked   time.Time // when the call under way began; zero: there is none
	slow    bool      // that call was reported
	answers int
}

// State is how a gate stands.
type State struct {
	Closed error         // nil: it is open, or there is none
	Since  time.Time     // since when; zero: there is no gate, or no daemon runs
	Silent time.Duration // for how long its function has not answered, if that is longer than Patience
}

// State returns how the gate stands.
func (g *Gate) State() (s State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.asking
	if a == nil || len(g.members) == 0 {
		return s
	}
	s.Closed, s.Since = a.closed, a.since
	if !a.asked.IsZero() {
		if silent := clock.Since(g.base.Clock, a.asked); silent >= Patience {
			s.Silent = silent
		}
	}
	return s
}

// Log sets the logger. Without it the gate logs where the first of its daemons does.
func (g *Gate) Log(log *slog.Logger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log = log
}

// Set puts a function in place of the one before; nil removes it. The gate is closed until the function
// has answered.
func (g *Gate) Set(f Func) {
	g.mu.Lock()
	g.asking = nil
	if f != nil {
		g.asking = &asking{f: f, closed: errUnasked}
	}
	if f != nil && len(g.members) > 0 {
		g.asking.since = g.base.Clock.Now()
	}
	stop := g.run()
	if g.loop != nil {
		g.loop.Wake()
	}
	for _, m := range g.members {
		m.hold(f != nil)
	}
	g.mu.Unlock()
	stop()
}

// Join adds a daemon that begins to run. hold keeps it from taking jobs, or lets it take them again; hold
// does not wait. The daemon calls leave when it takes no more jobs.
func (g *Gate) Join(b part.Base, hold func(bool)) (leave func()) {
	m := &member{hold}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.members) == 0 {
		g.base = b
		if a := g.asking; a != nil { // what it answered to an earlier run is old
			a.closed, a.answers, a.since = errUnasked, 0, b.Clock.Now()
		}
	}
	g.members = append(g.members, m)
	if a := g.asking; a != nil && a.closed != nil {
		hold(true)
	}
	g.run()
	return func() {
		g.mu.Lock()
		g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
		stop := g.run()
		g.mu.Unlock()
		stop()
	}
}

// run starts the loop if there is something to ask, and otherwise returns a function that stops it. The
// caller holds the mutex, and calls the function without it: the loop may wait for it.
func (g *Gate) run() (stop func()) {
	needed := g.asking != nil && len(g.members) > 0
	switch {
	case needed && g.loop == nil:
		g.loop = part.NewLoop(g.base, "gate", g.turn)
		g.loop.Start(context.Background())
	case !needed && g.loop != nil:
		loop := g.loop
		g.loop = nil
		return func() { loop.Stop(context.Background()) }
	}
	return func() {}
}

// turn asks the function, unless its last call has not ended yet.
func (g *Gate) turn(ctx context.Context) (wait time.Duration, err error) {
	g.mu.Lock()
	a := g.asking
	if a == nil || ctx.Err() != nil {
		g.mu.Unlock()
		return part.Never, nil
	}
	busy := !a.asked.IsZero()
	if busy {
		g.report(a)
		g.mu.Unlock()
		return Every, nil
	}
	a.asked, a.slow = g.base.Clock.Now(), false
	c := g.base.Clock
	g.mu.Unlock()
	answered := make(chan struct{})
	go g.call(ctx, a, answered)
	timer := c.NewTimer(Every)
	defer timer.Stop()
	select {
	case <-answered:
		return Every, nil
	case <-timer.C():
	case <-ctx.Done():
	}
	return 0, nil
}

// report logs once that a call takes too long. The caller holds the mutex.
func (g *Gate) report(a *asking) {
	took := clock.Since(g.base.Clock, a.asked)
	if a.slow || took < Patience {
		return
	}
	a.slow = true
	answer := "open"
	if a.closed != nil {
		answer = "closed"
	}
	g.logger().Warn("the gate does not answer; its last answer holds", "for", took.Round(time.Second), "last", answer)
}

// call calls the function and takes its answer, also if it panics or ends the goroutine.
func (g *Gate) call(ctx context.Context, a *asking, answered chan<- struct{}) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	defer close(answered)
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the gate's function panicked: %v", v)
		}
		g.answer(ctx, a, err)
	}()
	err = a.f(ctx)
}

// answer takes an answer, logs a change, and tells the daemons.
func (g *Gate) answer(ctx context.Context, a *asking, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.base.Clock.Now()
	took := now.Sub(a.asked)
	a.asked = time.Time{}
	if g.asking != a || len(g.members) == 0 || errors.Is(context.Cause(ctx), context.Canceled) {
		return // another function is asked by now, or nobody is
	}
	if a.slow {
		g.logger().Info("the gate answers again", "after", took.Round(time.Millisecond))
	}
	first := a.answers == 0
	a.answers++
	changed := first || (a.closed != nil) != (err != nil)
	before := a.since
	if a.closed = shorten(err); !changed {
		return
	}
	if a.since = now; err != nil {
		g.logger().Warn("the gate is closed; no jobs are taken", "reason", a.closed)
	} else if first {
		g.logger().Info("the gate is open")
	} else {
		g.logger().Info("the gate is open again", "after", now.Sub(before).Round(time.Millisecond))
	}
	for _, m := range g.members {
		m.hold(err != nil)
	}
}

func (g *Gate) logger() *slog.Logger {
	if g.log != nil {
		return g.log
	}
	return g.base.Log
}

// reason is why the gate is closed, in a text that is not too long.
type reason string

func (r reason) Error() string { return string(r) }

func shorten(err error) error {
	if err == nil {
		return nil
	}
	return reason(logging.Shorten(fmt.Sprint(err), logging.MaxText))
}
