// Package neighbor is what a package above the root, such as delayedbridge or an HTTP server, gets of a client or a
// daemon.
package neighbor

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/feature/events"
	"github.com/goworker/goworker/internal/feature/webhook"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
)

// Measured is what package metrics gets of a daemon, a shard or a client.
type Measured struct {
	Meter *meter.Meter
	Tally *health.Tally // of its jobs; nil: it is a client
}

// Neighbor is safe for concurrent use. goworker.Beside fills it.
type Neighbor struct {
	part.Base
	Host       string // the hostname of the settings
	MultiQueue bool   // each queue has its own failure list
	Tracking   bool   // Redis may be asked to notify of changed keys
	NoHistory  bool   // what becomes of jobs is not counted for the history

	// Features end jobs that no worker of this process has: leased ones. No poller reads the keys that they watch: a
	// package that ends jobs reads Features.Watched on a connection of its own.
	Features *outcome.Set

	// Events is the seat among the Features for what says to listeners how jobs end. nil: the program hears no listeners.
	Events *events.Seat

	// Webhooks is the seat among the Features for what writes for webhooks how jobs end badly. nil: the program hears of none.
	Webhooks *webhook.Seat

	// Time is the clock of the Features: Redis's. A package that hears Redis's time calls Saw.
	Time *fleet.Clock

	// Producer enqueues jobs, as the client does. Enqueue has its features.
	Producer *producer.Client
	Enqueue  *outcome.Set

	// Do runs f on a connection of the client.
	Do func(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error

	// Step says to operators what a step of a bridge to another library did: how many tasks it took from a queue of that library, how many
	// wait behind them, and whether workers of that library have tasks in hand.
	Step func(queue, to string, took, waiting int, strangers bool)

	// Works reports whether the workers of the daemon take jobs from a queue.
	Works func(queue string) bool

	// Ready returns an error while a process of an older release is in the fleet that would harm jobs of this queue.
	Ready func(ctx context.Context, queue string) error

	// Signature returns what the function of a class takes, and whether there is a handler of this class or alias.
	Signature func(class string) (s args.Signature, registered bool)
}
