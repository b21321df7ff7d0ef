package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/argv"
	internal "github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/roster"
)

// Inspect makes an operator one of control.Inspects.
func (o *operator) Inspect() *inspect.Inspector { return o.in }

// questions are the verbs of inspect, and what each asks.
var questions = []struct{ verb, short string }{
	{control.Ping, "See which processes answer"},
	{control.Stats, "Show what processes have counted, and their memory"},
	{control.Active, "List the jobs that run"},
	{control.Reserved, "List the jobs that processes have prefetched"},
	{control.Registered, "List the classes with their options"},
	{control.Conf, "List the settings, without secrets"},
	{control.Queues, "Show which queues processes work, and why they take no jobs"},
	{control.Report, "Describe processes for a bug report"},
	{control.Verbs, "List the verbs that processes know, with those of their programs"},
	{control.Stacks, "Show the stacks of all goroutines of a process; it cancels nothing"},
}

// inspects is the command inspect, which asks processes.
func (p *program) inspects() *cobra.Command {
	c := &cobra.Command{
		Use: "inspect", Short: "Ask running goworker processes how they are", Args: nounArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		Long: "inspect asks processes over Redis. Each verb takes addresses: the id of a process, its host or its name, or a pattern of these. Without one it asks all.\n" +
			"It ends with the last answer. It names each process that does not answer, with the reason: it is silent, and how old its lease is, or it obeys no commands.\n" +
			"The exit code is 0 where all answered, 4 where some did not, and 1 where none did.",
	}
	for _, q := range questions {
		c.AddCommand(p.asks(q.verb, q.short))
	}
	c.AddCommand(p.asksOwn())
	return c
}

// asks is the command of one question.
func (p *program) asks(verb, short string) *cobra.Command {
	var args bool
	var key string
	c := p.verb(&cobra.Command{Use: verb + " [ADDRESS…]", Short: short}, func(ctx context.Context, o *operator, to []string) error {
		if err := checkAddresses(verb, to); err != nil {
			return err
		}
		opts := []control.CallOption{control.To(to...)}
		if args {
			opts = append(opts, control.Args(map[string]bool{"args": true}))
		}
		return o.answers(verb, "answered", o.processes(key).Inspect(ctx, verb, append(opts, control.Timeout(o.timeout))...))
	})
	if verb == control.Active {
		c.Flags().BoolVar(&args, "args", false, "print the arguments of jobs too; processes need -control=full for it")
		keyFlag(c, &key)
	}
	return c
}

// asksOwn asks by a verb of the program.
func (p *program) asksOwn() *cobra.Command {
	var to []string
	var key string
	c := p.verb(&cobra.Command{
		Use: "call VERB [JSON]", Short: "Ask processes by a verb that their program has added", Args: someOf(1, 2, "the verb, and its arguments as JSON"),
	}, func(ctx context.Context, o *operator, args []string) error {
		opts, err := given(args, to)
		if err != nil {
			return err
		}
		return o.answers(args[0], "answered", o.processes(key).Inspect(ctx, args[0], append(opts, control.Timeout(o.timeout))...))
	})
	toFlag(c, &to)
	keyFlag(c, &key)
	return c
}

// someOf requires between least and most arguments.
func someOf(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageError{fmt.Errorf("%s takes %s", c.CommandPath(), what)}
		}
		return nil
	}
}

// given are the options of a call of a program's own verb.
func given(args, to []string) ([]control.CallOption, error) {
	if err := checkAddresses(args[0], to); err != nil {
		return nil, err
	}
	opts := []control.CallOption{control.To(to...)}
	if len(args) > 1 {
		if !json.Valid([]byte(args[1])) {
			return nil, usagef("%s is no JSON", args[1])
		}
		opts = append(opts, control.Args(json.RawMessage(args[1])))
	}
	return opts, nil
}

func toFlag(c *cobra.Command, to *[]string) {
	c.Flags().Var((*wordList)(to), "to", "which processes: an id, a host or a name, or a pattern of these (default all)")
}

// wordList is the value of a flag that takes names, with commas between them. It refuses an empty one, which may be an unset variable of a
// script and must not mean all.
type wordList []string

func (n *wordList) String() string { return strings.Join(*n, ",") }

func (n *wordList) Type() string { return "strings" }

func (n *wordList) Set(text string) error {
	given := strings.Split(text, ",")
	if slices.Contains(given, "") {
		return errors.New("a name is empty; leave the flag out to mean all")
	}
	*n = append(*n, given...)
	return nil
}

func keyFlag(c *cobra.Command, key *string) {
	c.Flags().StringVar(key, "key-file", "", "the key that processes have as -control-key-file [GOWORKER_CONTROL_KEY_FILE]")
}

// processes returns what asks processes and sends them commands.
func (o *operator) processes(key string) *control.Control {
	opts := []control.Option{control.By(o.p.who()), control.Face("goworker")}
	if key == "" {
		key, _ = o.p.lookup("GOWORKER_CONTROL_KEY_FILE")
	}
	if key != "" {
		opts = append(opts, control.KeyFile(key))
	}
	return control.New(o, opts...)
}

// controls is the command control, which sends commands to processes.
func (p *program) controls() *cobra.Command {
	c := &cobra.Command{
		Use: "control", Short: "Send commands to running goworker processes", Args: nounArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		Long: "control sends a command to processes, over Redis. --to says to which: an id, a host or a name, or a pattern of these. Without it the command goes to all.\n" +
			"The setting -control of a process says what it obeys. Each command is a line of the audit.\n" +
			"The exit code is 0 where all processes did it, 4 where some did not, and 1 where none did.",
	}
	c.AddCommand(p.controlPause(true), p.controlPause(false), p.controlLog(), p.controlConcurrency(), p.controlAutoscale(), p.controlQueues(), p.controlProfile(), p.controlShutdown(), p.controlCall(), p.cancels(), p.controlRules())
	c.AddCommand(p.rules()...)
	return c
}

// order is a command to processes.
type order struct {
	verb     string
	sentence string // of the plan, without the processes: "pause"
	asks     bool   // the operator confirms it
	own      bool   // the verb is the program's: obey refuses one that no process knows before the operator confirms it
	one      bool   // it is for one process
	lasts    time.Duration
	opts     []control.CallOption

	// keep, unless nil, takes an answer and returns the one that is printed in its place.
	keep func(control.Reply) (control.Reply, error)
}

// obey sends processes a command, after the operator has agreed.
func (o *operator) obey(ctx context.Context, d order, to []string, key, why string) error {
	c := o.processes(key)
	looking, cancel := o.within(ctx)
	members, err := c.Members(looking, to...)
	cancel()
	if err != nil {
		return o.late(looking, err)
	}
	asked := plan{Sentence: d.sentence + " " + processes(len(members)), Count: int64(len(members))}
	for _, m := range members {
		asked.Samples = append(asked.Samples, m.Process)
	}
	if d.one && len(members) > 1 {
		return usagef("%s is for one process, and the address means %s: give --to one of %s", d.verb, view.Count(int64(len(members))), escaped(strings.Join(asked.Samples, ", ")))
	}
	if d.own && len(members) > 0 {
		if err := o.known(ctx, c, d.verb, to); err != nil {
			return err
		}
	}
	agree := o.agree
	if d.asks {
		agree = o.confirm
	}
	if len(members) > 0 {
		if ok, err := agree(ctx, asked); !ok {
			return err
		}
	}
	within, cancel := context.WithTimeoutCause(ctx, o.timeout+o.budget+d.lasts, errDeadline)
	defer cancel()
	opts := append(d.opts, control.To(to...), control.Why(why), control.Timeout(o.timeout+d.lasts))
	call := c.Do(within, d.verb, opts...)
	if d.keep != nil {
		call = kept(call, d.keep)
	}
	return o.late(within, o.answers(d.verb, "did it", call))
}

// processes writes a number of processes.
func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return view.Count(int64(n)) + " processes"
}

// known returns an error if no process has a verb. It returns none if a process is silent, or of a release that does not list its verbs:
// then the command itself shows whether the verb exists.
func (o *operator) known(ctx context.Context, c *control.Control, verb string, to []string) error {
	within, cancel := context.WithTimeoutCause(ctx, o.timeout+o.budget, errDeadline)
	defer cancel()
	names := make(map[string]bool)
	for r, err := range c.Inspect(within, control.Verbs, control.To(to...), control.Timeout(o.timeout)) {
		var silent *control.SilentError
		var verbs []control.VerbAnswer
		if err == nil {
			err = r.Decode(&verbs)
		}
		switch {
		case errors.As(err, &silent) && (silent.Off || silent.TooOld):
			continue
		case err != nil:
			return o.late(within, ctx.Err())
		}
		for _, v := range verbs {
			if names[v.Name] = true; v.Name == verb {
				return nil
			}
		}
	}
	if len(names) == 0 {
		return o.late(within, ctx.Err())
	}
	return nothing("no process knows the verb %s; they know %s", verb, andList(slices.Sorted(maps.Keys(names))))
}

// kept is a call whose answers pass through a function.
func kept(call iter.Seq2[control.Reply, error], keep func(control.Reply) (control.Reply, error)) iter.Seq2[control.Reply, error] {
	return func(yield func(control.Reply, error) bool) {
		for r, err := range call {
			if err == nil {
				r, err = keep(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// orders is a verb of control: run says what it does.
func (p *program) orders(c *cobra.Command, run func(args []string) (order, error)) *cobra.Command {
	var to []string
	var key, why string
	c = p.change(c, func(ctx context.Context, o *operator, args []string) error {
		d, err := run(args)
		if err == nil {
			err = checkAddresses(d.verb, to)
		}
		if err != nil {
			return err
		}
		o.by(why)
		return o.obey(ctx, d, to, key, why)
	})
	toFlag(c, &to)
	keyFlag(c, &key)
	c.Flags().StringVar(&why, "why", "", "the reason, for the audit")
	return c
}

func (p *program) controlLog() *cobra.Command {
	var lasts time.Duration
	c := p.orders(&cobra.Command{
		Use: "log LEVEL", Short: "Change the level of the log of processes for a while", Args: arguments(1, "debug, info, warn or error"),
	}, func(args []string) (order, error) {
		if err := checkLog(args[0], lasts); err != nil {
			return order{}, err
		}
		return order{verb: control.Log, sentence: "log at " + escaped(args[0]) + " in", opts: []control.CallOption{
			control.Args(map[string]any{"level": args[0], "for": lasts.Seconds()}),
		}}, nil
	})
	lasts = internal.UsualDebug
	c.Flags().Var((*span)(&lasts), "for", "for how long, an hour at most")
	return c
}

func (p *program) controlConcurrency() *cobra.Command {
	var lasts time.Duration
	c := p.orders(&cobra.Command{
		Use: "concurrency N|+N|-N", Short: "Change how many jobs processes run at a time", Args: arguments(1, "a number, or a change as in +4 or -4"),
	}, func(args []string) (order, error) {
		if err := cmp.Or(checkWorkers(args[0]), checkFor(lasts, roster.MostLapse)); err != nil {
			return order{}, err
		}
		return order{verb: control.Concurrency, sentence: "change the concurrency to " + escaped(args[0]) + until(lasts, "") + " in", opts: []control.CallOption{
			control.Args(map[string]any{"workers": args[0], "for": lasts.Seconds()}),
		}}, nil
	})
	lasting(c, &lasts, "the process ends or its number is changed")
	return c
}

func (p *program) controlAutoscale() *cobra.Command {
	var lasts time.Duration
	c := p.orders(&cobra.Command{
		Use: "autoscale MIN..MAX|off", Short: "Have processes change by themselves how many jobs run at a time", Args: arguments(1, "two numbers as in 5..50, or off"),
	}, func(args []string) (order, error) {
		if args[0] != "off" {
			if span, err := argv.ParseSpan(args[0]); err != nil || span.Most > roster.MostWorkers {
				return order{}, usagef("the numbers are %q: they must be off, or two from 1 to %d, the smaller one first, as in 5..50", args[0], roster.MostWorkers)
			}
		}
		if lasts < 0 {
			return order{}, usagef("--for takes a time above 0, such as 10m")
		}
		return order{verb: control.Autoscale, sentence: "autoscale " + escaped(args[0]) + " in", opts: []control.CallOption{
			control.Args(map[string]any{"bounds": args[0], "for": lasts.Seconds()}),
		}}, nil
	})
	c.Flags().DurationVar(&lasts, "for", 0, "for how long; then what was before holds again (default until the process ends)")
	return c
}

func (p *program) controlQueues() *cobra.Command {
	c := &cobra.Command{
		Use: "queues", Short: "Change which queues processes work, until their end", Args: nounArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, v := range []struct{ use, short, sentence, arg string }{
		{"add", "Let processes work more queues", "add these queues to those of", "add"},
		{"rm", "Let processes no longer work some queues", "remove these queues from those of", "remove"},
		{"set", "Let processes work exactly these queues", "set the queues of", "set"},
	} {
		c.AddCommand(p.orders(&cobra.Command{
			Use: v.use + " QUEUE…", Short: v.short, Args: someOf(1, math.MaxInt, "queues as -queues takes them: names, patterns, weights as in high=2, and exclusions as in '!low'"),
		}, func(args []string) (order, error) {
			if err := checkQueues(args, v.arg == "set"); err != nil {
				return order{}, err
			}
			return order{verb: control.WorkQueues, sentence: v.sentence, opts: []control.CallOption{control.Args(map[string][]string{v.arg: args})}}, nil
		}))
	}
	return c
}

func (p *program) controlShutdown() *cobra.Command {
	var now bool
	c := p.orders(&cobra.Command{Use: "shutdown", Short: "Stop processes as after a signal", Args: noArguments}, func([]string) (order, error) {
		return order{verb: control.Shutdown, sentence: "stop", asks: true, opts: []control.CallOption{control.Args(map[string]bool{"now": now})}}, nil
	})
	c.Flags().BoolVar(&now, "now", false, "do not wait for the jobs that run, as after a second signal")
	return c
}

func (p *program) controlCall() *cobra.Command {
	return p.orders(&cobra.Command{
		Use: "call VERB [JSON]", Short: "Send processes a verb that their program has added", Args: someOf(1, 2, "the verb, and its arguments as JSON"),
	}, func(args []string) (order, error) {
		opts, err := given(args, nil)
		return order{verb: args[0], sentence: "do " + escaped(args[0]) + " in", asks: true, own: true, opts: opts}, err
	})
}
