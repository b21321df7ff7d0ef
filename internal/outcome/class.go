package outcome

import (
	"reflect"
	"sync/atomic"
)

// Class is one registered class: its name, its handler, and its options, of which each feature
// declares its own type. A Class does not change once it is in use.
type Class struct {
	Name    string
	Handler any // opaque to this package

	options map[reflect.Type]any
	bound   atomic.Pointer[binding] // written by the Set in use
}

// binding is the policies of a class, as one Set has made them.
type binding struct {
	set     *Set
	version uint64
	own     []Policy // by feature; nil where a feature has none
	all     []Policy // in use for a job that has no others; nil if no feature has one
}

// With returns the class with another handler.
func (c *Class) With(handler any) *Class {
	return &Class{Name: c.Name, Handler: handler, options: c.options}
}

// Put gives the class an option. It is called before the class is in use.
func Put[T any](c *Class, option T) {
	if c.options == nil {
		c.options = make(map[reflect.Type]any)
	}
	c.options[reflect.TypeFor[T]()] = option
}

// Get returns the class's option of a type, and whether it has one. The class may be nil.
func Get[T any](c *Class) (option T, ok bool) {
	if c == nil {
		return option, false
	}
	option, ok = c.options[reflect.TypeFor[T]()].(T)
	return option, ok
}
