package part

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

const (
	// leastShare is the share of a part if the time of its step is over before its turn comes.
	leastShare = 50 * time.Millisecond

	// lateMost is how much longer than its context the stop of a part may take, if it has four times as
	// much in all. In the step Above, aboveGrace is divided instead.
	lateMost = 250 * time.Millisecond
)

// errLeft says that a function did not return in its time. It may still run.
var errLeft = errors.New("it did not return in its time and was left behind")

// leftError is errLeft of a function that may return later.
type leftError struct {
	done <-chan error // gets its error then
}

func (*leftError) Error() string { return errLeft.Error() }

func (*leftError) Unwrap() error { return errLeft }

// later returns the error of the function if it has returned meanwhile.
func (e *leftError) later() error {
	select {
	case err := <-e.done:
		return err
	default:
		return e
	}
}

// Later is an error of a Stop that may have something else to say when the whole stop is over. On a busy machine what was late has ended by then.
type Later interface {
	error
	Later() error
}

// Run starts sorted parts, calls wait once all of them run, and stops them. Where one cannot be
// started, those before it are stopped at once. The time of the stop begins with the end of ctx at
// the latest. Left are the names of the parts that did not start or stop in their time.
func (b *Budget) Run(ctx context.Context, parts []Part, wait func()) (left []string, startErr, stopErr error) {
	defer context.AfterFunc(ctx, b.Begin)()
	started, startErr := b.start(ctx, parts)
	if errors.Is(startErr, errLeft) {
		left = append(left, parts[len(started)].Name)
	}
	if startErr == nil {
		wait()
	}
	b.Begin()
	behind, stopErr := b.stop(context.WithoutCancel(ctx), started)
	return append(left, behind...), startErr, stopErr
}

// start is Start. A part of the program has its Timeout, and one of the daemon's own has the limits of its
// connections. If a part is starting when the stop begins, it has as long as one above the workers to return.
func (b *Budget) start(ctx context.Context, parts []Part) (started []Part, err error) {
	bounded := slices.Clone(parts)
	for i, p := range parts {
		if p.Start == nil {
			continue
		}
		if _, own := ownSteps[p.Name]; own {
			p.Timeout = -1
		}
		bounded[i].Start = func(ctx context.Context) error { return b.startPart(ctx, p) }
	}
	return Start(ctx, bounded)
}

// startPart starts a part in its time. Its context ends with that time, and it then has aboveGrace to return.
func (b *Budget) startPart(ctx context.Context, p Part) error {
	timeout := cmp.Or(p.Timeout, StartWithin)
	late := fmt.Errorf("it did not start in %s", timeout)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var ends time.Time // zero: it has no limit
	if timeout > 0 {
		ends = b.clock.Now().Add(timeout + aboveGrace)
	}
	err := b.call(func() error { return p.Start(ctx) }, func(time.Time) (until time.Time, grace time.Duration) {
		until = ends
		if closed(b.begun) {
			if stops := b.ends(Above, time.Time{}); until.IsZero() || stops.Before(until) {
				return stops, 0
			}
		}
		return until, aboveGrace
	}, func() { cancel(late) })
	if err != nil && context.Cause(ctx) == late && !errors.Is(err, late) {
		err = fmt.Errorf("%w: %w", late, err)
	}
	return err
}

// stop stops sorted parts in reverse order. What is left of the time of a step is divided by the parts
// that it still has to stop. The poller, in whose time the workers end too, has all of it.
//
// Left are those that have not returned when all have had their time.
func (b *Budget) stop(base context.Context, parts []Part) (left []string, err error) {
	type end struct {
		name string
		err  error
	}
	var ends []end
	var step Step
	var entered time.Time
	steps := stepsOf(parts)
	for i, p := range slices.Backward(parts) {
		if entered.IsZero() || step != steps[i] {
			step, entered = steps[i], b.clock.Now()
		}
		if p.Stop == nil {
			continue
		}
		sharers := 1
		for j, other := range parts[:i] {
			if other.Stop != nil && steps[j] == step && step != Jobs {
				sharers++
			}
		}
		if err := b.stopPart(base, p, step, entered, sharers); err != nil {
			ends = append(ends, end{p.Name, err})
		}
	}
	var errs []error
	for _, e := range ends {
		switch err := later(e.err); {
		case errors.Is(err, errLeft):
			left = append(left, e.name)
		case err != nil:
			errs = append(errs, fmt.Errorf("stopping %s: %w", e.name, err))
		}
	}
	return left, errors.Join(errs...)
}

// later returns what an error of a Stop has to say at the end of the whole stop.
func later(err error) error {
	var late *leftError
	if errors.As(err, &late) {
		err = late.later()
	}
	var l Later
	if errors.As(err, &l) {
		err = l.Later()
	}
	return err
}

// stopPart stops a part in its share. Its context ends a little sooner.
func (b *Budget) stopPart(base context.Context, p Part, step Step, entered time.Time, sharers int) error {
	share := func(from time.Time) (until time.Time, late time.Duration) {
		ends := b.ends(step, entered)
		if ends.IsZero() {
			return ends, 0 // the poller's, which drains in its own time
		}
		share := max(ends.Sub(from)/time.Duration(sharers), leastShare)
		if p.Timeout > 0 {
			share = min(share, p.Timeout)
		}
		late = min(share/4, lateMost)
		if step == Above {
			late = aboveGrace / time.Duration(sharers)
		}
		return from.Add(share), late
	}
	ctx, cancel := context.WithCancel(base)
	defer cancel()
	if until, late := share(b.clock.Now()); !until.IsZero() {
		var end context.CancelFunc
		ctx, end = context.WithDeadline(ctx, until.Add(-late))
		defer end()
	}
	return b.call(func() error { return p.Stop(ctx) }, share, cancel)
}

// call calls f in a goroutine and waits until it returns. share says until when it may take, if its time
// begins at from, zero: without limit, and how long before that end is called. It is asked again when the
// time of the stop begins, and when it is cut.
func (b *Budget) call(f func() error, share func(from time.Time) (until time.Time, late time.Duration), end func()) error {
	done := make(chan error, 1)
	go func() {
		err := errExited
		defer func() { done <- err }()
		err = f()
	}()
	begun, cuts := b.begun, b.cuts
	timer := b.clock.NewTimer(Never)
	defer timer.Stop()
	until, late := share(b.clock.Now())
	for {
		left := Never
		if !until.IsZero() {
			left = clock.Until(b.clock, until)
			if left > late {
				left -= late
			} else {
				end()
			}
		}
		timer.Reset(max(left, 0))
		select {
		case err := <-done:
			return err
		case <-begun:
			begun = nil
			until, late = share(b.clock.Now())
		case <-cuts:
			cuts = nil
			until, late = share(b.clock.Now())
		case <-timer.C():
			if clock.Until(b.clock, until) > 0 {
				continue
			}
			select {
			case err := <-done:
				return err
			default:
				return &leftError{done}
			}
		}
	}
}

// stepsOf returns the step in which each of sorted parts stops.
func stepsOf(parts []Part) []Step {
	workers := slices.IndexFunc(parts, func(p Part) bool { return p.Name == "workers" })
	steps := make([]Step, len(parts))
	for i, p := range parts {
		step, own := ownSteps[p.Name]
		switch {
		case own:
		case workers >= 0 && i > workers:
			step = Above
		default:
			step = Below
		}
		steps[i] = step
	}
	return steps
}
