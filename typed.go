package goworker

import (
	"context"
	"reflect"
)

// Typed is a node whose result the compiler knows: Class.Step, Then and All make it. Node gives the node to Start, and for
// handlers and what is not typed.
type Typed[R any] struct{ node *Node }

// Node returns the node.
func (t Typed[R]) Node() *Node { return t.node }

// Step makes a step of a job of the class, for its queue; see Step and OnQueue.
func (c *Class[A, R]) Step(args A, opts ...EnqueueOption) Typed[R] {
	item := c.Item(args, opts...)
	return Typed[R]{Step(item.Job, item.Options...)}
}

// Then sends a job of a class when what comes before it has ended well, with its result as the arguments. A class that
// does not take that result does not compile.
func Then[A, R any](before Typed[A], class *Class[A, R], opts ...EnqueueOption) Typed[R] {
	step := Step(NewJob(queueOf(class.of), class.name), append([]EnqueueOption{classOption{class.of}}, opts...)...)
	return Typed[R]{Chain(before.node, step)}
}

// All makes a group: its result is the list of the results, in their order.
func All[R any](nodes ...Typed[R]) Typed[[]R] {
	members := make([]*Node, len(nodes))
	for i, n := range nodes {
		members[i] = n.node
	}
	return Typed[[]R]{Group(members...)}
}

// several is implemented by the types that stand for several arguments, or for none.
type several interface {
	list() []any

	// call returns a function with a parameter for each argument.
	call(f func(ctx context.Context, args any) (any, error)) any
}

// severalOf is the option of a class that was defined with a result which stands for several.
type severalOf bool

var severalType = reflect.TypeFor[several]()
