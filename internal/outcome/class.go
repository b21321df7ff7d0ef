package outcome

import (
	"reflect"
	"slices"
	"sync/atomic"
)

// Class is one registered class: its name, which is never empty, its handler, and its options, of which each feature
// declares its own type. A Class does not change once it is in use.
type Class struct {
	Name    string
	Handler any // opaque to this package

	options Options
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
	return &Class{Name: c.Name, Handler: handler, options: Options{slices.Clone(c.options.all)}}
}

func (c *Class) bag() *Options {
	if c == nil {
		return nil
	}
	return &c.options
}

// Options are options of a class or of one job, at most one of each type. The zero value has none.
type Options struct{ all []option }

type option struct {
	of    reflect.Type
	value any
}

func (o *Options) bag() *Options { return o }

// Empty reports whether there is none.
func (o *Options) Empty() bool { return len(o.all) == 0 }

// Optioned has options: a *Class, or *Options.
type Optioned interface{ bag() *Options }

// Put sets the option of a type. It is called before the class or the job is in use.
func Put[T any](to Optioned, value T) {
	o, of := to.bag(), reflect.TypeFor[T]()
	for i := range o.all {
		if o.all[i].of == of {
			o.all[i].value = value
			return
		}
	}
	o.all = append(o.all, option{of, value})
}

// Get returns the option of a type, and whether there is one. A nil *Class or *Options has none.
func Get[T any](from Optioned) (value T, ok bool) {
	if from == nil {
		return value, false
	}
	o := from.bag()
	if o == nil || len(o.all) == 0 {
		return value, false
	}
	of := reflect.TypeFor[T]()
	for i := range o.all {
		if o.all[i].of == of {
			value, ok = o.all[i].value.(T)
			return value, ok
		}
	}
	return value, false
}
