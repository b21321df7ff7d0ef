package part

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/resque"
)

// Neighbor is what a package above the root, such as delayedbridge, gets of a client or a daemon. It is safe for concurrent use.
type Neighbor struct {
	Base
	MultiQueue bool // each queue has its own failure list

	// Do runs f on a connection of the client.
	Do func(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error

	// Works reports whether the workers of the daemon take jobs from a queue.
	Works func(queue string) bool

	// Ready returns an error while a process of an older release is in the fleet that would harm jobs of this queue.
	Ready func(ctx context.Context, queue string) error

	// Signature returns what the function of a class takes, and whether there is a handler of this class or alias.
	Signature func(class string) (s args.Signature, registered bool)
}
