// Package command is the command line of goworker.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
)

// Main runs the command and returns the exit code. The first signal to stop ends its context; the second ends the process.
func Main(args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Run(ctx, args, os.LookupEnv, out, errs)
}

// Run runs the command until it ends or its context does.
func Run(ctx context.Context, args []string, lookup func(string) (string, bool), out, errs io.Writer) int {
	p := &program{lookup: lookup}
	root := p.root()
	root.SetOut(out)
	root.SetErr(errs)
	root.SetArgs(p.arranged(root, args))
	err := root.ExecuteContext(ctx)
	code := codeOf(ctx, err)
	switch {
	case err == nil || brokenPipe(err):
		return code
	case code == exitInterrupted && errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	if text := spoken(err); text != "" {
		fmt.Fprintln(errs, "goworker:", view.Lines(text))
	}
	return code
}

// spoken is the text of an error behind the name of this program, which it does not repeat: errors of the library and the paths of
// commands begin with it.
func spoken(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for n, line := range lines {
		if line = strings.TrimPrefix(line, "goworker: "); n == 0 { // a command to paste has a line of its own
			line = strings.TrimPrefix(line, "goworker ")
		}
		lines[n] = strings.ReplaceAll(line, ": goworker: ", ": ")
	}
	return strings.Join(lines, "\n")
}

// program is what all commands share.
type program struct {
	lookup func(string) (string, bool) // of the environment
	shared shared                      // the flags of the operator's commands
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "goworker",
		Short: "Look after Resque's queues, and serve them over HTTP",
		Long: "goworker shows and mends what waits, runs and failed in a Resque, that of Ruby's workers too.\n" +
			"It also serves queues over HTTP: any language publishes, takes and acknowledges jobs.",

		SilenceUsage: true, SilenceErrors: true,
		Args: nounArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; %s --help lists the flags", err, c.CommandPath())}
	})
	root.AddCommand(p.serve(), p.token(), p.imports(), p.man(), sizes(), version())
	for _, noun := range p.changing(p.nouns()) {
		root.AddCommand(p.operates(noun))
	}
	group(root)
	narrow(root)
	return root
}

// helpWidth is how wide help is: it fits any terminal.
const helpWidth = 80

// narrow breaks the lines of the help of a command and of those below it.
func narrow(c *cobra.Command) {
	if !c.HasParent() {
		c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages |", fmt.Sprintf(".FlagUsagesWrapped %d |", helpWidth)))
	}
	lines := strings.Split(c.Long, "\n")
	for n, line := range lines {
		if view.Width(line) > helpWidth {
			lines[n] = view.Wrap(line, helpWidth, "")
		}
	}
	c.Long = strings.Join(lines, "\n")
	for _, sub := range c.Commands() {
		narrow(sub)
	}
}

// groups are the parts of the list of commands; those that are in none come last.
var groups = []struct{ title, commands string }{
	{"What there is, and what is wrong:", "status doctor dashboard queues jobs failed delayed schedule workers processes limits locks"},
	{"Processes that run:", "inspect control events webhook"},
	{"What happened, and taking it back:", "history log audit operations bin cancelled"},
	{"Jobs in and out, and servers:", "enqueue import drain-to-ruby serve token exporter sizing bench dev"},
}

func group(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(strings.Fields(g.commands), c.Name()) {
				c.GroupID = g.title
			}
		}
	}
}

// version prints which build this is.
func version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArguments,
		Run: func(c *cobra.Command, _ []string) {
			build, ok := debug.ReadBuildInfo()
			if !ok {
				build = new(debug.BuildInfo)
			}
			revision := ""
			for _, s := range build.Settings {
				if s.Key == "vcs.revision" {
					revision = " " + s.Value
				}
			}
			fmt.Fprintf(c.OutOrStdout(), "goworker %s%s %s\n", build.Main.Version, revision, build.GoVersion)
		},
	}
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes flags only, and was given %s", c.CommandPath(), args[0])}
	}
	return nil
}

// arguments wants so many arguments.
func arguments(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s takes %s", c.CommandPath(), what)}
		}
		return nil
	}
}

// twoDashes writes -name as --name where a command has a flag of that name: goworker's own programs take both.
func twoDashes(root *cobra.Command, args []string) []string {
	long := make(map[string]bool)
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { long[f.Name] = len(f.Name) > 1 })
		}
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(root)
	long["help"] = true
	all := []string{} // cobra takes nil for the program's own
	for i, arg := range args {
		if arg == "--" {
			return append(all, args[i:]...)
		}
		name, one := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if one && long[name] {
			arg = "-" + arg
		}
		all = append(all, arg)
	}
	return all
}

// arranged is a command line as cobra takes it.
func (p *program) arranged(root *cobra.Command, args []string) []string {
	return excludedLast(root, nounFirst(p.shared.flags(), twoDashes(root, args)))
}

// nounFirst puts flags of the operator's that stand before the command behind its name, where cobra looks for them.
func nounFirst(shared *pflag.FlagSet, args []string) []string {
	at := 0
	for at < len(args) && strings.HasPrefix(args[at], "-") {
		name, _, has := strings.Cut(strings.TrimLeft(args[at], "-"), "=")
		f := shared.Lookup(name)
		if f == nil && len(name) == 1 {
			f = shared.ShorthandLookup(name)
		}
		if f == nil {
			return args
		}
		if at++; !has && f.NoOptDefVal == "" {
			at++
		}
	}
	if at >= len(args) {
		return args
	}
	return slices.Concat(args[at:at+1], args[:at], args[at+1:])
}
