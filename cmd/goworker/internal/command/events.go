package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/events"
)

// events prints what happens, until the operator ends it.
func (p *program) events() *cobra.Command {
	var f events.Filter
	var c *cobra.Command
	c = p.long(&cobra.Command{
		Use: "events", Short: "Print what happens to jobs and processes while it happens", Args: noArguments,
		Long: "events prints a line for each job that fails, is retried, expires or is cancelled, and for each process that starts, stops or is lost.\n" +
			"Processes send events of jobs only while a program listens, and stop by themselves 30 s after this command has ended.\n" +
			"The kinds are " + strings.Join(events.Kinds(), ", ") + ".",
		Example: "  goworker events\n  goworker events --kind failed,lost --queue 'mail*'\n  goworker events --all --class SendEmail --json",
	}, func(ctx context.Context, o *operator, _ []string) error {
		for name, of := range map[string]*[]string{"kind": &f.Kinds, "queue": &f.Queues, "class": &f.Classes, "id": &f.IDs} {
			if c.Flags().Changed(name) && len(*of) == 0 { // --queue "$Q" where the variable is empty: all queues are not meant
				*of = []string{""}
			}
		}
		for e, err := range events.Watch(ctx, o, f) {
			if err != nil {
				o.note("%s", err)
				continue
			}
			line := o.eventLine(e)
			if o.json {
				line = eventObject(e).Line() + "\n"
			}
			if _, err := io.WriteString(o.out, line); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return exitError{exitUsage, nil} // a mistake in the filter, which was said
	})
	fl := c.Flags()
	fl.StringSliceVar(&f.Kinds, "kind", nil, "only these kinds")
	fl.StringSliceVar(&f.Queues, "queue", nil, "only jobs of these queues, or patterns")
	fl.StringSliceVar(&f.Classes, "class", nil, "only jobs of these classes, or patterns")
	fl.StringSliceVar(&f.IDs, "id", nil, "only jobs with these ids")
	fl.BoolVar(&f.All, "all", false, "print enqueued, started, done, snoozed and returned too; each costs its process some time")
	fl.DurationVar(&f.Since, "since", 0, "begin with what Redis has of this time")
	fl.StringVar(&f.After, "after", "", "go on behind the cursor of an event, which --json prints")
	return c
}

// eventLine is an event as a line of text.
func (o *operator) eventLine(e events.Event) string {
	var words []string
	say := func(format string, args ...any) { words = append(words, view.Text(fmt.Sprintf(format, args...))) }
	say("%s %-9s", e.At.Local().Format("15:04:05.000"), e.Kind)
	switch {
	case e.Count > 1 && e.Kind != events.Missed:
		say("%-9s ×%s %s", e.Queue, view.Count(e.Count), e.Class)
		if e.P95 > 0 {
			say("p95 %s", e.P95.Round(100*time.Microsecond))
		}
	case e.Class == "":
		if e.Process != "" {
			say("%s ", e.Process)
		}
		if part := e.More["part"]; part != "" {
			say("%s ", part)
		}
	default:
		say("%-9s %-10s", e.Queue, e.Class)
		if e.ID != "" {
			say("%s", e.ID)
		}
		if e.Attempt > 1 {
			say("#%d", e.Attempt)
		}
		if e.Took > 0 {
			say("%.2fs ", e.Took.Seconds())
		}
	}
	if e.Kind == events.Missed && e.Count > 0 {
		say("%s of events did not arrive", view.Plural(e.Count, "pack"))
	} else if e.Text != "" {
		say("%s", e.Text)
	}
	if e.Shard != "" {
		say(" %s", cmp.Or(o.places[e.Shard], e.Shard))
	}
	return strings.TrimRight(strings.Join(words, " "), " ") + "\n"
}

// eventObject is an event in JSON.
func eventObject(e events.Event) view.Object {
	o := view.Object{
		{Key: "at", Value: e.At.UTC()}, {Key: "kind", Value: e.Kind}, {Key: "process", Value: e.Process}, {Key: "queue", Value: e.Queue}, {Key: "class", Value: e.Class},
		{Key: "id", Value: e.ID}, {Key: "attempt", Value: e.Attempt}, {Key: "took_ms", Value: float64(e.Took.Microseconds()) / 1000}, {Key: "text", Value: e.Text},
		{Key: "count", Value: e.Count}, {Key: "p95_ms", Value: float64(e.P95.Microseconds()) / 1000}, {Key: "cursor", Value: e.Cursor},
	}
	if e.Failure != "" {
		o = o.With("failure", e.Failure)
	}
	for _, key := range slices.Sorted(maps.Keys(e.More)) {
		o = o.With("more_"+key, e.More[key])
	}
	if e.Shard != "" {
		o = o.With("shard", e.Shard)
	}
	return o
}
