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
	"github.com/goworker/goworker/internal/resque/operations"
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
	// No program can push a step just between two of a clear here: the step that takes it out of the bin is made alone.
	s := operations.New(resque.New(""))
	if _, err := c.Do("RPUSH", s.BinKey("op", "queue:mail").String(), "a job", "a step", "a job"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(c, "op", map[string]string{"bin:queue:mail": "3"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Acquire(c, "op", "me", false); err != nil {
		t.Fatal(err)
	}
	step := resque.Move{Element: resque.Element{Index: 2, Raw: []byte("a step")}}
	out, err := s.Do(c, operations.Sift, operations.Step{ID: "op", Runner: "me", Bin: "queue:mail", Changes: []operations.Change{
		{Call: s.SiftCall("op", "queue:mail", []resque.Move{step}), Kept: []string{operations.Ended + "a step"}}}})
	if err != nil || len(out.Answers[0].Jobs) != 1 {
		t.Errorf("sifted: %+v, %v", out, err)
	}
	records, err := s.Read(c, "op")
	if err != nil || records[0].Bins()["queue:mail"] != 2 || records[0].Number("ended") != 1 || records[0].Number("done") != 0 {
		t.Errorf("the record of what was sifted: %+v, %v", records, err)
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
