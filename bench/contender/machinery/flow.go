package main

import (
	"github.com/RichardKnop/machinery/v1/tasks"

	"github.com/goworker/goworker/bench/probe"
)

// sending is how many goroutines send the members of a group.
const sending = 8

// flowTask is the task of a class of workflows, nil for other classes.
func flowTask(class string, handler probe.Handler) any {
	switch class {
	case "Member":
		return func(number int64) (int64, error) { return number, handler("", number) }
	case "Step":
		return func(number int64) (int64, error) { return number + 1, handler("", number) }
	case "Callback":
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
	callback := p.signature("Callback", f.Number)
	switch f.Shape {
	case probe.Chain:
		steps := []*tasks.Signature{p.signature("Step", f.From)}
		for len(steps) < f.Members-1 {
			steps = append(steps, p.signature("Step"))
		}
		chain, err := tasks.NewChain(append(steps, callback)...)
		if err != nil {
			return err
		}
		_, err = p.server.SendChain(chain)
		return err
	default:
		members := make([]*tasks.Signature, f.Members)
		for i := range members {
			members[i] = p.signature("Member", f.From+i)
		}
		group, err := tasks.NewGroup(members...)
		if err != nil {
			return err
		}
		chord, err := tasks.NewChord(group, callback)
		if err != nil {
			return err
		}
		_, err = p.server.SendChord(chord, sending)
		return err
	}
}

func (p producer) signature(class string, numbers ...int) *tasks.Signature {
	s := &tasks.Signature{Name: class, RoutingKey: p.queue}
	for _, n := range numbers {
		s.Args = append(s.Args, tasks.Arg{Type: "int64", Value: n})
	}
	return s
}
