package goworker

import (
	"context"

	"github.com/goworker/goworker/inspect"
)

// CancelOption is an option of Client.Cancel:
//
//   - Force: look for no job, and cancel the id
type CancelOption = inspect.CancelOption

// Force makes Client.Cancel look for nothing; see inspect.Force.
func Force() CancelOption { return inspect.Force() }

var (
	// ErrUnknownJob is returned for a job that is nowhere: no job has the id, the process does not have
	// the ticket, or the job that is to be lifted is not cancelled.
	ErrUnknownJob = inspect.ErrUnknownJob

	// ErrJobEnded is returned for a job that cannot be cancelled because it has ended.
	ErrJobEnded = inspect.ErrJobEnded
)

// Cancel cancels the job with an id, wherever it is; see inspect.Inspector.Cancel. A job that waits does
// not run. The context of one that runs, in any process, ends within a second with the cause
// ErrCancelled. What its handler then returns is dropped: it is not a failure and is not retried.
//
// The error is ErrUnknownJob or ErrJobEnded if there is nothing to cancel.
func (c *Client) Cancel(ctx context.Context, id string, opts ...CancelOption) error {
	return c.Inspect().Cancel(ctx, id, opts...)
}

// Lift takes the cancel of a job back that has not ended. The error is ErrUnknownJob if the job is not
// cancelled.
func (c *Client) Lift(ctx context.Context, id string) error { return c.Inspect().Lift(ctx, id) }

// CancelRunning is Cancel of the job that a process has under a ticket, for jobs without an id. Entries of
// running jobs have both: see inspect.Inspector.Find.
func (c *Client) CancelRunning(ctx context.Context, process string, ticket int64) error {
	return c.Inspect().CancelRunning(ctx, process, ticket)
}
