package cursor

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// every is how long a run waits at least between two writes of its cursor. So a process that is killed loses what was said
// in that time.
const every = time.Second

// Limits of one call with values.
const (
	mostValues = 500
	mostBytes  = 1 << 20
)

// writer writes the cursors of the running jobs of this process, in one goroutine.
type writer struct {
	*part.Gather[*Run]
	deps outcome.Deps
}

func newWriter(d outcome.Deps) *writer {
	w := &writer{deps: d}
	w.Gather = part.NewGather(d.Base, "cursors", every, false, w.write)
	return w
}

// write writes the cursors of some runs. After an error all that is not written is tried again.
func (w *writer) write(ctx context.Context, runs []*Run) (left []*Run, err error) {
	for len(runs) > 0 {
		n, process, values, of := w.fill(runs)
		if len(values) > 0 {
			var refused []error
			err := w.deps.Do(ctx, func(c redis.Conn) (err error) {
				refused, err = w.deps.Store.WriteCursors(c, process, values)
				return err
			})
			if err != nil {
				left = runs[n:]
				for _, r := range of {
					if r.again() {
						left = append(left, r)
					}
				}
				return left, err
			}
			for i, r := range of {
				r.wrote(values[i].Version, refused[i])
			}
		}
		runs = runs[n:]
	}
	return nil, nil
}

// fill takes the values of the first runs, as many as one call has. They are of one process: it has another name after it
// lost its lease.
func (w *writer) fill(runs []*Run) (n int, process string, values []resque.CursorValue, of []*Run) {
	process = runs[0].process
	size := 0
	for i, r := range runs {
		if r.process != process || len(values) == mostValues || size > mostBytes {
			return i, process, values, of
		}
		if v, ok := r.value(); ok {
			values, of = append(values, v), append(of, r)
			size += len(v.Value)
		}
	}
	return len(runs), process, values, of
}
