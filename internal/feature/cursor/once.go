package cursor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/resque"
)

// leftMark begins what is kept of a block whose result cannot be kept. No JSON begins with it.
const leftMark = "!"

// leftOut is the error of a block that was run, and whose result was not kept.
type leftOut struct{ why string }

func (e *leftOut) Error() string { return e.why + "; it is not run again" }

// insideKey is in the context of a block, by its name.
type insideKey struct {
	run  *Run
	name string
}

// Once returns what the block of a name has returned in this run of the job or an earlier one, as JSON. If none has run it, f is
// the block. An error of f is returned, and nothing is kept of it.
func (r *Run) Once(ctx context.Context, name string, f func(context.Context) ([]byte, error)) ([]byte, error) {
	inside := insideKey{r, name}
	switch {
	case name == "" || len(name) > MaxName:
		return nil, fmt.Errorf("its name has %d bytes; give it one of 1 to %d", len(name), MaxName)
	case ctx.Value(inside) != nil:
		return nil, errors.New("it is called inside itself, which would never end; give the inner block another name")
	}
	done, err := r.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done()
	value, there, err := r.recall(ctx, name)
	if err != nil {
		return nil, err
	}
	if !there {
		value, err = f(context.WithValue(ctx, inside, true))
		unkept, _ := err.(*leftOut) // one of another block is wrapped
		if err != nil && unkept == nil {
			return nil, err
		}
		if len(value) > MaxValue {
			unkept = &leftOut{fmt.Sprintf("the result has %d bytes as JSON, and at most %d are kept; return where it lies instead", len(value), MaxValue)}
		}
		if unkept != nil {
			value = []byte(leftMark + unkept.why)
		}
		switch err := r.keep(ctx, name, value); {
		case errors.Is(err, failure.ErrNotHeld):
			return nil, fmt.Errorf("the block has run, and another run of the job may run it too: %w", err)
		case err != nil:
			return nil, fmt.Errorf("the block has run, and what it has returned is not written; the end of this run tries that again: %w", err)
		}
	}
	if why, left := strings.CutPrefix(string(value), leftMark); left {
		return nil, &leftOut{why}
	}
	return value, nil
}

// Unkept is the error of a block that has run and whose result has no JSON form.
func Unkept(err error) error {
	return &leftOut{fmt.Sprintf("the result cannot be written as JSON: %v", err)}
}

// enter waits until no other goroutine runs the block of a name.
func (r *Run) enter(ctx context.Context, name string) (done func(), err error) {
	for {
		r.mu.Lock()
		err, other := r.usable(), r.underway[name]
		if err == nil && other == nil {
			own := make(block)
			if r.underway == nil {
				r.underway = make(map[string]block, 1)
			}
			r.underway[name] = own
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.underway, name)
				close(own)
			}, nil
		}
		r.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// recall returns what is kept of a block.
func (r *Run) recall(ctx context.Context, name string) (value []byte, there bool, err error) {
	r.mu.Lock()
	value, there = r.once[name]
	r.mu.Unlock()
	if there {
		return value, true, nil
	}
	value, full, err := r.read(ctx, resque.OnceField(name))
	switch {
	case err != nil:
	case value != nil:
		r.know(name, value)
	case full:
		err = resque.ErrCursorFull
	}
	return value, value != nil, err
}

// keep writes what a block has returned. If Redis is away it waits until the run is to end. What is not written then is written by the
// commit: the block has run.
func (r *Run) keep(ctx context.Context, name string, value []byte) error {
	field := resque.OnceField(name)
	r.know(name, value)
	r.mu.Lock()
	if r.unsaved == nil {
		r.unsaved = make(values, 1)
	}
	r.unsaved[field] = value
	err, waiting := r.usable(), r.run
	r.mu.Unlock()
	if err != nil || r.writer == nil {
		return err
	}
	err = r.patiently(context.WithoutCancel(ctx), waiting, func(ctx context.Context) error {
		return r.send(ctx, resque.CursorValue{ID: r.id, Ticket: r.ticket, Field: field, Value: value})
	})
	if err == nil || errors.Is(err, failure.ErrNotHeld) {
		r.mu.Lock()
		delete(r.unsaved, field)
		r.mu.Unlock()
	}
	return err
}

// know keeps what a block has returned for this run.
func (r *Run) know(name string, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.once == nil {
		r.once = make(values, 1)
	}
	r.once[name] = value
}
