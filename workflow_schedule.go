package goworker

import (
	"errors"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/prefix"
)

// ScheduleWorkflow starts a workflow again and again, at the times of spec: a cron as in Recurring.Cron, or a period as in "90m".
// nodes returns the nodes of one, and is called for each tick; it is also called now, to check them. The options are those of
// Start.
//
// A tick is a job of StartWorkflowClass, in the queue of the workflow's first step. It starts the workflow under the id
// <name>:<tick in ms>, so that a tick that runs twice starts one. A process that has not this schedule puts such a job back for
// another one. With UniqueAs, a tick is dropped while the workflow of an earlier one is running.
//
// It is a recurring schedule like any other: Schedules lists it, and PauseSchedule, RunScheduleNow and Unschedule
// take its name. See Schedule for which process fires it.
func (d *Daemon) ScheduleWorkflow(name, spec string, nodes func() *Node, opts ...WorkflowOption) error {
	if err := d.usable(); err != nil {
		return err
	}
	queue, err := checkWorkflowSchedule(d.registry, name, nodes, opts)
	if err != nil {
		return err
	}
	d.registry.scheduled.Store(name, workflowSchedule{nodes, opts})
	return d.Schedule(name, workflowTicks(name, spec, queue))
}

// ScheduleWorkflow starts a workflow again and again, on the shard of its queues; see Daemon.ScheduleWorkflow and DaemonOf.
func (s *Shards) ScheduleWorkflow(name, spec string, nodes func() *Node, opts ...WorkflowOption) error {
	if _, err := s.table(); err != nil {
		return err
	}
	queue, err := checkWorkflowSchedule(s.handlers, name, nodes, opts)
	if err != nil {
		return err
	}
	s.handlers.scheduled.Store(name, workflowSchedule{nodes, opts})
	return s.Schedule(name, workflowTicks(name, spec, queue))
}

// workflowTicks is the schedule whose jobs start a workflow.
func workflowTicks(name, spec, queue string) Recurring {
	r := Recurring{Class: StartWorkflowClass, Queue: queue, Args: []any{name}, TickArg: true}
	if every, err := time.ParseDuration(spec); err == nil {
		r.Every = every
	} else {
		r.Cron = spec
	}
	return r
}

// checkWorkflowSchedule returns the queue of the ticks.
func checkWorkflowSchedule(r *registry, name string, nodes func() *Node, opts []WorkflowOption) (queue string, err error) {
	fail := func(err error) (string, error) { return "", prefix.Errorf("ScheduleWorkflow(%q): %w", name, err) }
	if nodes == nil {
		return fail(errors.New("the function that makes the workflow is nil; give one"))
	}
	if strings.ContainsAny(name, ". \t\r\n") {
		return fail(errors.New("the name is a part of the workflows' ids, so it must have no dot and no blank"))
	}
	o := new(workflowOptions)
	for _, opt := range opts {
		if opt == nil {
			return fail(errors.New("an option is nil; leave it out"))
		}
		opt.workflow(o)
	}
	if o.ID != "" {
		return fail(errors.New("WithID: each tick's workflow has an id of its own; leave it out"))
	}
	if o.First != nil {
		return fail(o.First)
	}
	t := newTree(&Client{registry: r}, nil, o.meta)
	n := nodes()
	if err := t.collect(n); err != nil {
		return fail(err)
	}
	if _, err := t.root(n); err != nil {
		return fail(err)
	}
	if t.first == nil || t.first.Queue == "" {
		return fail(errors.New("the workflow has no first step with a queue, which is that of its ticks too; give it one"))
	}
	return t.first.Queue, nil
}
