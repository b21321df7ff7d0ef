package goworker

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/feature/aggregate"
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/setting"
)

// The defaults of Aggregate.
const (
	DefaultMaxCount = aggregate.DefaultCount
	DefaultMaxWait  = aggregate.DefaultWait
	DefaultMaxBytes = aggregate.DefaultBytes
)

// Aggregate makes one job of many: the jobs of the class that come for one key within MaxWait, or MaxCount of them, become
// one job with a list of their arguments. So a handler writes a hundred rows at once, or indexes a document once that was
// changed ten times.
//
//	goworker.Register("Index", index, goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(500)))
//
//	func index(ctx context.Context, catalog string, ids []int) error
//
// The items are plain jobs of the class: Index("books", 7), enqueued by any program in any language. A worker that takes one
// does not run it, but puts its arguments into its group in Redis. The job of the group gets the arguments of the key in
// their order, and then the list of what remains of each item: the value if one argument remains, else the list of them.
// Their order is that in which they were gathered: about that of the queue. It goes to the tail of their queue, has an id of its own, and
// is retried, limited, counted and filed as any other job of the class.
//
// An item ends when it is gathered. It is not counted as processed, and no hook is called for it. Its metadata, its
// priority, its Timeout and its retries end with it. An item that expired or was cancelled before that is dropped. These
// run at once, as a group of one: an item with a result that is kept, a step of a workflow, one that is too long for
// MaxBytes, and one that the handler cannot take, which so fails alone.
//
// The handler is a function with types for its arguments, and the list's elements have a type of their own: not any, and not
// json.RawMessage. A job with one argument beside the key that is a list, and not empty, is taken for the job of a group,
// since Ruby's tools drop the field that says so when they retry one. So an item brings a value, or several arguments.
//
// All programs that work on the queue should have the option. Aggregate does not go with WithResult of the class.
func Aggregate(opts ...AggregateOption) Option {
	return option(func(o *options) {
		o.Once("how its jobs are gathered", "Aggregate")
		a := aggregation{of: &aggregate.Of{Count: DefaultMaxCount, Wait: DefaultMaxWait, Bytes: DefaultMaxBytes}}
		for _, opt := range opts {
			if opt == nil {
				a.Wrong("Aggregate: a nil AggregateOption was given; leave it out")
			} else {
				opt(&a)
			}
		}
		if a.of.Quiet > a.of.Wait {
			a.Wrong("Quiet(%s) is longer than MaxWait(%s), so it would never end a group; give less", a.of.Quiet, a.of.Wait)
		}
		o.Add(a.First)
		outcome.Put(o.class, a.of)
		outcome.Put(o.class, limits.Exempt(a.of.Item))
	})
}

// AggregateOption is a setting of Aggregate:
//
//   - KeyArgs: which arguments are the key
//   - MaxCount, MaxWait, Quiet, MaxBytes: when a job is made of a group
//
// Mistakes are reported by Register; see Option.
type AggregateOption func(*aggregation)

// aggregation is the options of one Aggregate.
type aggregation struct {
	setting.Mistakes
	of *aggregate.Of
}

// KeyArgs makes the arguments at these indexes the key, the first being 0. Without it all jobs of the class in a queue have
// one key. Equal keys are texts with the same characters, or other values with the same JSON. A job without one of the
// arguments fails.
func KeyArgs(indexes ...int) AggregateOption {
	return func(a *aggregation) {
		a.Once("which arguments are the key", "KeyArgs")
		for i, index := range indexes {
			switch {
			case index < 0:
				a.Wrong("KeyArgs: %d cannot be negative; the first argument is 0", index)
			case slices.Contains(indexes[:i], index):
				a.Wrong("KeyArgs: argument %d is given twice; give it once", index)
			}
		}
		a.of.Keys = slices.Clone(indexes)
	}
}

// MaxCount makes a job of a group as soon as it has so many items: from 1 to 100,000. The default is DefaultMaxCount.
func MaxCount(n int) AggregateOption {
	return func(a *aggregation) {
		a.Once("how many items a group has", fmt.Sprintf("MaxCount(%d)", n))
		if n < 1 || n > aggregate.MostCount {
			a.Wrong("MaxCount(%d): it must be from 1 to %d", n, aggregate.MostCount)
		}
		a.of.Count = n
	}
}

// MaxWait makes a job of a group this long after its first item was gathered, by Redis's clock: from a millisecond to a
// day. The default is DefaultMaxWait.
func MaxWait(d time.Duration) AggregateOption {
	return func(a *aggregation) {
		a.Once("how long a group waits", fmt.Sprintf("MaxWait(%s)", d))
		if d < time.Millisecond || d > aggregate.MostWait {
			a.Wrong("MaxWait(%s): it must be from %s to %s", d, time.Millisecond, aggregate.MostWait)
		}
		a.of.Wait = d
	}
}

// Quiet makes a job of a group when no item has come for so long, before MaxWait is over. The default, 0, is off; else it is
// at least a millisecond, and at most MaxWait.
func Quiet(d time.Duration) AggregateOption {
	return func(a *aggregation) {
		a.Once("after which quiet a group ends", fmt.Sprintf("Quiet(%s)", d))
		if d != 0 && d < time.Millisecond {
			a.Wrong("Quiet(%s): it must be at least %s, or 0 for off", d, time.Millisecond)
		}
		a.of.Quiet = d
	}
}

// MaxBytes bounds the payload of a group's job: an item that would pass it begins the next group. It is at least a KiB. The
// default is DefaultMaxBytes; MaxPayload of the settings bounds it too.
func MaxBytes(n int) AggregateOption {
	return func(a *aggregation) {
		a.Once("how many bytes a group has", fmt.Sprintf("MaxBytes(%d)", n))
		if n < 1<<10 {
			a.Wrong("MaxBytes(%d): it must be at least %d", n, 1<<10)
		}
		a.of.Bytes = n
	}
}

// aggregated returns what is wrong with a class whose jobs are gathered, beside its other options.
func (o *options) aggregated() error {
	if _, gathered := outcome.Get[*aggregate.Of](o.class); !gathered {
		return nil
	}
	if _, kept := outcome.Get[results.TTL](o.class); kept {
		return errors.New("with WithResult each item of Aggregate would run alone, since its result is kept; give WithResult with single jobs, or leave one out")
	}
	return nil
}

// gathers has the option Aggregate of the entry know the class's handler. It returns what is wrong with the handler.
func (e *entry) gathers() error {
	of, ok := outcome.Get[*aggregate.Of](e.class)
	if !ok {
		return nil
	}
	of.Misfit = func(class string, want, found int) error {
		return argumentError(class, &args.Error{Want: "at least " + strconv.Itoa(want), Found: strconv.Itoa(found)})
	}
	h, ok := e.bare.(typedHandler)
	if !ok {
		return errors.New("with Aggregate the handler must be a function whose parameters are the arguments: without their types an item that is a list " +
			"could not be told from the list of a group; give a func([ctx context.Context,] arguments…)")
	}
	params, variadic, _ := h.Types()
	if n := len(of.Keys); len(params) != n+1 || variadic || !lists(params[n]) {
		must := "one list"
		if n > 0 {
			must = fmt.Sprintf("the %s of the key and then one list", resque.Plural(n, "argument"))
		}
		return fmt.Errorf("with Aggregate the handler must take %s of what remains of each item", must)
	}
	if n := len(of.Keys); open(params[n].Elem()) {
		return fmt.Errorf("with Aggregate the handler's list is %s: an item that is a list could not be told from the list of a group; "+
			"give its elements a type, a struct for example, or make it [][]any for items of several arguments", params[n])
	} else if i := slices.Index(of.Keys, n); i >= 0 && (open(params[i]) || lists(params[i])) {
		return fmt.Errorf("with Aggregate argument %d of an item is of the key and may be a list (%s): it could not be told from the list of a group; "+
			"put the arguments of the key first, or give it another type", n+1, params[i])
	}
	of.Fits = func(raws []json.RawMessage) bool { return h.Misfit(raws) == nil }
	return nil
}

// lists reports whether a JSON list may be decoded into the type.
func lists(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return t.Elem().Kind() != reflect.Uint8
	}
	return false
}

// open reports whether any JSON may be decoded into the type.
func open(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Interface || t == reflect.TypeFor[json.RawMessage]()
}
