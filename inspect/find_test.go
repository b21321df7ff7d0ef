package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// everywhere puts a job of class A with the argument 1 into every place where a job can be, and others beside it.
func everywhere(t *testing.T, server *redistest.Server) {
	t.Helper()
	server.Do(t, "SADD", "resque:queues", "low", "mail")
	server.Do(t, "RPUSH", "resque:queue:low", `{"class":"A","args":[1]}`, `{"class":"A","args":[2]}`, `{"class":"A","args":[1]}`,
		`{"class":"B","args":[]}`, `{"args": [1], "class": "A", "id": "odd"}`, `not JSON`)
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[1],"id":"mine"}`)
	lane := resque.NewLane("mail", resque.Limit{Kind: resque.LimitRunning, Name: "A/key", Keyed: true, Key: "x"})
	laned(t, server, lane, `{"class":"A","args":[1],"id":"laned"}`, `{"class":"A","args":[3]}`)
	server.Do(t, "ZADD", "resque:go:schedule", 1_900_000_000_000, `3:low{"class":"A","args":[1],"id":"later"}`)
	server.Do(t, "ZADD", "resque:go:schedule", 1_900_000_000_001, `3:low{"class":"B","args":[1],"id":"other"}`)
	plainly(t, server, 1_900_000_000, `{"class":"A","args":[1],"queue":"low"}`, `{"class":"A","args":[4],"queue":"low"}`)
	server.Do(t, "ZADD", "resque:go:processes", 1_900_000_000_000, "h:1:a")
	server.Do(t, "HSET", "resque:go:inflight:h:1:a", "entered", "mark", 7, `3:low{"class":"A","args":[1],"id":"runs"}`, 8, `3:low{"class":"B","args":[1]}`)
	server.Do(t, "RPUSH", "resque:failed", record("A", 1), record("B", 1), "no record")
}

// laned puts jobs into a lane, as the sorter does.
func laned(t *testing.T, server *redistest.Server, lane resque.Lane, jobs ...string) {
	t.Helper()
	for _, job := range jobs {
		server.Do(t, "RPUSH", resque.New("").KeyOfLane(lane), job)
	}
	member := resque.JobPrefix(lane.Queue) + lane.Shared
	server.Do(t, "SADD", "resque:go:lanes", member)
	server.Do(t, "ZADD", "resque:go:lanes:"+member, 5, lane.Own)
}

// plainly delays items as resque-scheduler does.
func plainly(t *testing.T, server *redistest.Server, second int, items ...string) {
	t.Helper()
	for _, item := range items {
		server.Do(t, "RPUSH", fmt.Sprint("resque:delayed:", second), item)
		server.Do(t, "SADD", "resque:timestamps:"+item, fmt.Sprint("delayed:", second))
		server.Do(t, "ZADD", "resque:delayed_queue_schedule", second, second)
	}
}

// found walks through all jobs that match, in pages of so many, and says which and where.
func found(t *testing.T, i *inspect.Inspector, q inspect.Query, count int) (said []string) {
	t.Helper()
	for after, pages := "", 0; ; pages++ {
		page, err := i.Find(t.Context(), q, after, count)
		if err != nil || pages > 1000 {
			t.Fatalf("page %d: %v", pages, err)
		}
		if len(page.Jobs) > count {
			t.Errorf("%d jobs on a page of %d", len(page.Jobs), count)
		}
		for _, e := range page.Jobs {
			said = append(said, fmt.Sprintf("%s %s %s %s", e.Place, e.Queue, e.Class, e.ID))
		}
		if after = page.Next; after == "" {
			return said
		}
	}
}

func TestFindEverywhere(t *testing.T) {
	i, server, _ := setup(t)
	everywhere(t, server)
	tests := []struct {
		name  string
		query inspect.Query
		want  []string
	}{
		{"by class and arguments", inspect.Query{Class: "A", Args: []any{1}}, []string{
			"delayed low A later", "delayed low A ", "queued low A odd", "queued low A ", "queued low A ", "queued mail A mine",
			"lane mail A laned", "running low A runs", "failed q A x"}},
		{"by id", inspect.Query{ID: "mine"}, []string{"queued mail A mine"}},
		{"by id, running", inspect.Query{ID: "runs"}, []string{"running low A runs"}},
		{"by id, in a lane", inspect.Query{ID: "laned"}, []string{"lane mail A laned"}},
		{"by class", inspect.Query{Class: "B"}, []string{"delayed low B other", "queued low B ", "running low B ", "failed q B x"}},
		{"without arguments", inspect.Query{Class: "B", Args: []any{}}, []string{"queued low B "}},
		{"of a queue", inspect.Query{Queue: "mail"}, []string{"queued mail A mine", "lane mail A ", "lane mail A laned"}},
		{"of one place", inspect.Query{Class: "A", Places: []inspect.Place{inspect.Delayed}}, []string{"delayed low A later", "delayed low A ", "delayed low A "}},
		{"what is no job", inspect.Query{Queue: "low", Places: []inspect.Place{inspect.Queued}}, []string{
			"queued low  ", "queued low A odd", "queued low B ", "queued low A ", "queued low A ", "queued low A "}},
		{"nothing", inspect.Query{Class: "C"}, nil},
	}
	for _, test := range tests {
		for _, count := range []int{1, 2, 500} {
			want(t, fmt.Sprint(test.name, ", pages of ", count), test.want, found(t, i, test.query, count), nil)
		}
	}
	page, err := i.Find(t.Context(), inspect.Query{Class: "A", Args: []any{1}, Places: []inspect.Place{inspect.InLane}}, "", 9)
	want(t, "limits", []string{"A/key=x"}, page.Jobs[0].Limits, err)
	plain, err := i.Find(t.Context(), inspect.Query{Queue: "low", Class: "A", Args: []any{1}, Places: []inspect.Place{inspect.Queued}}, "", 9)
	if err != nil {
		t.Fatal(err)
	}
	ref := plain.Jobs[1].Ref
	want(t, "by ref, a plain job in both places", []string{"delayed low A ", "queued low A ", "queued low A "}, found(t, i, inspect.Query{Ref: ref}, 2), nil)
	n := 0
	for e, err := range i.All(t.Context(), inspect.Query{Class: "A"}) {
		if n++; err != nil || e.Class != "A" {
			t.Errorf("%v, %v", e, err)
		}
	}
	want(t, "all of a class", 12, n, nil)
}

func TestListPages(t *testing.T) {
	i, server, _ := setup(t)
	for n := range 950 {
		server.Do(t, "RPUSH", "resque:queue:q", fmt.Sprintf(`{"class":"A","args":[%d]}`, n))
	}
	lane := resque.NewLane("q", resque.Limit{Kind: resque.LimitNone, Name: "f", Keyed: true, Key: "x"})
	laned(t, server, lane, `{"class":"L","args":[]}`)
	var listed []string
	for after := ""; ; {
		page, err := i.List(t.Context(), "q", after, 300)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Jobs {
			listed = append(listed, string(e.Payload))
		}
		// Workers take some, and a producer pushes one, between two pages.
		server.Do(t, "LPOP", "resque:queue:q", 20)
		if after = page.Next; after == "" {
			break
		}
	}
	for n := range 950 {
		job := fmt.Sprintf(`{"class":"A","args":[%d]}`, n)
		if !slices.Contains(listed, job) {
			t.Fatalf("%s is on no page", job)
		}
	}
	want(t, "the head first", `{"class":"A","args":[0]}`, listed[0], nil)
	want(t, "the lanes last", `{"class":"L","args":[]}`, listed[len(listed)-1], nil)
	want(t, "each once", 951, len(listed), nil)
}

// A walk from the tail misses no job that is there all the time, whatever else happens to the list.
func TestWalkAmongChanges(t *testing.T) {
	i, server, _ := setup(t)
	const jobs = 3000
	for n := range jobs {
		server.Do(t, "RPUSH", "resque:queue:q", fmt.Sprintf(`{"class":"A","args":[%d]}`, n))
	}
	seen := make(map[string]bool)
	page, err := i.Find(t.Context(), inspect.Query{Queue: "q"}, "", 100)
	for step := 0; ; step++ {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Jobs {
			seen[string(e.Args[0])] = true
		}
		if page.Next == "" {
			break
		}
		server.Do(t, "LPUSH", "resque:queue:q", `{"class":"New","args":["head"]}`, `{"class":"New","args":["head"]}`)
		server.Do(t, "RPUSH", "resque:queue:q", `{"class":"New","args":["tail"]}`)
		if step%2 == 0 { // one that was not seen yet, and one that was
			server.Do(t, "LREM", "resque:queue:q", 1, fmt.Sprintf(`{"class":"A","args":[%d]}`, step))
			server.Do(t, "LREM", "resque:queue:q", 1, fmt.Sprintf(`{"class":"A","args":[%d]}`, jobs-1-step))
		}
		page, err = i.Find(t.Context(), inspect.Query{Queue: "q"}, page.Next, 100)
	}
	for _, job := range server.List(t, "LRANGE", "resque:queue:q", 0, -1) {
		arg, ok := strings.CutPrefix(job, `{"class":"A","args":[`)
		if ok && !seen[strings.TrimSuffix(arg, "]}")] {
			t.Fatalf("%s was there all the time and on no page", job)
		}
	}
}

// A walk through many lanes misses none that is there all the time, while others come and go.
func TestWalkThroughLanes(t *testing.T) {
	i, server, _ := setup(t)
	const lanes = 700
	lane := func(n int) resque.Lane {
		return resque.NewLane("q", resque.Limit{Kind: resque.LimitNone, Name: "f", Keyed: true, Key: strings.Repeat("k", 70) + fmt.Sprint(n)})
	}
	for n := range lanes {
		laned(t, server, lane(n), fmt.Sprintf(`{"class":"A","args":[%d]}`, n), fmt.Sprintf(`{"class":"A","args":[%d],"id":"second"}`, n))
	}
	seen := make(map[string]int)
	for after, step := "", 0; ; step++ {
		page, err := i.List(t.Context(), "q", after, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Jobs {
			seen[string(e.Args[0])+e.ID]++
		}
		if after = page.Next; after == "" {
			break
		}
		if step < 150 { // the set shrinks under the walk
			l := lane(lanes - 1 - 3*step)
			server.Do(t, "ZREM", "resque:go:lanes:1:q"+l.Shared, l.Own)
		}
	}
	for n := range lanes {
		gone := n >= 250 && (lanes-1-n)%3 == 0
		if !gone && (seen[fmt.Sprint(n)] == 0 || seen[fmt.Sprint(n)+"second"] == 0) {
			t.Fatalf("the jobs of lane %d are on no page", n)
		}
	}
}

// A search of a long queue sends what matches, and reads a bounded part of the queue in one step.
func TestBoundedReads(t *testing.T) {
	i, server, _ := setup(t)
	c := server.Dial(t)
	const jobs = 100_000
	for n := range jobs {
		if err := c.Send("RPUSH", "resque:queue:q", fmt.Sprintf(`{"class":"A","args":[%d,"%s"]}`, n, strings.Repeat("x", 80))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Do("RPUSH", "resque:queue:q", `{"class":"B","args":[1],"id":"last"}`); err != nil {
		t.Fatal(err)
	}
	before := sent(t, server)
	page, err := i.Find(t.Context(), inspect.Query{Queue: "q", Class: "Nowhere", Places: []inspect.Place{inspect.Queued}}, "", 500)
	if err != nil || page.Next == "" || len(page.Jobs) != 0 || page.Looked < 9_000 || page.Looked > 12_000 {
		t.Fatalf("looked at %d of %d, next %q, %v", page.Looked, jobs, page.Next, err)
	}
	if bytes := sent(t, server) - before; bytes > 100_000 {
		t.Errorf("one call brought %d bytes", bytes)
	}
	monitor := server.Monitor(t)
	before = sent(t, server)
	n, err := i.Dequeue(t.Context(), job("q", "B", 1))
	want(t, "dequeued of 100,000", 1, n, err)
	if bytes := sent(t, server) - before; bytes > 500_000 {
		t.Errorf("a dequeue brought %d bytes of some 11 MB", bytes)
	}
	t.Logf("a dequeue sent %d commands and brought %d bytes", len(monitor.Commands()), sent(t, server)-before)
	if commands := len(monitor.Commands()); commands > 200 {
		t.Errorf("a dequeue sent %d commands", commands)
	}
	for _, command := range append(monitor.Commands(), monitor.Inner()...) {
		if command[0] != "LRANGE" {
			continue
		}
		var from, to int
		_, _ = fmt.Sscan(command[2]+" "+command[3], &from, &to)
		if to < 0 || to-from >= 2001 {
			t.Errorf("read from %d to %d in one step", from, to)
		}
	}
}

// sent is how many bytes the server has sent to clients.
func sent(t *testing.T, server *redistest.Server) (n int) {
	t.Helper()
	for line := range strings.Lines(server.Text(t, "INFO", "stats")) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "total_net_output_bytes:"); ok {
			_, _ = fmt.Sscan(text, &n)
		}
	}
	return n
}

// A key of the wrong type hides no other.
func TestFindAmongWrongTypes(t *testing.T) {
	for _, key := range []string{"resque:go:schedule", "resque:delayed_queue_schedule", "resque:delayed:1900000000", "resque:queue:low", "resque:go:lanes",
		"resque:go:lane:4:mail9:f:A%2Fkeyc:A%2Fkey=x", "resque:go:lanes:4:mailf:A%2Fkey", "resque:go:processes", "resque:go:inflight:h:1:a", "resque:failed"} {
		t.Run(key, func(t *testing.T) {
			i, server, _ := setup(t)
			everywhere(t, server)
			all := found(t, i, inspect.Query{Class: "A"}, 500)
			if server.Int(t, "DEL", key) != 1 {
				t.Fatalf("no such key; there are %q", server.Keys(t))
			}
			server.Do(t, "SET", key, "spoiled")
			page, err := i.Find(t.Context(), inspect.Query{Class: "A"}, "", 500)
			if err != nil || page.Next != "" || len(page.Jobs) >= len(all) || len(page.Jobs) < len(all)-4 {
				t.Errorf("%d jobs of %d, next %q, %v", len(page.Jobs), len(all), page.Next, err)
			}
			if said := errors.Join(page.Refused...); said == nil || !strings.Contains(said.Error(), "rename or remove that key") {
				t.Errorf("refused: %v", said)
			}
		})
	}
}

func TestMistakesOfWalks(t *testing.T) {
	i, server, l := setup(t)
	server.Do(t, "RPUSH", "resque:queue:q", `{"class":"A","args":[1]}`, `{"class":"A","args":[2]}`)
	page, err := i.Find(t.Context(), inspect.Query{Queue: "q"}, "", 1)
	if err != nil || page.Next == "" {
		t.Fatal(page, err)
	}
	find := func(q inspect.Query, after string, count int) func() error {
		return func() error { _, err := i.Find(t.Context(), q, after, count); return err }
	}
	calls := map[string]func() error{
		"1 to 500 jobs, not 0":   find(inspect.Query{}, "", 0),
		"1 to 500 jobs, not 501": find(inspect.Query{}, "", 501),
		"has Args and no Class":  find(inspect.Query{Args: []any{1}}, "", 1),
		"is no place of jobs":    find(inspect.Query{Places: []inspect.Place{"nowhere"}}, "", 1),
		"is no ref of a job":     find(inspect.Query{Ref: "x"}, "", 1),
		"cannot be encoded":      find(inspect.Query{Class: "A", Args: []any{func() {}}}, "", 1),
		"is not where a walk":    find(inspect.Query{}, "nonsense", 1),
		"another query":          find(inspect.Query{Queue: "other"}, page.Next, 1),
		"to list has no name":    func() error { _, err := i.List(t.Context(), "", "", 1); return err },
		"would change the jobs of all queues": func() error {
			_, err := i.RemoveWhere(t.Context(), inspect.Query{}, "")
			return err
		},
		"cannot change running jobs": func() error {
			_, err := i.RemoveWhere(t.Context(), inspect.Query{Class: "A", Places: []inspect.Place{inspect.Running}}, "")
			return err
		},
		"those in queues run anyway": func() error {
			_, err := i.RunWhere(t.Context(), inspect.Query{Class: "A", Places: []inspect.Place{inspect.Queued}}, inspect.Head, "")
			return err
		},
		"is no end of a queue":   func() error { _, err := i.RunNow(t.Context(), "side", page.Jobs[0]); return err },
		"to move jobs to has no": func() error { _, err := i.Move(t.Context(), "", page.Jobs[0]); return err },
		"does not come from Find": func() error {
			_, err := i.Remove(t.Context(), inspect.Entry{Queue: "q", Payload: page.Jobs[0].Payload})
			return err
		},
		"the edit changes nothing": func() error { _, err := i.Edit(t.Context(), page.Jobs[0], inspect.Edit{}); return err },
		"1 to 10000 changes":       func() error { _, err := i.Audit(t.Context(), 0); return err },
	}
	before := server.Dump(t, "")
	for text, call := range calls {
		if err := call(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want an error with %q", err, text)
		}
	}
	want(t, "keys after mistakes", before, server.Dump(t, ""), nil)
	l.closed = true
	if _, err := i.Remove(t.Context(), page.Jobs...); !errors.Is(err, errClosed) {
		t.Errorf("%v after the owner was closed", err)
	}
}
