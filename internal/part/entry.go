package part

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// entry is one part of a Crew.
type entry struct {
	Part
	crew *Crew

	mu     sync.Mutex
	state  State
	asking chan struct{} // closed when the call of Info under way has returned; nil: none is

	// Of a part with a Run. They are set before its goroutine starts.
	cancel context.CancelFunc
	ready  chan struct{} // closed when it is ready for the first time
	readys sync.Once
	ended  chan struct{} // closed once its Run is no longer called
	err    error         // why; written before ended is closed
}

// enter notes a state, and the error that led to it.
func (e *entry) enter(state string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.enterLocked(state, err)
}

func (e *entry) enterLocked(state string, err error) {
	e.state.State, e.state.Since = state, e.crew.clock.Now()
	if err != nil {
		e.state.Err = err
	}
	if state == Restarting {
		e.state.Restarts++
	}
}

// leave notes a state, if the part is in another one.
func (e *entry) leave(from, to string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.State == from {
		e.enterLocked(to, nil)
	}
}

func (e *entry) is() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.State
}

// start starts the part and notes how long that took.
func (e *entry) start(ctx context.Context) (err error) {
	e.enter(Starting, nil)
	began := e.crew.clock.Now()
	switch {
	case e.Run != nil:
		err = e.launch(ctx)
	case e.Start != nil:
		err = e.guard(func() error { return e.Start(ctx) })
	}
	e.mu.Lock()
	took := clock.Since(e.crew.clock, began)
	e.state.StartTook = took
	e.mu.Unlock()
	if err != nil {
		e.enter(Failed, err)
		e.crew.failedStep(err)
		return err
	}
	e.leave(Starting, Running)
	e.crew.log.Debug("part started", "part", e.Name, "took", brief(took))
	return nil
}

// stop stops the part and notes how long that took. A part whose Run has failed has stopped already.
func (e *entry) stop(ctx context.Context) (err error) {
	began := e.crew.clock.Now()
	failed := e.is() == Failed
	if !failed {
		e.enter(Stopping, nil)
	}
	switch {
	case e.Run != nil:
		e.cancel()
		<-e.ended
		if !failed {
			err = e.err
		}
	case e.Stop != nil:
		err = e.guard(func() error { return e.Stop(ctx) })
	}
	e.mu.Lock()
	took := clock.Since(e.crew.clock, began)
	e.state.StopTook = took
	e.mu.Unlock()
	switch {
	case err != nil:
		e.enter(Failed, err)
		if e.crew.failedStep(err) {
			err = nil // it is why the run ends
		}
	case !failed:
		e.enter(Stopped, nil)
	}
	e.crew.log.Debug("part stopped", "part", e.Name, "took", brief(took))
	return err
}

// errExited is the error of a function that has called runtime.Goexit, as t.FailNow does.
var errExited = errors.New("it ended its goroutine and did not return")

// guard calls f and waits for its end. It gives f a goroutine of its own, because f may end its goroutine. A panic is a Failure.
func (e *entry) guard(f func() error) error {
	err, done := errExited, make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = &Failure{Part: e.Name, Err: panicked{v}, Stack: debug.Stack()}
			}
		}()
		err = f()
	}()
	<-done
	return err
}

// launch calls the part's Run in a goroutine. With AwaitReady it waits until the part is ready.
func (e *entry) launch(ctx context.Context) error {
	var run context.Context
	run, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.ready, e.ended = make(chan struct{}), make(chan struct{})
	go e.keep(run)
	if !e.AwaitReady {
		return nil
	}
	select {
	case <-e.ready:
		return nil
	case <-e.ended:
		return e.err
	case <-ctx.Done():
		e.cancel()
		<-e.ended
		if e.err != nil {
			return e.err
		}
		return context.Cause(ctx)
	}
}

// keep calls Run, and calls it again after a failure as Restart says.
func (e *entry) keep(ctx context.Context) {
	defer close(e.ended)
	defer e.cancel()
	var again restarts
	if e.Restart != nil {
		again.Restart = e.Restart.orDefaults()
	}
	for {
		failure := e.attempt(ctx)
		if ctx.Err() != nil {
			e.err = failure.asked(ctx.Err())
			return
		}
		wait, ok := again.next(e.crew.clock.Now())
		if !ok {
			if n := len(again.past); n > 0 {
				failure.Err = fmt.Errorf("it was started %d times in %s, and failed again: %w", n+1, again.Within, failure.Err)
			}
			e.err = failure
			e.enter(Failed, failure.Err)
			e.crew.fail(failure)
			return
		}
		e.enter(Restarting, failure.Err)
		e.crew.restarting(failure, wait)
		if !e.sleep(ctx, wait) {
			return
		}
		if !e.AwaitReady {
			e.leave(Restarting, Running)
		}
	}
}

// errReturned is the failure of a Run that returns nil before its context has ended.
var errReturned = errors.New("its Run returned, and the daemon had not stopped it")

// asked returns the error of a Run whose context had ended. The error of that context is none: Run had to return.
func (f *Failure) asked(ended error) error {
	switch {
	case f.Stack != nil:
		return f
	case f.Err == errReturned, errors.Is(f.Err, ended):
		return nil
	}
	return f.Err
}

// attempt calls Run once and returns how it ended.
func (e *entry) attempt(ctx context.Context) *Failure {
	f := &Failure{Part: e.Name, Err: errors.New("its Run ended its goroutine and did not return")}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				f.Err, f.Stack = panicked{v}, debug.Stack()
			}
		}()
		if f.Err = e.Run(context.WithValue(ctx, readyKey{}, e.isReady)); f.Err == nil {
			f.Err = errReturned
		}
	}()
	<-done
	return f
}

// sleep waits, and reports false if the part is stopped meanwhile.
func (e *entry) sleep(ctx context.Context, d time.Duration) bool {
	timer := e.crew.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// isReady is called by a Run that is ready.
func (e *entry) isReady() {
	if !e.AwaitReady {
		return
	}
	e.leave(Starting, Running)
	e.leave(Restarting, Running)
	e.readys.Do(func() { close(e.ready) })
}

type readyKey struct{}

// Ready says that the part whose Run got this context is ready.
func Ready(ctx context.Context) {
	if ready, ok := ctx.Value(readyKey{}).(func()); ok {
		ready()
	}
}

// ask calls Info, unless the call before has not returned yet. The channel is closed when Info has returned.
func (e *entry) ask() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asking == nil {
		done := make(chan struct{})
		e.asking = done
		go func() {
			var info any
			if err := e.guard(func() error { info = e.Info(); return nil }); err != nil {
				if failure := (*Failure)(nil); errors.As(err, &failure) {
					err = failure.Err
				}
				info = err.Error()
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			e.state.Info, e.asking = info, nil
			close(done)
		}()
	}
	return e.asking
}

// look returns the state, with the result of Info if that call has returned.
func (e *entry) look() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.state
	if e.asking != nil {
		s.Info = nil
	}
	return s
}
