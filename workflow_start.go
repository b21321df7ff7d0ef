package goworker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/workflow"
)

// WorkflowReceipt says what became of a Start.
type WorkflowReceipt struct {
	// ID is the workflow's id: for Await, Status, Cancel and Workflows.
	ID string

	// Existed is set if a workflow with this id was there, and nothing was started. It may be an earlier try of this call, of
	// which the answer was lost.
	Existed bool

	steps map[*Node]string
}

// Step returns the id of the job of a step; "" if the node is no step of this workflow. If the step has WithResult, Await waits
// for it.
func (r WorkflowReceipt) Step(n *Node) string {
	for n != nil && n.inner != nil {
		n = n.inner
	}
	return r.steps[n]
}

// Start starts a workflow: it enqueues what is first of it, and keeps the rest in Redis, from where the end of each step
// sends what follows it. All of it is one step of Redis, up to 1,000 first jobs and 1 MiB. More is added in pieces, and a
// program that ends meanwhile goes on when it calls Start with the same id and nodes again.
//
// With an id that exists nothing is started, and the receipt says so. A reply that was lost is asked for again, so
// ErrUnconfirmed is rare: then call Start with the same id again. After any other error nothing was started, except that
// of a large workflow, whose error says so.
//
// EnqueueMiddleware is called once for all steps. It may add options to them, and must leave none out.
//
// Over Shards all queues of a workflow must lie on one of them. The error is a *DuplicateError for a workflow that UniqueAs
// refuses.
func (c *Client) Start(ctx context.Context, n *Node, opts ...WorkflowOption) (receipt WorkflowReceipt, err error) {
	o, err := workflowOptionsOf("Start", opts)
	if err != nil {
		return receipt, err
	}
	b, err := c.begin(ctx, n, o)
	return b.receipt, err
}

// begun is a workflow that was started.
type begun struct {
	receipt WorkflowReceipt
	client  *client // of the Redis on which it lies
	at      int     // which of the Client's that is
}

// begin starts a workflow with the options that were read.
func (c *Client) begin(ctx context.Context, n *Node, o *workflowOptions) (b begun, err error) {
	find, err := c.finder()
	if err != nil {
		return b, err
	}
	t := newTree(c, find, o.meta)
	if err := t.collect(n); err != nil {
		return b, unstarted(o, err)
	}
	err = t.pass(ctx, func(ctx context.Context) error {
		root, err := t.root(n)
		if err != nil {
			return unstarted(o, err)
		}
		if b.client, err = t.redis(ctx, o.old); err != nil {
			return unstarted(o, err)
		}
		plan, err := workflow.Compile(root, o.Options, t.encoder(b.client))
		if err != nil {
			return unstarted(o, err)
		}
		started, err := b.client.StartWorkflow(ctx, plan, o.chosen)
		switch {
		case err != nil:
			return prefix.Errorf("%s: %w", o.about(), err)
		case started.Holder != "":
			return &DuplicateError{Holder: started.Holder, Name: o.Lock}
		}
		b.at, b.receipt = t.at, WorkflowReceipt{ID: o.ID, Existed: !started.New, steps: t.ids}
		return nil
	})
	if err == nil && t.members != nil && !o.Open {
		err = b.members(ctx, c, o, t.members)
	}
	return b, err
}

// members adds the members of a GroupSeq, and closes it.
func (b *begun) members(ctx context.Context, c *Client, o *workflowOptions, jobs iter.Seq2[Item, error]) error {
	open := c.openBatch(*b, o)
	err := open.AddSeq(ctx, jobs)
	if errors.Is(err, ErrEnded) && b.receipt.Existed {
		return nil
	}
	if err == nil {
		err = open.Close(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w; it was begun and stays open: call Start again with the same nodes and WithID(%q)", err, o.ID)
	}
	return nil
}

// StartWorkflowClass is a class that every Daemon knows. Its jobs are the ticks of ScheduleWorkflow: the arguments are the name of
// the schedule and the tick's time.
const StartWorkflowClass = "goworker.StartWorkflow"

const (
	// startRetries is how often a tick is tried again while its workflow cannot be started: for about a day.
	startRetries = 25

	// elsewhere is how long a tick waits for a process that has its schedule, and elsewhereAtMost until it fails.
	elsewhere       = 10 * time.Second
	elsewhereAtMost = 24 * time.Hour
)

// workflowSchedule is what a tick starts.
type workflowSchedule struct {
	nodes func() *Node
	opts  []WorkflowOption
}

// provideStart makes the daemons of a registry know StartWorkflowClass. Several shards have one Client.
func provideStart(r *registry, client func() *Client) {
	r.provide(StartWorkflowClass, func(ctx context.Context, name string, tick time.Time) error {
		scheduled, has := r.scheduled.Load(name)
		if !has {
			if r.trial.Clock().Now().Sub(tick) > elsewhereAtMost {
				return fmt.Errorf("no process that took this tick has the workflow schedule %q; call ScheduleWorkflow in all that work the queue", name)
			}
			return Snooze(elsewhere)
		}
		s := scheduled.(workflowSchedule)
		id := fmt.Sprintf("%s:%d", name, tick.UnixMilli())
		_, err := client().Start(ctx, s.nodes(), append([]WorkflowOption{WithID(id)}, s.opts...)...)
		if errors.Is(err, ErrDuplicate) {
			return nil
		}
		return err
	}, Retry(startRetries))
}
