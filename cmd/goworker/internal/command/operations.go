package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

func (p *program) operations() *cobra.Command {
	return p.noun("operations", "See changes of many jobs; stop, resume and undo them", p.operationsLs(), p.operationsShow())
}

func (p *program) operationsLs() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "ls", Short: "List the operations of the last seven days, the newest first", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		all, err := o.in.Operations().List(ctx)
		l := o.list(view.Column{Head: "OPERATION"}, view.Column{Head: "BEGUN"}, view.Column{Head: "BY", Cut: true}, view.Column{Head: "DOES", Cut: true},
			view.Column{Head: "STATE"}, view.Column{Head: "DONE", Right: true}, view.Column{Head: "OF", Right: true})
		for _, op := range all {
			l.add(operationObject(op), op.ID, view.Time(op.Begun), op.Who, doing(op.Plan), string(op.State), view.Count(op.Done), expected(op))
		}
		return l.close("there were no operations in the last seven days", err)
	})
}

func (p *program) operationsShow() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "show ID", Short: "Show how an operation stands", Args: arguments(1, "the id of one operation"),
	}, func(ctx context.Context, o *operator, args []string) error {
		op, err := o.in.Operations().Get(ctx, args[0])
		if err != nil {
			return err
		}
		return o.show(operationObject(op), operationPairs(op)...)
	})
}

func (p *program) bin() *cobra.Command {
	return p.noun("bin", "See what was removed and can be taken back; remove it for good", p.binLs())
}

func (p *program) binLs() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "ls [OPERATION]", Short: "List what operations have removed, and until when it is kept", Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, o *operator, args []string) error {
		id := ""
		if len(args) > 0 {
			id = args[0]
		}
		all, err := o.in.Operations().Bin(ctx, id)
		now := time.Now()
		l := o.list(view.Column{Head: "OPERATION"}, view.Column{Head: "FROM", Cut: true}, view.Column{Head: "JOBS", Right: true}, view.Column{Head: "KEPT FOR", Right: true})
		for _, b := range all {
			object := view.Object{{Key: "operation", Value: b.Operation}, {Key: "place", Value: b.Place}, {Key: "jobs", Value: b.Jobs}, {Key: "ends", Value: b.Ends}}
			if b.Shard != "" {
				object = object.With("shard", b.Shard)
			}
			l.add(object, b.Operation, b.Place, view.Count(b.Jobs), view.Span(max(0, b.Ends.Sub(now)).Round(time.Second)))
		}
		return l.close("the bin is empty", err)
	})
}

// doing says what an operation does.
func doing(p inspect.Plan) string {
	text := string(p.Verb)
	if q := p.Query.String(); q != "" {
		text += " " + q
	}
	if p.Queue != "" {
		text += " to " + p.Queue
	}
	return text
}

func expected(op inspect.Operation) string {
	if op.Plan.Expected <= 0 { // it was not counted
		return "?"
	}
	return view.Count(op.Plan.Expected)
}

// operationObject is an operation in JSON.
func operationObject(op inspect.Operation) view.Object {
	var of any
	if op.Plan.Expected > 0 {
		of = op.Plan.Expected
	}
	return view.Object{
		{Key: "operation", Value: op.ID}, {Key: "verb", Value: string(op.Plan.Verb)}, {Key: "query", Value: op.Plan.Query.String()}, {Key: "to", Value: op.Plan.Queue},
		{Key: "state", Value: string(op.State)}, {Key: "why", Value: op.Why}, {Key: "who", Value: op.Who}, {Key: "begun", Value: op.Begun}, {Key: "changed", Value: op.Changed},
		{Key: "expected", Value: of}, {Key: "looked", Value: op.Looked}, {Key: "done", Value: op.Done}, {Key: "refused", Value: op.Refused},
		{Key: "refusal", Value: op.Refusal}, {Key: "ended", Value: op.Ended}, {Key: "again", Value: op.Again}, {Key: "undoing", Value: op.Undoing},
		{Key: "back", Value: op.Back}, {Key: "gone", Value: op.Gone}, {Key: "binned", Value: op.Binned}, {Key: "bin_ends", Value: op.BinEnds},
	}
}

func operationPairs(op inspect.Operation) [][2]string {
	pairs := [][2]string{
		{"operation", op.ID}, {"does", doing(op.Plan)}, {"state", string(op.State)}, {"why", op.Why}, {"by", op.Who}, {"begun", view.Time(op.Begun)},
		{"changed", view.Time(op.Changed)}, {"done", view.Count(op.Done) + " of " + expected(op)},
	}
	for _, n := range []struct {
		name string
		n    int64
		more string
	}{
		{"refused", op.Refused, op.Refusal}, {"failed again", op.Again, ""}, {"ended", op.Ended, "these are not taken back"},
		{"taken back", op.Back, ""}, {"gone", op.Gone, lost(op.Plan)},
	} {
		if n.n > 0 {
			text := view.Count(n.n)
			if n.more != "" {
				text += ": " + n.more
			}
			pairs = append(pairs, [2]string{n.name, text})
		}
	}
	if op.Binned > 0 {
		pairs = append(pairs, [2]string{"in the bin", fmt.Sprintf("%s, until %s", view.Plural(op.Binned, "job"), view.Time(op.BinEnds))})
	}
	return pairs
}

// lost says why jobs could not be taken back: those that were removed were in the bin, and others went to a queue or a schedule.
func lost(p inspect.Plan) string {
	switch p.Verb {
	case inspect.Drop, inspect.ClearQueue, inspect.ForgetQueue:
		return "they are no longer in the bin"
	}
	return "they ran, run, or were changed since"
}
