package part

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Crew is the parts of one run. It keeps the state of each part, restarts parts that ask for it, and ends
// the run when a part has failed for good. All methods are safe for concurrent use. A nil Crew has no parts.
type Crew struct {
	// Heard, unless nil, is called when a part has failed. Unless the failure is final, the Crew restarts
	// the part. Set Heard before Run.
	Heard func(part string, err error, final bool)

	loops   Loops
	clock   clock.Clock
	log     *slog.Logger
	started atomic.Bool
	entries atomic.Pointer[[]*entry]

	mu      sync.Mutex
	failure *Failure                // the first part that failed for good
	abort   context.CancelCauseFunc // ends the run; nil: none is under way
}

// infoWithin bounds how long States waits for the Info of the parts.
const infoWithin = 100 * time.Millisecond

// NewCrew returns a crew without parts.
func NewCrew(c clock.Clock, log *slog.Logger) *Crew { return &Crew{clock: c, log: log} }

// Loops are those of the parts.
func (c *Crew) Loops() *Loops {
	if c == nil {
		return nil
	}
	return &c.loops
}

// Run is Budget.Run for sorted parts. Its wait gets a context that also ends when a part has failed for good.
// Then broken is the *Failure of that part. If a part cannot be started, broken says so.
func (c *Crew) Run(ctx context.Context, b *Budget, parts []Part, wait func(context.Context)) (left []string, broken, stopErr error) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	c.mu.Lock()
	c.abort = abort
	if c.failure != nil {
		abort(c.failure)
	}
	c.mu.Unlock()
	left, broken, stopErr = b.Run(ctx, c.Tend(parts), func() {
		c.started.Store(true)
		wait(ctx)
	})
	for _, e := range c.list() {
		for _, name := range left {
			if name == e.Name && e.is() != Stopped {
				e.enter(Failed, errLeft)
			}
		}
		e.leave(Running, Stopped) // without a Stop
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort = nil
	if c.failure != nil {
		broken = c.failure
	}
	return left, broken, stopErr
}

// Tend gives the crew its sorted parts. It returns them with a Start and a Stop that note their states.
func (c *Crew) Tend(parts []Part) []Part {
	entries, tended := make([]*entry, len(parts)), make([]Part, len(parts))
	for i, p := range parts {
		e := &entry{Part: p, crew: c, state: State{Name: p.Name, State: Waiting, Since: c.clock.Now(), Requires: p.Requires}}
		p.Start, p.Run = e.start, nil
		if e.Run != nil || e.Stop != nil {
			p.Stop = func(ctx context.Context) error {
				for _, above := range entries[i+1:] { // without a Stop
					above.leave(Running, Stopped)
				}
				return e.stop(ctx)
			}
		}
		entries[i], tended[i] = e, p
	}
	c.entries.Store(&entries)
	return tended
}

func (c *Crew) list() []*entry {
	if c != nil {
		if all := c.entries.Load(); all != nil {
			return *all
		}
	}
	return nil
}

// Started reports whether all parts were started.
func (c *Crew) Started() bool { return c != nil && c.started.Load() }

// fail ends the run, because of the first part that failed.
func (c *Crew) fail(f *Failure) {
	args := []any{"part", f.Part, "error", f.Err}
	if len(f.Stack) > 0 {
		args = append(args, "stack", string(f.Stack))
	}
	c.log.Error("part failed, stopping", args...)
	c.heard(f, true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return
	}
	c.failure = f
	if c.abort != nil {
		c.abort(f)
	}
}

// failedStep ends the run if the error of a Start or Stop is a Failure, and reports that.
func (c *Crew) failedStep(err error) bool {
	var f *Failure
	if !errors.As(err, &f) {
		return false
	}
	c.mu.Lock()
	known := c.failure != nil && c.failure.Part == f.Part
	c.mu.Unlock()
	if !known {
		c.fail(f)
	}
	return true
}

// Crashed ends the run because a goroutine of a part has panicked with a value.
func (c *Crew) Crashed(part string, value any, stack []byte) {
	f := &Failure{Part: part, Err: panicked{value}, Stack: stack}
	for _, e := range c.list() {
		if e.Name == part {
			e.enter(Failed, f.Err)
		}
	}
	c.fail(f)
}

// restarting reports a failed part that the crew restarts after a time.
func (c *Crew) restarting(f *Failure, wait time.Duration) {
	args := []any{"part", f.Part, "error", f.Err, "in", brief(wait)}
	if len(f.Stack) > 0 {
		args = append(args, "stack", string(f.Stack))
	}
	c.log.Warn("part failed, starting it again", args...)
	c.heard(f, false)
}

func (c *Crew) heard(f *Failure, final bool) {
	if c.Heard != nil {
		c.Heard(f.Part, f.Err, final)
	}
}

// States returns the states of the parts, in the order in which they start. It takes 100 ms at most.
func (c *Crew) States() []State {
	all := c.list()
	if len(all) == 0 {
		return nil
	}
	timer := c.clock.NewTimer(infoWithin)
	defer timer.Stop()
	asked := make([]<-chan struct{}, len(all))
	for i, e := range all {
		if state := e.is(); e.Info != nil && state != Waiting && state != Stopped {
			asked[i] = e.ask()
		}
	}
	late := false
	for _, answered := range asked {
		if answered == nil || late {
			continue
		}
		select {
		case <-answered:
		case <-timer.C():
			late = true
		}
	}
	var states []State
	for _, e := range all {
		if !e.Unseen {
			states = append(states, e.look())
		}
	}
	return states
}

// Down returns the names of the parts that have failed, including parts that wait for a restart.
func (c *Crew) Down() (names []string) {
	for _, e := range c.list() {
		if state := e.is(); !e.Unseen && (state == Failed || state == Restarting) {
			names = append(names, e.Name)
		}
	}
	return names
}

// Took writes how long the start of each part took, or its stop.
func (c *Crew) Took(stop bool) string {
	var all []string
	for _, e := range c.list() {
		if e.Unseen {
			continue
		}
		s := e.look()
		took := s.StartTook
		if stop {
			took = s.StopTook
		}
		all = append(all, fmt.Sprint(e.Name, " ", brief(took)))
	}
	return strings.Join(all, " ")
}

// brief rounds a duration for a line of the log.
func brief(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
