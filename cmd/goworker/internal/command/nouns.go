package command

import "github.com/spf13/cobra"

// nouns are the operator's commands: each takes the shared flags.
func (p *program) nouns() []*cobra.Command {
	return []*cobra.Command{
		p.status(), p.queues(), p.jobs(),
	}
}

// noun is a group of verbs about one kind of thing. Without a verb it lists.
func (p *program) noun(name, short string, list *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, Args: nounArguments, RunE: list.RunE}
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list)
	c.AddCommand(verbs...)
	return c
}
