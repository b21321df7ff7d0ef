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

func (p *program) workersRm() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "rm ID…", Short: "Remove dead workers, as Ruby's workers prune theirs", Args: some("ids of workers"),
		Long: "rm removes a worker whose heartbeat is more than 300 seconds old, or that sends none and belongs to no live goworker process. A job that it had in hand\n" +
			"is filed as a failure: Resque::PruneDeadWorkerDirtyExit. Other workers are refused.",
	}, func(ctx context.Context, o *operator, ids []string) error {
		ids = distinct(ids)
		asked := plan{Sentence: "remove " + named("worker", ids), Count: int64(len(ids))}
		looking, cancel := o.within(ctx)
		defer cancel()
		for _, id := range ids {
			beaten, err := o.in.DeadWorker(looking, id)
			if err != nil {
				if len(ids) > 1 { // each is asked for again
					continue
				}
				return o.late(looking, missing(err))
			}
			if !beaten {
				asked.Notes = append(asked.Notes, fmt.Sprintf("%s has no heartbeat: Resque before 1.26 sends none, so look whether it runs.", id))
			}
		}
		if ok, err := o.confirm(ctx, asked); !ok {
			return err
		}
		return o.each(ctx, ids, func(ctx context.Context, id string) (done, error) {
			return done{view.Object{{Key: "worker", Value: id}, {Key: "removed", Value: true}}, "worker " + escaped(id) + " is removed"}, missing(o.in.RemoveWorker(ctx, id))
		})
	})
}

func (p *program) limitsSet() *cobra.Command {
	var lasts time.Duration
	c := p.changes(&cobra.Command{
		Use: "set LIMIT NUMBER", Short: "Give a limit another number, in the whole fleet", Args: arguments(2, "a limit, as limits ls names it, and its number"),
		Long: "set takes 3 for a limit of running jobs, and 10/s, 5/m or 100/h for a rate; 10/s:3 lets three start at once. Processes obey it with their next job.\n" +
			"It holds until reset, whatever numbers the programs have that start meanwhile, or as long as --for says.",
		Example: "  goworker limits set SendEmail 3\n  goworker limits set r:SendEmail 10/s",
	}, func(ctx context.Context, o *operator, args []string) error {
		limit, number := args[0], args[1]
		if ok, err := o.agree(ctx, plan{Sentence: "set the limit " + escaped(limit) + " to " + escaped(number), Count: 1}); !ok {
			return err
		}
		return o.each(ctx, args[:1], func(ctx context.Context, limit string) (done, error) {
			was, err := o.in.SetLimitFor(ctx, limit, number, lasts)
			return done{view.Object{{Key: "limit", Value: limit}, {Key: "number", Value: number}, {Key: "was", Value: was}},
				"the limit " + escaped(limit) + " is " + escaped(number) + until(lasts, "reset")}, err
		})
	})
	lasting(c, &lasts, "reset")
	return c
}

// lasting adds the flag that says how long a rule holds.
func lasting(c *cobra.Command, lasts *time.Duration, ends string) {
	c.Flags().Var((*span)(lasts), "for", "how long it holds; 0: until "+ends)
}

// span is the value of a flag that takes a time of 0 or more.
type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }

func (s *span) Type() string { return "duration" }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("it takes a time such as 90s, 10m or 2h")
	}
	*s = span(d)
	return nil
}

// until says how long a rule holds; nothing, where it has no end and none is named.
func until(lasts time.Duration, ends string) string {
	if lasts > 0 {
		return " for " + view.Span(lasts)
	}
	if ends == "" {
		return ""
	}
	return " until " + ends
}

func (p *program) limitsReset() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "reset LIMIT…", Short: "Let processes write the numbers of their programs again", Args: some("limits, as limits ls names them"),
	}, func(ctx context.Context, o *operator, limits []string) error {
		limits = distinct(limits)
		if ok, err := o.agree(ctx, plan{Sentence: "reset the " + named("limit", limits), Count: int64(len(limits))}); !ok {
			return err
		}
		return o.each(ctx, limits, func(ctx context.Context, limit string) (done, error) {
			was, err := o.in.ResetLimit(ctx, limit)
			return done{view.Object{{Key: "limit", Value: limit}, {Key: "was", Value: was}}, "the limit " + escaped(limit) + " is as each program has it"}, err
		})
	})
}

func (p *program) locksRelease() *cobra.Command {
	var force bool
	c := p.changes(&cobra.Command{
		Use: "release LOCK…", Short: "Release locks of unique jobs that are nowhere any more", Args: some("names of locks, as locks ls prints them"),
		Long: "release looks for the job of a lock everywhere at one instant, jobs that clients hold over HTTP too, and releases the lock where the job is nowhere.\n" +
			"A job that a Ruby worker runs is nowhere too. With --force it looks for nothing, and a second equal job may run beside the first.",
	}, func(ctx context.Context, o *operator, locks []string) error {
		locks = distinct(locks)
		asked := plan{Sentence: "release the " + named("lock", locks), Count: int64(len(locks))}
		found := make(map[string]inspect.Lock, len(locks))
		looking, cancel := o.within(ctx)
		defer cancel()
		for _, name := range locks {
			l, err := o.in.Lock(looking, name)
			if err != nil {
				if len(locks) > 1 && absent(err) {
					continue
				}
				return o.late(looking, missing(err))
			}
			found[name] = l
			place, there, err := o.in.LockHolder(looking, l)
			if err != nil {
				return o.late(looking, err)
			}
			where := "nowhere"
			if there {
				where = string(place)
			}
			asked.Samples = append(asked.Samples, fmt.Sprintf("%s: job %s (%s) of queue %s is %s", name, l.ID, l.Class, l.Queue, where))
		}
		if ok, err := o.confirm(ctx, asked); !ok {
			return err
		}
		return o.each(ctx, locks, func(ctx context.Context, name string) (done, error) {
			l, ok := found[name]
			if !ok {
				return done{}, fmt.Errorf("lock %s: %w", name, inspect.ErrNoLock)
			}
			return done{view.Object{{Key: "lock", Value: name}, {Key: "id", Value: l.ID}, {Key: "released", Value: true}}, "the lock " + escaped(name) + " is released"},
				o.in.ReleaseLock(ctx, l, force)
		})
	})
	c.Flags().BoolVar(&force, "force", false, "also where the job is somewhere, or where the lock holds for a time")
	return c
}
