package operations

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// inMemory is a program on the embedded Redis.
type inMemory struct{ server *embedded.Server }

func (inMemory) Usable() error { return nil }

func (inMemory) Settings() (access.Settings, error) {
	return access.Settings{Style: payload.Plain, MaxPayload: 1 << 20, Server: "embedded"}, nil
}

func (m inMemory) Do(ctx context.Context, do func(s resque.Store, c redis.Conn) error) error {
	c, err := m.server.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(resque.New(""), c)
}

// Every kind of step runs on the embedded Redis too, whose Lua is another one.
func TestOnTheEmbeddedRedis(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start("127.0.0.1:0", goworker.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c, err := server.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ops := inspect.New(inMemory{server}).By("ada", "").Operations()
	for name, plan := range plans() {
		for _, command := range []string{"FLUSHALL", "EVAL"} {
			args := []any{}
			if command == "EVAL" {
				args = []any{filling, 0}
			}
			if _, err := c.Do(command, args...); err != nil {
				t.Fatal(err)
			}
		}
		op, err := ops.Start(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		op, err = drive(ops.Run(t.Context(), op.ID))
		if err != nil || op.State != inspect.OperationDone || op.Done == 0 {
			t.Errorf("%s: %+v, %v", name, op, err)
		}
		op, err = drive(ops.Undo(t.Context(), op.ID))
		if err != nil || op.State != inspect.OperationUndone || op.Back+op.Ended != op.Done {
			t.Errorf("%s taken back: %+v, %v", name, op, err)
		}
	}
}

// plans are one of each kind.
func plans() map[string]inspect.Plan {
	query := func(places ...inspect.Place) inspect.Query { return inspect.Query{Class: "Send", Places: places} }
	return map[string]inspect.Plan{
		"remove": {Verb: inspect.Drop, Query: query(inspect.Delayed, inspect.Queued, inspect.InLane, inspect.Failed)},
		"retry":  {Verb: inspect.Retry, Query: query(inspect.Failed)},
		"run":    {Verb: inspect.Run, Query: query(inspect.Delayed)},
		"move":   {Verb: inspect.MoveTo, Query: query(), Queue: "other"},
		"delay":  {Verb: inspect.Delay, Query: query(inspect.Delayed, inspect.Queued), At: time.Unix(4_100_000_000, 0)},
		"cancel": {Verb: inspect.Revoke, Query: query(inspect.Delayed, inspect.InLane)},
		"clear":  {Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "mail"}},
		"forget": {Verb: inspect.ForgetQueue, Query: inspect.Query{Queue: "mail"}},
	}
}
