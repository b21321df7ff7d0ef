package control

import (
	"context"
	"time"

	"github.com/goworker/goworker/inspect"
)

// patience is how long a cancel waits for the handlers of running jobs, unless Timeout sets another time. Their contexts end within a
// second.
const patience = 2 * time.Second

// Cancel cancels the job with an id, wherever it is, or the workflow with that id: see inspect.Cancel. It asks no process. It waits for the
// handler of a running job, two seconds at most, or as long as Timeout says. goesOn has the job if its handler still runs then: only the
// end of its process stops a handler that ignores its context. The other option is Why.
func (c *Control) Cancel(ctx context.Context, id string, opts ...CallOption) (goesOn []inspect.Entry, err error) {
	i, wait, err := c.canceller(opts)
	if err != nil {
		return nil, err
	}
	if err := i.Cancel(ctx, id); err != nil {
		return nil, err
	}
	return i.GoingOn(ctx, inspect.Query{ID: id}, wait)
}

// CancelAll cancels all jobs that match, as an operation of the kind inspect.Revoke. It cancels jobs with an id by the id, wherever they
// are, and running jobs without one by their process and ticket. It puts waiting jobs without an id into the bin. The operation's Undo
// takes back what has not run. goesOn, Timeout and Why are as in Cancel.
func (c *Control) CancelAll(ctx context.Context, q inspect.Query, opts ...CallOption) (op inspect.Operation, goesOn []inspect.Entry, err error) {
	i, wait, err := c.canceller(opts)
	if err != nil {
		return op, nil, err
	}
	if op, err = i.Operations().Start(ctx, inspect.Plan{Verb: inspect.Revoke, Query: q}); err != nil {
		return op, nil, err
	}
	for op, err = range i.Operations().Run(ctx, op.ID) {
		if err != nil {
			return op, nil, err
		}
	}
	goesOn, err = i.GoingOn(ctx, q, wait)
	return op, goesOn, err
}

// Lift takes back the cancel of a job that has not ended: see inspect.Lift. The option is Why.
func (c *Control) Lift(ctx context.Context, id string, opts ...CallOption) error {
	i, _, err := c.canceller(opts)
	if err != nil {
		return err
	}
	return i.Lift(ctx, id)
}

// canceller returns who cancels, and how long it waits for handlers.
func (c *Control) canceller(opts []CallOption) (*inspect.Inspector, time.Duration, error) {
	o := call{timeout: patience}
	for _, opt := range opts {
		opt(&o)
	}
	if len(o.to) > 0 || o.args != nil || o.ends || o.key != "" {
		return nil, 0, errCancel
	}
	return c.by(o), o.timeout, nil
}
