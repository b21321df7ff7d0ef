package inspect_test

import (
	"errors"
	"testing"

	"github.com/goworker/goworker/inspect"
)

func TestKeptSize(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "RPUSH", "resque:go:kept:mail", "a", "b")
	for queue, kept := range map[string]int64{"mail": 2, "other": 0} {
		n, err := i.KeptSize(t.Context(), queue)
		want(t, queue, kept, n, err)
	}
	if _, err := i.KeptSize(t.Context(), ""); err == nil {
		t.Error("a queue without a name has a size")
	}
	server.Do(t, "SET", "resque:go:kept:odd", "x")
	if _, err := i.KeptSize(t.Context(), "odd"); err == nil {
		t.Error("a key of another type has a size")
	}
}

// The record of an operation could not name such a queue, and another one would be cleared.
func TestNoOperationOnAQueueThatIsNotUTF8(t *testing.T) {
	i, server, _ := setup(t)
	for _, name := range []string{"\xff", "\uFFFD"} {
		server.Do(t, "SADD", "resque:queues", name)
		server.Do(t, "RPUSH", "resque:queue:"+name, `{"class":"C","args":[]}`)
	}
	for _, p := range []inspect.Plan{
		{Verb: inspect.ClearQueue, Query: inspect.Query{Queue: "\xff"}},
		{Verb: inspect.Drop, Query: inspect.Query{Queue: "\xff"}},
		{Verb: inspect.MoveTo, Query: inspect.Query{Queue: "\uFFFD"}, Queue: "\xff"},
	} {
		var wrong *inspect.PlanError
		if _, err := i.Operations().Start(t.Context(), p); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", p.Verb, err)
		}
	}
}
