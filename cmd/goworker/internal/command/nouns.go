package command

import "github.com/spf13/cobra"

// nouns are the operator's commands: each takes the shared flags.
func (p *program) nouns() []*cobra.Command {
	return []*cobra.Command{
		p.status(), p.doctor(), p.dashboard(), p.queues(), p.jobs(), p.cancelled(), p.failed(), p.delayed(), p.schedule(), p.workers(), p.processes(),
		p.limits(), p.locks(), p.operations(), p.bin(), p.log(), p.events(), p.webhook(), p.audit(), p.history(), p.inspects(), p.config(), p.exporter(),
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
