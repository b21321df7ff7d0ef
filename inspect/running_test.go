package inspect_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// shows puts a worker of another program into a Redis, with a job that began so long ago.
func shows(t *testing.T, server *redistest.Server, worker, queue, payload string, ago time.Duration) {
	t.Helper()
	server.Do(t, "SADD", "resque:workers", worker)
	server.Do(t, "SET", "resque:worker:"+worker, fmt.Sprintf(`{"queue":%q,"run_at":%q,"payload":%s}`, queue, time.Now().Add(-ago).UTC().Format(time.RFC3339), payload))
}

// runningJobs walks through all pages.
func runningJobs(t *testing.T, i *inspect.Inspector, count int, f inspect.RunningFilter) (all []inspect.RunningJob) {
	t.Helper()
	for after, calls := "", 0; ; calls++ {
		page, err := i.Running(t.Context(), after, count, f)
		if err != nil || len(page.Refused) > 0 || len(page.Jobs) > count || page.Seen > page.Of || calls > 5000 {
			t.Fatalf("%+v, %v, refused %v", page, err, page.Refused)
		}
		all = append(all, page.Jobs...)
		if after = page.Next; after == "" {
			if page.Seen != page.Of {
				t.Errorf("seen %d of %d", page.Seen, page.Of)
			}
			return all
		}
	}
}

// The jobs of goworker, of other programs and of clients are one list, the longest first, page by page, and reading changes nothing.
func TestRunning(t *testing.T) {
	i, server, _ := setup(t)
	lease(t, server, "web:1:r")
	lease(t, server, "web:2:r")
	server.Do(t, "HSET", "resque:go:process:web:1:r", "stuck", fmt.Sprintf(`[{"queue":"mail","class":"S","id":"s1","worker":"web.go:1-1:mail","started":%d,"limit":60000}]`, time.Now().Add(-4*time.Hour).UnixMilli()))
	large := `{"class":"L","args":["` + strings.Repeat("x", 300_000) + `"],"id":"l1"}`
	server.Do(t, "HSET", "resque:go:inflight:web:1:r", 1, `4:mail{"class":"S","args":[1],"id":"s1","attempt":2}`, 2, `4:mail{"class":"A","args":[2],"id":"a1"}`, 10, "4:mail"+large)
	server.Do(t, "HSET", "resque:go:inflight:web:2:r", 7, `+0:3:low3:low{"class":"B","args":[]}`, 8, "what another program wrote")
	shows(t, server, "web.go:1-0:mail", "mail", `{"class":"A","args":[2],"id":"a1"}`, 2*time.Hour)
	shows(t, server, "web.go:2-0:mail", "mail", large, 90*time.Minute) // of another process than the one that has it
	shows(t, server, "web.go:1-1:mail", "mail", large, 3*time.Hour)
	shows(t, server, "rails:9:*", "rails", `{"class":"R","args":[{"a":1}]}`, time.Hour)
	shows(t, server, "rails:10:*", "rails", large, 30*time.Minute)
	server.Do(t, "SADD", "resque:workers", "idle:1:*")
	server.Do(t, "SADD", "resque:workers", "odd:1:*")
	server.Do(t, "SET", "resque:worker:odd:1:*", "no JSON")
	ends := time.Now().Add(time.Minute)
	server.Do(t, "ZADD", "resque:go:leases", ends.UnixMilli(), "4:hooksh1", ends.UnixMilli(), "4:hookgone")
	server.Do(t, "HSET", "resque:go:leased", "4:hooksh1", `{"class":"H","args":[3]}`)
	server.Do(t, "SET", "resque:go:progress:a1", `{"done":3,"total":10,"note":"at it"}`)
	before := server.Dump(t, "")

	all := runningJobs(t, i, 500, inspect.RunningFilter{})
	var got []string
	for _, j := range all {
		j.Shard = ""
		got = append(got, fmt.Sprintf("%s %s %s %s %s %d", j.Source, cmp.Or(j.Process, j.Worker), j.Queue, j.Class, j.ID, j.Attempt))
	}
	want(t, "jobs", []string{
		"goworker web:1:r mail S s1 2", "goworker web:1:r mail L  0", "goworker web:1:r mail A a1 1", "other rails:9:* rails R  1", "other rails:10:* rails L  0",
		"other odd:1:*    0", "goworker web:2:r low B  1", "goworker web:2:r    0", "http  hook H sh1 1",
	}, got, nil)
	stuck, big, a, http := all[0], all[1], all[2], all[8]
	if !stuck.Stuck || stuck.Limit != time.Minute || stuck.Worker != "web.go:1-1:mail" || time.Since(stuck.Began) < 3*time.Hour {
		t.Errorf("%+v", stuck)
	}
	if !big.Cut || len(big.Payload) != 2048 || big.Size != int64(len(large)) || big.Ticket != 10 || big.Args != nil || big.Began.IsZero() {
		t.Errorf("cut %v, %d of %d bytes, began %v", big.Cut, len(big.Payload), big.Size, big.Began)
	}
	if a.Progress == nil || a.Progress.Done != 3 || a.Worker != "web.go:1-0:mail" || a.Host != "web" || a.Cut || string(a.Args[0]) != "2" {
		t.Errorf("%+v", a)
	}
	if all[4].Size != int64(len(large)) && all[4].Size != int64(len(large))+1 || !all[4].Cut {
		t.Errorf("%+v", all[4].Size)
	}
	if http.LeaseEnds.UnixMilli() != ends.UnixMilli() || !http.Began.IsZero() || string(http.Payload) != `{"class":"H","args":[3]}` {
		t.Errorf("%+v", http)
	}
	for _, count := range []int{1, 2, 5} {
		want(t, fmt.Sprint("pages of ", count), all, runningJobs(t, i, count, inspect.RunningFilter{}), nil)
	}
	for name, f := range map[string]inspect.RunningFilter{
		"3 of mail":       {Queue: func(name string) bool { return name == "mail" }},
		"2 of class L":    {Class: "L"},
		"2 with rails":    {Text: "rails"},
		"1 with args":     {Text: `"args":[2]`},
		"0 with all":      {Class: "A", Text: "rails"},
		"1 of class H":    {Class: "H"},
		"1 by its worker": {Text: "web.go:1-0"},
	} {
		var n int
		if _, err := fmt.Sscan(name, &n); err != nil {
			t.Fatal(err)
		}
		if found := runningJobs(t, i, 1, f); len(found) != n {
			t.Errorf("%s: %d", name, len(found))
		}
	}
	want(t, "keys", before, server.Dump(t, ""), nil)

	page, err := i.Running(t.Context(), "", 1, inspect.RunningFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []string{"!", "aGk", page.Next} {
		if _, err := i.Running(t.Context(), after, 1, inspect.RunningFilter{Class: "other"}); !errors.Is(err, inspect.ErrCursor) {
			t.Errorf("%q: %v", after, err)
		}
	}
}

// Keys of another type hide nothing but what is in them.
func TestRunningRefused(t *testing.T) {
	i, server, _ := setup(t)
	lease(t, server, "web:1:r")
	lease(t, server, "web:2:r")
	server.Do(t, "DEL", "resque:go:inflight:web:1:r", "resque:go:process:web:2:r")
	server.Do(t, "MSET", "resque:go:inflight:web:1:r", "x", "resque:go:process:web:2:r", "x", "resque:go:leases", "x", "resque:go:leased", "x")
	server.Do(t, "HSET", "resque:go:inflight:web:2:r", 1, `3:low{"class":"B","args":[]}`)
	server.Do(t, "SADD", "resque:workers", "h:1:*", "h:2:*")
	server.Do(t, "RPUSH", "resque:worker:h:1:*", "x")
	shows(t, server, "h:2:*", "low", `{"class":"R","args":[]}`, time.Hour)
	page, err := i.Running(t.Context(), "", 10, inspect.RunningFilter{})
	if err != nil || len(page.Jobs) != 2 || page.Next != "" || len(page.Refused) != 3 {
		t.Errorf("%+v, %v, refused %v", page.Jobs, err, page.Refused)
	}
	server.Do(t, "DEL", "resque:go:processes", "resque:workers")
	server.Do(t, "MSET", "resque:go:processes", "x", "resque:workers", "x")
	page, err = i.Running(t.Context(), "", 10, inspect.RunningFilter{})
	if err != nil || len(page.Jobs) != 0 || page.Next != "" || len(page.Refused) != 3 {
		t.Errorf("%+v, %v, refused %v", page.Jobs, err, page.Refused)
	}
}

// Of a fleet that is larger than a stretch each job comes, and each stretch is sorted.
func TestRunningInStretches(t *testing.T) {
	i, server, _ := setup(t)
	const fill = `
		local time = redis.call('TIME')[1]
		for p = 1, 150 do
			local id = 'web' .. p .. ':1:r'
			redis.call('ZADD', 'resque:go:processes', time * 1000 + 7000, id)
			redis.call('HSET', 'resque:go:process:' .. id, 'host', 'web' .. p, 'concurrency', 5, 'id_head', 'web' .. p .. '.go:1-', 'id_queues', '*')
			for w = 1, 5 do redis.call('HSET', 'resque:go:inflight:' .. id, w + 9, '3:low{"class":"G","args":["' .. p .. '",' .. w .. ',"' .. string.rep('g', 1900 * (p % 2)) .. '"]}') end
		end
		for n = 1, 2500 do
			redis.call('SADD', 'resque:workers', 'h:' .. n .. ':*')
			if n % 3 == 0 then redis.call('SET', 'resque:worker:h:' .. n .. ':*', '{"queue":"low","run_at":"' .. 1700000000 + n .. '","payload":{"class":"R","args":[' .. n .. ',"' .. string.rep('r', 1500) .. '"]}}') end
		end
		for n = 1, 300 do
			redis.call('ZADD', 'resque:go:leases', time * 1000 + n, '3:lowj' .. n)
			redis.call('HSET', 'resque:go:leased', '3:lowj' .. n, '{"class":"H","args":[' .. n .. ',"' .. string.rep('h', 1900) .. '"]}')
		end`
	server.Do(t, "EVAL", fill, 0)
	for _, count := range []int{50, 500} {
		all := runningJobs(t, i, count, inspect.RunningFilter{})
		classes := make(map[string]int)
		var names []string
		for _, j := range all {
			classes[j.Class]++
			names = append(names, fmt.Sprint(j.Process, j.Ticket, j.Worker, j.ID))
		}
		slices.Sort(names)
		if n := len(slices.Compact(slices.Clone(names))); classes["G"] != 750 || classes["R"] != 833 || classes["H"] != 300 || n != len(all) {
			t.Errorf("pages of %d: %v, %d of %d different", count, classes, n, len(all))
		}
	}
}
