package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/goworker/goworker/inspect"
)

// prepareOperations leaves jobs where operations find them and no process looks: failures, a queue, and both schedules.
func (a *arena) prepareOperations(now time.Time) {
	var jobs []job
	for i := range 12 {
		j := job{fmt.Sprint("changed-", i), "Nap", a.intn(20)}
		jobs = append(jobs, j)
		at := now.Truncate(time.Second).Add(time.Hour + time.Duration(i)*time.Second) // has no hint
		switch i % 4 {
		case 0:
			a.must("RPUSH", "resque:failed", fmt.Appendf(nil,
				`{"failed_at":"2026/11/21 03:00:00 UTC","payload":%s,"exception":"E","error":"e","worker":"w","queue":"aside"}`, j.payload()))
		case 1:
			a.must("RPUSH", "resque:queue:aside", fmt.Sprintf(`{"class":"Nap","args":[%q,%d],"id":%[1]q}`, j.id, j.ms))
		case 2:
			a.must("ZADD", "resque:go:schedule", at.UnixMilli(), fmt.Sprintf(`5:aside{"class":"Nap","args":[%q,%d],"id":%[1]q}`, j.id, j.ms))
		default:
			item := fmt.Sprintf(`{"class":"Nap","args":[%q,%d],"queue":"aside"}`, j.id, j.ms)
			a.must("RPUSH", fmt.Sprint("resque:delayed:", at.Unix()), item)
			a.must("SADD", "resque:timestamps:"+item, fmt.Sprint("delayed:", at.Unix()))
			a.must("ZADD", "resque:delayed_queue_schedule", at.Unix(), at.Unix())
		}
	}
	a.must("RPUSH", "resque:queue:aside", `{"class":"Junk","args":[]}`)
	a.must("SADD", "resque:queues", "aside")
	a.acknowledged(jobs...)
}

// resumeOperations goes on with the operations of a program that was killed, takes them back, and has all jobs run.
func (a *arena) resumeOperations() {
	a.must("DEL", "resque:go:operating") // the lease of the killed program ends after ten seconds
	in, ctx := a.client.Client().Inspect(), context.Background()
	ops := in.Operations()
	all, err := ops.List(ctx)
	if err != nil {
		a.Fatalf("%v", err)
	}
	end := func(op inspect.Operation, what string, want inspect.OperationState, steps iter.Seq2[inspect.Operation, error]) {
		for op, err = range steps {
		}
		if err != nil || op.State != want {
			a.problem("operation %s of another program cannot be %s: %+v, %v", op.ID, what, op, err)
		}
	}
	for _, op := range all { // the newest first: it has changed what those before have brought back
		given := op.Plan.Verb == inspect.Drop && slices.Equal(op.Plan.Query.Places, nil)
		if op.State != inspect.OperationDone && op.State != inspect.OperationUndone && !op.Undoing && !given {
			end(op, "run", inspect.OperationDone, ops.Run(ctx, op.ID))
		}
		if op.State != inspect.OperationUndone && !given {
			end(op, "taken back", inspect.OperationUndone, ops.Undo(ctx, op.ID))
		}
	}
	if _, err := ops.EmptyBin(ctx); err != nil {
		a.problem("%v", err)
	}
	if left := a.list("KEYS", "resque:go:bin:*"); len(left) > 0 {
		a.problem("in the bin these are left: %q", left)
	}
	if _, err := a.client.Failures().RetryAll(); err != nil {
		a.problem("%v", err)
	}
	if _, err := a.client.Failures().ClearRetried(); err != nil {
		a.problem("%v", err)
	}
	if _, err := in.RunWhere(ctx, inspect.Query{Class: "Nap", Places: []inspect.Place{inspect.Delayed}}, inspect.Tail, ""); err != nil {
		a.problem("%v", err)
	}
	a.must("LREM", "resque:queue:aside", 0, `{"class":"Junk","args":[]}`)
	if _, err := in.MoveWhere(ctx, inspect.Query{Queue: "aside", Places: []inspect.Place{inspect.Queued}}, "work", ""); err != nil {
		a.problem("%v", err)
	}
}
