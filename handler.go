package goworker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// Handler runs the jobs of a class. Most programs register plain functions (see
// Register); a Handler is for code that wants the Delivery itself, such as
// middleware. It is called by many workers at the same time.
//
// The context carries the Delivery, ends at the class's Timeout, and is cancelled
// when the job must give way, as at a forced shutdown. An error or a panic makes
// the job a failure.
type Handler interface {
	Perform(ctx context.Context, d *Delivery) error
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, d *Delivery) error

// Perform calls f.
func (f HandlerFunc) Perform(ctx context.Context, d *Delivery) error { return f(ctx, d) }

// allowedForms ends every complaint about a function.
const allowedForms = "allowed are func(queue string, args ...interface{}) error, " +
	"func([ctx context.Context,] arguments…) with no result, error, or (result, error), " +
	"func(ctx context.Context, job *Job) error, and a Handler"

var (
	contextType  = reflect.TypeFor[context.Context]()
	errorType    = reflect.TypeFor[error]()
	queueForm    = reflect.TypeFor[queueFunc]()
	jobForm      = reflect.TypeFor[jobFunc]()
	deliveryForm = reflect.TypeFor[HandlerFunc]()
	jobType      = reflect.TypeFor[Job]()
	deliveryType = reflect.TypeFor[Delivery]()
)

// queueFunc is the form goworker has always had.
type queueFunc func(queue string, args ...interface{}) error

// Perform decodes the arguments and puts the queue's name before them.
func (f queueFunc) Perform(_ context.Context, d *Delivery) error {
	args, err := anyArgs(d)
	if err != nil {
		return err
	}
	return f(d.Queue, args...)
}

// jobFunc takes the job whole.
type jobFunc func(ctx context.Context, job *Job) error

// Perform hands over a Job of its own, which the function may change.
func (f jobFunc) Perform(ctx context.Context, d *Delivery) error {
	args, err := anyArgs(d)
	if err != nil {
		return err
	}
	return f(ctx, &Job{Queue: d.Queue, Payload: Payload{Class: d.Class, Args: args}})
}

// anyArgs decodes all arguments without a type to go by.
func anyArgs(d *Delivery) ([]interface{}, error) {
	args := make([]interface{}, len(d.Args))
	for i, raw := range d.Args {
		v, err := decodeAny(raw, d.useNumber)
		if err != nil {
			return nil, argumentError(d.Class, i+1, anyType, raw, err)
		}
		args[i] = v
	}
	return args, nil
}

// compile turns what a program registers into a Handler. Everything that depends
// only on the function's type is decided here, once.
func compile(fn any) (Handler, error) {
	if fn == nil {
		return nil, errors.New("the handler is nil; " + allowedForms)
	}
	v := reflect.ValueOf(fn)
	if v.Kind() == reflect.Func && v.IsNil() {
		return nil, fmt.Errorf("the handler is a nil %s; %s", v.Type(), allowedForms)
	}
	if h, ok := fn.(Handler); ok {
		return h, nil
	}
	t := v.Type()
	if t.Kind() != reflect.Func {
		return nil, fmt.Errorf("the handler is a %s, not a function; %s", t, allowedForms)
	}
	for _, form := range []reflect.Type{queueForm, jobForm, deliveryForm} {
		if t.ConvertibleTo(form) {
			return v.Convert(form).Interface().(Handler), nil
		}
	}
	return compileTyped(v)
}

// compileTyped handles functions whose parameters are the job's arguments.
func compileTyped(fn reflect.Value) (Handler, error) {
	t := fn.Type()
	h := &typedHandler{fn: fn}

	first := 0
	if t.NumIn() > 0 && t.In(0) == contextType {
		h.takesContext = true
		first = 1
	}
	for i := first; i < t.NumIn(); i++ {
		in := t.In(i)
		rest := t.IsVariadic() && i == t.NumIn()-1
		if rest {
			in = in.Elem()
		}
		if why := undecodable(in); why != "" {
			return nil, fmt.Errorf("parameter %d of %s %s; %s", i+1, t, why, allowedForms)
		}
		p := param{typ: in, decode: decoderFor(in)}
		if rest {
			h.rest = &p
		} else {
			h.fixed = append(h.fixed, p)
		}
	}

	switch n := t.NumOut(); {
	case n > 2:
		return nil, fmt.Errorf("%s has %d results; %s", t, n, allowedForms)
	case n > 0 && t.Out(n-1) != errorType:
		return nil, fmt.Errorf("the last result of %s is %s, not error, so the job could not say that it failed; %s", t, t.Out(n-1), allowedForms)
	case n == 2 && t.Out(0) == errorType:
		return nil, fmt.Errorf("%s has two errors as results; %s", t, allowedForms)
	}
	h.results = t.NumOut()
	return h, nil
}

// typedHandler calls a function with each argument decoded into its parameter.
type typedHandler struct {
	fn           reflect.Value
	takesContext bool
	fixed        []param
	rest         *param // of the variadic parameter, nil without one
	results      int    // 0, 1: error, 2: result and error
}

// Perform decodes into fresh values, so that no run sees another's.
func (h *typedHandler) Perform(ctx context.Context, d *Delivery) error {
	args := d.Args
	if len(args) == 1 && len(h.fixed) == 0 && h.rest == nil && string(args[0]) == "null" {
		args = nil // PHP clients write [null] for "no arguments"
	}
	if len(args) < len(h.fixed) || len(args) > len(h.fixed) && h.rest == nil {
		return &ArgumentError{Class: d.Class, Want: h.arity(), Found: strconv.Itoa(len(args))}
	}

	in := make([]reflect.Value, 0, len(args)+1)
	if h.takesContext {
		in = append(in, reflect.ValueOf(ctx))
	}
	for i, raw := range args {
		p := h.rest
		if i < len(h.fixed) {
			p = &h.fixed[i]
		}
		v := reflect.New(p.typ).Elem()
		if err := p.decode(raw, v, d.useNumber); err != nil {
			return argumentError(d.Class, i+1, p.typ, raw, err)
		}
		in = append(in, v)
	}

	out := h.fn.Call(in)
	if h.results == 0 {
		return nil
	}
	if err := out[h.results-1]; !err.IsNil() {
		return err.Interface().(error)
	}
	if h.results == 2 {
		d.Result = out[0].Interface()
	}
	return nil
}

func (h *typedHandler) arity() string {
	n := strconv.Itoa(len(h.fixed))
	if h.rest != nil {
		return "at least " + n
	}
	return n
}
