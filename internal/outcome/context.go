package outcome

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/failure"
)

// Context is the context of one job's handler. It ends with its parent, by Job.Cancel, and when the
// handler has returned. It lives in the Job and allocates nothing until Done is called: most
// handlers only pass it on. From then on a context of the standard library answers, so timers and
// other contexts link to it without a goroutine. The job's goroutine calls begin and end. All other
// methods are safe for concurrent use.
type Context struct {
	parent context.Context // set by begin, before the handler has the Context
	job    *Job            // whose context it is; set by begin too

	// own is the cancellable context that answers once there is one; nil: the parent answers. It is
	// written with the mutex held and never replaced.
	own atomic.Pointer[cancellable]

	mu    sync.Mutex // guards what follows
	stage stage
	cause error // of a Cancel before the handler began; nil: there was none
	ended bool  // a Cancel came while the handler ran. The job's goroutine reads it after end
}

// cancellable is a context and how to end it.
type cancellable struct {
	context.Context
	cancel context.CancelCauseFunc
}

// stage is how far the handler of a job is.
type stage uint8

const (
	waiting stage = iota // it has not been called
	running
	returned // or it is never called, because Cancel came first
)

// Cancel ends the context of the job's handler with a cause, which context.Cause then returns. A
// handler that was not called yet is not called: the job then has the error that a handler's
// context.Canceled would be. The first cause counts, also that of the parent. Cancel returns false if
// the handler has returned: then it does nothing. Any goroutine may call it at any time.
func (j *Job) Cancel(cause error) bool {
	c := &j.context
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.stage {
	case waiting:
		if c.cause == nil {
			if c.cause = cause; cause == nil {
				c.cause = context.Canceled
			}
		}
	case running:
		c.ended = true
		c.open().cancel(cause)
	case returned:
		return false
	}
	return true
}

// begin starts the time of the handler. It returns an error if Cancel came before: then the handler
// is not called.
func (c *Context) begin(parent context.Context, j *Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		c.stage = returned
		return &failure.Cancelled{Cause: c.cause, Err: context.Canceled}
	}
	c.parent, c.job, c.stage = parent, j, running
	return nil
}

// end ends the context with context.Canceled. The parent keeps nothing of it.
func (c *Context) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stage = returned
	if own := c.own.Load(); own != nil {
		own.cancel(nil)
	}
}

// open returns the own context, which it makes if there is none. The caller holds the mutex.
func (c *Context) open() *cancellable {
	own := c.own.Load()
	if own == nil {
		own = new(cancellable)
		own.Context, own.cancel = context.WithCancelCause(c.parent)
		if c.stage == returned {
			own.cancel(nil)
		}
		c.own.Store(own)
	}
	return own
}

// answers returns the context that answers now. A handler that has returned may have left
// goroutines behind: they get an own one, which has ended.
func (c *Context) answers() context.Context {
	if own := c.own.Load(); own != nil {
		return own.Context
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage == returned {
		return c.open().Context
	}
	return c.parent
}

// Deadline returns the parent's.
func (c *Context) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done is closed when the context ends.
func (c *Context) Done() <-chan struct{} {
	if own := c.own.Load(); own != nil {
		return own.Done()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open().Done()
}

// Err returns why the context has ended; nil: it has not.
func (c *Context) Err() error { return c.answers().Err() }

// Value returns the parent's. context.Cause and derived contexts find the own context by it, and JobOf the job.
func (c *Context) Value(key any) any {
	if key == (jobKey{}) {
		return c.job
	}
	return c.answers().Value(key)
}

// Show has the values of a context, which the program's middleware made of the handler's, stand in the contexts of the log line and of
// the hooks of the job's end. It is called while the handler runs.
func (j *Job) Show(ctx context.Context) { j.shown = ctx }

// Shown returns ctx with the values that Show has shown; ctx itself if there are none. The handler has returned.
func (j *Job) Shown(ctx context.Context) context.Context {
	if j.shown == nil {
		return ctx
	}
	return shown{ctx, context.WithoutCancel(j.shown)} // it keeps the end of the one to itself
}

// shown is a context with the values of another one before its own.
type shown struct {
	context.Context
	before context.Context
}

func (s shown) Value(key any) any {
	if v := s.before.Value(key); v != nil {
		return v
	}
	return s.Context.Value(key)
}
