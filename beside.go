package goworker

import (
	"context"
	"errors"
	"slices"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/events"
	"github.com/goworker/goworker/internal/feature/webhook"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
)

// Beside gives a package above this one, such as delayedbridge, what it needs of a client or a daemon. No program can
// name the type of its parameter.
func Beside(n *neighbor.Neighbor, c *Client) error {
	if len(c.redises) > 1 {
		return errors.New("the Client has several shards; use the Client of one Daemon, or of NewClient")
	}
	on, err := c.redises[0].init(false)
	if err != nil {
		return err
	}
	settled := on.settled()
	*n = neighbor.Neighbor{
		Base: on.base(), Host: on.config.Hostname, Tracking: !on.config.DisableTracking, NoHistory: on.config.History == HistoryOff, Step: on.bridges.Load().Step,
		Features: settled.Set, Events: settled.events, Webhooks: settled.webhooks, Time: settled.Clock, Producer: &on.Client, Enqueue: on.set,
		MultiQueue: on.config.multiQueueFailures, Do: on.Do, Works: on.config.queues.Works, Signature: c.registry.signature,
		Ready: func(ctx context.Context, queue string) error {
			if !queues.IsOwn(queue) {
				return nil
			}
			return on.Releases.CheckOwn(ctx, &on.Client, queue)
		},
	}
	return nil
}

// Measured gives package metrics what the processes of the client's daemons have counted. No program can name the type of its
// parameter.
func (c *Client) Measured(add func(neighbor.Measured)) {
	for _, e := range c.redises {
		add(neighbor.Measured{Meter: e.meter})
	}
}

// base is what a part beside the client gets.
func (c *client) base() part.Base {
	return part.Base{Log: c.log, Outages: logging.NewOutages(c.log, clock.System), Store: c.Store, Dialer: c.dialer, Clock: clock.System}
}

// settled are the features that end jobs which no worker of this process has, their clock, and the seats of what says so to listeners
// and to webhooks.
type settled struct {
	*outcome.Set
	*fleet.Clock
	events   *events.Seat
	webhooks *webhook.Seat
}

func (c *client) newSettled(r *registry, added []func(outcome.Deps) outcome.Feature) settled {
	now, features := fleet.NewClock(clock.System), slices.Concat(added, r.features(r.limits))
	s := settled{Clock: now}
	if c.config.Control != ControlOff {
		s.events, s.webhooks = new(events.Seat), new(webhook.Seat)
		features = append(features, s.webhooks.Feature, s.events.Feature)
	}
	s.Set = outcome.New(outcome.Deps{
		Base: c.base(), Time: now, Exceptions: exceptionOf, Do: c.Pool.Do,
		Settings: outcome.Settings{MaxPayload: c.config.MaxPayload, MultiQueueFailures: c.config.multiQueueFailures},
	}, r, features...)
	return s
}

// signature returns what the function of a class takes, and whether there is a handler.
func (r *registry) signature(class string) (s args.Signature, registered bool) {
	c := r.Class(class)
	if c == nil {
		return s, false
	}
	e, registered := c.Handler.(*entry)
	if registered {
		if h, typed := e.bare.(typedHandler); typed {
			s = h.Signature()
		}
	}
	return s, registered
}
