package goworker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/goworker/goworker/internal/feature/cursor"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// Limits of what a job leaves for its next run.
const (
	// MaxCursor is how many bytes a cursor, and what a function of Once returns, has at most as JSON.
	MaxCursor = cursor.MaxValue

	// MaxOnce is how many names a job may give to Once at most. A loop takes a cursor instead.
	MaxOnce = resque.MostOnce

	// CursorTTL is how long a job's cursor stays after its last use or, if the job waits for its next run, from when
	// that is due. A job that has failed keeps it for so long, so that its retry by hand goes on where it was.
	CursorTTL = resque.CursorTTL
)

// JobCursor is how far a job is, kept in Redis under the job's id. The next run of the job goes on from there: after a
// retry, a Snooze, a deploy, or the death of the process. It is removed when the job is done. It is safe for concurrent use.
type JobCursor[T any] struct {
	run *cursor.Run
	ctx context.Context
	err error // there is no cursor here
}

// Cursor returns the cursor of the job to which ctx belongs:
//
//	func export(ctx context.Context, table string) error {
//		at := goworker.Cursor[int64](ctx)
//		last, _, err := at.Get()
//		for rows := …; err == nil && rows.Next(); {
//			… // the row after last
//			err = at.Set(ctx, row.ID)
//		}
//		return err
//	}
//
// A T is kept as JSON. All cursors of a job are the same one. The job needs an id, which every option of Client.Enqueue
// gives it; without one, and outside a job, each call of the cursor returns an error that says so. A job that does
// not call Cursor costs what it always did.
//
// It works in the child process of an Isolated job and in a step of a workflow too.
func Cursor[T any](ctx context.Context) *JobCursor[T] {
	c := &JobCursor[T]{ctx: ctx}
	c.run, c.err = cursor.Of(ctx, runContext(ctx))
	return c
}

// runContext returns the context that ends with the run to which ctx belongs, or ctx.
func runContext(ctx context.Context) context.Context {
	if d := FromContext(ctx); d != nil && d.self.Context != nil {
		return &d.self
	}
	return ctx
}

// Get returns how far the job is: what Set got last, in this run or in an earlier one. ok is false if no run has called Set.
// The first Get of a run reads it, and waits for a Redis that is away until the context of Cursor ends. It returns
// ErrNotHeld once the job is no longer this run's.
func (c *JobCursor[T]) Get() (v T, ok bool, err error) {
	if c.err != nil {
		return v, false, prefix.Errorf("Cursor: %w", c.err)
	}
	raw, err := c.run.Get(c.ctx)
	if err != nil || raw == nil {
		return v, false, cursorError("Cursor", err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, false, prefix.Errorf("Cursor: what an earlier run left does not fit %T; keep its form, or read the old one into a json.RawMessage: %w", v, err)
	}
	return v, true, nil
}

// Set says how far the job is. It returns at once, so a loop may call it for every row: it is written at most once a second.
// A process that is killed loses what was said within the last second, and all that a run said is written with
// its end, whatever that is. Once the run's context has ended, by a stop, a time limit or a cancel, Set writes before it returns.
//
// It returns ErrNotHeld once it is known that the job is no longer this run's, and other errors if v has no JSON form or more
// than MaxCursor bytes, or if Redis refused the write before this one. A Redis that is away is no error: what was said last is written
// when it is back.
func (c *JobCursor[T]) Set(ctx context.Context, v T) error {
	if c.err != nil {
		return prefix.Errorf("Cursor: %w", c.err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return prefix.Errorf("Cursor: %T has no JSON form: %w", v, err)
	}
	return cursorError("Cursor", c.run.Set(ctx, raw))
}

// Once calls f unless an earlier call with this name, in this run of the job or in another, has returned without an error:
// then it returns what that returned. So a retry does not charge a card twice:
//
//	receipt, err := goworker.Once(ctx, "charge", func(ctx context.Context) (string, error) {
//		return charge(ctx, order, goworker.FromContext(ctx).ID) // the id as the idempotency key
//	})
//
// What f returns is kept as JSON before Once returns. f runs again only if the process dies after f has done its work and before that
// write; an idempotency key, such as the job's id, makes that harmless. An error of f is returned, and the next call runs f again. A
// result that has no JSON form or more than MaxCursor bytes is not kept: Once returns an error, in later runs too, and does
// not run f again.
//
// It keeps what Cursor keeps, as long, and for the same jobs. It waits for a Redis that is away until ctx ends, before f, and until the run
// ends, after f. It returns ErrNotHeld, without calling f, once the job is no longer this run's. Calls with one name wait for each other; f must
// not call Once with its own name. A name has 1 to 128 bytes, and a job has at most MaxOnce.
func Once[T any](ctx context.Context, name string, f func(context.Context) (T, error)) (v T, err error) {
	call := fmt.Sprintf("Once(%q)", name)
	run, err := cursor.Of(ctx, runContext(ctx))
	if err != nil {
		return v, cursorError(call, err)
	}
	var own error // of f: it is returned as it is
	raw, err := run.Once(ctx, name, func(ctx context.Context) ([]byte, error) {
		var value T
		if value, own = f(ctx); own != nil {
			return nil, own
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, cursor.Unkept(err)
		}
		return raw, nil
	})
	if own != nil {
		return v, own
	}
	if err != nil {
		return v, cursorError(call, err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, prefix.Errorf("%s: what an earlier run left does not fit %T; give the block another name: %w", call, v, err)
	}
	return v, nil
}

// cursorError is an error of what a call does.
func cursorError(call string, err error) error {
	if err == nil {
		return nil
	}
	return prefix.Of(fmt.Errorf("%s: %w", call, err))
}
