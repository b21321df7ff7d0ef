package goworker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"

	step "github.com/goworker/goworker/internal/feature/workflow"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Results is the type of a handler's parameter that takes the list of results of a group, or of a batch, without having
// it in memory as a whole:
//
//	func collage(ctx context.Context, thumbs goworker.Results[string]) (string, error) {
//		for i, thumb := range thumbs.All(ctx) { … }
//		return url, thumbs.Err()
//	}
//
// A parameter of type []T takes the same list: up to 64 MiB of it are read before the handler is called. A Results is
// for one goroutine at a time.
type Results[T any] struct {
	raws []json.RawMessage // where the payload has the results

	reference json.RawMessage // where the payload says where they lie; nil: it has them
	workflow  string
	values    workflows.Values
	count     int

	err error
}

// The sizes of the pages in which results are read.
const (
	mostOfPage  = 512
	firstOfPage = 64
	bytesOfPage = 4 << 20
)

// UnmarshalJSON takes a list, or what stands for one.
func (r *Results[T]) UnmarshalJSON(text []byte) error {
	*r = Results[T]{}
	id, values, ok := step.Reference(text)
	if !ok {
		return json.Unmarshal(text, &r.raws)
	}
	count, ok := values.OneList()
	if !ok {
		return fmt.Errorf("the results %.200q are no list", text)
	}
	r.reference, r.workflow, r.values, r.count = bytes.Clone(text), id, values, count
	return nil
}

// MarshalJSON returns what UnmarshalJSON took.
func (r Results[T]) MarshalJSON() ([]byte, error) {
	if r.reference != nil {
		return r.reference, nil
	}
	if r.raws == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(r.raws)
}

// Len returns how many results there are. It reads none.
func (r *Results[T]) Len() int {
	if r.reference == nil {
		return len(r.raws)
	}
	return r.count
}

// All yields the results in the order of the group, each with its number from 0. They are read as it goes, in pages of up to
// 512 and about 4 MiB. A member without a result, and one whose failure is ignored, is the zero T. The sequence ends early where
// one cannot be read, or is no T: ask Err behind the loop. ctx is that of the handler, or one derived from it.
func (r *Results[T]) All(ctx context.Context) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		r.err = nil
		if r.reference == nil {
			r.yield(r.raws, 0, yield)
			return
		}
		run := step.Of(ctx)
		if run == nil || run.Workflow != r.workflow {
			r.err = fmt.Errorf("goworker: the results of workflow %s are read with the context of the handler that was given them", r.workflow)
			return
		}
		for from, count := 0, firstOfPage; from < r.count; {
			page, err := run.Page(ctx, r.values, from, count)
			if err != nil {
				r.err = prefix.Of(err)
				return
			}
			if len(page) == 0 || !r.yield(page, from, yield) {
				return
			}
			from += len(page)
			size := 0
			for _, raw := range page {
				size += len(raw)
			}
			count = max(1, min(mostOfPage, bytesOfPage/(size/len(page)+1)))
		}
	}
}

// yield yields decoded results. It returns false if the loop is over.
func (r *Results[T]) yield(raws []json.RawMessage, from int, yield func(int, T) bool) bool {
	for i, raw := range raws {
		var value T
		if err := json.Unmarshal(raw, &value); err != nil {
			r.err = fmt.Errorf("goworker: result %d is no %s: %w", from+i, reflect.TypeFor[T](), err)
			return false
		}
		if !yield(from+i, value) {
			return false
		}
	}
	return true
}

// Err returns why the last loop over All ended early, nil if it did not, or if the program left it.
func (r *Results[T]) Err() error { return r.err }

// readsResults is implemented by pointers to all Results.
type readsResults interface{ readsResults() }

func (*Results[T]) readsResults() {}

var readsResultsType = reflect.TypeFor[readsResults]()

// handlerOf returns what runs a job of the class in this process.
func (e *entry) handlerOf(d *Delivery) Handler {
	if d.Workflow == nil {
		return e.wrapped
	}
	return given{e}
}

// given is the handler of a class for a step: before it runs, results take the places of the arguments that stand for them,
// except those that it reads by itself.
type given struct{ *entry }

func (g given) Perform(ctx context.Context, d *Delivery) error {
	if run := step.Of(ctx); run != nil {
		h, typed := g.bare.(typedHandler)
		args, err := run.Fill(ctx, d.Args, func(i int) bool { return typed && h.reads(i) })
		if err != nil {
			return err
		}
		d.Args = args
	}
	return g.wrapped.Perform(ctx, d)
}

// reads reports whether a parameter of the function reads results by itself.
func (h typedHandler) reads(i int) bool {
	t := h.Parameter(i)
	return t != nil && reflect.PointerTo(t).Implements(readsResultsType)
}

// ResultOf returns the result of the step that is Named so, in the workflow of the handler to which ctx belongs. That step must
// have ended before this one was sent. If it has no result, the value is the zero T. The error says if there is no such step,
// if it is not done, or if its result is no T.
func ResultOf[T any](ctx context.Context, name string) (result T, err error) {
	run := step.Of(ctx)
	if run == nil {
		return result, fmt.Errorf("goworker: ResultOf(%q): the context is not that of a step's handler", name)
	}
	raw, err := run.Result(ctx, name)
	if err != nil || raw == nil {
		return result, prefix.Of(err)
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		var zero T
		return zero, fmt.Errorf("goworker: the result of step %q is no %T: %w", name, zero, err)
	}
	return result, nil
}
