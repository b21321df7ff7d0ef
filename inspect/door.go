package inspect

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

// Door is the way to one Redis for the packages of this module that ask what no method of Inspector answers.
type Door struct{ in *Inspector }

// Doors returns one Door for each Redis, in the order of the shards.
func (i *Inspector) Doors() (doors []Door) {
	for _, one := range i.all() {
		doors = append(doors, Door{one})
	}
	return doors
}

// Inspector asks this Redis alone.
func (d Door) Inspector() *Inspector { return d.in }

// Name is how errors and answers name the Redis.
func (d Door) Name() string { return d.in.name() }

// Settings are those of the client or daemon.
func (d Door) Settings() (access.Settings, error) { return d.in.redis.Settings() }

// Do runs f on a connection that nothing else uses meanwhile.
func (d Door) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return d.in.do(ctx, f)
}

// Alone runs f on a connection of its own, beside those that the client lends.
func (d Door) Alone(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	if redis, dials := d.in.redis.(access.Dials); dials {
		return redis.Alone(ctx, f)
	}
	return d.in.do(ctx, f)
}

// Pool returns the way to the same Redis over at most so many connections of its own. end closes them. Where the owner of this
// one cannot make further connections, it is the way itself.
func (d Door) Pool(connections int) (own access.Redis, end func(), err error) {
	if redis, pools := d.in.redis.(access.Pools); pools {
		return redis.Pool(connections)
	}
	return d.in.redis, func() {}, nil
}

// Usable returns an error after the client or daemon was closed.
func (d Door) Usable() error { return d.in.redis.Usable() }

// Record records a change that was made through the Door, and returns the change's error. See By.
func (d Door) Record(ctx context.Context, what, on string, changed int64, done error) error {
	return d.in.record(ctx, what, on, changed, done)
}

// Failures are records that were read through the Door.
func (d Door) Failures(records []failures.Record) []Failure { return d.in.failures(records) }

// Shown is a failure record as the mask of the Inspector leaves it; see Masked.
func (d Door) Shown(record []byte) []byte {
	if d.in.mask == nil {
		return record
	}
	return d.in.mask.Record(record)
}

// Matches returns a function that reports whether a failure record matches a query. Its Places do not count.
func (d Door) Matches(q Query) (func(record []byte) bool, error) {
	chosen, err := FailureFilter{Query: &q}.prepared(d.in)
	return chosen.Fits, err
}

// Over returns an Inspector of all Redises of several Inspectors, in their order: its shards. It is for the packages of this module.
func Over(several ...*Inspector) *Inspector {
	var redises []access.Redis
	for _, i := range several {
		for _, one := range i.all() {
			redises = append(redises, one.redis)
		}
	}
	return New(redises...)
}
