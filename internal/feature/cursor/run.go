package cursor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// Run is what one run of a job leaves for the next one. It is safe for concurrent use.
type Run struct {
	writer  *writer // nil: nothing is written, and there is nothing to read
	id      string
	process string
	ticket  int64

	mu       sync.Mutex
	begins   func()          // called at the first use, in a child process; nil: nothing is
	run      context.Context // ends with the run; nil: the run was not used
	stop     func() bool     // of what is called at its end
	ended    bool
	lost     bool             // the process no longer holds the job
	waits    bool             // the writer has the run
	refused  error            // why Redis refused the last write of the cursor; nil: it did not
	known    bool             // cursor is what Redis has, or will have
	cursor   []byte           // nil: there is none
	version  int64            // of the cursor
	written  int64            // the version that Redis has
	once     values           // what is known of blocks
	unsaved  values           // results of blocks that Redis may not have
	underway map[string]block // the blocks that run
}

// block is closed when a block has ended.
type block chan struct{}

func newRun(w *writer, j *outcome.Job) *Run {
	return &Run{writer: w, id: j.ID, process: j.Process, ticket: j.Ticket}
}

// watch has what is not written written as soon as the run is to end, by a stop, a time limit or a cancel. A handler that returns ends
// its context too: then the commit writes.
func (r *Run) watch(run context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run != nil {
		return
	}
	if r.run = run; r.begins != nil {
		r.begins()
	}
	if r.writer == nil {
		return
	}
	r.stop = context.AfterFunc(run, func() {
		if context.Cause(run) != context.Canceled && r.dirty() {
			_ = r.write(run) // the commit tries it again
		}
	})
}

// dirty reports whether there is something to write.
func (r *Run) dirty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended && !r.lost && r.version > r.written
}

// usable returns why the run can neither read nor write. The caller holds the lock.
func (r *Run) usable() error {
	if r.ended || r.lost {
		return failure.ErrNotHeld
	}
	return nil
}

// Get returns how far the job is, as JSON; nil: it has not said so.
func (r *Run) Get(ctx context.Context) ([]byte, error) {
	r.mu.Lock()
	err, known, value := r.usable(), r.known, r.cursor
	r.mu.Unlock()
	if err != nil || known {
		return value, err
	}
	value, _, err = r.read(ctx, resque.CursorField)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && !r.known {
		r.known, r.cursor = true, value
	}
	return r.cursor, err
}

// Set takes how far the job is. The writer writes it within a second. Once the run is to end it is written at once.
func (r *Run) Set(ctx context.Context, value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("it has %d bytes as JSON, and at most %d are kept; keep where the data lies instead", len(value), MaxValue)
	}
	r.mu.Lock()
	err := r.usable()
	if err != nil {
		r.mu.Unlock()
		return err
	}
	r.known, r.cursor = true, value
	r.version++
	direct := r.writer != nil && r.run.Err() != nil
	wakes := r.writer != nil && !direct && !r.waits
	r.waits = r.waits || wakes
	err = r.refused
	r.mu.Unlock()
	switch {
	case direct:
		return r.write(ctx)
	case wakes:
		r.writer.Add(r)
	}
	return err
}

// value returns the cursor if it is not written. The writer asks.
func (r *Run) value() (v resque.CursorValue, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = false
	if r.ended || r.lost || r.version == r.written {
		return v, false
	}
	return resque.CursorValue{ID: r.id, Ticket: r.ticket, Field: resque.CursorField, Value: r.cursor, Version: r.version}, true
}

// again reports whether the writer has to be given the run, because a write of its has failed.
func (r *Run) again() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits {
		return false
	}
	r.waits = true
	return true
}

// wrote is called with what became of a value; 0 is the version of a block.
func (r *Run) wrote(version int64, refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(refused, failure.ErrNotHeld):
		r.lost = true
	case version == 0:
	case refused == nil:
		r.written, r.refused = max(r.written, version), nil
	default:
		r.refused = refused
	}
}

// write writes the cursor. It does not end with its context: that of a handler has ended.
func (r *Run) write(ctx context.Context) error {
	v, ok := r.value()
	if !ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.usable()
	}
	return r.send(context.WithoutCancel(ctx), v)
}

// send writes one value.
func (r *Run) send(ctx context.Context, v resque.CursorValue) error {
	var refused []error
	err := r.writer.deps.Do(ctx, func(c redis.Conn) (err error) {
		refused, err = r.writer.deps.Store.WriteCursors(c, r.process, []resque.CursorValue{v})
		return err
	})
	if err == nil {
		err = refused[0]
		r.wrote(v.Version, err)
	}
	return err
}

// read reads a value. It waits for a Redis that is away until its context ends.
func (r *Run) read(ctx context.Context, field string) (value []byte, full bool, err error) {
	if r.writer == nil {
		return nil, false, nil
	}
	err = r.patiently(ctx, ctx, func(ctx context.Context) error {
		return r.writer.deps.Do(ctx, func(c redis.Conn) (err error) {
			value, full, err = r.writer.deps.Store.ReadCursor(c, r.process, r.ticket, r.id, field)
			return err
		})
	})
	if errors.Is(err, failure.ErrNotHeld) {
		r.wrote(0, err)
	}
	return value, full, err
}

// patiently calls f until Redis answers it or waiting ends.
func (r *Run) patiently(ctx, waiting context.Context, f func(context.Context) error) error {
	var again part.Backoff
	for {
		err := f(ctx)
		if kind := conn.Classify(err); err == nil || waiting.Err() != nil || kind != conn.KindConn && kind != conn.KindWait {
			return err
		}
		timer := r.writer.deps.Clock.NewTimer(again.Next())
		select {
		case <-timer.C():
		case <-waiting.Done():
			timer.Stop()
			return err
		}
	}
}

// end ends the run and returns what may not be written. Called again it returns the same.
func (r *Run) end() values {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.stop != nil {
		r.stop()
	}
	left := maps.Clone(r.unsaved)
	if r.version > r.written {
		if left == nil {
			left = make(values, 1)
		}
		left[resque.CursorField] = r.cursor
	}
	return left
}
