package command

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// byIDs says in help how jobs are chosen.
const byIDs = "Jobs are named by their ids or refs, or chosen by a search as jobs find takes it. The id tenant:7, with a colon, is id:tenant:7."

// whichJobs is the error of a command line that chooses none.
const whichJobs = "ids, or a search such as class:SendEmail since:2h"

// cancels is jobs cancel, and control cancel.
func (p *program) cancels() *cobra.Command {
	var force bool
	c := p.changes(&cobra.Command{
		Use: "cancel ID… | SEARCH…", Short: "Cancel jobs: they do not run, and those that run end early", Args: some(whichJobs),
		Long: "cancel ends jobs wherever they are. One that waits is dropped when a worker takes it; the context of one that runs ends within a second.\n" +
			"Jobs whose handlers go on all the same are named, and then it ends with 4. Jobs that a search finds waiting without an id go into the bin.\n" +
			byIDs + " The id of a workflow cancels the workflow.",
	}, func(ctx context.Context, o *operator, args []string) error {
		if !areIDs(args) {
			if force {
				return usagef("--force takes ids, and no search")
			}
			plan := inspect.Plan{Verb: inspect.Revoke}
			if err := o.chosen(ctx, args, &plan); err != nil {
				return err
			}
			if err := o.operate(ctx, plan, task{all: "cancel %s"}); err != nil || o.dryRun {
				return err
			}
			return o.goOn(ctx, plan.Query)
		}
		args = distinct(args)
		if ok, err := o.confirm(ctx, plan{Sentence: "cancel " + named("job", args), Count: int64(len(args))}); !ok {
			return err
		}
		var opts []inspect.CancelOption
		if force {
			opts = append(opts, inspect.Force())
		}
		var cancelled []inspect.Query
		err := o.each(ctx, args, func(ctx context.Context, id string) (done, error) {
			err := o.in.Cancel(ctx, id, opts...)
			if err == nil {
				cancelled = append(cancelled, inspect.Query{ID: id})
			}
			return done{view.Object{{Key: "id", Value: id}, {Key: "cancelled", Value: true}}, "job " + escaped(id) + " is cancelled"}, err
		})
		return cmp.Or(err, o.goOn(ctx, cancelled...))
	})
	c.Flags().BoolVar(&force, "force", false, "look for nothing: the id counts as cancelled for 7 days, also if there is no such job yet")
	return c
}

// patience is how long cancel waits for handlers whose contexts end.
const patience = 2 * time.Second

// goOn names the cancelled jobs whose handlers go on.
func (o *operator) goOn(ctx context.Context, cancelled ...inspect.Query) error {
	ctx, cancel := o.within(ctx)
	defer cancel()
	ends := time.Now().Add(min(patience, o.timeout))
	count := 0
	for _, q := range cancelled {
		jobs, err := o.in.GoingOn(ctx, q, time.Until(ends))
		if err != nil {
			return o.late(ctx, err)
		}
		for _, j := range jobs {
			count++
			o.note("%s of process %s goes on: its handler does not look at its context", escaped(j.String()), escaped(j.Process))
		}
	}
	if count > 0 {
		return partly("%s cancelled and still running", view.Plural(int64(count), "job"))
	}
	return nil
}

func (p *program) cancelledLift() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "lift ID…", Short: "Take back the cancel of jobs that have not ended", Args: some("ids of jobs"),
	}, func(ctx context.Context, o *operator, ids []string) error {
		ids = distinct(ids)
		if ok, err := o.confirm(ctx, plan{Sentence: "take back the cancel of " + named("job", ids), Count: int64(len(ids))}); !ok {
			return err
		}
		return o.each(ctx, ids, func(ctx context.Context, id string) (done, error) {
			return done{view.Object{{Key: "id", Value: id}, {Key: "cancelled", Value: false}}, "job " + escaped(id) + " is not cancelled any more"}, o.in.Lift(ctx, id)
		})
	})
}

// headFlag is the flag that puts jobs in front of others.
func headFlag(c *cobra.Command) func() inspect.End {
	head := c.Flags().Bool("head", false, "to the heads of their queues, before the jobs that wait there")
	return func() inspect.End {
		if *head {
			return inspect.Head
		}
		return inspect.Tail
	}
}

// waitingPlaces are where jobs wait.
var waitingPlaces = []inspect.Place{inspect.Delayed, inspect.Queued, inspect.InLane}

// operation is a verb that does the same with all jobs that its command line chooses.
func (p *program) operation(c *cobra.Command, verb inspect.Verb, in []inspect.Place, d task) *cobra.Command {
	var pace pacing
	var end func() inspect.End
	c = p.changes(c, func(ctx context.Context, o *operator, args []string) error {
		plan := inspect.Plan{Verb: verb}
		if end != nil {
			plan.To = end()
		}
		if err := pace.of(args, &plan); err != nil {
			return err
		}
		if err := o.chosen(ctx, args, &plan, in...); err != nil {
			return err
		}
		return o.operate(ctx, plan, d)
	})
	if pace.flags(c); verb == inspect.Run || verb == inspect.Retry {
		end = headFlag(c)
	}
	return c
}

func (p *program) jobsRun() *cobra.Command {
	return p.operation(&cobra.Command{
		Use: "run ID… | SEARCH…", Short: "Put delayed jobs into their queues now", Args: some(whichJobs),
		Long: "run puts delayed jobs to the tails of their queues, or with --head to the heads. " + byIDs,
	}, inspect.Run, []inspect.Place{inspect.Delayed}, task{all: "run %s now"})
}

func (p *program) jobsMove() *cobra.Command {
	var to string
	var pace pacing
	c := p.changes(&cobra.Command{
		Use: "move ID… | SEARCH… --to QUEUE", Short: "Move jobs to another queue", Args: some(whichJobs),
		Long: "move puts waiting jobs to the tail of another queue; delayed ones keep their time, and failed ones are retried there. " + byIDs,
	}, func(ctx context.Context, o *operator, args []string) error {
		if to == "" {
			return usagef("say where the jobs go, with --to and the name of a queue")
		}
		plan := inspect.Plan{Verb: inspect.MoveTo, Queue: to}
		if err := pace.of(args, &plan); err != nil {
			return err
		}
		if err := o.chosen(ctx, args, &plan); err != nil {
			return err
		}
		return o.operate(ctx, plan, task{all: "move %s to queue " + escaped(to)})
	})
	c.Flags().StringVar(&to, "to", "", "the queue")
	pace.flags(c)
	return c
}

func (p *program) jobsRm() *cobra.Command {
	return p.operation(&cobra.Command{
		Use: "rm ID… | SEARCH…", Short: "Put jobs that wait or have failed into the bin", Args: some(whichJobs),
		Long: "rm takes jobs out of their places and keeps them in the bin for a day: operations undo brings them back. " + byIDs,
	}, inspect.Drop, append(waitingPlaces[:3:3], inspect.Failed), task{all: "remove %s"})
}

func (p *program) delayedRun() *cobra.Command {
	return p.operation(&cobra.Command{
		Use: "run ID… | SEARCH…", Short: "Put delayed jobs into their queues now", Args: some(whichJobs), Long: byIDs,
	}, inspect.Run, []inspect.Place{inspect.Delayed}, task{all: "run %s now", noun: "delayed job"})
}

func (p *program) delayedRm() *cobra.Command {
	return p.operation(&cobra.Command{
		Use: "rm ID… | SEARCH…", Short: "Put delayed jobs into the bin", Args: some(whichJobs), Long: byIDs,
	}, inspect.Drop, []inspect.Place{inspect.Delayed}, task{all: "remove %s", noun: "delayed job"})
}
