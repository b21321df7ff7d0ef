// Package inspect answers an operator's questions about a Resque: which jobs wait, where a job is, which
// jobs failed, which are delayed, and what the workers do. It makes an operator's changes: it removes
// jobs, moves them, runs them now or edits them, retries failures, and pauses and removes queues.
//
// It sees the whole fleet, the workers and jobs of Ruby and of other programs included. A
// Daemon has the older methods without a context, on its own connections.
//
// A job is known by what it is, never by its place in a list: a worker may take the job before it while
// an operator reads. A change of a job that is not there any more changes nothing and returns ErrNoJob.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// Inspector asks about one namespace of one Redis, or of several, the shards. It holds no data: each call
// asks Redis. It is safe for concurrent use.
//
// A call ends with its context. A call that was cut short may have done a part of its work.
//
// Over shards, numbers are sums, lists are merged, and walks go shard by shard. If a shard does not answer,
// a question returns what the others answered, and an error that names the shard. A change is made on
// every shard that has what it concerns.
type Inspector struct {
	redis  access.Redis
	shards []*Inspector // each for one Redis; nil: this is one
	number int          // of this shard
	among  bool         // it is one of several shards

	who, why, face string // see By and Face
	mask           Mask   // see Masked
}

// New returns an Inspector of one Redis, or of several. It is for the packages of this module.
func New(redises ...access.Redis) *Inspector {
	switch len(redises) {
	case 0:
		return &Inspector{redis: none{}}
	case 1:
		return &Inspector{redis: redises[0]}
	}
	i := &Inspector{}
	for n, r := range redises {
		i.shards = append(i.shards, &Inspector{redis: r, number: n, among: true})
	}
	return i
}

// none is no Redis at all.
type none struct{}

var errNoRedis = errors.New("goworker: there is no Redis to ask")

func (none) Usable() error                      { return errNoRedis }
func (none) Settings() (access.Settings, error) { return access.Settings{}, errNoRedis }
func (none) Do(context.Context, func(resque.Store, redis.Conn) error) error {
	return errNoRedis
}

// By returns an Inspector that records its changes: who made them and why. The record is in Redis, beside
// what was changed, and holds the last 10,000 changes; see Audit. Changes without By are not recorded. A
// change is recorded once it was made: a program that is killed in between leaves no record of it.
func (i *Inspector) By(who, why string) *Inspector {
	by := *i
	by.who, by.why = who, why
	by.shards = nil
	for _, one := range i.shards {
		by.shards = append(by.shards, one.By(who, why))
	}
	return &by
}

// Face returns an Inspector whose record of changes names the program that makes them for a person: "goworker", "dashboard".
func (i *Inspector) Face(name string) *Inspector {
	as := *i
	as.face, as.shards = name, nil
	for _, one := range i.shards {
		as.shards = append(as.shards, one.Face(name))
	}
	return &as
}

// Job names all jobs that are equal to it. Equal are jobs with the same queue, the same class and
// arguments of the same JSON text as Enqueue would write: Dequeue, RemoveDelayed, Find and their like mean
// the same by it. Further fields, such as an id, do not count, unless ID is given. So 1 differs from 1.0,
// and with RailsJSON "<" from "\u003c", as for Ruby's Resque.dequeue.
//
// Args that are empty but not nil mean a job without arguments. With nil, Dequeue and Find mean all jobs
// of the class, as Resque.dequeue does. The calls about delayed jobs mean those without arguments, as
// Resque.remove_delayed does.
type Job struct {
	Queue string
	Class string
	Args  []any
	ID    string // only the job with this id; "": any
}

// several reports whether there are shards.
func (i *Inspector) several() bool { return len(i.shards) > 0 }

// all are the Inspectors of the single Redises.
func (i *Inspector) all() []*Inspector {
	if i.several() {
		return i.shards
	}
	return []*Inspector{i}
}

// name is the shard's name in errors and answers.
func (i *Inspector) name() string {
	settings, err := i.redis.Settings()
	if err != nil {
		return fmt.Sprint(i.number)
	}
	return settings.Server
}

// shard is the name by which rows say where they are: "" of a single Redis.
func (i *Inspector) shard() string {
	if !i.among {
		return ""
	}
	return i.name()
}

// mark names the shard in cursors. Two shards may have one name.
func (i *Inspector) mark() string { return fmt.Sprint(i.number, " ", i.name()) }

// marked returns the place of a shard among the others, by its mark.
func (i *Inspector) marked(mark string) (number int, err error) {
	number = slices.IndexFunc(i.shards, func(one *Inspector) bool { return one.mark() == mark })
	if number < 0 {
		return 0, fmt.Errorf("goworker: the walk goes on at shard %s, which is not among these", mark)
	}
	return number, nil
}

// about names the shard in an error.
func (i *Inspector) about(err error) error {
	if err == nil {
		return nil
	}
	return prefix.Errorf("shard %s: %w", i.name(), err)
}

// over asks each shard and merges the answers.
func over[T any](i *Inspector, merge func(sum, next T) T, ask func(one *Inspector) (T, error)) (answer T, err error) {
	var errs []error
	for n, one := range i.shards {
		got, err := ask(one)
		errs = append(errs, one.about(err))
		if n == 0 {
			answer = got
		} else {
			answer = merge(answer, got)
		}
	}
	return answer, errors.Join(errs...)
}

// each calls do for the Redis, or for each shard. An error of a shard names it.
func (i *Inspector) each(do func(one *Inspector) error) error {
	if !i.several() {
		return do(i)
	}
	_, err := over(i, func(a, _ struct{}) struct{} { return a }, func(one *Inspector) (struct{}, error) { return struct{}{}, do(one) })
	return err
}

func sum[N int | int64](a, b N) N { return a + b }

// union merges sorted names.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// usable returns an error after the owner was closed.
func (i *Inspector) usable() error {
	for _, one := range i.all() {
		if err := one.redis.Usable(); err != nil {
			return err
		}
	}
	return nil
}

// do runs f with a connection.
func (i *Inspector) do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return i.redis.Do(ctx, f)
}

// query is do for a question with an answer.
func query[T any](ctx context.Context, i *Inspector, ask func(s resque.Store, c redis.Conn) (T, error)) (answer T, err error) {
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		answer, err = ask(s, c)
		return err
	})
	return answer, err
}

var errNoJob = errors.New("goworker: there is no job to look for")
