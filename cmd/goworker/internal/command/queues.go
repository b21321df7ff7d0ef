package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

func (p *program) queues() *cobra.Command {
	return p.noun("queues", "See queues and their jobs; pause, clear, move and remove them", p.queuesLs(), p.queuesShow(), p.queuesPeek())
}

func (p *program) queuesLs() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "ls", Short: "List the queues: what waits, how long, and who serves them", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		l := o.list(view.Column{Head: "QUEUE", Cut: true}, view.Column{Head: "WAITING", Right: true}, view.Column{Head: "IN LANES", Right: true},
			view.Column{Head: "OLDEST", Right: true}, view.Column{Head: "STATE"}, view.Column{Head: "SERVED BY", Cut: true})
		for next := ""; ; {
			s, err := o.in.Sample(ctx, page(next)...)
			for _, q := range s.Queues {
				state := ""
				if q.Paused {
					state = "paused"
				}
				lanes := ""
				if q.InLanes.N > 0 {
					lanes = view.Number(q.InLanes)
				}
				l.add(queueObject(q, nil), q.Name, view.Number(q.Waiting), lanes, view.Oldest(q), state, view.ServedBy(q))
			}
			for _, refused := range s.Refused {
				o.note("%s", refused)
			}
			if next = s.NextQueues; next == "" || err != nil {
				return l.close("there are no queues", err)
			}
		}
	})
}

// page is the sample's option for the queues behind those that were seen.
func page(next string) []inspect.SampleOption {
	if next == "" {
		return nil
	}
	return []inspect.SampleOption{inspect.SamplePage(next)}
}

func (p *program) queuesShow() *cobra.Command {
	c := p.verb(&cobra.Command{
		Use: "show QUEUE…", Short: "Show queues: their numbers, who serves them, and their lanes",
		Args: some("the names of queues"), ValidArgsFunction: p.completeQueues,
	}, func(ctx context.Context, o *operator, args []string) error {
		s, err := o.in.Sample(ctx, inspect.SampleQueues(args...))
		if err != nil {
			return err
		}
		known, err := o.in.Queues(ctx)
		if err != nil {
			return err
		}
		var missing []string
		for _, name := range args {
			at := slices.IndexFunc(s.Queues, func(q inspect.SampleQueue) bool { return q.Name == name })
			if at < 0 || s.Queues[at].Waiting.N == 0 && !slices.Contains(known, name) {
				missing = append(missing, name)
				continue
			}
			if err := o.showQueue(ctx, s.Queues[at]); err != nil {
				return err
			}
		}
		switch {
		case len(missing) == len(args):
			return nothing("there is no queue %s", andList(missing))
		case len(missing) > 0:
			return partly("there is no queue %s", andList(missing))
		}
		return nil
	})
	return c
}

// showQueue prints a queue and its lanes.
func (o *operator) showQueue(ctx context.Context, q inspect.SampleQueue) error {
	lanes, err := o.in.Waiting(ctx, q.Name)
	if err != nil {
		return err
	}
	object := queueObject(q, nil)
	var list []view.Object
	for _, l := range lanes {
		list = append(list, view.Object{{Key: "limits", Value: l.Limits}, {Key: "key", Value: l.Key}, {Key: "jobs", Value: l.Jobs}, {Key: "turn", Value: l.Turn}})
	}
	var on [][2]string
	if o.several() {
		var sizes []view.Object
		for _, door := range o.in.Doors() {
			size, err := door.Inspector().QueueSize(ctx, q.Name)
			if err != nil {
				return err
			}
			sizes = append(sizes, view.Object{{Key: "shard", Value: door.Name()}, {Key: "waiting", Value: size}})
			on = append(on, [2]string{"on " + o.places[door.Name()], view.Plural(size, "job")})
		}
		object = object.With("shards", sizes)
	}
	if o.json {
		return o.print(object.With("lanes", list), "")
	}
	state := "open"
	if q.Paused {
		state = "paused"
	}
	pairs := [][2]string{
		{"queue", q.Name}, {"state", state}, {"waiting", view.Number(q.Waiting)}, {"oldest", view.Oldest(q)}, {"served by", view.ServedBy(q)},
	}
	pairs = append(pairs, on...)
	const most = 20
	for n, l := range lanes {
		name := ""
		if n == 0 {
			name = "lanes"
		}
		if n == most {
			pairs = append(pairs, [2]string{name, fmt.Sprintf("… and %d more", len(lanes)-most)})
			break
		}
		waits := strings.Join(l.Limits, ", ")
		if l.Key != "" {
			waits = strings.TrimPrefix(waits+", turn of "+l.Key, ", ")
		}
		pairs = append(pairs, [2]string{name, view.Plural(l.Jobs, "job") + "  " + waits})
	}
	return o.show(object, pairs...)
}

func (p *program) queuesPeek() *cobra.Command {
	var from, count int
	var tail bool
	c := p.verb(&cobra.Command{
		Use: "peek QUEUE", Short: "Show jobs that wait in a queue, the next one first", Args: arguments(1, "the name of a queue"),
		ValidArgsFunction: p.completeQueues,
		Example:           "  goworker queues peek mail\n  goworker queues peek mail --tail -c 5\n  goworker queues peek mail --from 1000",
	}, func(ctx context.Context, o *operator, args []string) error {
		if from < 0 || count < 1 || count > inspect.MaxPeek {
			return usagef("--from takes a number from 0 on, and --count one from 1 to %d", inspect.MaxPeek)
		}
		l := o.list(view.Column{Head: "#", Right: true}, view.Column{Head: "JOB", Cut: true, Prose: true}, view.Column{Head: "ID", Cut: true}, view.Column{Head: "REF"})
		var away []error
		next := 0 // where the large jobs of a Redis go on; 0: there are none
		for _, door := range o.in.Doors() {
			jobs, full, err := door.Inspector().Peek(ctx, args[0], from, count, tail)
			if err != nil && o.several() {
				err = fmt.Errorf("shard %s: %w", door.Name(), err)
			}
			away = append(away, err)
			for n, e := range jobs {
				at := int64(from + n)
				if tail {
					at = -at - 1
				}
				if o.several() {
					e.Shard = door.Name()
				}
				l.add(jobObject(e).With("position", at), view.Count(at), job(e), e.ID, e.Ref)
			}
			if full && (next == 0 || from+len(jobs) < next) {
				next = from + len(jobs)
			}
		}
		if err := l.close("", errors.Join(away...)); err != nil {
			return err
		}
		switch {
		case l.rows == 0 && from == 0:
			return nothing("no job waits in queue %s", args[0])
		case l.rows == 0:
			return nothing("no job waits at that place of queue %s", args[0])
		case next > 0:
			return partly("more: the jobs are large; go on with --from %d", next)
		}
		return nil
	})
	c.Flags().IntVar(&from, "from", 0, "how many jobs to pass over")
	c.Flags().IntVarP(&count, "count", "c", 20, "how many jobs to show")
	c.Flags().BoolVar(&tail, "tail", false, "begin at the tail: the newest first")
	return c
}

// some wants at least one argument.
func some(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}
