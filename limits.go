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

// Limit is how many jobs may run at a time, or start in a time. Given to Register it
// holds for the jobs of a class, given to LimitQueue for those of a queue. Several hold
// all at once. A job waits for its limit in Redis: it takes no worker and blocks no
// other job. Jobs with the same limits and key run in order.
//
// All processes that work on a queue should register the same limits for its classes.
// The numbers of the process that started last hold for all of them. Ruby's workers
// ignore limits.
type Limit struct {
	limit limits.Limit
	wrong setting.Mistakes
}

// LimitOption is a setting of a Limit:
//
//   - PerKey: a limit of its own for each key, such as a tenant
//   - PerProcess: a limit of its own in each process
//   - SharedAs: one limit in common for several classes or queues
//   - Burst: how many a RateLimit may start at once
//
// Mistakes are reported by Register and LimitQueue; see Option.
type LimitOption func(*Limit)

// MaxRunning lets at most n jobs run at a time in the whole fleet; n is at least 1.
func MaxRunning(n int, opts ...LimitOption) Limit {
	l := Limit{limit: limits.Limit{Kind: resque.LimitRunning, Spec: strconv.Itoa(n)}}
	if n < 1 {
		l.wrong.Wrong("MaxRunning(%d): at least one job must be able to run", n)
	}
	l.apply("MaxRunning", opts)
	return l
}

// RateLimit starts n jobs in each period, in the whole fleet, by Redis's clock. They are
// started evenly: one each per/n, so that RateLimit(10, time.Second) starts one each 100
// ms. A start may be 5 ms early, to make up for late ones, so a period may have one more.
// Burst allows several at once. n is at least 1, and the period at least a microsecond
// for each.
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

// PerKey makes the limit hold for each key by itself. It does not hold for a job without
// a key.
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

// PerProcess makes the limit hold for each process by itself.
func PerProcess() LimitOption {
	return func(l *Limit) {
		l.wrong.Once("where the limit holds", "PerProcess")
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
// a period may have n-1 starts more than the rate. The default is 1, or as many as the
// rate allows in 10 ms. n is at least 1. It does not go with MaxRunning.
func Burst(n int) LimitOption {
	return func(l *Limit) {
		l.wrong.Once("how many may start at once", fmt.Sprintf("Burst(%d)", n))
		switch {
		case n < 1:
			l.wrong.Wrong("Burst(%d): it must be at least 1", n)
		case l.limit.Rate == 0:
			l.wrong.Wrong("Burst(%d): MaxRunning starts as many as may run; give Burst to a RateLimit", n)
		}
		l.limit.Burst = n
	}
}

// register makes a Limit an Option.
func (l Limit) register(o *options) {
	o.Add(l.wrong.First)
	if l.limit.Kind != resque.LimitNone {
		o.Note("how many run", l.limit.Words())
	}
	of, _ := outcome.Get[limits.Of](o.class)
	outcome.Put(o.class, append(of, l.limit))
}

// KeyFunc returns the owner of a job from its arguments, each as JSON: a tenant, an
// account. "" is no owner. Workers and the goroutine that sorts a queue call it, more than
// once for a job and at the same time. A slow one delays only them. A panic counts as "".
type KeyFunc func(args []json.RawMessage) string

// ByArg takes as the key the argument at an index, the first being 0, or the value at a
// path of field names in it: ByArg(0, "account", "id"). The key is the text of a string,
// or the JSON of any other value. A value that is missing or null is no key.
func ByArg(index int, path ...string) KeyFunc { return limits.Arg(index, path) }

// LimitQueue makes limits hold for all jobs of a queue, of every class. Call it before
// Run. They replace the limits that the queue had. It panics if the queue has no name or
// is a pattern or an exclusion, and on mistakes in the limits; see Option.
//
// Without limits it only announces that the queue has jobs of classes with limits.
// Otherwise the fleet notices it when a worker first takes such a job. At that moment,
// jobs of one key that several processes take may change places.
func (d *Daemon) LimitQueue(queue string, limits ...Limit) {
	switch {
	case queue == "":
		panic("goworker: LimitQueue: the queue has no name; give it one")
	case !queues.PlainName(queue):
		panic(fmt.Sprintf("goworker: LimitQueue(%q): this is not one queue but a pattern or an exclusion; name each queue, and share a limit by SharedAs", queue))
	}
	of, wrong := plainLimits(limits)
	if wrong == nil {
		wrong = queues.CheckName(queue, resque.New("").KeyOfQueue(""))
	}
	if wrong != nil {
		panic(fmt.Sprintf("goworker: LimitQueue(%q): %s", queue, wrong))
	}
	d.registry.limits.SetQueue(queue, of)
}

// plainLimits returns limits as the feature takes them, and the first mistake in them.
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

// FairBy makes the jobs of a class take turns by a key: each key with waiting jobs gets one
// turn, however many jobs it has. Jobs of one key run in order. So one tenant's million
// jobs do not delay another's ten. The turns are those of the whole queue: all processes
// of the fleet take them together.
func FairBy(key KeyFunc) Option {
	return option(func(o *options) {
		o.Once("by which key jobs take turns", "FairBy")
		l := Limit{limit: limits.Limit{Kind: resque.LimitNone}}
		l.keyed("FairBy", key)
		l.register(o)
	})
}
