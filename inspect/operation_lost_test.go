package inspect_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque"
)

// lossy is a Redis whose connections break in steps of operations.
type lossy struct {
	*lender
	steps atomic.Int64
	// step is called with the number of each step, from 1, and with its keys and values, before Redis has it. made: Redis makes the
	// step. lost: its answer does not come.
	step  func(n int64, args string) (made, lost bool)
	after func(n int64) // is called when the answer to a step has come, or was lost
}

func (l *lossy) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	before := l.steps.Load()
	err := l.lender.Do(ctx, func(s resque.Store, c redis.Conn) error { return f(s, &lossyConn{Conn: c, l: l}) })
	if n := l.steps.Load(); n > before && l.after != nil {
		l.after(n)
	}
	return err
}

type lossyConn struct {
	redis.Conn
	l    *lossy
	lost bool
}

func (c *lossyConn) Send(command string, args ...any) error {
	if text := fmt.Sprint(args...); strings.HasPrefix(command, "EVAL") && strings.Contains(text, "resque:go:bin:") {
		made, lost := c.l.step(c.l.steps.Add(1), text)
		if c.lost = lost; !made {
			return io.EOF
		}
	}
	return c.Conn.Send(command, args...)
}

// Receive waits for Redis's answer even if it is lost, so that the step is made by then.
func (c *lossyConn) Receive() (any, error) {
	reply, err := c.Conn.Receive()
	if err == nil && c.lost {
		return nil, io.EOF
	}
	return reply, err
}

// A workflow hears of its removed steps though the answer to the last change was lost, or an operator stopped the operation just then.
func TestOperationsTellWorkflows(t *testing.T) {
	i, server, l := setup(t)
	for name, stop := range map[string]bool{"lost": false, "stopped": true} {
		server.Do(t, "FLUSHALL")
		started(t, server, "W")
		op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Drop, Query: inspect.Query{Queue: "q"}})
		if err != nil {
			t.Fatal(err)
		}
		breaks := &lossy{lender: l, step: func(n int64, _ string) (made, lost bool) { return true, n == 1 && !stop }}
		breaks.after = func(n int64) {
			if n == 1 && stop {
				_ = i.Operations().Stop(t.Context(), op.ID, "enough")
			}
		}
		for op, err = range inspect.New(breaks).Operations().Run(t.Context(), op.ID) {
			if err != nil && !stop {
				t.Error(err)
			}
		}
		want(t, name, map[bool]inspect.OperationState{false: inspect.OperationDone, true: inspect.OperationStopped}[stop], op.State, nil)
		w, err := i.Workflows().Get(t.Context(), "W")
		want(t, name, inspect.WorkflowCounts{Waiting: 1, Failed: 3}, w.Counts, err)
	}
}
