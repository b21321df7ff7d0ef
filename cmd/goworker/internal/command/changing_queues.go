package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

func (p *program) queuesPause() *cobra.Command {
	var lasts time.Duration
	c := p.changes(&cobra.Command{
		Use: "pause QUEUE…", Short: "Let no goworker process take jobs of queues", Args: some("the names of queues"), ValidArgsFunction: p.completeQueues,
		Long: "pause stops all goworker processes from taking jobs of the queues, until resume or as long as --for says. Jobs that run go on.\n" +
			"Ruby's workers know no paused queues, and go on to take from them.",
	}, func(ctx context.Context, o *operator, queues []string) error {
		queues = distinct(queues)
		if ok, err := o.agree(ctx, plan{Sentence: "pause " + named("queue", queues), Count: int64(len(queues))}); !ok {
			return err
		}
		return o.each(ctx, queues, func(ctx context.Context, queue string) (done, error) {
			err := o.pause(ctx, "queue", queue, true, lasts)
			return done{view.Object{{Key: "queue", Value: queue}, {Key: "paused", Value: true}}, "queue " + escaped(queue) + " is paused" + until(lasts, "")}, err
		})
	})
	lasting(c, &lasts, "resume")
	return c
}

func (p *program) queuesResume() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "resume QUEUE…", Short: "End the pause of queues", Args: some("the names of queues"), ValidArgsFunction: p.completeQueues,
	}, func(ctx context.Context, o *operator, queues []string) error {
		queues = distinct(queues)
		if ok, err := o.agree(ctx, plan{Sentence: "resume " + named("queue", queues), Count: int64(len(queues))}); !ok {
			return err
		}
		return o.each(ctx, queues, func(ctx context.Context, queue string) (done, error) {
			return done{view.Object{{Key: "queue", Value: queue}, {Key: "paused", Value: false}}, "queue " + escaped(queue) + " is not paused"}, o.in.ResumeQueue(ctx, queue)
		})
	})
}

func (p *program) queuesClear() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "clear QUEUE", Short: "Put all jobs of a queue into the bin", Args: arguments(1, "the name of one queue"), ValidArgsFunction: p.completeQueues,
		Long: "clear takes a queue and its lanes away in one step and keeps them in the bin for a day: operations undo brings the jobs back, in their order.",
	}, func(ctx context.Context, o *operator, args []string) error {
		return o.operate(ctx, inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: args[0]}}, task{
			all: "put %s of queue " + escaped(args[0]) + " into the bin", typed: args[0],
		})
	})
}

func (p *program) queuesRm() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "rm QUEUE", Short: "Put all jobs of a queue into the bin, and forget its name", Args: arguments(1, "the name of one queue"), ValidArgsFunction: p.completeQueues,
	}, func(ctx context.Context, o *operator, args []string) error {
		return o.operate(ctx, inspect.Plan{Verb: inspect.ForgetQueue, Query: inspect.Query{Queue: args[0]}}, task{
			all: "put %s of queue " + escaped(args[0]) + " into the bin, and forget its name", typed: args[0], empty: true,
		})
	})
}

func (p *program) queuesMove() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "move FROM TO", Short: "Move the waiting jobs of a queue to the tail of another", Args: arguments(2, "the names of two queues"), ValidArgsFunction: p.completeQueues,
	}, func(ctx context.Context, o *operator, args []string) error {
		from, to := args[0], args[1]
		if from == to {
			return usagef("the two queues are one: %s", escaped(from))
		}
		q := inspect.Query{Queue: from, Places: []inspect.Place{inspect.Queued, inspect.InLane}}
		return o.operate(ctx, inspect.Plan{Verb: inspect.MoveTo, Query: q, Queue: to}, task{
			all: "move %s of queue " + escaped(from) + " to queue " + escaped(to), typed: from,
		})
	})
}

// queuesWait waits until queues are empty, for scripts that deploy.
func (p *program) queuesWait() *cobra.Command {
	var empty bool
	c := p.long(&cobra.Command{
		Use: "wait QUEUE… --empty", Short: "Wait until queues are empty", Args: some("the names of queues"), ValidArgsFunction: p.completeQueues,
		Long: "wait ends with 0 when no job waits in the queues or their lanes, and with 124 after --timeout. Delayed and running jobs do not count.\n" +
			"A queue that nothing knows is a mistake, and ends it with 3 at once.",
		Example: "  goworker queues wait mail reports --empty --timeout 10m",
	}, func(ctx context.Context, o *operator, queues []string) error {
		if !empty {
			return usagef("say what to wait for: --empty")
		}
		ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, errDeadline)
		defer cancel()
		if err := o.knowQueues(ctx, queues); err != nil {
			return o.late(ctx, err)
		}
		last := int64(-1) // nobody knows yet
		for {
			waiting, err := o.waiting(ctx, queues)
			switch {
			case err != nil:
				if err = o.late(ctx, err); last > 0 && errors.Is(err, errDeadline) {
					err = stillWait(last, queues)
				}
				return err
			case waiting == 0:
				return o.print(view.Object{{Key: "queues", Value: queues}, {Key: "waiting", Value: waiting}}, "nothing waits in "+named("queue", queues))
			}
			last = waiting
			select {
			case <-time.After(waitEvery):
			case <-ctx.Done():
				if errors.Is(context.Cause(ctx), errDeadline) {
					return stillWait(last, queues)
				}
				return ctx.Err()
			}
		}
	})
	c.Flags().BoolVar(&empty, "empty", false, "wait until no job waits")
	return c
}

// knowQueues returns an error that names those of the queues that nothing knows.
func (o *operator) knowQueues(ctx context.Context, queues []string) error {
	var unknown []string
	for _, queue := range queues {
		known, err := o.in.KnowsQueue(ctx, queue)
		if err != nil {
			return err
		}
		if !known {
			unknown = append(unknown, escaped(queue))
		}
	}
	if len(unknown) > 0 {
		return nothing("there is no queue %s", andList(unknown))
	}
	return nil
}

// waitEvery is how often wait looks.
const waitEvery = 200 * time.Millisecond

// stillWait says that the time was over before the queues were empty.
func stillWait(jobs int64, queues []string) error {
	wait := "wait"
	if jobs == 1 {
		wait = "waits"
	}
	return fmt.Errorf("%w: %s %s in %s", errDeadline, view.Plural(jobs, "job"), wait, named("queue", queues))
}

// waiting counts the jobs that wait in queues and their lanes.
func (o *operator) waiting(ctx context.Context, queues []string) (waiting int64, err error) {
	for _, queue := range queues {
		n, err := o.in.QueueSize(ctx, queue)
		if err != nil {
			return 0, err
		}
		waiting += n
	}
	return waiting, nil
}
