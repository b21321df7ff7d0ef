package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
)

// operations changes the jobs of class Nap by each kind of operation and takes that back, in queues where no process looks. The
// job of class Junk goes for good.
func operations() error {
	in, ctx := goworker.Default().Client().Inspect().By("chaos", "a test"), context.Background()
	ops := in.Operations()
	nap := func(places ...inspect.Place) inspect.Query { return inspect.Query{Class: "Nap", Places: places} }
	for _, p := range []inspect.Plan{
		{Verb: inspect.Retry, Query: nap(inspect.Failed)},
		{Verb: inspect.Drop, Query: nap(inspect.Failed, inspect.Queued, inspect.Delayed)},
		{Verb: inspect.Run, Query: nap(inspect.Delayed)},
		{Verb: inspect.MoveTo, Query: nap(inspect.Queued, inspect.Delayed), Queue: "farther"},
		{Verb: inspect.Delay, Query: nap(inspect.Queued, inspect.Delayed), At: time.Now().Add(2 * time.Hour)},
		{Verb: inspect.Revoke, Query: nap(inspect.Queued, inspect.Delayed)},
		{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "aside"}},
	} {
		op, err := ops.Start(ctx, p)
		if err == nil {
			err = drive(ops.Run(ctx, op.ID))
		}
		if err == nil {
			err = drive(ops.Undo(ctx, op.ID))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Verb, err)
		}
	}
	list, err := in.Find(ctx, inspect.Query{Class: "Junk"}, "", 1)
	if err != nil || len(list.Jobs) != 1 {
		return errors.Join(fmt.Errorf("there is no job to be removed for good"), err)
	}
	op, err := ops.Start(ctx, inspect.Plan{Verb: inspect.Drop, Jobs: []inspect.Entry{list.Jobs[0], list.Jobs[0]}}) // the second time it is gone
	if err == nil {
		_, err = ops.EmptyBin(ctx, op.ID)
	}
	return err
}

// drive lets an operation go to its end.
func drive(steps iter.Seq2[inspect.Operation, error]) (err error) {
	for _, err = range steps {
	}
	return err
}
