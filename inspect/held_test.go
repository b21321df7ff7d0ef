package inspect_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
)

// Jobs that clients hold over HTTP are found among those that run, page by page, each once.
func TestFindHeld(t *testing.T) {
	i, server, _ := setup(t)
	const n = 700
	ends := time.UnixMilli(1_900_000_000_000)
	for k := range n {
		place := fmt.Sprintf("4:mailid%d", k)
		payload := fmt.Sprintf(`{"class":"A","args":[%d],"id":"id%d"}`, k, k)
		if k == 0 {
			payload = `{"class":"B","args":[]}` // of a program that gives no ids
		}
		server.Do(t, "HSET", "resque:go:leased", place, payload)
		server.Do(t, "ZADD", "resque:go:leases", fmt.Sprintf("%d.5", ends.UnixMilli()), place)
	}
	server.Do(t, "HSET", "resque:go:leased", "no place", "x")
	var seen []string
	for after, pages := "", 0; ; pages++ {
		page, err := i.Find(t.Context(), inspect.Query{Queue: "mail", Class: "A", Places: []inspect.Place{inspect.Running}}, after, 64)
		if err != nil || len(page.Jobs) > 64 || pages > n {
			t.Fatalf("%d jobs, %v", len(page.Jobs), err)
		}
		for _, e := range page.Jobs {
			seen = append(seen, e.ID)
			if e.Place != inspect.Leased || e.Queue != "mail" || e.Process != "" || !e.Lease.Equal(ends) {
				t.Fatalf("%+v", e)
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	slices.Sort(seen)
	if len(seen) != n-1 || len(slices.Compact(seen)) != n-1 {
		t.Errorf("%d jobs", len(seen))
	}
	page, err := i.Find(t.Context(), inspect.Query{Class: "B"}, "", 10)
	for err == nil && len(page.Jobs) == 0 && page.Next != "" {
		page, err = i.Find(t.Context(), inspect.Query{Class: "B"}, page.Next, 10)
	}
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != "id0" {
		t.Fatalf("%+v, %v", page, err)
	}
	op, err := i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Revoke, Jobs: page.Jobs})
	want(t, "cancelled by hand", int64(1), op.Done, err)
	_, err = i.Operations().Start(t.Context(), inspect.Plan{Verb: inspect.Revoke, Query: inspect.Query{Class: "A", Places: []inspect.Place{inspect.Leased}}})
	want(t, "cancelled by a search", nil, nil, err)
	server.Do(t, "DEL", "resque:go:leased")
	server.Do(t, "SET", "resque:go:leased", "x")
	if page, err = i.Find(t.Context(), inspect.Query{Places: []inspect.Place{inspect.Running}}, "", 10); err != nil || len(page.Refused) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
}
