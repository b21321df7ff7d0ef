package command

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/goworker/goworker/cmd/goworker/internal/contexts"
	"github.com/goworker/goworker/cmd/goworker/internal/shell"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
)

// completeWithin is how long a completion may keep a shell waiting.
const completeWithin = 500 * time.Millisecond

// completeQueues offers the names of queues. It leaves out names that a shell would have to quote.
func (p *program) completeQueues(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	o, err := p.connect(c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer o.close()
	ctx, cancel := context.WithTimeout(c.Context(), completeWithin)
	defer cancel()
	names, err := o.in.Queues(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !shell.Plain(name) || strings.HasPrefix(name, "-") || !strings.HasPrefix(name, begun) || slices.Contains(args, name)
	}), cobra.ShellCompDirectiveNoFileComp
}

// completeContexts offers the names of contexts.
func (p *program) completeContexts(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	file, err := contexts.File(p.lookup)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := contexts.Read(file) // a file that is wrong has none
	return slices.DeleteFunc(sortedKeys(all), func(name string) bool { return !shell.Plain(name) || !strings.HasPrefix(name, begun) }), cobra.ShellCompDirectiveNoFileComp
}

// man writes the manual pages.
func (p *program) man() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write manual pages into a directory", Args: arguments(1, "a directory"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Title: "GOWORKER", Section: "1", Source: "goworker", Date: built()}, args[0])
		},
	}
}

// built is when this program's source was committed; nil, which is today, where the build does not say.
func built() *time.Time {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range build.Settings {
		if at, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
			return &at
		}
	}
	return nil
}

func (p *program) config() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Check and print a worker's configuration file, and contexts", Args: nounArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(p.configCheck(), p.configPrint())
	return c
}

func (p *program) configCheck() *cobra.Command {
	var w workerFile
	c := &cobra.Command{
		Use: "check [FILE]", Short: "Say what is wrong with a worker's configuration file, or contexts", Args: cobra.MaximumNArgs(1),
		Long: "check reads the configuration file of a worker, which -config or GOWORKER_CONFIG names there, and says each mistake with its line.\n" +
			"The environment does not count. Without a file it reads the file of contexts.",
		Example: "  goworker config check --sections billing worker.yaml\n  goworker config check --unit worker.service worker.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return w.check(p, c.OutOrStdout(), c.ErrOrStderr(), args[0])
			}
			file, err := contexts.File(p.lookup)
			if err != nil {
				return usageError{err}
			}
			all, err := contexts.Read(file)
			if err != nil {
				return usageError{err}
			}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if _, err := all[name].Address(); err != nil {
					return usageError{err}
				}
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s is right: it has %s.\n", view.Text(file), view.Plural(int64(len(all)), "context"))
			return err
		},
	}
	w.flags(c, true)
	return c
}

func (p *program) configPrint() *cobra.Command {
	var w workerFile
	c := p.verb(&cobra.Command{
		Use: "print [FILE]", Short: "Print a worker's settings, or which Redis this command would ask", Args: cobra.MaximumNArgs(1),
		Long: "print reads the configuration file of a worker, and shows its settings with what the environment here changes of them: each with its line,\n" +
			"its variable, or default. Without a file it shows which Redis this command would ask. No password is printed.",
		Example: "  goworker config print worker.yaml\n  goworker config print --context production",
	}, func(_ context.Context, o *operator, _ []string) error {
		server, err := o.server()
		if err != nil {
			return err
		}
		accept := make([]any, len(o.place.Accept))
		texts := make([]string, len(o.place.Accept))
		for n, number := range o.place.Accept {
			accept[n], texts[n] = number, fmt.Sprint(number)
		}
		yes := "no"
		if o.place.Protect {
			yes = "yes"
		}
		changes := "allowed"
		if o.p.changeless() {
			changes = "refused"
		}
		return o.show(view.Object{
			{Key: "context", Value: o.place.Name}, {Key: "redis", Value: server}, {Key: "namespace", Value: o.client().Namespace()}, {Key: "protect", Value: o.place.Protect},
			{Key: "accept", Value: accept}, {Key: "read_only", Value: o.p.changeless()}, {Key: "timeout", Value: o.timeout}, {Key: "budget", Value: o.budget},
		}, [][2]string{
			{"context", o.place.Name}, {"redis", server}, {"namespace", o.client().Namespace()}, {"protected", yes}, {"accepts", strings.Join(texts, ", ")},
			{"changes", changes}, {"timeout", o.timeout.String()}, {"budget", o.budget.String()},
		}...)
	})
	where := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return w.print(p, c.OutOrStdout(), c.ErrOrStderr(), args[0])
		}
		return where(c, args)
	}
	w.flags(c, false)
	return c
}

// server is the Redis that is asked, without its password. Several have blanks between.
func (o *operator) server() (string, error) {
	var names []string
	for _, door := range o.in.Doors() {
		settings, err := door.Settings()
		if err != nil {
			return "", err
		}
		names = append(names, settings.Server)
	}
	return strings.Join(names, " "), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
