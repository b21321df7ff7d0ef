package goworker

import (
	"context"
	"errors"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
)

// Beside gives package delayedbridge what it needs of a client or a daemon. No program can name the type of its
// parameter.
func Beside(n *part.Neighbor, c *Client) error {
	if len(c.redises) > 1 {
		return errors.New("the Client has several shards; use the Client of one Daemon, or of NewClient")
	}
	on, err := c.redises[0].init(false)
	if err != nil {
		return err
	}
	*n = part.Neighbor{
		Base: part.Base{
			Log: on.log, Outages: logging.NewOutages(on.log, clock.System), Store: on.Store, Dialer: on.dialer, Clock: clock.System,
		},
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
