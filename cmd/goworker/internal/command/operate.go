package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cluster"
	"github.com/goworker/goworker/cmd/goworker/internal/contexts"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/setting"
	"github.com/goworker/goworker/sentinel"
)

// How long an operator waits where no flag says so.
const (
	defaultTimeout = 5 * time.Second
	defaultBudget  = 2 * time.Second
)

// shared are the flags that all operator's commands take.
type shared struct {
	uri, namespace, context string
	json, wide, noColor     bool
	timeout, budget         time.Duration
	dryRun, readOnly        bool
	yes                     string
}

// flags returns the flags that fill s.
func (s *shared) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.VarP(addresses{&s.uri}, "uri", "u", "where Redis is; several times for several Redises [REDIS_URL, or the variable that REDIS_PROVIDER names] (default "+goworker.DefaultURI+")")
	f.StringVarP(&s.namespace, "namespace", "n", "", "the prefix of all keys (default "+goworker.DefaultNamespace+")")
	f.StringVar(&s.context, "context", "", "a Redis by its name in the file of contexts [GOWORKER_CONTEXT]")
	f.BoolVar(&s.json, "json", false, "print JSON, an object a line")
	f.DurationVar(&s.timeout, "timeout", defaultTimeout, "how long the command may wait for Redis in all, beside the budget")
	f.DurationVar(&s.budget, "budget", defaultBudget, "how long a search may take; then it prints what it has, and ends with 4")
	f.BoolVar(&s.dryRun, "dry-run", false, "print what would change, and change nothing")
	f.StringVarP(&s.yes, "yes", "y", "", "change without asking; in a protected context it takes the count, as in --yes=12")
	f.Lookup("yes").NoOptDefVal = "yes"
	f.BoolVar(&s.readOnly, "read-only", false, "refuse what changes anything [GOWORKER_READ_ONLY]")
	f.BoolVar(&s.noColor, "no-color", false, "print no colours [NO_COLOR]")
	f.BoolVar(&s.wide, "wide", false, "cut no names, however long the lines become")
	return f
}

// operator is an operator who has given a command: the Redis he asks, and how to answer him. Each command has its own.
type operator struct {
	*shared
	p       *program
	given   *pflag.FlagSet     // those of the command, to ask which were given
	clients []*goworker.Client // one for each Redis
	in      *inspect.Inspector // of all of them
	places  map[string]string  // how tables name each of several Redises, by its whole name
	place   contexts.Context   // the context that was named; else only its URI and namespace are set

	usual usual

	stdin     io.Reader
	out, errs io.Writer
	terminal  bool // the output is one
	width     int  // of a line; 0: no end
	height    int
	lines     *bufio.Reader // of stdin, for questions
}

// operates makes a command one of the operator's: it takes the shared flags.
func (p *program) operates(c *cobra.Command) *cobra.Command {
	c.PersistentFlags().AddFlagSet(p.shared.flags())
	_ = c.RegisterFlagCompletionFunc("context", p.completeContexts) // it fails for a flag that is not there
	return c
}

// verb is a command that asks Redis, and ends after --timeout and --budget.
func (p *program) verb(c *cobra.Command, run func(ctx context.Context, o *operator, args []string) error) *cobra.Command {
	return p.long(c, func(ctx context.Context, o *operator, args []string) error {
		ctx, cancel := context.WithTimeoutCause(ctx, o.timeout+o.budget, errDeadline)
		defer cancel()
		return o.late(ctx, run(ctx, o, args))
	})
}

// long is a command that goes on until it is done: it watches, waits, or changes many jobs.
func (p *program) long(c *cobra.Command, run func(ctx context.Context, o *operator, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		o, err := p.connect(c)
		if err != nil {
			return err
		}
		defer o.close()
		return run(c.Context(), o, args)
	}
	return c
}

// change is a verb that changes something: it is refused with --read-only, before Redis is asked.
func (p *program) change(c *cobra.Command, run func(ctx context.Context, o *operator, args []string) error) *cobra.Command {
	c = p.long(c, run)
	asks := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if p.changeless() {
			return usagef("%s changes what waits, and --read-only or GOWORKER_READ_ONLY forbids that: leave it out", c.CommandPath())
		}
		return asks(c, args)
	}
	return c
}

// changeless reports whether nothing may be changed.
func (p *program) changeless() bool { return p.shared.readOnly || set(p.lookup, "GOWORKER_READ_ONLY") }

// set reports whether a variable is set to something else than 0 or false.
func set(lookup func(string) (string, bool), name string) bool {
	text, _ := lookup(name)
	on, err := strconv.ParseBool(text)
	return text != "" && (on || err != nil)
}

// late explains the end of a deadline: Redis went on to answer, or it did not.
func (o *operator) late(ctx context.Context, err error) error {
	if end, bounded := ctx.Deadline(); err != nil && bounded && !time.Now().Before(end) {
		<-ctx.Done() // a context below it, with the same deadline, may end some microseconds earlier
	}
	if err == nil || !errors.Is(context.Cause(ctx), errDeadline) || errors.As(err, new(exitError)) {
		return err
	}
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	was := strings.TrimSuffix(strings.TrimPrefix(err.Error(), "goworker: "), " ("+errDeadline.Error()+")")
	if _, asked := o.in.PausedQueues(ctx); asked != nil {
		return exitError{exitUnavailable, fmt.Errorf("redis does not answer: %s", was)}
	}
	return fmt.Errorf("%w: Redis answers, so give more time with --timeout or --budget, or ask for less (%s)", errDeadline, was)
}

// within bounds one question of a long command.
func (o *operator) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, o.timeout+o.budget, errDeadline)
}

// connect returns the operator of a command. It does not reach for Redis yet.
func (p *program) connect(c *cobra.Command) (*operator, error) {
	s := &p.shared
	o := &operator{shared: s, p: p, given: c.Flags(), stdin: c.InOrStdin(), out: c.OutOrStdout(), errs: c.ErrOrStderr()}
	if s.timeout <= 0 || s.budget <= 0 {
		return nil, usagef("--timeout and --budget take times above 0, such as 5s")
	}
	var err error
	if o.place, err = p.where(); err != nil {
		return nil, usageError{err}
	}
	if err = o.reach(c); err != nil {
		return nil, err
	}
	o.measure()
	return o, nil
}

// dialers are the ways to Redis beside redis://.
func dialers() []goworker.ClientOption {
	return []goworker.ClientOption{
		goworker.WithDialer("redis+sentinel", sentinel.Open), goworker.WithDialer("rediss+sentinel", sentinel.Open),
		goworker.WithDialer("redis+cluster", cluster.Open), goworker.WithDialer("rediss+cluster", cluster.Open),
		goworker.WithDialer("embedded", embedded.Open),
	}
}

// where returns the Redis that flags, the environment and the file of contexts name.
func (p *program) where() (contexts.Context, error) {
	s := &p.shared
	name := s.context
	if name == "" && s.uri == "" {
		name, _ = p.lookup("GOWORKER_CONTEXT")
	}
	place := contexts.Context{URI: s.uri}
	switch {
	case s.context != "" && s.uri != "":
		return place, errors.New("--context and --uri both say where Redis is; give one of them")
	case name != "":
		file, err := contexts.File(p.lookup)
		if err != nil {
			return place, err
		}
		if place, err = contexts.Load(file, name); err != nil {
			return place, err
		}
		if place.URI, err = place.Address(); err != nil {
			return place, err
		}
	case s.uri == "":
		place.URI = setting.URI(func(name string) string {
			value, _ := p.lookup(name)
			return value
		})
	}
	if place.URI == "" {
		place.URI = goworker.DefaultURI
	}
	if s.namespace != "" {
		place.Namespace = s.namespace
	}
	return place, nil
}

// measure finds out how wide the terminal is.
func (o *operator) measure() {
	o.width, o.height = 80, 24
	if f, ok := o.out.(*os.File); ok {
		if o.terminal = term.IsTerminal(f.Fd()); o.terminal {
			if w, h, err := term.GetSize(f.Fd()); err == nil && w > 0 {
				o.width, o.height = w, h
			}
		}
	}
	if text, ok := o.p.lookup("COLUMNS"); ok && !o.terminal {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			o.width = n
		}
	}
	if o.wide {
		o.width = 0
	}
}

// colours reports whether to print them.
func (o *operator) colours() bool {
	text, _ := o.p.lookup("NO_COLOR")
	kind, _ := o.p.lookup("TERM")
	return o.terminal && !o.noColor && text == "" && kind != "dumb"
}

// interactive reports whether a person can be asked: input and output are terminals.
func (o *operator) interactive() bool {
	f, ok := o.stdin.(*os.File)
	return ok && term.IsTerminal(f.Fd()) && o.terminal
}

// andList joins names: a, b and c.
func andList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
