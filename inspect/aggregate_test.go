package inspect_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque/groups"
)

// Groups are listed in the order in which they are due, with their key and what they have.
func TestAggregateGroups(t *testing.T) {
	i, server, _ := setup(t)
	all, err := i.AggregateGroups(t.Context(), 10)
	if len(all) > 0 || err != nil {
		t.Errorf("without groups: %v, %v", all, err)
	}
	const began = 1_800_000_000_000
	add := func(key string, due int64, elements ...any) {
		id := groups.ID("low", "Index", []byte(key))
		server.Do(t, "ZADD", "resque:go:groups", due, id)
		if len(elements) > 0 {
			server.Do(t, "RPUSH", append([]any{"resque:go:group:" + id}, elements...)...)
		}
	}
	add("later", began+9000, fmt.Sprintf(`%d 5000 0 x {"class":"Index","args":["books",7,[`, began), "2 5 1", "7 6 1234")
	add("all", began+8000, fmt.Sprintf(`%d 5000 0 x {"class":"Index","args":[[`, began), "2 5 1")
	add("gone", began)
	add("broken", began, "x")
	all, err = i.AggregateGroups(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	at := func(ms int64) time.Time { return time.UnixMilli(began + ms) }
	if diff := cmp.Diff([]inspect.AggregateGroup{
		{Queue: "low", Class: "Index", Items: 1, Bytes: 2, Began: at(0), Due: at(8000), Key: []json.RawMessage{}},
		{Queue: "low", Class: "Index", Key: []json.RawMessage{[]byte(`"books"`), []byte("7")}, Items: 2, Bytes: 7, Began: at(0), Due: at(9000)},
	}, all); diff != "" {
		t.Error(diff)
	}
	if all, _ = i.AggregateGroups(t.Context(), 1); len(all) != 1 {
		t.Errorf("of one group: %v", all)
	}
	if _, err := i.AggregateGroups(t.Context(), 0); err == nil {
		t.Error("none may be asked for")
	}
	server.Do(t, "SET", "resque:go:groups", "x")
	if _, err := i.AggregateGroups(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "groups of aggregated jobs") {
		t.Errorf("of another type: %v", err)
	}
}
