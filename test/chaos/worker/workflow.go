package main

import (
	"context"
	"fmt"

	"github.com/goworker/goworker"
)

// flows starts workflows and changes others, which are there, in each way there is. It notes the jobs of their steps as one
// who enqueues them. What a call that fails leaves undone, others do.
func (l ledger) flows() error {
	ctx, c := context.Background(), goworker.Default().Client()
	step := func(id string) *goworker.Node {
		return goworker.Step(goworker.NewJob("work", "Nap", id, 5), goworker.Immutable())
	}
	all := c.Workflows()
	var batch *goworker.OpenBatch
	for _, call := range []struct {
		do   func() error
		jobs []string
	}{
		{func() error {
			_, err := c.Start(ctx, goworker.Chain(goworker.Group(step("flow-0"), step("flow-1")), step("flow-2")), goworker.WithID("flow"))
			return err
		}, []string{"flow-0", "flow-1", "flow-2"}},
		{func() (err error) {
			batch, err = c.NewBatch(ctx, goworker.Batch{OnSuccess: step("batch-z")}, goworker.WithID("batch"))
			return err
		}, nil},
		{func() error { return batch.Add(ctx, step("batch-0")) }, []string{"batch-0"}},
		{func() error { return batch.Add(ctx, step("batch-1"), step("batch-2")) }, []string{"batch-1", "batch-2"}},
		{func() error { return batch.Close(ctx) }, []string{"batch-z"}},
		{func() error { return all.Pause(ctx, "flow") }, nil},
		{func() error { return all.Resume(ctx, "flow") }, nil},
		{func() error { return all.Cancel(ctx, "halted") }, nil},
		{func() error { return all.Retry(ctx, "halted") }, nil},
		{func() error { return all.MarkDone(ctx, "marked", "0", 7) }, nil},
		{func() error { return complete(ctx, c) }, nil},
	} {
		for _, id := range call.jobs {
			l.note('t', id)
		}
		if err := call.do(); err != nil {
			return err
		}
		for _, id := range call.jobs {
			l.note('a', id)
		}
	}
	return nil
}

// complete ends the first step of the workflow outside by its token.
func complete(ctx context.Context, c *goworker.Client) error {
	conn, err := goworker.GetConn()
	if err != nil {
		return err
	}
	defer goworker.PutConn(conn)
	known, err := conn.Do("HGET", "resque:go:wf:outside", "k0")
	if err != nil {
		return err
	}
	var secret string
	if _, err := fmt.Sscan(string(known.([]byte)), &secret); err != nil {
		return err
	}
	return c.Complete(ctx, "outside.0."+secret, 7)
}
