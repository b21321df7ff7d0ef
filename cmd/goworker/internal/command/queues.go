package command

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
)

func (p *program) queues() *cobra.Command {
	return p.noun("queues", "List, show and peek into queues", p.queuesLs())
}

func (p *program) queuesLs() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "ls", Short: "List the queues", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		fleet, err := o.in.Fleet(ctx)
		if err != nil {
			return err
		}
		l := o.list(view.Column{Head: "QUEUE", Cut: true}, view.Column{Head: "WAITING", Right: true})
		for _, q := range slices.Sorted(maps.Keys(fleet.QueueSizes)) {
			n := fleet.QueueSizes[q]
			l.add(view.Object{{Key: "queue", Value: q}, {Key: "waiting", Value: n}}, q, view.Count(n))
		}
		return l.end("there are no queues")
	})
}
