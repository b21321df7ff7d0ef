package command

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/schedule"
)

func (p *program) schedulePause() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "pause NAME…", Short: "Let the ticks of recurring schedules pass without a job", Args: some("names of schedules"),
		Long: "pause holds in the whole fleet, until resume. The ticks are not fired later. Ruby's schedulers do not know of it, and go on.",
	}, func(ctx context.Context, o *operator, schedules []string) error {
		schedules = distinct(schedules)
		if ok, err := o.agree(ctx, plan{Sentence: "pause " + named("schedule", schedules), Count: int64(len(schedules))}); !ok {
			return err
		}
		return o.each(ctx, schedules, func(ctx context.Context, name string) (done, error) {
			err := o.in.PauseSchedule(ctx, name)
			if errors.Is(err, inspect.ErrUnknownSchedule) { // it is paused, and may be a mistake
				err = partly("schedule %s is paused, though nothing in Redis knows a schedule of this name: goworker schedule resume ends the pause", name)
			}
			return done{view.Object{{Key: "schedule", Value: name}, {Key: "paused", Value: true}}, "schedule " + escaped(name) + " is paused"}, err
		})
	})
}

func (p *program) scheduleResume() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "resume NAME…", Short: "End the pause of recurring schedules", Args: some("names of schedules"),
	}, func(ctx context.Context, o *operator, schedules []string) error {
		schedules = distinct(schedules)
		if ok, err := o.agree(ctx, plan{Sentence: "resume " + named("schedule", schedules), Count: int64(len(schedules))}); !ok {
			return err
		}
		return o.each(ctx, schedules, func(ctx context.Context, name string) (done, error) {
			return done{view.Object{{Key: "schedule", Value: name}, {Key: "paused", Value: false}}, "schedule " + escaped(name) + " is not paused"}, o.in.ResumeSchedule(ctx, name)
		})
	})
}

func (p *program) scheduleRun() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "run NAME…", Short: "Enqueue the job of recurring schedules once, now", Args: some("names of schedules"),
		Long: "run enqueues the job beside its ticks, also while the schedule is paused. It knows the schedules that are in Redis for all; one in the code or the file of a\n" +
			"process is run by that program.",
	}, func(ctx context.Context, o *operator, schedules []string) error {
		schedules = distinct(schedules)
		asked := plan{Sentence: "run " + named("schedule", schedules) + " now", Count: int64(len(schedules))}
		looking, cancel := o.within(ctx)
		defer cancel()
		for _, name := range schedules[:min(3, len(schedules))] {
			s, err := o.in.Schedule(looking, name)
			if err == nil && s.Kept {
				asked.Samples = append(asked.Samples, job(inspect.Entry{Class: s.Class, Args: s.Args})+" in queue "+s.Queue)
			} else if len(schedules) == 1 && err != nil {
				return o.late(looking, missing(err))
			}
		}
		if ok, err := o.confirm(ctx, asked); !ok {
			return err
		}
		return o.each(ctx, schedules, func(ctx context.Context, name string) (done, error) {
			return done{view.Object{{Key: "schedule", Value: name}, {Key: "enqueued", Value: true}}, "the job of schedule " + escaped(name) + " is enqueued"}, o.in.RunSchedule(ctx, name)
		})
	})
}

func (p *program) scheduleRm() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "rm NAME…", Short: "Remove recurring schedules that are in Redis for all", Args: some("names of schedules"),
		Long: "rm removes schedules of which Redis is the home; daemons and Ruby's schedulers in dynamic mode drop them within seconds. Jobs that were enqueued stay. To bring one\n" +
			"back, a program schedules it again; --json prints what it was.",
	}, func(ctx context.Context, o *operator, schedules []string) error {
		schedules = distinct(schedules)
		asked := plan{Sentence: "remove " + named("schedule", schedules), Count: int64(len(schedules))}
		was := make(map[string]inspect.ScheduleInfo, len(schedules))
		looking, cancel := o.within(ctx)
		defer cancel()
		for _, name := range schedules {
			s, err := o.in.Schedule(looking, name)
			if err != nil && len(schedules) == 1 {
				return o.late(looking, missing(err))
			}
			was[name] = s
			asked.Samples = append(asked.Samples, name+": "+string(s.Config))
		}
		if ok, err := o.confirm(ctx, asked); !ok {
			return err
		}
		return o.each(ctx, schedules, func(ctx context.Context, name string) (done, error) {
			return done{view.Object{{Key: "schedule", Value: name}, {Key: "removed", Value: true}, {Key: "was", Value: was[name].Config}}, "schedule " + escaped(name) + " is removed"},
				o.in.RemoveSchedule(ctx, name)
		})
	})
}

// scheduleDiff compares a file with Redis. It reads only.
func (p *program) scheduleDiff() *cobra.Command {
	var environment string
	c := p.verb(&cobra.Command{
		Use: "diff FILE", Short: "Compare a schedule.yml with the recurring schedules in Redis", Args: arguments(1, "the name of a schedule.yml"),
		Long: "diff names the entries that are only in the file, only in Redis, or differ. An entry that a process has from its own copy of the file is not in Redis: of that, diff\n" +
			"knows whether its ticks come at the file's times. It ends with 0 where nothing differs, and with 4 where something does.",
	}, func(ctx context.Context, o *operator, args []string) error {
		text, err := os.ReadFile(args[0])
		if err != nil {
			return usageError{err}
		}
		if environment == "" {
			environment, _ = o.p.lookup("RAILS_ENV")
		}
		entries, err := schedule.Parse(text, environment)
		if err != nil {
			return usageError{err}
		}
		file := make(map[string]json.RawMessage, len(entries))
		for _, e := range entries {
			if file[e.Name], err = e.Recurring.MarshalJSON(); err != nil {
				return usageError{err}
			}
		}
		diffs, err := o.in.DiffSchedules(ctx, file)
		if err != nil {
			return err
		}
		l := o.list(view.Column{Head: "SCHEDULE", Cut: true}, view.Column{Head: "DIFFERENCE"}, view.Column{Head: "FIELDS", Cut: true})
		for _, d := range diffs {
			l.add(view.Object{{Key: "schedule", Value: d.Name}, {Key: "difference", Value: d.What}, {Key: "fields", Value: d.Fields}, {Key: "file", Value: d.File}, {Key: "redis", Value: d.Redis}},
				d.Name, d.What, strings.Join(d.Fields, ", "))
		}
		if err := l.end("no schedule differs"); err != nil || len(diffs) == 0 {
			return err
		}
		return partly("%s of the file and of Redis differ", view.Plural(int64(len(diffs)), "schedule"))
	})
	c.Flags().StringVar(&environment, "environment", "", "compare the entries of this one [RAILS_ENV]")
	return c
}
