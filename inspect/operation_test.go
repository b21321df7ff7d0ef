package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// run runs an operation to its end, and returns how it stands then.
func run(t *testing.T, i *inspect.Inspector, p inspect.Plan) inspect.Operation {
	t.Helper()
	op, err := i.Operations().Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return drive(t, i.Operations().Run(t.Context(), op.ID))
}

func drive(t *testing.T, steps func(func(inspect.Operation, error) bool)) (last inspect.Operation) {
	t.Helper()
	for op, err := range steps {
		if err != nil {
			t.Fatalf("%v after %+v", err, op)
		}
		last = op
	}
	return last
}

func undo(t *testing.T, i *inspect.Inspector, id string) inspect.Operation {
	t.Helper()
	return drive(t, i.Operations().Undo(t.Context(), id))
}

// without returns a dump without the keys of operations.
func without(dump map[string]any) map[string]any {
	for key := range dump {
		if strings.HasPrefix(key, "resque:go:operat") || strings.HasPrefix(key, "resque:go:bin:") {
			delete(dump, key)
		}
	}
	return dump
}

// What an operation did in every place is taken back to the byte.
func TestOperationsTakeBack(t *testing.T) {
	i, server, _ := setup(t)
	for n := range 700 {
		server.Do(t, "RPUSH", "resque:queue:mail", fmt.Sprintf(`{"class":"Many","args":[%d]}`, n))
		if n < 300 {
			server.Do(t, "RPUSH", "resque:failed", fmt.Sprintf(`{"failed_at":"2026/11/22 10:00:00 UTC","payload":{"class":"Many","args":[%d]},"exception":"E","error":"boom","backtrace":null,"worker":"w:1:mail","queue":"mail"}`, n))
			server.Do(t, "ZADD", "resque:go:schedule", 4_000_000_000_000+n, fmt.Sprintf(`4:mail{"class":"Many","args":[%d],"id":"d%d"}`, n, n))
			item := fmt.Sprintf(`{"class":"Many","args":[%d],"queue":"mail"}`, 1000+n)
			server.Do(t, "RPUSH", fmt.Sprint("resque:delayed:", 4_000_000_000+n%7), item)
			server.Do(t, "ZADD", "resque:delayed_queue_schedule", 4_000_000_000+n%7, 4_000_000_000+n%7)
			server.Do(t, "SADD", "resque:timestamps:"+item, fmt.Sprint("delayed:", 4_000_000_000+n%7))
			server.Do(t, "RPUSH", "resque:go:lane:"+laneName, fmt.Sprintf(`{"class":"Many","args":[%d],"id":"l%d"}`, n, n))
		}
	}
	for n := range 700 { // behind the others: what goes back goes to the head
		server.Do(t, "RPUSH", "resque:queue:mail", fmt.Sprintf(`{"class":"Other","args":[%d]}`, n))
	}
	server.Do(t, "SADD", "resque:queues", "mail", "other")
	server.Do(t, "SADD", "resque:go:lanes", laneSet)
	server.Do(t, "ZADD", "resque:go:lanes:"+laneSet, 0, laneOwn)
	before := without(server.Dump(t, ""))
	many := inspect.Query{Class: "Many"}
	in := func(p ...inspect.Place) inspect.Query { return inspect.Query{Class: "Many", Places: p} }
	for name, test := range map[string]struct {
		plan   inspect.Plan
		done   int64
		pieces bool // jobs go back in pieces, and only in these is their order as it was
	}{
		"remove":          {inspect.Plan{Verb: inspect.Drop, Query: in(inspect.Delayed, inspect.Queued, inspect.InLane, inspect.Failed)}, 700 + 4*300, false},
		"retry":           {inspect.Plan{Verb: inspect.Retry, Query: in(inspect.Failed)}, 300, false},
		"retry all":       {inspect.Plan{Verb: inspect.Retry}, 300, false},
		"run":             {inspect.Plan{Verb: inspect.Run, Query: in(inspect.Delayed)}, 600, true},
		"run at the head": {inspect.Plan{Verb: inspect.Run, Query: in(inspect.Delayed), To: inspect.Head}, 600, true},
		"move":            {inspect.Plan{Verb: inspect.MoveTo, Query: many, Queue: "other"}, 700 + 3*300, true},
		"move failures":   {inspect.Plan{Verb: inspect.MoveTo, Query: in(inspect.Failed), Queue: "other"}, 300, false},
		"delay":           {inspect.Plan{Verb: inspect.Delay, Query: in(inspect.Delayed, inspect.Queued), At: time.Unix(4_100_000_000, 0)}, 700 + 2*300, true},
		"clear":           {inspect.Plan{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "mail"}}, 1400 + 300, false},
		"remove queue":    {inspect.Plan{Verb: inspect.ForgetQueue, Query: inspect.Query{Queue: "mail"}}, 1400 + 300, false},
		"move a queue":    {inspect.Plan{Verb: inspect.MoveTo, Query: inspect.Query{Queue: "mail", Places: []inspect.Place{inspect.Queued}}, Queue: "other"}, 1400, false},
	} {
		n, err := i.Operations().Count(t.Context(), test.plan)
		want(t, name+": counted", test.done, n.Jobs, err)
		op := run(t, i, test.plan)
		if op.State != inspect.OperationDone || op.Done != test.done || op.Refused != 0 {
			t.Errorf("%s: %+v", name, op)
		}
		if name == "move a queue" {
			moved := queue(t, server, "other")
			want(t, "the order of a queue that was moved", before["resque:queue:mail"], any(toAny(moved)), nil)
		}
		op = undo(t, i, op.ID)
		if op.State != inspect.OperationUndone || op.Back != test.done || op.Gone != 0 || op.Binned != 0 {
			t.Errorf("%s, taken back: %+v", name, op)
		}
		after := without(server.Dump(t, ""))
		if test.pieces {
			inOrder(before)
			inOrder(after)
		}
		sameJobs(t, name, before, after)
		before = without(server.Dump(t, ""))
		if t.Failed() {
			t.FailNow()
		}
	}
}

const (
	laneSet  = "4:mailf:A/key"
	laneOwn  = "c:A/key=x"
	laneName = "4:mail7:f:A/key" + laneOwn
)

// inOrder sorts what is in lists.
func inOrder(dump map[string]any) {
	for _, value := range dump {
		if list, ok := value.([]string); ok {
			slices.Sort(list)
		}
	}
}

func toAny(texts []string) any { return texts }

// sameJobs compares dumps. Jobs of a lane and of other places may have changed the time of the lane's turn.
func sameJobs(t *testing.T, name string, before, after map[string]any) {
	t.Helper()
	for key := range before {
		if !same(before[key], after[key]) {
			t.Errorf("%s: %s is not as it was:\n%.600v\nwas\n%.600v", name, key, after[key], before[key])
		}
	}
	for key := range after {
		if before[key] == nil {
			t.Errorf("%s: there is a key %s: %.300v", name, key, after[key])
		}
	}
}

func same(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

var (
	_ = slices.Contains[[]string]
	_ = errors.Is
	_ = context.Canceled
	_ *redistest.Server
)
