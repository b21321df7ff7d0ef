package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

func (p *program) cancelled() *cobra.Command {
	return p.noun("cancelled", "See cancelled jobs; lift a cancel", p.cancelledLs())
}

func (p *program) cancelledLs() *cobra.Command {
	var count int
	c := p.verb(&cobra.Command{
		Use: "ls", Short: "List cancelled jobs, those whose entries are kept longest first", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		if count < 1 || count > inspect.MaxCancelled {
			return usagef("--count takes a number from 1 to %d", inspect.MaxCancelled)
		}
		jobs, more, err := o.in.Cancelled(ctx, count)
		l := o.list(view.Column{Head: "JOB", Cut: true}, view.Column{Head: "KEPT UNTIL"})
		for _, j := range jobs {
			object := view.Object{{Key: "id", Value: j.ID}, {Key: "place", Value: j.Place}, {Key: "process", Value: j.Process}, {Key: "ticket", Value: j.Ticket}, {Key: "until", Value: j.Until}}
			if j.Shard != "" {
				object = object.With("shard", j.Shard)
			}
			l.add(object, cancelledName(j), view.Time(j.Until))
		}
		if err := l.close("no cancelled job is waiting for its end", err); err != nil {
			return err
		}
		if more {
			o.note("more: give --count")
		}
		return nil
	})
	c.Flags().IntVarP(&count, "count", "c", 100, "how many to print")
	return c
}

// cancelledName is by what a job was cancelled.
func cancelledName(j inspect.CancelledJob) string {
	switch {
	case j.ID != "":
		return j.ID
	case j.Process != "":
		return fmt.Sprintf("ticket %d of %s", j.Ticket, j.Process)
	}
	return "a job of one queue, " + j.Place
}
