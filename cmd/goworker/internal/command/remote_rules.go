package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// controlPause pauses or resumes processes, queues or classes.
func (p *program) controlPause(pause bool) *cobra.Command {
	use, short := "pause", "Have processes take no jobs, or none of some queues or classes"
	if !pause {
		use, short = "resume", "End a pause of processes, queues or classes"
	}
	var self bool
	var to, classes []string
	var key, why string
	var lasts time.Duration
	c := p.change(&cobra.Command{
		Use: use + " --self | --class CLASS | QUEUE…", Short: short, ValidArgsFunction: p.completeQueues,
		Example: "  goworker control " + use + " mail\n  goworker control " + use + " --class Report\n  goworker control " + use + " --self --to 'mail-*'",
	}, func(ctx context.Context, o *operator, queues []string) error {
		o.by(why)
		switch of := queues; {
		case self && len(classes)+len(queues) > 0, len(classes) > 0 && len(queues) > 0, !self && len(to) > 0, self && lasts > 0:
			return usagef("%s takes one of --self, --class and queues; --to goes with --self, and --for with the others", use)
		case self:
			return o.obey(ctx, order{verb: use, sentence: use}, to, key, why)
		case len(classes)+len(queues) == 0:
			return usagef("%s needs queues, --class or --self", use)
		default:
			noun := "queue"
			if len(classes) > 0 {
				noun, of = "class", classes
			}
			of = distinct(of)
			if ok, err := o.agree(ctx, plan{Sentence: use + " " + named(noun, of), Count: int64(len(of))}); !ok {
				return err
			}
			err := o.each(ctx, of, func(ctx context.Context, name string) (done, error) {
				sentence := noun + " " + escaped(name) + " is paused" + until(lasts, "")
				if !pause {
					sentence = noun + " " + escaped(name) + " is not paused"
				}
				return done{view.Object{{Key: noun, Value: name}, {Key: "paused", Value: pause}}, sentence}, o.pause(ctx, noun, name, pause, lasts)
			})
			if pause && noun == "class" {
				return o.heeded(ctx, err, true)
			}
			return err
		}
	})
	c.Flags().BoolVar(&self, "self", false, "the processes themselves, all their queues")
	c.Flags().StringSliceVar(&classes, "class", nil, "classes, whose jobs wait while the others of their queues go on")
	if pause {
		lasting(c, &lasts, "resume")
	}
	toFlag(c, &to)
	keyFlag(c, &key)
	c.Flags().StringVar(&why, "why", "", "the reason, for the audit")
	return c
}

// pause pauses or resumes a queue or a class.
func (o *operator) pause(ctx context.Context, noun, name string, pause bool, lasts time.Duration) error {
	switch {
	case noun == "class" && pause:
		return o.in.PauseClass(ctx, name, lasts)
	case noun == "class":
		return missing(o.in.ResumeClass(ctx, name))
	case pause:
		err := o.in.PauseQueueFor(ctx, name, lasts)
		if errors.Is(err, inspect.ErrUnknownQueue) { // it is paused, and may be a mistake
			err = partly("queue %s is paused, though nothing knows a queue of this name: goworker queues lists the names, and goworker queues resume ends the pause", name)
		}
		return err
	}
	return missing(o.in.ResumeQueue(ctx, name))
}

// heeded warns, once a rule is set, of workers and processes that do not obey it: workers of other programs know neither limits nor rules,
// and processes of older releases know limits but no rules of classes.
func (o *operator) heeded(ctx context.Context, set error, class bool) error {
	if set != nil {
		return set
	}
	ctx, cancel := o.within(ctx)
	defer cancel()
	unaware, err := o.in.UnawareOfRules(ctx)
	if err != nil {
		return o.late(ctx, err)
	}
	var workers, old []string
	for _, u := range unaware {
		if u.Worker != "" {
			workers = append(workers, u.Worker)
		} else if class {
			old = append(old, u.Process+" ("+u.Version+")")
		}
	}
	if len(workers) > 0 {
		o.note("%s will not obey: workers of other programs know neither limits nor rules, and run such jobs when they take them from queues that they share with goworker", named("worker", workers))
	}
	if len(old) > 0 {
		return partly("the rule is set, but %s will not obey: an older release knows no rules of classes; start this release in its place", named("process", old))
	}
	return nil
}

// controlRules lists the rules.
func (p *program) controlRules() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "rules", Short: "List what operators have set: pauses, limits, timeouts and retries", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		rules, err := o.processes("").Rules(ctx)
		l := o.list(view.Column{Head: "RULE", Cut: true}, view.Column{Head: "VALUE", Cut: true}, view.Column{Head: "BY", Cut: true}, view.Column{Head: "WHY", Cut: true, Prose: true}, view.Column{Head: "SINCE"}, view.Column{Head: "ENDS"})
		for _, r := range rules {
			object := view.Object{
				{Key: "kind", Value: r.Kind}, {Key: "about", Value: r.About}, {Key: "class", Value: r.Class}, {Key: "value", Value: r.Value}, {Key: "text", Value: r.Text()}, {Key: "key", Value: r.Key},
				{Key: "by", Value: r.By}, {Key: "why", Value: r.Why}, {Key: "since", Value: r.At}, {Key: "ends", Value: r.Until},
			}
			value := r.Text()
			if r.Key != "" {
				value += " by " + r.Key
			}
			if r.Invalid != nil {
				object, value = object.With("invalid", r.Invalid.Error()), "not readable"
			}
			if r.Shard != "" {
				object = object.With("shard", r.Shard)
			}
			l.add(object, ruleName(r), value, r.By, r.Why, spanTo(r.At, "%s ago"), spanTo(r.Until, "in %s"))
		}
		return l.close("operators have set no rules", err)
	})
}

// spanTo writes the time from now to t, or since t; "-": t is zero.
func spanTo(t time.Time, format string) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf(format, view.Span(time.Until(t).Abs()))
}

// ruleName is the kind and the object of a rule, in the words of the command that sets it.
func ruleName(r inspect.Rule) string {
	switch {
	case r.Kind == "class":
		return "pause class " + r.About
	case r.Kind == "limit" && r.Class != "":
		return "limit class " + r.Class
	}
	return r.Kind + " " + r.About
}

// rules are the verbs of control that set a number of a limit or of a class.
func (p *program) rules() []*cobra.Command {
	return []*cobra.Command{p.controlLimit(), p.controlReset(), p.controlClass(
		&cobra.Command{
			Use: "timeout CLASS DURATION", Short: "Give jobs of a class another time limit, from their next run on", Args: arguments(2, "a class, and a time or 0 for no limit"),
			Example: "  goworker control timeout Report 10m --for 2h",
		}, "timeout", func(value string) (setClass, error) {
			limit, err := time.ParseDuration(value)
			if err != nil || limit < 0 {
				return nil, usagef("%s is no time: it must be one such as 90s or 10m, or 0 for no limit", escaped(value))
			}
			return func(ctx context.Context, o *operator, class string, lasts time.Duration) error {
				return o.in.SetTimeout(ctx, class, limit, lasts)
			}, nil
		}), p.controlClass(
		&cobra.Command{
			Use: "retries CLASS N|" + unlimited, Short: "Limit how often failed jobs of a class run again", Args: arguments(2, "a class, and a number or "+unlimited),
			Example: "  goworker control retries Report 0 --why 'the API is down'",
		}, "retries", func(value string) (setClass, error) {
			n, err := strconv.Atoi(value)
			if value == unlimited {
				n = goworker.NoLimit
			} else if err != nil || n < 0 {
				return nil, usagef("%s is no number of retries: it must be 0 or more, or %s", escaped(value), unlimited)
			}
			return func(ctx context.Context, o *operator, class string, lasts time.Duration) error {
				return o.in.SetRetries(ctx, class, n, lasts)
			}, nil
		})}
}

// unlimited is the word for retries without end.
const unlimited = "unlimited"

// setClass sets something of a class.
type setClass func(ctx context.Context, o *operator, class string, lasts time.Duration) error

// controlClass is a verb that sets something of a class to a value, which parse reads.
func (p *program) controlClass(c *cobra.Command, what string, parse func(value string) (setClass, error)) *cobra.Command {
	var lasts time.Duration
	c = p.changes(c, func(ctx context.Context, o *operator, args []string) error {
		class, value := args[0], args[1]
		set, err := parse(value)
		if err != nil {
			return err
		}
		if ok, err := o.agree(ctx, plan{Sentence: "set the " + what + " of class " + escaped(class) + " to " + escaped(value), Count: 1}); !ok {
			return err
		}
		err = o.each(ctx, args[:1], func(ctx context.Context, class string) (done, error) {
			return done{view.Object{{Key: "class", Value: class}, {Key: what, Value: value}}, "the " + what + " of class " + escaped(class) + " " + map[bool]string{true: "are ", false: "is "}[what == "retries"] + escaped(value) + until(lasts, "reset")},
				set(ctx, o, class, lasts)
		})
		return o.heeded(ctx, err, true)
	})
	lasting(c, &lasts, "reset")
	return c
}

func (p *program) controlLimit() *cobra.Command {
	var lasts time.Duration
	var class bool
	var key string
	c := p.changes(&cobra.Command{
		Use: "limit NAME NUMBER", Short: "Give a limit another number, or a class a limit", Args: arguments(2, "a limit or a class, and its number"),
		Long: "limit is the same as limits set. With --class, NAME is a class, which needs no limit of its program. With --by, each value at that place in the arguments has its own count.\n" +
			"Ruby's workers see neither limits nor lanes.",
		Example: "  goworker control limit SendEmail 3\n  goworker control limit --class Report 5/s --for 1h\n  goworker control limit --class Report 1 --by 0.account",
	}, func(ctx context.Context, o *operator, args []string) error {
		name, number, noun := args[0], args[1], "limit"
		if class {
			noun = "class"
		} else if key != "" {
			return usagef("--by needs --class: the limits of programs have their own keys")
		}
		if ok, err := o.agree(ctx, plan{Sentence: "hold the " + noun + " " + escaped(name) + " to " + escaped(number), Count: 1}); !ok {
			return err
		}
		err := o.each(ctx, args[:1], func(ctx context.Context, name string) (d done, err error) {
			if class {
				err = o.in.LimitClass(ctx, name, number, key, lasts)
			} else {
				_, err = o.in.SetLimitFor(ctx, name, number, lasts)
			}
			return done{view.Object{{Key: noun, Value: name}, {Key: "number", Value: number}}, "the " + noun + " " + escaped(name) + " is held to " + escaped(number) + until(lasts, "reset")}, err
		})
		return o.heeded(ctx, err, class)
	})
	lasting(c, &lasts, "reset")
	c.Flags().BoolVar(&class, "class", false, "NAME is a class")
	c.Flags().StringVar(&key, "by", "", "the place of a key in the arguments: 0.account")
	return c
}

func (p *program) controlReset() *cobra.Command {
	var class bool
	c := p.changes(&cobra.Command{
		Use: "reset NAME…", Short: "Take back what limit, timeout and retries have set", Args: some("limits, or with --class classes"),
	}, func(ctx context.Context, o *operator, names []string) error {
		noun := "limit"
		if class {
			noun = "class"
		}
		names = distinct(names)
		if ok, err := o.agree(ctx, plan{Sentence: "reset the " + named(noun, names), Count: int64(len(names))}); !ok {
			return err
		}
		return o.each(ctx, names, func(ctx context.Context, name string) (d done, err error) {
			if class {
				err = missing(o.in.ResetClass(ctx, name))
			} else {
				_, err = o.in.ResetLimit(ctx, name)
			}
			return done{view.Object{{Key: noun, Value: name}, {Key: "reset", Value: true}}, "the " + noun + " " + escaped(name) + " is as each program has it"}, err
		})
	})
	c.Flags().BoolVar(&class, "class", false, "NAME is a class")
	return c
}
