package goworker

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/workflow"
)

// RegisterFunc makes a function run the jobs of the class that has the function's name: its import path, a dot, and what the
// program calls it, such as "github.com/acme/app/mail.Send". As gives another name, and Alias more of them. Everything
// else is as in Register.
//
// Call enqueues a job by the function itself. Programs in other languages enqueue the name as a class.
//
// A closure, a method of a value and an instance of a generic function have no name that lasts: RegisterFunc panics, and
// says so. So it does if another name has the function already.
func (d *Daemon) RegisterFunc(fn any, opts ...Option) { d.registry.registerFunc(fn, opts) }

// RegisterFunc makes a function run the jobs of its class on all shards; see Daemon.RegisterFunc.
func (s *Shards) RegisterFunc(fn any, opts ...Option) { s.handlers.registerFunc(fn, opts) }

// As gives the class of a function a name of the program's choice in place of the function's path. Then the function may be renamed and
// moved, and jobs that wait still find it. It is for RegisterFunc and Function, with the same name in both.
func As(name string) Option { return classNamed(name) }

type classNamed string

// register is called by what has no place for the name.
func (n classNamed) register(o *options) {
	o.Wrong("As(%q): the class has the name that the call gives it; As is for RegisterFunc and Function", string(n))
}

// Alias gives a class other names, by which jobs of it are found too: those it had before it was renamed, while such jobs may wait or
// be retried. It may be repeated.
//
// A job that has an alias for its class is one of the class. The class's limits, retries and other options hold for it, and it is
// counted with the class. Where the class is Unique, a job of one name excludes one of the other. Delivery.Class is the
// class's own name. The payload stays as it is.
//
// A name that is itself a class, or an alias of another class, is a mistake.
func Alias(names ...string) Option {
	return option(func(o *options) {
		all, _ := outcome.Get[aliases](o.class)
		for _, name := range names {
			option := fmt.Sprintf("Alias(%q)", name)
			o.Note("another name of the class", option)
			switch {
			case name == "":
				o.Wrong("%s: the name is empty; leave it out", option)
			case name == o.class.Name:
				o.Wrong("%s: the class has this name anyway; leave it out", option)
			case slices.Contains(all, name):
				o.Wrong("%s is given twice; give it once", option)
			}
			all = append(slices.Clip(all), name)
		}
		outcome.Put(o.class, all)
	})
}

// Function makes a Client know a function as a worker does that registers it: the class's name, and the options that hold for its
// enqueued jobs, such as OnQueue and Unique. Give it those that RegisterFunc gets. A program that registers the function
// needs it not.
func Function(fn any, opts ...Option) ClientOption {
	return clientOption(func(o *clientOptions) {
		if err := o.endpoint.registry.declareFunc(fn, opts); err != nil {
			o.err = fmt.Errorf("goworker: %w", err)
		}
	})
}

// Call enqueues a job that calls a function, on the queue that OnQueue gives its class:
//
//	receipt, err := goworker.Call(ctx, client, mail.Send, "ann@example.com", 3)
//
// The function is known by itself, and not by its name: Call finds the class of RegisterFunc or Function, with its options. Of
// a function that the Client does not know, the path is the class.
//
// The arguments are those behind the function's context. Their number and types are checked. What the worker could not decode
// without loss is an *ArgumentError, and nothing is enqueued. A number fits any number type that holds its value. A pointer
// fits what it points to, and the other way round. Nil fits a pointer, slice, map or interface, and a json.RawMessage what its JSON fits.
//
// For options of one job, many jobs at once and workflows, see FuncJob and FuncStep. Await gives the result, if the class has
// WithResult.
func Call(ctx context.Context, c *Client, fn any, args ...any) (Receipt, error) {
	job, err := c.funcJob(fn, args, false)
	if err == nil {
		err = hasQueue(job)
	}
	if err != nil {
		return Receipt{}, prefix.Errorf("Call: %w", err)
	}
	return c.Enqueue(ctx, job)
}

// FuncJob returns the job that Call would enqueue, for Enqueue with options, EnqueueMany, Step and schedules. Its queue is empty if
// none is known: then set it.
func (c *Client) FuncJob(fn any, args ...any) (*Job, error) {
	job, err := c.funcJob(fn, args, false)
	if err != nil {
		return nil, prefix.Errorf("FuncJob: %w", err)
	}
	return job, nil
}

// funcJob returns the job that calls a function. With more, other arguments come behind these.
func (c *Client) funcJob(fn any, args []any, more bool) (*Job, error) {
	f, err := c.registry.function(fn)
	if err == nil {
		err = f.check(args, more)
	}
	if err != nil {
		return nil, err
	}
	return NewJob(queueOf(c.registry.Class(f.class)), f.class, args...), nil
}

func hasQueue(job *Job) error {
	if job.Queue != "" {
		return nil
	}
	return fmt.Errorf("no queue is known for %s; give OnQueue to RegisterFunc, or give Function with it to NewClient, or set the queue of a FuncJob", job.Payload.Class)
}

// FuncStep makes a step of a job that calls a function, as Step does of a job; With gives it options. The class and its queue are those
// that the Client knows which starts the workflow. A mistake, such as an argument of the wrong type, is an error of Start.
// What comes before the step may add results behind these arguments.
func FuncStep(fn any, args ...any) *Node {
	return &Node{kind: workflow.OneStep, fn: fn, item: Item{Job: NewJob("", "", args...)}}
}

// With adds options to a step; see Step. A node of several steps has none: Start reports it.
func (n *Node) With(opts ...EnqueueOption) *Node {
	n.item.Options = append(slices.Clip(n.item.Options), opts...)
	return n
}

// funcItem returns the item of a FuncStep.
func (c *Client) funcItem(n *Node) (item Item, err error) {
	item = n.item
	if item.Job, err = c.funcJob(n.fn, item.Job.Payload.Args, true); err == nil {
		err = hasQueue(item.Job)
	}
	return item, err
}

// function is a function of the program as a class.
type function struct {
	class string
	name  string         // for sentences
	takes *args.Function // nil: any arguments
	known bool           // RegisterFunc or Function has named it
}

// newFunction returns a function under a name; "" is its path. The error does not name the call.
func newFunction(fn any, class string) (f *function, name args.Name, err error) {
	if name, err = args.NameOf(fn); err != nil {
		return nil, name, fmt.Errorf("%w; name its class yourself: Register(%q, function), and enqueue a Job of that class", err, "SendEmail")
	}
	h, err := compile(fn)
	if err != nil {
		return nil, name, fmt.Errorf("%s: %w", name.Short, err)
	}
	if f = (&function{class: class, name: name.Short}); class == "" {
		f.class = name.Path
	}
	if typed, is := h.(typedHandler); is {
		f.takes = typed.Function
	}
	return f, name, nil
}

// check returns what is wrong with arguments. With more, others come behind them.
func (f *function) check(given []any, more bool) error {
	if f.takes == nil {
		return nil
	}
	if e := f.takes.Check(given, more); e != nil {
		return &callError{text: f.name + " takes " + f.takes.Takes(), misfit: argumentError(f.class, e).(*ArgumentError)}
	}
	return nil
}

// callError says what is wrong with the arguments of a call.
type callError struct {
	text   string
	misfit *ArgumentError
}

func (e *callError) Error() string {
	text := fmt.Sprintf("%s; argument %d is %s", e.text, e.misfit.Index, e.misfit.Found)
	if e.misfit.Index == 0 {
		n, _ := strconv.Atoi(e.misfit.Found)
		text = fmt.Sprintf("%s; the call gives %s", e.text, part.Count(n, "argument"))
	}
	return text
}

func (e *callError) Unwrap() error { return e.misfit }

// function returns what is known of a function. What is not registered is remembered too: its types are looked at once.
func (r *registry) function(fn any) (*function, error) {
	v := reflect.ValueOf(fn)
	if v.Kind() == reflect.Func && !v.IsNil() {
		if f, known := r.functions.Load(v.Pointer()); known {
			return f.(*function), nil
		}
	}
	f, _, err := newFunction(fn, "")
	if err != nil {
		return nil, err
	}
	known, _ := r.functions.LoadOrStore(v.Pointer(), f)
	return known.(*function), nil
}

func (r *registry) registerFunc(fn any, opts []Option) {
	f, opts, err := r.named("RegisterFunc", fn, opts)
	if err != nil {
		panic("goworker: " + err.Error())
	}
	r.add(f.class, fn, opts, "RegisterFunc("+f.name+")")
	r.functions.Store(reflect.ValueOf(fn).Pointer(), f)
}

// declareFunc makes the options of a function's class hold for its enqueued jobs, without a handler.
func (r *registry) declareFunc(fn any, opts []Option) error {
	f, opts, err := r.named("Function", fn, opts)
	if err != nil {
		return err
	}
	o, err := optionsOf(f.class, opts)
	if err == nil {
		if f.takes != nil {
			outcome.Put(o.class, f.takes)
		}
		err = r.declare(o.class)
	}
	if err != nil {
		return fmt.Errorf("Function(%s): %w", f.name, err)
	}
	r.functions.Store(reflect.ValueOf(fn).Pointer(), f)
	return nil
}

// named returns the function of a call with the name that As gives it, and the other options.
func (r *registry) named(call string, fn any, opts []Option) (*function, []Option, error) {
	as, others := "", make([]Option, 0, len(opts)+1)
	for _, opt := range opts {
		name, is := opt.(classNamed)
		switch {
		case !is:
			others = append(others, opt)
		case name == "":
			return nil, nil, fmt.Errorf(`%s: As(""): the name is empty; give one, or leave it out`, call)
		case as != "":
			return nil, nil, fmt.Errorf("%s: As(%q) and As(%q) both name the class; give one of them", call, as, string(name))
		default:
			as = string(name)
		}
	}
	f, name, err := newFunction(fn, as)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", call, err)
	}
	f.known = true
	if as == "" && name.Runtime != name.Path {
		others = append(others, Alias(name.Runtime))
	}
	if was, has := r.functions.Load(reflect.ValueOf(fn).Pointer()); has && was.(*function).known && was.(*function).class != f.class {
		return nil, nil, fmt.Errorf("%s(%s): the function has the class %s already; for one more class, Register(%q, function)",
			call, f.name, was.(*function).class, f.class)
	}
	return f, others, nil
}
