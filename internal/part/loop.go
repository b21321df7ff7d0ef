package part

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
)

// Never is what a Turn returns when there is nothing to do until the next Wake.
const Never time.Duration = 1<<63 - 1

// Forever is the Grace of a Loop whose Turn ends by itself.
const Forever = Never

// Loop is a part that takes one turn after another in a goroutine of its own. Its fields are set
// before Start. All methods are safe for concurrent use.
//
//   - Start returns when the goroutine runs.
//   - Wake makes the loop take the next turn at once, or right after the one under way.
//   - Stop waits until the goroutine has ended. It may be called more than once, and before Start.
//   - After an error the loop waits as Backoff says, and Outages logs one line an outage.
type Loop struct {
	// Name is what the log calls the part in an outage.
	Name string

	// Turn takes one turn and returns how long there is nothing to do. Its context ends when the
	// loop stops, after Grace.
	Turn func(ctx context.Context) (wait time.Duration, err error)

	// End is called in the goroutine after the last turn; nil: there is nothing to clean up.
	End func()

	// Grace is how long a turn under way may go on after Stop was called.
	Grace time.Duration

	// Quiet is how long after a turn Wake is delayed, so that a flood of wake-ups costs one turn
	// for each Quiet.
	Quiet time.Duration

	// Patient says that Wake does not shorten the wait after an error.
	Patient bool

	base    Base
	clock   clock.Clock
	outages *logging.Outages

	once   sync.Once
	wake   chan struct{}
	quit   chan struct{}
	ended  chan struct{}
	cancel context.CancelFunc // nil before Start

	begun time.Time    // when Start was called
	due   atomic.Int64 // by when the next turn must begin, in nanoseconds after begun; of a turn under way, when it began
}

// NewLoop returns a loop of the given name that takes turns.
func NewLoop(b Base, name string, turn func(context.Context) (time.Duration, error)) *Loop {
	return &Loop{
		Name: name, Turn: turn, base: b, clock: b.Clock, outages: b.Outages,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Loops are the loops that run now. The zero value has none. All methods are safe for concurrent use, and those of nil do nothing.
type Loops struct {
	mu  sync.Mutex
	all map[*Loop]struct{}
}

// Standing is a loop that owes a turn.
type Standing struct {
	Loop string
	For  time.Duration
}

// Standing returns the loops that have owed a turn for longer than most, the longest first.
func (l *Loops) Standing(most time.Duration) (standing []Standing) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for loop := range l.all {
		if owed := loop.Owed(); owed > most {
			standing = append(standing, Standing{loop.Name, owed})
		}
	}
	slices.SortFunc(standing, func(a, b Standing) int { return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Loop, b.Loop)) })
	return standing
}

// run notes whether a loop runs.
func (l *Loops) run(loop *Loop, runs bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !runs {
		delete(l.all, loop)
		return
	}
	if l.all == nil {
		l.all = make(map[*Loop]struct{})
	}
	l.all[loop] = struct{}{}
}

// Start starts the goroutine. The turns' context has the values of ctx and does not end with it.
func (l *Loop) Start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.begun = l.clock.Now()
	l.base.Loops.run(l, true)
	go l.run(ctx)
}

// Owed returns for how long a turn has been under way, or how much later than planned the next one is. It is 0
// between two turns. A loop that owes a turn for long hangs, or was stopped. Owed is called after Start.
func (l *Loop) Owed() time.Duration {
	return max(0, clock.Since(l.clock, l.begun)-time.Duration(l.due.Load()))
}

// rests says how long no turn is due.
func (l *Loop) rests(d time.Duration) {
	since := clock.Since(l.clock, l.begun)
	l.due.Store(int64(since + min(max(d, 0), Never-since)))
}

// Wake makes the loop take a turn.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Woken is where Wake arrives, for a source of wake-ups that wants a channel. It holds one value.
func (l *Loop) Woken() chan struct{} { return l.wake }

// Stopping reports whether Stop was called.
func (l *Loop) Stopping() bool {
	select {
	case <-l.quit:
		return true
	default:
		return false
	}
}

// Stop stops the loop. It waits for the turn under way until ctx ends, but at most for Grace.
// Then it cancels the turn's context and waits until the turn returns.
func (l *Loop) Stop(ctx context.Context) {
	l.once.Do(func() { close(l.quit) })
	if l.cancel == nil {
		return
	}
	if l.Grace > 0 {
		grace := l.clock.NewTimer(l.Grace)
		defer grace.Stop()
		select {
		case <-l.ended:
		case <-ctx.Done():
		case <-grace.C():
		}
	}
	l.cancel()
	<-l.ended
}

func (l *Loop) run(ctx context.Context) {
	defer l.base.Catch(l.Name)
	defer close(l.ended)
	defer l.base.Loops.run(l, false)
	defer l.cancel()
	if l.End != nil {
		defer l.End()
	}
	var retry Backoff
	timer := l.clock.NewTimer(Never)
	defer timer.Stop()
	for !l.Stopping() {
		l.rests(0)
		wait, err := l.Turn(ctx)
		switch {
		case err == nil:
			l.outages.OK(l.Name)
			retry.Reset()
		case l.Stopping():
			return
		default:
			l.outages.Fail(l.Name, err)
			wait = retry.Next()
		}
		l.rests(wait)
		quiet := min(wait, l.Quiet)
		if err != nil && l.Patient {
			quiet = wait
		}
		if quiet > 0 {
			if !l.sleep(timer, quiet, nil) {
				return
			}
			wait -= quiet
		}
		if !l.sleep(timer, wait, l.wake) {
			return
		}
	}
}

// sleep waits for a time, for wake, or for Stop: then it returns false.
func (l *Loop) sleep(timer clock.Timer, d time.Duration, wake <-chan struct{}) bool {
	timer.Reset(max(d, 0))
	select {
	case <-timer.C():
	case <-wake:
	case <-l.quit:
		return false
	}
	return true
}
