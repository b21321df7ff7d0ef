package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cmd/goworker/internal/config"
	"github.com/goworker/goworker/cmd/goworker/internal/lmstfy"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/lmstfywire"
)

// imports is the group of commands that move jobs.
func (p *program) imports() *cobra.Command {
	c := &cobra.Command{
		Use: "import", Short: "Move jobs from another job server",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("nothing is imported from %s; there is import lmstfy", args[0])}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(p.importLmstfy())
	return c
}

// moving is what the flags of import lmstfy say.
type moving struct {
	from, to string
	only     []string
	tokens   map[string]string
	wait     bool
}

func (p *program) importLmstfy() *cobra.Command {
	var m moving
	c := &cobra.Command{
		Use: "lmstfy --from redis://…", Short: "Move the jobs of lmstfy, or delayed jobs back to it", Args: noArguments,
		Long: "import lmstfy moves what is ready, delayed and dead in lmstfy's Redis into goworker's, with ids, bodies, and what is left of TTL and tries.\n" +
			"Each job arrives once, also where the command is killed and run again. lmstfy may go on meanwhile: what its consumers hold stays\n" +
			"there until it is acknowledged or its TTR ends; run the command again then, or with --wait.\n\n" +
			"With --to it goes the other way: it publishes delayed jobs at lmstfy and removes them here. Where it is killed, one job may be in both.",
		Example: "  goworker import lmstfy --from redis://lmstfy-redis:6379/0 --redis redis://ours:6379/0 --wait\n" +
			"  goworker import lmstfy --to http://lmstfy:7777 --token shop=01DT… --redis redis://ours:6379/0",
		RunE: func(c *cobra.Command, _ []string) error {
			if (m.from == "") == (m.to == "") {
				return usageError{errors.New("import lmstfy takes --from with the URI of lmstfy's Redis, or --to with the address of its server")}
			}
			s, _, err := p.settings(c, false)
			if err != nil {
				return err
			}
			here, err := client(s, s.Redis, s.ResqueNamespace)
			if err != nil {
				return err
			}
			defer here.Close()
			var ours neighbor.Neighbor
			if err := goworker.Beside(&ours, here); err != nil {
				return err
			}
			if m.to != "" {
				return m.back(c, s, ours.Do)
			}
			there, err := client(s, m.from, "")
			if err != nil {
				return err
			}
			defer there.Close()
			var theirs neighbor.Neighbor
			if err := goworker.Beside(&theirs, there); err != nil {
				return err
			}
			return m.here(c, s, theirs.Do, ours.Do)
		},
	}
	flags(c, where)
	f := c.Flags()
	f.StringVar(&m.from, "from", "", "lmstfy's Redis, as in redis://:password@host:6379/0")
	f.StringVar(&m.to, "to", "", "lmstfy's server, as in http://host:7777")
	f.StringSliceVar(&m.only, "namespaces", nil, "move those of these namespaces; of all, if none is given")
	f.StringToStringVar(&m.tokens, "token", nil, "with --to: lmstfy's token of each namespace, as in shop=01DT…")
	f.BoolVar(&m.wait, "wait", false, "with --from: go on until lmstfy has nothing left, what its consumers hold too")
	return c
}

func (m *moving) wants(namespace string) bool {
	return len(m.only) == 0 || slices.Contains(m.only, namespace)
}

// here moves jobs from lmstfy.
func (m *moving) here(c *cobra.Command, s *config.Config, from, to lmstfy.Do) error {
	i := &lmstfy.Import{
		From: from, To: to, Wait: m.wait,
		Queue: func(q lmstfywire.Queue) (name, class string, ok bool) {
			n := s.Namespaces[q.Namespace]
			name = q.Namespace + "." + q.Name
			if n.Bare() {
				name = q.Name
			}
			return name, n.Class, m.wants(q.Namespace)
		},
		Moved: progress(c),
	}
	moved, err := i.Run(c.Context())
	out := c.OutOrStdout()
	fmt.Fprintf(out, "%s moved: %d ready, %d delayed, %d dead.\n", resque.Plural(moved.Jobs(), "job"), moved.Ready, moved.Delayed, moved.Dead)
	if moved.Gone > 0 {
		fmt.Fprintf(out, "%d entries had no job any more: acknowledged or expired.\n", moved.Gone)
	}
	if moved.Replies > 0 {
		fmt.Fprintf(out, "%d queues hold answers to synchronous calls; they stay.\n", moved.Replies)
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted; run it again, and it goes on where it was")
		}
		return err
	}
	if moved.Held > 0 {
		fmt.Fprintf(out, "%s with consumers of lmstfy, the first until %s: run the command again, or with --wait.\n",
			resque.Plural(moved.Held, "job"), moved.Until.Format(time.TimeOnly))
	}
	return nil
}

// progress says how far an import is, each few seconds.
func progress(c *cobra.Command) func(lmstfy.Moved) {
	const every = 5 * time.Second
	next := time.Now().Add(every)
	return func(m lmstfy.Moved) {
		if now := time.Now(); now.After(next) {
			next = now.Add(every)
			fmt.Fprintf(c.ErrOrStderr(), "%d jobs so far\n", m.Jobs())
		}
	}
}

// back publishes delayed jobs at lmstfy.
func (m *moving) back(c *cobra.Command, s *config.Config, from lmstfy.Do) error {
	bare := ""
	for name, n := range s.Namespaces {
		if n.Bare() {
			bare = name
		}
	}
	x := &lmstfy.Export{
		From: from, To: m.to, Token: m.tokens,
		Queue: func(name string) (q lmstfywire.Queue, class string, ok bool) {
			ns, name, dotted := strings.Cut(name, ".")
			if !dotted {
				ns, name = bare, ns
			}
			class = or(s.Namespaces[ns].Class, httpjob.DefaultClass)
			return lmstfywire.Queue{Namespace: ns, Name: name}, class, ns != "" && m.wants(ns) && m.tokens[ns] != ""
		},
	}
	p, err := x.Run(c.Context())
	fmt.Fprintf(c.OutOrStdout(), "%s published at lmstfy and removed here.\n", resque.Plural(p.Jobs, "delayed job"))
	for _, why := range slices.Sorted(maps.Keys(p.Left)) {
		fmt.Fprintf(c.OutOrStdout(), "%s stayed: %s.\n", resque.Plural(p.Left[why], "job"), why)
	}
	return err
}
