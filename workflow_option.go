package goworker

import (
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/meta"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/setting"
	"github.com/goworker/goworker/internal/workflow"
)

// WorkflowOption is a setting of a whole workflow, for Start and NewBatch:
//
//   - WithID: an id of the program's own
//   - WorkflowName: by which lists show it
//   - WithMeta: texts of the workflow and of all its steps
//   - UniqueAs: start it only if none of this name is running
//   - Deadline: until when it must have ended
//   - KeepFor: how long it is kept after its end
//   - RunRest, CancelRunning: what a failure means for the other steps
//   - AllowOld: start it although an older release works its queues
//
// The call returns an error, and starts nothing, if one is out of its range, given twice, or contradicts another; see Option.
type WorkflowOption interface{ workflow(*workflowOptions) }

type workflowOptions struct {
	setting.Mistakes
	workflow.Options
	chosen bool // the program chose the id
	meta   metadata
	old    bool
}

type workflowOption func(*workflowOptions)

func (o workflowOption) workflow(to *workflowOptions) { o(to) }

func (m metadata) workflow(to *workflowOptions) {
	all := meta.Values(to.meta).With(m)
	to.Add(all.Check())
	to.meta, to.Meta = metadata(all), all
}

// WorkflowName gives a workflow a name, by which lists show and find it, and errors and log lines name it.
func WorkflowName(name string) WorkflowOption {
	return workflowOption(func(o *workflowOptions) {
		o.Once("the workflow's name", fmt.Sprintf("WorkflowName(%q)", name))
		o.Add(producer.CheckWorkflowName("WorkflowName", name))
		o.Name = name
	})
}

// UniqueAs starts a workflow only if no other that is unique under this name is running or being retried. Otherwise Start
// returns a *DuplicateError with the id of that one, and starts nothing.
func UniqueAs(name string) WorkflowOption {
	return workflowOption(func(o *workflowOptions) {
		o.Once("how the workflow is unique", fmt.Sprintf("UniqueAs(%q)", name))
		o.Add(producer.CheckWorkflowName("UniqueAs", name))
		o.Lock = name
	})
}

// Deadline says how long after its start a workflow must have ended. Otherwise it has expired: its error handler is called,
// what did not start is dropped, and the contexts of its running steps are cancelled. A retry of the workflow has the same
// time again.
func Deadline(d time.Duration) WorkflowOption {
	return workflowOption(func(o *workflowOptions) {
		o.positive("how long the workflow may take", "Deadline", d)
		o.Deadline = d
	})
}

// KeepFor says how long a workflow is kept after its end, with its results. Without it a workflow that is done is kept for an
// hour, and any other for seven days.
func KeepFor(d time.Duration) WorkflowOption {
	return workflowOption(func(o *workflowOptions) {
		o.positive("how long the workflow is kept", "KeepFor", d)
		o.Keep = d
	})
}

func (o *workflowOptions) positive(what, name string, d time.Duration) {
	option := fmt.Sprintf("%s(%s)", name, d)
	o.Once(what, option)
	if d < time.Millisecond {
		o.Wrong("%s: it must be at least a millisecond; leave it out for the default", option)
	}
}

// RunRest lets steps run after another has failed, if they do not need it. Without it what did not start is dropped once a
// step has failed for good. Batches have it unless they StopOnFailure.
func RunRest() WorkflowOption {
	return workflowOption(func(o *workflowOptions) {
		o.Once("what a failure means for the other steps", "RunRest()")
		o.RunRest = true
	})
}

// CancelRunning has a failure also cancel the contexts of the steps that run. Without it they go on to their ends.
func CancelRunning() WorkflowOption {
	return workflowOption(func(o *workflowOptions) {
		o.Once("what a failure means for the other steps", "CancelRunning()")
		o.CancelRunning = true
	})
}

// AllowOld starts a workflow although a process with an older release of goworker works its queues. That release runs a step
// as a plain job, and does not count its end: the workflow then stands still, until it is retried by hand. A release that does
// not know MessagePack queues keeps steps out of these all the same.
func AllowOld() WorkflowOption {
	return workflowOption(func(o *workflowOptions) {
		o.Once("whether an older release may work its queues", "AllowOld()")
		o.old = true
	})
}

// workflowOptionsOf reads the options of a call.
func workflowOptionsOf(call string, opts []WorkflowOption) (*workflowOptions, error) {
	o := new(workflowOptions)
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("goworker: option %d of %s is nil; leave it out; nothing was started", i+1, call)
		}
		opt.workflow(o)
	}
	if o.First != nil {
		return nil, prefix.Errorf("%s: %w; nothing was started", call, o.First)
	}
	if o.chosen = o.ID != ""; !o.chosen {
		o.ID = NewID()
	}
	o.Now = clock.System.Now()
	return o, nil
}

// unstarted returns the error of a workflow of which nothing was started.
func unstarted(o *workflowOptions, err error) error {
	return prefix.Errorf("%s: %w; nothing was started", o.about(), err)
}

// about names a workflow in errors.
func (o *workflowOptions) about() string {
	if o.Name != "" {
		return fmt.Sprintf("workflow %q", o.Name)
	}
	return "workflow " + o.ID
}
