package command

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

func (p *program) schedule() *cobra.Command {
	return p.noun("schedule", "See recurring schedules; pause, run, remove and compare them", p.scheduleLs(), p.scheduleShow(), p.scheduleNext())
}

func (p *program) scheduleLs() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "ls", Short: "List the recurring schedules that Redis knows", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		all, err := o.in.Schedules(ctx)
		l := o.list(view.Column{Head: "SCHEDULE", Cut: true}, view.Column{Head: "WHEN", Cut: true}, view.Column{Head: "CLASS", Cut: true},
			view.Column{Head: "QUEUE", Cut: true}, view.Column{Head: "NEXT"}, view.Column{Head: "STATE"})
		for _, s := range all {
			l.add(scheduleObject(s), s.Name, when(s), s.Class, s.Queue, view.Time(s.Next), scheduleState(s))
		}
		return l.close("there are no recurring schedules", err)
	})
}

func (p *program) scheduleShow() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "show NAME", Short: "Show a recurring schedule", Args: arguments(1, "the name of one schedule"),
	}, func(ctx context.Context, o *operator, args []string) error {
		s, err := o.in.Schedule(ctx, args[0])
		if errors.Is(err, inspect.ErrUnknownSchedule) {
			return nothing("%w", err)
		}
		if err != nil {
			return err
		}
		pairs := [][2]string{
			{"schedule", s.Name}, {"state", scheduleState(s)}, {"when", when(s)}, {"class", s.Class}, {"queue", s.Queue}, {"config", string(s.Config)},
			{"environments", strings.Join(s.Environments, ", ")}, {"next", view.Time(s.Next)}, {"last tick", view.Time(s.LastTick)},
			{"last enqueued", view.Time(s.LastEnqueued)}, {"fired by", s.Owner}, {"shard", s.Shard},
		}
		if s.Broken != nil {
			pairs = append(pairs, [2]string{"broken", s.Broken.Error()})
		}
		return o.show(scheduleObject(s), pairs...)
	})
}

func (p *program) scheduleNext() *cobra.Command {
	var count int
	c := p.verb(&cobra.Command{
		Use: "next NAME", Short: "Show when a schedule fires next", Args: arguments(1, "the name of one schedule"),
	}, func(ctx context.Context, o *operator, args []string) error {
		ticks, err := o.in.NextTicks(ctx, args[0], count)
		if errors.Is(err, inspect.ErrUnknownSchedule) {
			return nothing("%w", err)
		}
		l := o.list(view.Column{})
		for _, t := range ticks {
			l.add(view.Object{{Key: "schedule", Value: args[0]}, {Key: "at", Value: t}}, view.Time(t))
		}
		return l.close("it does not fire again", err)
	})
	c.Flags().IntVarP(&count, "count", "c", 5, "how many times to show")
	return c
}

// when says by what a schedule fires.
func when(s inspect.ScheduleInfo) string {
	switch {
	case s.Cron != "":
		return s.Cron
	case s.Every > 0:
		return "every " + view.Span(s.Every)
	}
	return "?"
}

func scheduleState(s inspect.ScheduleInfo) string {
	switch {
	case s.Broken != nil:
		return "broken"
	case s.Paused:
		return "paused"
	}
	return ""
}

// scheduleObject is a schedule in JSON.
func scheduleObject(s inspect.ScheduleInfo) view.Object {
	o := view.Object{
		{Key: "schedule", Value: s.Name}, {Key: "class", Value: s.Class}, {Key: "queue", Value: s.Queue}, {Key: "cron", Value: s.Cron}, {Key: "every", Value: s.Every},
		{Key: "config", Value: s.Config}, {Key: "environments", Value: s.Environments}, {Key: "next", Value: s.Next}, {Key: "last_tick", Value: s.LastTick},
		{Key: "last_enqueued", Value: s.LastEnqueued}, {Key: "owner", Value: s.Owner}, {Key: "paused", Value: s.Paused},
	}
	if s.Broken != nil {
		o = o.With("broken", s.Broken.Error())
	}
	if s.Shard != "" {
		o = o.With("shard", s.Shard)
	}
	return o
}
