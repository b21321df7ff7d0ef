package main

import (
	"context"
	"fmt"

	"github.com/goworker/goworker"

	"github.com/goworker/goworker/bench/probe"
)

// flowHandler is the handler of a class of workflows, nil for other classes.
func flowHandler(class string, handler probe.Handler) any {
	switch class {
	case "Member":
		return func(number int64) (int64, error) { return number, handler("", number) }
	case "Step":
		return func(number int64) (int64, error) { return number + 1, handler("", number) }
	case "Callback":
		return func(ctx context.Context, flow int64, results goworker.Results[int64]) error {
			args := make([]any, 1, 1+results.Len())
			args[0] = flow
			for _, n := range results.All(ctx) {
				args = append(args, n)
			}
			if err := results.Err(); err != nil {
				return err
			}
			return handler("", args...)
		}
	case "Last":
		return func(flow int64, results ...int64) error {
			args := []any{flow}
			for _, n := range results {
				args = append(args, n)
			}
			return handler("", args...)
		}
	}
	return nil
}

func (p producer) Start(f probe.Flow) error {
	if f.Shape == probe.Batch {
		return p.batch(f)
	}
	var opts []goworker.WorkflowOption
	if f.Keep > 0 {
		opts = append(opts, goworker.KeepFor(f.Keep))
	}
	var n *goworker.Node
	switch f.Shape {
	case probe.Chord:
		members := make([]*goworker.Node, f.Members)
		for i := range members {
			members[i] = p.step("Member", f.From+i)
		}
		n = goworker.Chord(goworker.Group(members...), p.step("Callback", f.Number))
	case probe.Chain:
		steps := []*goworker.Node{p.step("Step", f.From)}
		for len(steps) < f.Members-1 {
			steps = append(steps, p.step("Step"))
		}
		n = goworker.Chain(append(steps, p.step("Last", f.Number))...)
	default:
		return fmt.Errorf("no workflow has the shape %q", f.Shape)
	}
	_, err := p.client.Start(context.Background(), n, opts...)
	return err
}

// batch streams a batch in.
func (p producer) batch(f probe.Flow) error {
	ctx := context.Background()
	b, err := p.client.NewBatch(ctx, goworker.Batch{OnSuccess: goworker.Step(goworker.NewJob(p.queue, "Last", f.Number), goworker.Immutable())})
	if err != nil {
		return err
	}
	err = b.AddSeq(ctx, func(yield func(goworker.Item, error) bool) {
		for i := range f.Members {
			if !yield(goworker.Item{Job: goworker.NewJob(p.queue, "Member", f.From+i)}, nil) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return b.Close(ctx)
}

func (p producer) step(class string, numbers ...any) *goworker.Node {
	return goworker.Step(goworker.NewJob(p.queue, class, numbers...))
}
