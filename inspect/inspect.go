// Package inspect answers an operator's questions about a Resque: which jobs failed, which
// are delayed, which wait, and what the workers do. It makes an operator's changes:
// it retries and removes failures, cancels delayed jobs, pauses and removes queues.
//
// It sees the whole fleet, the workers and jobs of Ruby and of other programs included. A
// Daemon has the same methods without a context, on its own connections.
package inspect

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/resque"
)

// Inspector asks about one namespace of one Redis. It holds no data: each call asks Redis.
// It is safe for concurrent use.
//
// The context of a call bounds the wait for a connection and for each answer of Redis. A
// call that was cut short may have done a part of its work.
type Inspector struct{ redis access.Redis }

// New returns an Inspector. It is for the packages of this module.
func New(r access.Redis) *Inspector { return &Inspector{r} }

// Job names all jobs with the same queue, class and, unless Args is nil,
// arguments, as a producer gives them.
type Job struct {
	Queue string
	Class string
	Args  []any
}

// do runs f with a connection.
func (i *Inspector) do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return i.redis.Do(ctx, func(s resque.Store, c redis.Conn) error {
		if ctx.Done() != nil {
			c = bound{c, ctx}
		}
		return f(s, c)
	})
}

// query is do for a question with an answer.
func query[T any](ctx context.Context, i *Inspector, ask func(s resque.Store, c redis.Conn) (T, error)) (answer T, err error) {
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		answer, err = ask(s, c)
		return err
	})
	return answer, err
}

// bound is a connection whose waits for answers end with a context. The connection
// is broken then, since the answer may come later.
type bound struct {
	redis.Conn
	ctx context.Context
}

func (b bound) Do(command string, args ...any) (any, error) {
	return redis.DoContext(b.Conn, b.ctx, command, args...)
}

func (b bound) Receive() (any, error) { return redis.ReceiveContext(b.Conn, b.ctx) }

var errNoJob = errors.New("goworker: there is no job to look for")
