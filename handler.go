package goworker

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/goworker/goworker/internal/args"
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
	values, err := anyArgs(d)
	if err != nil {
		return err
	}
	return f(d.Queue, values...)
}

// jobFunc takes the whole job.
type jobFunc func(ctx context.Context, job *Job) error

// Perform passes a Job of its own, which the function may change.
func (f jobFunc) Perform(ctx context.Context, d *Delivery) error {
	values, err := anyArgs(d)
	if err != nil {
		return err
	}
	return f(ctx, &Job{Queue: d.Queue, Payload: Payload{Class: d.Class, Args: values}})
}

// anyArgs decodes all arguments without a type to go by.
func anyArgs(d *Delivery) ([]interface{}, error) {
	values, misfit := args.All(d.Args, d.useNumber)
	if misfit != nil {
		return nil, argumentError(d.Class, misfit)
	}
	return values, nil
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
	f, err := args.Compile(fn, jobType, deliveryType)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, allowedForms)
	}
	return typedHandler{f}, nil
}

// typedHandler calls a function with each argument decoded into its parameter.
type typedHandler struct{ *args.Function }

func (h typedHandler) Perform(ctx context.Context, d *Delivery) error {
	result, misfit, err := h.Call(ctx, d.Args, d.useNumber)
	if misfit != nil {
		return argumentError(d.Class, misfit)
	}
	if err == nil && h.HasResult() {
		d.Result = result
	}
	return err
}
