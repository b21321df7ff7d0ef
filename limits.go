package goworker

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/setting"
)

// Limit is how many jobs may run at a time, or be started in a time. Given to Register
// it holds for the jobs of a class, given to LimitQueue for those of a queue; several
// hold all at once. A job that has to wait for its limit waits in Redis: it takes no
// worker, keeps nobody behind it, and those with the same limits and key run in order.
//
// All processes that work on a queue should register the same limits for its classes.
// The numbers of the process that started last hold for all of them. Ruby's workers
// know nothing of limits.
type Limit struct {
	limit limits.Limit
	wrong setting.Mistakes
}

// LimitOption says more about a Limit. Mistakes are reported by Register and LimitQueue;
// see Option.
type LimitOption func(*Limit)

// Concurrency lets at most n jobs run at a time in the whole fleet; n is at least 1.
func Concurrency(n int, opts ...LimitOption) Limit {
	l := Limit{limit: limits.Limit{Kind: resque.LimitRunning, Spec: strconv.Itoa(n)}}
	if n < 1 {
		l.wrong.Wrong("Concurrency(%d): at least one job must be able to run", n)
	}
	l.apply("Concurrency", opts)
	return l
}

// RateLimit starts n jobs in each period, in the whole fleet, by Redis's clock. They are
// started evenly: one each per/n, so that RateLimit(10, time.Second) starts one each
// 100 ms. One may come 5 ms early, which makes up for those that came late: so a period
// may see one more. Burst allows some at once. n is at least 1, and the period at least a
// microsecond for each.
func RateLimit(n int, per time.Duration, opts ...LimitOption) Limit {
	var l Limit
	if l.limit = limits.Rate(n, per); l.limit.Rate < 1 {
		l.wrong.Wrong("RateLimit(%d, %v): it must allow at least one start, and at most one each microsecond", n, per)
		return l
	}
	l.apply("RateLimit", opts)
	l.limit.Count()
	return l
}

func (l *Limit) apply(to string, opts []LimitOption) {
	for _, o := range opts {
		if o == nil {
			l.wrong.Wrong("%s: a nil LimitOption was given; leave it out", to)
		} else {
			o(l)
		}
	}
}

// PerKey makes the limit hold for each key by itself. A job without a key is not held to
// it.
func PerKey(key KeyFunc) LimitOption {
	return func(l *Limit) {
		l.wrong.Once("for whom the limit holds", "PerKey")
		l.keyed("PerKey", key)
	}
}

func (l *Limit) keyed(option string, key KeyFunc) {
	if key == nil {
		l.wrong.Wrong("%s: a nil KeyFunc was given; leave it out", option)
	}
	l.limit.Key = key
}

// InProcess makes the limit one of each process by itself.
func InProcess() LimitOption {
	return func(l *Limit) {
		l.wrong.Once("where the limit holds", "InProcess")
		l.limit.Here()
	}
}

// SharedAs makes all limits of one kind that have the same name one limit. They must have
// the same numbers: Init and Run return an error otherwise. Without it a limit is its
// class's or queue's own. The name must not be empty.
func SharedAs(name string) LimitOption {
	return func(l *Limit) {
		l.wrong.Once("the limit's name", fmt.Sprintf("SharedAs(%q)", name))
		if name == "" {
			l.wrong.Wrong(`SharedAs(""): the name is empty; give one, or leave it out`)
		}
		l.limit.Name = name
	}
}

// Burst lets a rate start up to n jobs at once after it was not used for a while. Then
// a period may see n-1 starts more than the rate says. The default is 1, or as many as
// the rate allows in 10 ms. n is at least 1. It does not go with a Concurrency.
func Burst(n int) LimitOption {
	return func(l *Limit) {
		l.wrong.Once("how many may start at once", fmt.Sprintf("Burst(%d)", n))
		switch {
		case n < 1:
			l.wrong.Wrong("Burst(%d): it must be at least 1", n)
		case l.limit.Rate == 0:
			l.wrong.Wrong("Burst(%d): a Concurrency starts as many as may run; give Burst to a RateLimit", n)
		}
		l.limit.Burst = n
	}
}

// register makes a Limit an Option.
func (l Limit) register(o *options) {
	o.Add(l.wrong.First)
	of, _ := outcome.Get[limits.Of](o.class)
	outcome.Put(o.class, append(of, l.limit))
}

// KeyFunc says to whom a job belongs by its arguments, each as JSON: a tenant, an account.
// "" is nobody. Workers and the goroutine that sorts a queue call it, more than once for a
// job and side by side; a slow one holds up these only. A panic counts as "".
type KeyFunc func(args []json.RawMessage) string

// Arg takes as the key the argument at an index, the first being 0, or what stands at
// a path of field names in it: Arg(0, "account", "id"). A string is taken as what it
// says, anything else as its JSON. What is missing or null is no key.
func Arg(index int, path ...string) KeyFunc { return limits.Arg(index, path) }

// LimitQueue holds all jobs of a queue to these limits, whatever their class. It is
// called before Run; a queue that has limits already gets them instead. It panics if the
// queue has no name or is a pattern or an exclusion, as lists of queues have them, and on
// mistakes in the limits; see Option.
//
// Without limits it only says beforehand that the queue holds jobs of classes that have
// some. Otherwise the fleet learns it when a worker first takes such a job, and in that
// moment jobs of one key that several processes take may change places.
func (d *Daemon) LimitQueue(queue string, limits ...Limit) {
	switch {
	case queue == "":
		panic("goworker: LimitQueue: the queue has no name; give it one")
	case !queues.PlainName(queue):
		panic(fmt.Sprintf("goworker: LimitQueue(%q): this is not one queue but a pattern or an exclusion; name each queue, and share a limit by SharedAs", queue))
	}
	of, wrong := plainLimits(limits)
	if wrong != nil {
		panic(fmt.Sprintf("goworker: LimitQueue(%q): %s", queue, wrong))
	}
	d.registry.limits.SetQueue(queue, of)
}

// plainLimits are limits as the feature knows them, and what is wrong with them.
func plainLimits(all []Limit) ([]limits.Limit, error) {
	var wrong setting.Mistakes
	of := make([]limits.Limit, len(all))
	for i, l := range all {
		wrong.Add(l.wrong.First)
		of[i] = l.limit
	}
	wrong.Add(limits.Repeated(of))
	return of, wrong.First
}

// Fair makes the jobs of a class take turns by a key: one of each key that has jobs
// waiting, whoever pushed how many, and those of one key in order. So one tenant's million
// jobs do not keep another's ten waiting. The turns are those of the whole queue: all
// processes of the fleet take them together.
func Fair(key KeyFunc) Option {
	return option(func(o *options) {
		o.Once("by which key jobs take turns", "Fair")
		l := Limit{limit: limits.Limit{Kind: resque.LimitNone}}
		l.keyed("Fair", key)
		l.register(o)
	})
}
