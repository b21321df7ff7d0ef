// Package access is the way to Redis for package inspect. A daemon or a client, which owns connections
// and settings, implements it.
package access

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Redis lends connections to one Redis.
type Redis interface {
	// Usable returns an error after the owner was closed. It does not look at the settings.
	Usable() error
	// Settings returns the settings after they were checked.
	Settings() (Settings, error)
	// Do runs f on a connection that nothing else uses meanwhile. The context bounds the wait for
	// that connection, and each wait of f for an answer.
	Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error
}

// Dials is a Redis that also makes connections beside those that it lends.
type Dials interface {
	// Alone runs f on a new connection and closes it then: for calls that wait in Redis, and would keep one of the few connections
	// from all other calls. The context bounds it as with Do.
	Alone(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error
}

// Pools is a Redis that lends from connections of their own, beside those that its owner enqueues with.
type Pools interface {
	// Pool returns the same Redis over at most so many other connections, which are dialed when they are first needed. end
	// closes them; calls after that return an error.
	Pool(connections int) (other Redis, end func(), err error)
}

// Settings are those that questions and their answers depend on.
type Settings struct {
	Style      payload.Style // how producers of this program write payloads
	MaxPayload int           // bytes
	MultiQueue bool          // each queue has its own failure list
	Server     string        // the URI of Redis, with *** for its password. Of several it is the name
}
