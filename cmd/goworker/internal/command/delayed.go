package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

func (p *program) delayed() *cobra.Command {
	return p.noun("delayed", "See delayed jobs; run and remove them", p.delayedLs(), p.delayedShow())
}

func (p *program) delayedLs() *cobra.Command {
	var count int
	var from string
	c := p.verb(&cobra.Command{
		Use: "ls [SEARCH…]", Short: "List delayed jobs, the next one first, or those of a search",
		Example: "  goworker delayed ls\n  goworker delayed ls --from 2026-11-24T00:00:00Z\n  goworker delayed ls class:Reminder",
	}, func(ctx context.Context, o *operator, args []string) error {
		if len(args) > 0 {
			q, err := o.search(args)
			if err != nil {
				return err
			}
			if q.Places != nil {
				return usagef("delayed ls looks at delayed jobs only: leave state: out")
			}
			q.Places = []inspect.Place{inspect.Delayed}
			return o.find(ctx, q, from, count)
		}
		if count < 1 {
			return usagef("--count takes a number from 1 on")
		}
		at := time.Time{}
		if from != "" {
			var err error
			if at, err = time.Parse(time.RFC3339, from); err != nil {
				return usagef("--from is %q; without a search it takes a time such as 2026-11-24T00:00:00Z", from)
			}
		}
		total, err := o.in.Delayed().Count(ctx)
		if err != nil && !o.several() {
			return err
		}
		jobs, err := o.in.Delayed().List(ctx, at, 0, count)
		l := o.list(view.Column{Head: "DUE"}, view.Column{Head: "QUEUE", Cut: true}, view.Column{Head: "JOB", Cut: true, Prose: true}, view.Column{Head: "ID", Cut: true}, view.Column{Head: "KEPT BY"})
		for _, d := range jobs {
			where := "goworker"
			if d.Plain {
				where = "resque"
			}
			l.add(delayedObject(d), view.Time(d.At), d.Queue, delayedJob(d), d.ID, where)
		}
		if err := l.close("there are no delayed jobs", err); err != nil {
			return err
		}
		if int64(len(jobs)) < total && at.IsZero() {
			o.note("more: %s of %s are shown: give --count, or --from with a time", view.Count(int64(len(jobs))), view.Count(total))
		}
		return nil
	})
	c.Flags().IntVarP(&count, "count", "c", 20, "how many to print")
	c.Flags().StringVar(&from, "from", "", "begin at a time; of a search: where one ended")
	return c
}

func (p *program) delayedShow() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "show ID", Short: "Show a delayed job by its id or ref", Args: arguments(1, "one id, or the ref that ls prints for a search"),
	}, func(ctx context.Context, o *operator, args []string) error {
		found, err := o.named(ctx, args[0], inspect.Delayed)
		if len(found) == 0 && err == nil {
			return nothing("no delayed job has the id %s", args[0])
		}
		for _, e := range found {
			if err := o.show(jobObject(e), jobPairs(e)...); err != nil {
				return err
			}
		}
		return err
	})
}

// delayedJob says in a few words what a delayed job is.
func delayedJob(d inspect.DelayedJob) string {
	return job(inspect.Entry{Class: d.Class, Args: d.Args, Invalid: d.Invalid})
}

// delayedObject is a delayed job in JSON.
func delayedObject(d inspect.DelayedJob) view.Object {
	o := view.Object{
		{Key: "at", Value: d.At}, {Key: "queue", Value: d.Queue}, {Key: "class", Value: d.Class}, {Key: "id", Value: d.ID}, {Key: "plain", Value: d.Plain},
	}
	if d.Shard != "" {
		o = o.With("shard", d.Shard)
	}
	if d.Invalid != nil {
		return o.With("invalid", d.Invalid.Error()).With("raw", d.Raw)
	}
	return o.With("payload", d.Payload)
}
