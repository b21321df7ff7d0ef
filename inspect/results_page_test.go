package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// keep writes the documents of jobs, the newest last.
func keep(t *testing.T, server *redistest.Server, state string, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		server.Do(t, "HSET", fmt.Sprint("resque:go:result:", state, n), "state", state, "class", "Mail", "queue", "mail", "enqueued", 1_700_000_000_000, "ended", 1_700_000_000_000+n)
	}
}

func TestResultsPage(t *testing.T) {
	i, server, _ := setup(t)
	keep(t, server, "done", 0, 1300)
	keep(t, server, "failed", 0, 3)
	server.Do(t, "HSET", "resque:go:result:flow", "state", "done", "workflow", "-")
	server.Do(t, "SET", "resque:go:result:text", "x")
	// Redis moves the keys into its larger table with each look. Until it has, jobs may come twice.
	server.Do(t, "EVAL", "for n = 1, 5000 do redis.call('EXISTS', KEYS[1]) end", 1, "resque:go:result:text")
	for _, count := range []int{50, 500} {
		seen, after := map[string]bool{}, ""
		for {
			page, err := i.ResultsPage(t.Context(), inspect.ResultFilter{State: inspect.StateDone}, after, count)
			if err != nil || len(page.Jobs) > count {
				t.Fatal(len(page.Jobs), err)
			}
			for n, s := range page.Jobs {
				if seen[s.ID] || s.State != inspect.StateDone || s.OfWorkflow || n > 0 && s.Ended.After(page.Jobs[n-1].Ended) {
					t.Fatalf("%v at %d", s, n)
				}
				seen[s.ID] = true
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if len(seen) != 1300 {
			t.Errorf("%d jobs in pages of %d", len(seen), count)
		}
	}
	var failed []string
	for after, more := "", true; more; { // a page ends with its time, so on a busy machine there are several
		page, err := i.ResultsPage(t.Context(), inspect.ResultFilter{Fits: func(s inspect.Status) bool { return s.State == inspect.StateFailed }}, after, 10)
		if err != nil || (page.Next == "") != page.Whole && after == "" || page.Whole && page.Jobs[0].ID != "failed2" {
			t.Fatal(page, err)
		}
		for _, s := range page.Jobs {
			failed = append(failed, s.ID)
		}
		after, more = page.Next, page.Next != ""
	}
	if slices.Sort(failed); !slices.Equal(failed, []string{"failed0", "failed1", "failed2"}) {
		t.Error(failed)
	}
	for _, after := range []string{"x", "e30"} {
		if _, err := i.ResultsPage(t.Context(), inspect.ResultFilter{}, after, 10); !errors.Is(err, inspect.ErrCursor) {
			t.Error(err)
		}
	}
}

// What a job of a workflow and a unique one are tied to is known without Redis.
func TestEntryNames(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "SADD", "resque:queues", "q")
	server.Do(t, "RPUSH", "resque:queue:q", `{"class":"A","args":[],"id":"w1.7","wf":"7 0"}`, `{"class":"A","args":[],"id":"w1.8"}`)
	page, err := i.List(t.Context(), "q", "", 10)
	if err != nil || len(page.Jobs) != 2 {
		t.Fatal(page, err)
	}
	if id, step, ok := page.Jobs[0].Workflow(); !ok || id != "w1" || step != 7 {
		t.Error(id, step, ok)
	}
	if _, _, ok := page.Jobs[1].Workflow(); ok || page.Jobs[1].LockName() != "" {
		t.Error(page.Jobs[1])
	}
}

// A search looks at about as many jobs as it may.
func TestLookAt(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "SADD", "resque:queues", "q")
	for range 50 {
		jobs := []any{"resque:queue:q"}
		for n := range 100 {
			jobs = append(jobs, fmt.Sprintf(`{"class":"A","args":[%d]}`, n))
		}
		server.Do(t, "RPUSH", jobs...)
	}
	page, err := i.Find(t.Context(), inspect.Query{Class: "B"}, "", 10, inspect.LookAt(2000))
	if err != nil || page.Next == "" || page.Seen < 2000 || page.Seen > 4000 || page.Of < 5000 {
		t.Error(page, err)
	}
}

// Redis moves its keys into a larger or a smaller table between the looks of a walk. No job is left out.
func TestResultsPageOfAChangingTable(t *testing.T) {
	for name, script := range map[string]string{
		"grows":   "for n = 1, 3000 do redis.call('SET', 'other' .. n, n) end",
		"shrinks": "for n = 1, 60000 do redis.call('DEL', 'other' .. n) end",
	} {
		t.Run(name, func(t *testing.T) {
			i, server, _ := setup(t)
			keep(t, server, "done", 0, 1300)
			if name == "shrinks" {
				server.Do(t, "EVAL", "for n = 1, 60000 do redis.call('SET', 'other' .. n, n) end for n = 1, 70000 do redis.call('EXISTS', 'other') end", 0)
			}
			seen, after := map[string]bool{}, ""
			for pages := 0; ; pages++ {
				page, err := i.ResultsPage(t.Context(), inspect.ResultFilter{}, after, 50)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range page.Jobs {
					seen[s.ID] = true
				}
				if after = page.Next; after == "" {
					break
				}
				if pages == 2 {
					server.Do(t, "EVAL", script, 0)
				}
			}
			if len(seen) != 1300 {
				t.Errorf("%d of 1300 jobs", len(seen))
			}
		})
	}
}
