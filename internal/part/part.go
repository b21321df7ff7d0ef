// Package part builds and runs the daemon's parts. It has the tools that every part gets, the
// order in which parts start and stop, and the loop that most of them run.
package part

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/resque"
)

// ReplyWithin bounds connecting and each reply for the connections of a part that must not wait
// long for a silent Redis.
const ReplyWithin = 2 * time.Second

// Base is what every part is given. All that it holds is safe for concurrent use.
type Base struct {
	Log     *slog.Logger
	Outages *logging.Outages
	Store   resque.Store
	Dialer  conn.Dialer
	Clock   clock.Clock
	Meter   *meter.Meter // counts what happens to the process; nil: nothing does

	// Loops are the loops of the daemon; nil: nothing asks for them.
	Loops *Loops

	// Crashed is called when a goroutine of a part has panicked, and ends the daemon in order. It is nil where
	// there is no daemon: then the panic ends the process.
	Crashed func(part string, value any, stack []byte)
}

// Catch is deferred first in a goroutine of a part: it has a panic end the daemon in order.
func (b Base) Catch(part string) {
	if b.Crashed == nil {
		return
	}
	if v := recover(); v != nil {
		b.Crashed(part, v, debug.Stack())
	}
}

// Of returns a Base whose Catch names this part, whatever it is called with: for what several parts have in common.
func (b Base) Of(part string) Base {
	if crashed := b.Crashed; crashed != nil {
		b.Crashed = func(_ string, value any, stack []byte) { crashed(part, value, stack) }
	}
	return b
}

// Line returns a connection of the part's own, which has not dialed yet. limit bounds connecting
// and each reply; 0 leaves them to the settings.
func (b Base) Line(limit time.Duration) conn.Line {
	return conn.Line{Dialer: b.Dialer, Limit: limit}
}

// Part is something that starts before the daemon works and stops after it.
type Part struct {
	Name     string
	Requires []string // the parts that run before this one starts and until it has stopped
	Isolated bool     // it runs in the children of isolated jobs too
	Start    func(ctx context.Context) error
	Stop     func(ctx context.Context) error

	Run        func(ctx context.Context) error // in place of Start and Stop
	AwaitReady bool                            // the start is over when Run calls Ready
	Timeout    time.Duration                   // of Start, 0: StartWithin, negative: none; and of Stop, if it is positive
	Restart    *Restart                        // of Run; nil: its end ends the daemon
	Info       func() any                      // what the part says of itself
	Unseen     bool                            // a Crew does not show it
}

// StartWithin bounds the start of a part that says nothing else.
const StartWithin = 30 * time.Second

// check returns an error for fields that contradict each other.
func (p Part) check() error {
	switch {
	case p.Run != nil && (p.Start != nil || p.Stop != nil):
		return fmt.Errorf("part %q has a Run and a Start or Stop: Run replaces both", p.Name)
	case p.Run == nil && p.Restart != nil:
		return fmt.Errorf("part %q has a Restart and no Run: only a Run is started again", p.Name)
	case p.Run == nil && p.AwaitReady:
		return fmt.Errorf("part %q has AwaitReady and no Run: without a Run, it is ready when Start returns", p.Name)
	case p.Restart != nil:
		if err := p.Restart.check(); err != nil {
			return fmt.Errorf("part %q: %w", p.Name, err)
		}
	}
	return nil
}

// once returns each of the names once, in a slice of its own.
func once(names []string) (unique []string) {
	for _, name := range names {
		if !slices.Contains(unique, name) {
			unique = append(unique, name)
		}
	}
	return unique
}

// Sort orders parts so that each comes after all it requires, and otherwise as they were given. Each then names
// what it requires once.
func Sort(parts []Part) ([]Part, error) {
	byName := make(map[string]Part, len(parts))
	for _, p := range parts {
		if p.Name == "" {
			return nil, errors.New("a part has no name")
		}
		if _, twice := byName[p.Name]; twice {
			return nil, fmt.Errorf("there are two parts named %q", p.Name)
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		byName[p.Name] = p
	}
	var sorted []Part
	placed := make(map[string]bool, len(parts))
	var place func(p Part, above []string) error
	place = func(p Part, above []string) error {
		if placed[p.Name] {
			return nil
		}
		if slices.Contains(above, p.Name) {
			return fmt.Errorf("part %q requires itself, by way of %q", p.Name, above[len(above)-1])
		}
		for _, name := range p.Requires {
			required, ok := byName[name]
			if !ok {
				return fmt.Errorf("part %q requires %q, which is not there", p.Name, name)
			}
			if err := place(required, append(above, p.Name)); err != nil {
				return err
			}
		}
		placed[p.Name] = true
		p.Requires = once(p.Requires)
		sorted = append(sorted, p)
		return nil
	}
	for _, p := range parts {
		if err := place(p, nil); err != nil {
			return nil, err
		}
	}
	return sorted, nil
}

// Outliving returns the names of the parts that depend on none of the given ones, directly or
// through others.
func Outliving(parts []Part, ones ...string) []string {
	depends := make(map[string]bool)
	for _, name := range ones {
		depends[name] = true
	}
	for changed := true; changed; {
		changed = false
		for _, p := range parts {
			if !depends[p.Name] && slices.ContainsFunc(p.Requires, func(r string) bool { return depends[r] }) {
				depends[p.Name], changed = true, true
			}
		}
	}
	var names []string
	for _, p := range parts {
		if !depends[p.Name] {
			names = append(names, p.Name)
		}
	}
	return names
}

// Around sorts parts. The first of the given ones also requires all parts that depend on none
// of them. So the program's parts start before the first job and outlive the last.
func Around(parts []Part, ones ...string) ([]Part, error) {
	if _, err := Sort(parts); err != nil {
		return nil, err
	}
	parts = slices.Clone(parts)
	for i, p := range parts {
		if p.Name == ones[0] {
			parts[i].Requires = append(slices.Clip(p.Requires), Outliving(parts, ones...)...)
		}
	}
	return Sort(parts)
}

// Start starts sorted parts until one fails, and returns those that run.
func Start(ctx context.Context, parts []Part) (started []Part, err error) {
	for i, p := range parts {
		if p.Start == nil {
			continue
		}
		if err := p.Start(ctx); err != nil {
			own := slices.ContainsFunc(Own, func(own Part) bool { return own.Name == p.Name }) // its errors say more than its name does
			if failure := (*Failure)(nil); (!own || errors.Is(err, errLeft)) && !errors.As(err, &failure) {
				err = fmt.Errorf("starting %s: %w", p.Name, err)
			}
			return parts[:i], err
		}
	}
	return parts, nil
}

// Stop stops sorted parts in reverse order and joins their errors.
func Stop(ctx context.Context, parts []Part) error {
	var errs []error
	for _, p := range slices.Backward(parts) {
		if p.Stop == nil {
			continue
		}
		if err := p.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}
