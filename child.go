package goworker

import (
	"context"
	"encoding/json"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/cursor"
	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/feature/workflow"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// program is a daemon in the child process of one of its jobs.
type program struct {
	*client
	registry *registry
	reach    any
	parts    []part.Part
}

func (p program) Identity() string { return p.config.identity() }

func (p program) Flush() { p.flush() }

// Perform runs the job.
func (p program) Perform(ctx context.Context, r isolate.Request) (json.RawMessage, error) {
	d, j, err := p.registry.isolated(r)
	if err == nil {
		ctx = workflow.Remote(ctx, j, workflows.New(p.client.Store), p.client.Pool.Do)
		var end func()
		d.reach = p.reach
		ctx, end = results.Remote(ctx, j, clock.System, r.Said)
		defer end() // before the outcome is sent, and also where the handler ends its goroutine
		ctx, end = cursor.Remote(ctx, j, p.deps(), r.Said)
		defer end()
		err = d.perform(ctx)
	}
	if err != nil || d.value() == nil {
		return nil, err
	}
	if workflow.Wanted(j) {
		return workflow.Result(d.Result)
	}
	return isolate.Result(d.Class, d.Result), nil
}

// deps are what a feature needs in a child.
func (p program) deps() outcome.Deps {
	return outcome.Deps{Base: p.client.base(), Do: p.client.Pool.Do}
}

// Parts starts the parts that run in a child.
func (p program) Parts(ctx context.Context) (stop func(context.Context) error, err error) {
	parts, err := part.Isolated(p.parts)
	if err != nil {
		return nil, err
	}
	started, err := part.Start(ctx, part.NewCrew(clock.System, p.log).Tend(parts))
	return func(ctx context.Context) error { return part.Stop(ctx, started) }, err
}
