package args

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// Function is a function whose parameters are a job's arguments, perhaps behind a
// context. It is immutable.
type Function struct {
	fn           reflect.Value
	takesContext bool
	fixed        []parameter
	rest         *parameter // the variadic one, nil without one
	results      int        // how many; the last is the error
}

// Compile checks a function and prepares its calls: decisions that depend only on its type
// are made here, once. No parameter may hold one of the reserved types. The error does
// not say what is allowed: the caller knows other forms too.
func Compile(fn reflect.Value, reserved ...reflect.Type) (*Function, error) {
	t := fn.Type()
	f := &Function{fn: fn}

	first := 0
	if t.NumIn() > 0 && t.In(0) == contextType {
		f.takesContext = true
		first = 1
	}
	for i := first; i < t.NumIn(); i++ {
		in := t.In(i)
		rest := t.IsVariadic() && i == t.NumIn()-1
		if rest {
			in = in.Elem()
		}
		if why := undecodable(in, reserved); why != "" {
			return nil, fmt.Errorf("parameter %d of %s %s", i+1, t, why)
		}
		p := parameter{typ: in, decode: decoderFor(in), proven: proven(in, nil)}
		if rest {
			f.rest = &p
		} else {
			f.fixed = append(f.fixed, p)
		}
	}

	f.results = t.NumOut()
	if n := f.results; n > 0 && t.Out(n-1) != errorType {
		return nil, fmt.Errorf("the last result of %s is %s, not error, so the job could not say that it failed", t, t.Out(n-1))
	}
	for i := range f.results - 1 {
		if t.Out(i) == errorType {
			return nil, fmt.Errorf("%s has two errors as results", t)
		}
	}
	return f, nil
}

// Call decodes a job's arguments into fresh values and calls the function. Without an
// error it returns the function's result, nil if it has none, and a []any of them if it has several. If
// it returns a misfit it has not called the function.
func (f *Function) Call(ctx context.Context, raws []json.RawMessage, useNumber bool) (result any, misfit *Error, err error) {
	var room [8]reflect.Value // most functions have no more parameters
	in := room[:0]
	if f.takesContext {
		in = append(in, reflect.ValueOf(ctx))
	}
	if in, misfit = f.decode(in, raws, useNumber); misfit != nil {
		return nil, misfit, nil
	}

	out := f.fn.Call(in)
	if f.results == 0 {
		return nil, nil, nil
	}
	if err := out[f.results-1]; !err.IsNil() {
		return nil, nil, err.Interface().(error)
	}
	switch f.results {
	case 1:
		return nil, nil, nil
	case 2:
		return out[0].Interface(), nil, nil
	}
	list := make([]any, f.results-1)
	for i := range list {
		list[i] = out[i].Interface()
	}
	return list, nil, nil
}

// decode appends the decoded arguments to in.
func (f *Function) decode(in []reflect.Value, raws []json.RawMessage, useNumber bool) ([]reflect.Value, *Error) {
	if len(raws) == 1 && len(f.fixed) == 0 && f.rest == nil && string(raws[0]) == "null" {
		raws = nil // PHP clients write [null] for "no arguments"
	}
	if len(raws) < len(f.fixed) || len(raws) > len(f.fixed) && f.rest == nil {
		return nil, &Error{Want: f.arity(), Found: strconv.Itoa(len(raws))}
	}
	for i, raw := range raws {
		p := f.rest
		if i < len(f.fixed) {
			p = &f.fixed[i]
		}
		v := reflect.New(p.typ).Elem()
		if err := p.decode(raw, v, useNumber); err != nil {
			return nil, misfitOf(i+1, p.typ, raw, err)
		}
		in = append(in, v)
	}
	return in, nil
}

// Misfit returns why the function cannot be called with a job's arguments; nil: it can.
func (f *Function) Misfit(raws []json.RawMessage) *Error {
	_, misfit := f.decode(make([]reflect.Value, 0, len(raws)), raws, false)
	return misfit
}

// Parameter returns the type of the parameter that takes an argument, counted from 0; nil: none takes it.
func (f *Function) Parameter(i int) reflect.Type {
	switch {
	case i < len(f.fixed):
		return f.fixed[i].typ
	case f.rest != nil:
		return f.rest.typ
	}
	return nil
}

// Types returns the types of the arguments and of the results beside the error. If it is variadic, the last argument's type is that
// of each of the rest.
func (f *Function) Types() (params []reflect.Type, variadic bool, results []reflect.Type) {
	for _, p := range f.fixed {
		params = append(params, p.typ)
	}
	if f.rest != nil {
		params = append(params, f.rest.typ)
	}
	for i := range f.Results() {
		results = append(results, f.Result(i))
	}
	return params, f.rest != nil, results
}

// Results returns how many results the function has beside its error.
func (f *Function) Results() int { return max(0, f.results-1) }

// Result returns the type of a result.
func (f *Function) Result(i int) reflect.Type { return f.fn.Type().Out(i) }

// HasResult reports whether the function has a result beside its error.
func (f *Function) HasResult() bool { return f.results > 1 }

func (f *Function) arity() string {
	n := strconv.Itoa(len(f.fixed))
	if f.rest != nil {
		return "at least " + n
	}
	return n
}
