package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

func (p *program) limits() *cobra.Command {
	return p.noun("limits", "See limits and what they hold back; change and reset them", p.limitsLs())
}

func (p *program) limitsLs() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "ls", Short: "List the limits, their numbers, and what they hold back", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		limits, err := o.in.Limits(ctx)
		l := o.list(view.Column{Head: "LIMIT", Cut: true}, view.Column{Head: "COUNTS", Cut: true}, view.Column{Head: "NUMBERS"}, view.Column{Head: "RUNNING", Right: true},
			view.Column{Head: "WAITING", Right: true}, view.Column{Head: "LANES", Right: true})
		for _, i := range limits {
			object := view.Object{
				{Key: "limit", Value: i.Spec}, {Key: "name", Value: i.Name}, {Key: "kind", Value: string(i.Kind)}, {Key: "numbers", Value: i.Text},
				{Key: "running", Value: i.Running}, {Key: "waiting", Value: i.Waiting}, {Key: "lanes", Value: i.Lanes}, {Key: "partial", Value: i.Partial},
			}
			if i.Shard != "" {
				object = object.With("shard", i.Shard)
			}
			numbers, bound := i.Numbers(), ""
			if i.Invalid != nil {
				object, numbers = object.With("invalid", i.Invalid.Error()), "no numbers"
			}
			if i.Rule != nil {
				object = object.With("rule", view.Object{{Key: "class", Value: i.Rule.Class}, {Key: "key", Value: i.Rule.Key}, {Key: "until", Value: i.Rule.Until}, {Key: "by", Value: i.Rule.By}, {Key: "why", Value: i.Rule.Why}})
				numbers += ", set"
				if i.Rule.By != "" {
					numbers += " by " + i.Rule.By
				}
			}
			if i.Partial {
				bound = "≥"
			}
			l.add(object, i.Name, string(i.Kind), numbers, view.Count(i.Running), bound+view.Count(i.Waiting), bound+view.Count(i.Lanes))
		}
		return l.close("there are no limits", err)
	})
}

func (p *program) locks() *cobra.Command {
	return p.noun("locks", "See the locks of unique jobs; release them", p.locksLs(), p.locksShow())
}

func (p *program) locksLs() *cobra.Command {
	var count int
	c := p.verb(&cobra.Command{
		Use: "ls", Short: "List locks: a walk through Redis's keys, which the budget ends", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		l := o.list(view.Column{Head: "LOCK"}, view.Column{Head: "CLASS", Cut: true}, view.Column{Head: "QUEUE", Cut: true}, view.Column{Head: "JOB", Cut: true},
			view.Column{Head: "HOLDS"}, view.Column{Head: "LEFT", Right: true})
		limited, cancel := context.WithTimeoutCause(ctx, o.budget, errBudget)
		defer cancel()
		var ended error
		for lock, err := range o.in.Locks(limited) {
			if err != nil { // of several Redises the next one follows
				ended = errors.Join(ended, err)
				continue
			}
			if count > 0 && l.rows == count {
				o.note("more: give --count")
				break
			}
			left := ""
			if lock.Left > 0 {
				left = view.Span(lock.Left)
			}
			l.add(lockObject(lock), lock.Name, lock.Class, lock.Queue, lock.ID, lock.Hold, left)
		}
		none := "there are no locks"
		if ended != nil {
			none = ""
		}
		if err := l.end(none); err != nil {
			return err
		}
		if ended != nil && errors.Is(context.Cause(limited), errBudget) {
			return partly("more: the walk through the keys did not end within %s; give it a longer --budget", o.budget)
		}
		return ended
	})
	c.Flags().IntVarP(&count, "count", "c", 100, "how many to print; 0: all")
	return c
}

// errBudget says that --budget is over.
var errBudget = errors.New("the time of --budget is over")

func (p *program) locksShow() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "show LOCK", Short: "Show a lock, and whether its job is still there", Args: arguments(1, "the name of one lock"),
	}, func(ctx context.Context, o *operator, args []string) error {
		lock, err := o.in.Lock(ctx, args[0])
		if errors.Is(err, inspect.ErrNoLock) {
			return nothing("no job holds the lock %s", args[0])
		}
		if err != nil {
			return err
		}
		place, found, err := o.in.LockHolder(ctx, lock)
		if err != nil {
			return err
		}
		holder := "nowhere: goworker locks release ends the lock"
		if found {
			holder = "the job is there: " + string(place)
		}
		return o.show(lockObject(lock).With("found", found).With("place", string(place)), [][2]string{
			{"lock", lock.Name}, {"class", lock.Class}, {"queue", lock.Queue}, {"job", lock.ID}, {"holds until", lock.Hold},
			{"since", view.Time(lock.Since)}, {"last seen", view.Time(lock.Seen)}, {"left", left(lock.Left)}, {"holder", holder},
			{"payload", string(lock.Payload)}, {"shard", lock.Shard},
		}...)
	})
}

func left(d time.Duration) string {
	if d <= 0 {
		return "?"
	}
	return view.Span(d)
}

// lockObject is a lock in JSON.
func lockObject(l inspect.Lock) view.Object {
	o := view.Object{
		{Key: "lock", Value: l.Name}, {Key: "class", Value: l.Class}, {Key: "queue", Value: l.Queue}, {Key: "id", Value: l.ID}, {Key: "hold", Value: l.Hold},
		{Key: "since", Value: l.Since}, {Key: "seen", Value: l.Seen}, {Key: "left", Value: l.Left}, {Key: "payload", Value: l.Payload},
	}
	if l.Shard != "" {
		o = o.With("shard", l.Shard)
	}
	return o
}
