package cursor

import (
	"context"
	"encoding/json"

	"github.com/goworker/goworker/internal/outcome"
)

// message is what the child process of an isolated job sends to its daemon: that the job has a cursor, and in the end what is
// not written.
type message struct {
	Cursor *remains `json:",omitempty"`
}

type remains struct{ Values values }

// Remote returns the context for the handler of a job in its child process, which reads and writes by itself. send sends a
// message to the daemon, and end sends what is not written: the commit writes it.
func Remote(ctx context.Context, j *outcome.Job, d outcome.Deps, send func(json.RawMessage)) (of context.Context, end func()) {
	w := newWriter(d)
	r := newRun(w, j)
	say := func(left values) {
		if raw, err := json.Marshal(message{&remains{left}}); err == nil {
			send(raw)
		}
	}
	r.begins = func() { say(nil) }
	return with(ctx, r), func() {
		if left := r.end(); len(left) > 0 {
			say(left)
		}
		w.Close()
	}
}

// Hear takes a message of the child process of the job whose handler ctx belongs to. Those of other features, and what
// cannot be read, it drops.
func Hear(ctx context.Context, raw json.RawMessage) {
	var m message
	if json.Unmarshal(raw, &m) != nil || m.Cursor == nil {
		return
	}
	r, err := Of(ctx, ctx)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsaved == nil {
		r.unsaved = make(values, len(m.Cursor.Values))
	}
	for field, value := range m.Cursor.Values {
		r.unsaved[field] = value
	}
}

type startKey struct{}

// Start returns a context for Local in which the job of the test has been run before, and was so far.
func Start(ctx context.Context, value []byte) context.Context {
	return context.WithValue(ctx, startKey{}, value)
}

// Local returns the context for the handler of a job that keeps nothing. said ends the run, and returns how far the job
// said last that it is; nil: it did not.
func Local(ctx context.Context, j *outcome.Job) (of context.Context, said func() []byte) {
	r := &Run{id: j.ID, known: true}
	r.cursor, _ = ctx.Value(startKey{}).([]byte)
	return with(ctx, r), func() []byte {
		r.end()
		return r.cursor
	}
}
