package goworker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/goworker/goworker/internal/outcome"
)

// None is the result of a class that has none, and the argument of one without arguments.
type None struct{}

// Class is a class of jobs that is typed at both ends: the compiler checks what is enqueued
// and what is handled. Define makes one. Its methods are safe for concurrent use.
type Class[A, R any] struct {
	name string
	opts []Option
	of   *outcome.Class
}

// Definition is a Class, whatever its types.
type Definition interface {
	Name() string
	definition() (class *outcome.Class)
}

// Define defines a class of jobs:
//
//	var SendEmail = goworker.Define[Email, goworker.None]("SendEmail", goworker.OnQueue("mail"), goworker.Retry(5))
//
// A is the type of the job's one argument, written as JSON. For several, as Ruby's
// perform(*args) takes them, it is Args2, Args3 or Args4; for none it is None. R is the type of
// the result, None if there is none.
//
// The options are those of Register. Handle gives those for handlers to the daemon, Enqueue
// applies those for enqueued jobs. Define panics on a mistake in them; see Option.
func Define[A, R any](class string, opts ...Option) *Class[A, R] {
	types := classTypes{reflect.TypeFor[A](), reflect.TypeFor[R]()}
	opts = append(slices.Clip(opts), option(func(o *options) { outcome.Put(o.class, types) }))
	o := newOptions(class, opts, fmt.Sprintf("Define(%q)", class))
	var a A
	if err := checkArguments(a); err != nil {
		panic(fmt.Sprintf("goworker: Define(%q): %s", class, err))
	}
	return &Class[A, R]{name: class, opts: opts, of: o.class}
}

// classTypes are the types of a class that was defined.
type classTypes struct{ args, result reflect.Type }

// Name returns the class's name in payloads.
func (c *Class[A, R]) Name() string { return c.name }

func (c *Class[A, R]) definition() *outcome.Class { return c.of }

// Registrar registers handlers: a Daemon or Shards.
type Registrar interface {
	Register(class string, handler any, opts ...Option)
}

// Handle makes a function run the class's jobs, with the class's options. It panics as
// Register does. NoResult makes such a function of one that returns only an error.
func (c *Class[A, R]) Handle(to Registrar, handle func(ctx context.Context, args A) (R, error)) {
	if handle == nil {
		panic(fmt.Sprintf("goworker: Handle of class %s was given no function", c.name))
	}
	opts := c.opts
	var r R
	if s, is := any(r).(several); is && len(s.list()) > 1 {
		opts = append(slices.Clip(opts), option(func(o *options) { outcome.Put(o.class, severalOf(true)) }))
	}
	to.Register(c.name, spread(handle), opts...)
}

// NoResult makes a handler of a function that returns only an error, for a Class whose result
// is None.
func NoResult[A any](handle func(ctx context.Context, args A) error) func(context.Context, A) (None, error) {
	if handle == nil {
		return nil
	}
	return func(ctx context.Context, args A) (None, error) { return None{}, handle(ctx, args) }
}

// Enqueuer enqueues jobs: a Client, or the recording one of package goworkertest.
type Enqueuer interface {
	Enqueue(ctx context.Context, job *Job, opts ...EnqueueOption) (Receipt, error)
	EnqueueMany(ctx context.Context, items ...Item) ([]Receipt, error)
}

// Enqueue enqueues a job of the class to the class's queue; see Client.Enqueue and OnQueue.
func (c *Class[A, R]) Enqueue(ctx context.Context, to Enqueuer, args A, opts ...EnqueueOption) (Receipt, error) {
	item := c.Item(args, opts...)
	return to.Enqueue(ctx, item.Job, item.Options...)
}

// Item returns a job of the class for EnqueueMany.
func (c *Class[A, R]) Item(args A, opts ...EnqueueOption) Item {
	return Item{c.Job(args), append([]EnqueueOption{classOption{c.of}}, opts...)}
}

// Job returns a job of the class, for its queue.
func (c *Class[A, R]) Job(args A) *Job { return NewJob(queueOf(c.of), c.name, arguments(args)...) }

// classOption gives an enqueued job the options of a class that is not registered here.
type classOption struct{ of *outcome.Class }

func (c classOption) enqueue(to *enqueueOptions) { to.class = c.of }

// Args2 are the two arguments of a job: payloads have them one after the other. They are also
// the two results of a handler. As JSON it is a list; the object {"A":…,"B":…} is read too.
type Args2[A, B any] struct {
	A A
	B B
}

// Args3 are the three arguments or results of a job; see Args2.
type Args3[A, B, C any] struct {
	A A
	B B
	C C
}

// Args4 are the four arguments or results of a job; see Args2.
type Args4[A, B, C, D any] struct {
	A A
	B B
	C C
	D D
}

func (None) list() []any                { return []any{} }
func (a Args2[A, B]) list() []any       { return []any{a.A, a.B} }
func (a Args3[A, B, C]) list() []any    { return []any{a.A, a.B, a.C} }
func (a Args4[A, B, C, D]) list() []any { return []any{a.A, a.B, a.C, a.D} }

// MarshalJSON returns the list of the values.
func (a Args2[A, B]) MarshalJSON() ([]byte, error) { return json.Marshal(a.list()) }

// MarshalJSON returns the list of the values.
func (a Args3[A, B, C]) MarshalJSON() ([]byte, error) { return json.Marshal(a.list()) }

// MarshalJSON returns the list of the values.
func (a Args4[A, B, C, D]) MarshalJSON() ([]byte, error) { return json.Marshal(a.list()) }

// UnmarshalJSON reads a list of two values.
func (a *Args2[A, B]) UnmarshalJSON(text []byte) error {
	type plain Args2[A, B]
	return unmarshalList(text, (*plain)(a), &a.A, &a.B)
}

// UnmarshalJSON reads a list of three values.
func (a *Args3[A, B, C]) UnmarshalJSON(text []byte) error {
	type plain Args3[A, B, C]
	return unmarshalList(text, (*plain)(a), &a.A, &a.B, &a.C)
}

// UnmarshalJSON reads a list of four values.
func (a *Args4[A, B, C, D]) UnmarshalJSON(text []byte) error {
	type plain Args4[A, B, C, D]
	return unmarshalList(text, (*plain)(a), &a.A, &a.B, &a.C, &a.D)
}

// unmarshalList reads a list of just these values. What is no list is read as object, in the form
// that the types had in JSON before they had one of their own.
func unmarshalList(text []byte, object any, values ...any) error {
	if !bytes.HasPrefix(text, []byte("[")) {
		return json.Unmarshal(text, object)
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(text, &raws); err != nil {
		return err
	}
	if len(raws) != len(values) {
		return fmt.Errorf("a list of %d values is read as one of %d; take the type for as many", len(raws), len(values))
	}
	for i, raw := range raws {
		if err := json.Unmarshal(raw, values[i]); err != nil {
			return fmt.Errorf("value %d of %d: %w", i+1, len(values), err)
		}
	}
	return nil
}

func (None) call(f func(context.Context, any) (any, error)) any {
	return func(ctx context.Context) (any, error) { return f(ctx, None{}) }
}

func (Args2[A, B]) call(f func(context.Context, any) (any, error)) any {
	return func(ctx context.Context, a A, b B) (any, error) { return f(ctx, Args2[A, B]{a, b}) }
}

func (Args3[A, B, C]) call(f func(context.Context, any) (any, error)) any {
	return func(ctx context.Context, a A, b B, c C) (any, error) { return f(ctx, Args3[A, B, C]{a, b, c}) }
}

func (Args4[A, B, C, D]) call(f func(context.Context, any) (any, error)) any {
	return func(ctx context.Context, a A, b B, c C, d D) (any, error) {
		return f(ctx, Args4[A, B, C, D]{a, b, c, d})
	}
}

// arguments returns the arguments that a value stands for.
func arguments(args any) []any {
	if s, ok := args.(several); ok {
		return s.list()
	}
	return []any{args}
}

// spread returns a handler that Register takes, for a function that takes all arguments as one.
func spread[A, R any](handle func(context.Context, A) (R, error)) any {
	var a A
	s, ok := any(a).(several)
	if !ok {
		return func(ctx context.Context, args A) (any, error) { return result(handle(ctx, args)) }
	}
	return s.call(func(ctx context.Context, args any) (any, error) { return result(handle(ctx, args.(A))) })
}

// result is what a handler returned, without a None.
func result[R any](r R, err error) (any, error) {
	if _, none := any(r).(None); none {
		return nil, err
	}
	return r, err
}

// checkArguments refuses types that Register would take for something else than the arguments.
func checkArguments(a any) error {
	switch a.(type) {
	case Job, *Job, Delivery, *Delivery, context.Context:
		return fmt.Errorf("%T is no type of an argument; name the type of what the payload's args hold", a)
	}
	return nil
}
