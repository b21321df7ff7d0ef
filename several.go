package goworker

import (
	"context"
	"reflect"
)

// several is implemented by the types that stand for several arguments, or for none.
type several interface {
	list() []any

	// call returns a function with a parameter for each argument.
	call(f func(ctx context.Context, args any) (any, error)) any
}

// severalOf is the option of a class that was defined with a result which stands for several.
type severalOf bool

var severalType = reflect.TypeFor[several]()
