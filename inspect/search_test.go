package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/fingerprint"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// searched fills a Redis with jobs in every place, each with an id by which the tables name it.
func searched(t *testing.T, server *redistest.Server) {
	t.Helper()
	server.Do(t, "SADD", "resque:queues", "mail", "low", "a*")
	old, fresh := now.Add(-time.Hour).UnixMilli(), now.Add(-time.Minute).UnixMilli()
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"SendMail","args":[{"account":7,"tags":["x","y"]},"two"],"id":"q1"}`,
		fmt.Sprintf(`{"class":"SendText","args":[{"account":"7","a.b":{"c":null}}],"meta":{"tenant":"acme","size":4},"queued_at":%d,"id":"q2"}`, old),
		fmt.Sprintf(`{"class":"Resize","args":[],"queued_at":%d,"id":"q3"}`, fresh), "no job")
	server.Do(t, "RPUSH", "resque:queue:a*", `{"class":"Caf\u00e9","args":["say \"hi\""],"id":"q4"}`)
	server.Do(t, "RPUSH", "resque:queue:low",
		`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"SendRails","job_id":"r1","arguments":[{"account":7}]}],"id":"q5"}`)
	laned(t, server, resque.Lane{Queue: "mail", Shared: "L", Own: "one"}, `{"class":"SendLane","args":[],"id":"l1"}`)
	server.Do(t, "ZADD", "resque:go:schedule", now.Add(time.Minute).UnixMilli(), `4:mail{"class":"SendLater","args":[],"id":"d1"}`,
		now.Add(time.Hour).UnixMilli(), `4:mail{"class":"SendAgain","args":[],"attempt":2,"id":"d2"}`)
	server.Do(t, "ZADD", "resque:go:processes", 1_900_000_000_000, "media-1:7:ab", 1_900_000_000_001, "media-2:8:cd")
	server.Do(t, "HSET", "resque:go:process:media-1:7:ab", "version", "4f2a", "concurrency", 2, "id_head", "media-1.go:7-", "id_queues", "mail")
	server.Do(t, "HSET", "resque:go:inflight:media-1:7:ab", 1, `4:mail{"class":"SendNow","args":[],"id":"w1"}`)
	server.Do(t, "SET", "resque:worker:media-1.go:7-1:mail", fmt.Sprintf(`{"queue":"mail","run_at":%q,"payload":{"class":"SendNow","args":[],"id":"w1"}}`,
		now.Add(-10*time.Minute).Format(time.RFC3339)))
	server.Do(t, "HSET", "resque:go:inflight:media-2:8:cd", 1, `3:low{"class":"Resize","args":[],"id":"w2"}`)
	server.Do(t, "HSET", "resque:go:leased", "4:mailh1", `{"class":"SendHeld","args":[],"id":"h1"}`)
	server.Do(t, "ZADD", "resque:go:leases", 1_900_000_000_000, "4:mailh1")
	fail := func(id, class, exception, text, worker string, ago time.Duration, retried string) {
		server.Do(t, "RPUSH", "resque:failed", string(payload.Failure{
			FailedAt: now.Add(-ago).Format("2006/01/02 15:04:05 UTC"), Payload: fmt.Appendf(nil, `{"class":%q,"args":[{"account":7}],"id":%q}`, class, id),
			Exception: exception, Error: text, Worker: worker, Queue: "mail", RetriedAt: retried,
		}.Encode()))
	}
	fail("f1", "SendMail", "Net::OpenTimeout", "execution expired", "media-1:7:mail", time.Minute, "")
	fail("f2", "SendMail", "EOF", "read Timeout after 5 s", "web.go:9-1:mail", 3*time.Hour, "2026/11/22 11:00:00")
	fail("f3", "Resize", "Oops", `it said "no"`, "media-2:8:low", 48*time.Hour, "")
}

// sought is what a search finds, by ids, and how many jobs it could not decide about.
func sought(t *testing.T, i *inspect.Inspector, text string) (ids []string, unsure int) {
	t.Helper()
	q, err := inspect.ParseQuery(text, now)
	if err != nil {
		t.Fatal(err)
	}
	for after := ""; ; {
		page, err := i.Find(t.Context(), q, after, 3)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, e := range page.Jobs {
			ids = append(ids, e.ID)
		}
		unsure += page.Unsure
		if after = page.Next; after == "" {
			slices.Sort(ids)
			return ids, unsure
		}
	}
}

// Each condition finds the jobs that fulfil it, in every place, on pages of three.
func TestSearch(t *testing.T) {
	i, server, _ := setup(t)
	searched(t, server)
	for text, want := range map[string]string{
		"class:SendMail":                  "f1 f2 q1",
		"class:Send*":                     "d1 d2 f1 f2 h1 l1 q1 q2 q5 w1",
		"class:*e*d* -class:SendMail":     "d1 d2 h1 l1 q2 q5 w1",
		"class:SendRails":                 "q5",
		"class:Café":                      "q4",
		`class:"Send*"`:                   "",
		"queue:low":                       "q5 w2",
		`queue:"a*"`:                      "q4",
		"queue:a*":                        "q4",
		"queue:m*l state:queued class:S*": "q1 q2",
		"-queue:mail":                     "q4 q5 w2",
		"id:f1":                           "f1",
		"id:r1":                           "q5",
		"id:d*":                           "d1 d2",
		"error:timeout":                   "f1 f2",
		`error:"Timeout"`:                 "f1 f2",
		`error:"timeout"`:                 "",
		"-error:timeout state:failed":     "f3",
		"exception:Net::*":                "f1",
		"group:" + fingerprint.Of("Resize", "Oops", "it said ‹text›").String():                    "f3",
		"-group:" + fingerprint.Of("Resize", "Oops", "it said ‹text›").String() + " state:failed": "f1 f2",
		"worker:media-1":                       "f1 w1",
		"worker:media-1:7":                     "f1 w1",
		"worker:web":                           "f2",
		"worker:media-*":                       "f1 f3 w1 w2",
		"worker:medi":                          "",
		"version:4f2":                          "w1",
		"state:failed":                         "f1 f2 f3",
		"state:leased":                         "h1",
		"state:running":                        "h1 w1 w2",
		"state:waiting class:S*":               "l1 q1 q2 q5",
		"state:delayed":                        "d1 d2",
		"state:retrying":                       "d2",
		"state:retrying,failed":                "d2 f1 f2 f3",
		"-state:waiting,failed":                "d1 d2 h1 w1 w2",
		"arg.0.account:7":                      "f1 f2 f3 q1 q2 q5",
		"arg.0.tags.1:y":                       "q1",
		"arg.1:two":                            "q1",
		`arg.0."a.b".c:null`:                   "q2",
		`args:[{"account":7}]`:                 "f1 f2 f3 q5",
		"meta.tenant:acme":                     "q2",
		"meta.tenant:a*":                       "q2",
		"meta.size:4":                          "q2",
		"retried":                              "f2",
		"state:failed -retried":                "f1 f3",
		`"\"hi\""`:                             "q4",
		`"Café"`:                               "q4",
		`"no\""`:                               "f3",
		"sendtext":                             "q2",
		"expired":                              "f1",
		"due:<10m":                             "d1",
		"due:>10m":                             "d2",
		"state:failed since:2h":                "f1",
		"state:failed since:2d until:2h":       "f2 f3",
		"state:running for:>5m":                "w1",
		"state:running for:<5m":                "",
		"state:queued for:>30m":                "q2",
		"state:queued for:<30m":                "q3",
		"class:Send* arg.0.account:7 -retried": "f1 q1 q2 q5",
	} {
		ids, _ := sought(t, i, text)
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]int{"state:queued for:>30m": 4, "state:queued class:SendMail since:1h": 1, "state:running since:1h": 2, "state:failed since:1h": 0} {
		if _, unsure := sought(t, i, text); unsure != want {
			t.Errorf("%s: %d jobs of which nothing is known, want %d", text, unsure, want)
		}
	}
	for _, c := range []inspect.Condition{{Name: "x"}, {Name: "arg"}, {Name: "state", Value: "x"}, {Name: "for", Value: "5m"}} {
		if _, err := i.Find(t.Context(), inspect.Query{Where: []inspect.Condition{c}}, "", 1); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// Calls that change many jobs change those that a search finds, and refuse one that says nothing of the jobs.
func TestSearchChanges(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	searched(t, server)
	parse := func(text string) inspect.Query {
		t.Helper()
		q, err := inspect.ParseQuery(text, now)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	for _, text := range []string{"", "state:queued", "-class:X", "class:*", "since:2h"} {
		if _, err := i.RemoveWhere(ctx, parse(text), ""); err == nil || !strings.Contains(err.Error(), "all queues") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := i.RemoveWhere(ctx, parse("class:S* state:running"), ""); err == nil || !strings.Contains(err.Error(), "running") {
		t.Error(err)
	}
	done, err := i.MoveWhere(ctx, parse("class:Send* arg.0.account:7 -class:SendRails state:queued"), "slow", "")
	want(t, "moved", 2, done.Changed, err)
	done, err = i.RemoveWhere(ctx, parse("class:Re* -queue:low"), "")
	want(t, "removed", 1, done.Changed, err)
	done, err = i.RunWhere(ctx, parse("class:Send* state:retrying"), inspect.Tail, "")
	want(t, "run", 1, done.Changed, err)
	done, err = i.RemoveWhere(ctx, parse("error:timeout state:failed"), "")
	want(t, "failures removed", 2, done.Changed, err)

	q := parse("arg.0.account:7 class:Resize since:3d")
	filter := inspect.FailureFilter{Query: &q}
	found, _, err := i.Failures().Search(ctx, filter, "", 10)
	want(t, "failures", 1, len(found), err)
	groups, err := i.Failures().Groups(ctx, filter)
	want(t, "groups", 1, len(groups), err)
	none := parse("arg.0.account:8")
	done, err = i.Failures().RetryStep(ctx, inspect.FailureFilter{Query: &none}, "")
	want(t, "retried of others", 0, done.Changed, err)
	done, err = i.Failures().RetryStep(ctx, filter, "")
	want(t, "retried", 1, done.Changed, err)
	bad := inspect.Query{Where: []inspect.Condition{{Name: "x"}}}
	if _, err = i.Failures().RemoveStep(ctx, inspect.FailureFilter{Query: &bad}, ""); err == nil {
		t.Error("a query that means nothing removes failures")
	}
	n, err := i.Failures().RemoveWhere(ctx, filter)
	want(t, "removed at last", 1, n, err)
}

// A search with a budget says how far it came, and goes on from there until it has seen each job once.
func TestBudget(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	server.Do(t, "SADD", "resque:queues", "q")
	const jobs = 3000
	for n := range jobs {
		server.Do(t, "RPUSH", "resque:queue:q", fmt.Sprintf(`{"class":"A","args":[%d]}`, n))
	}
	q := inspect.Query{Queue: "q", Where: []inspect.Condition{{Name: "class", Value: "A"}}}
	seen, calls := make(map[string]bool), 0
	for next := ""; ; calls++ {
		var over *inspect.UnfinishedError
		for e, err := range i.All(ctx, q, inspect.Budget(time.Nanosecond), inspect.From(next)) {
			if err != nil && !errors.As(err, &over) {
				t.Fatal(err)
			}
			if err == nil && seen[string(e.Payload)] {
				t.Fatalf("%s twice", e.Payload)
			}
			if err == nil {
				seen[string(e.Payload)] = true
			}
		}
		if over == nil {
			break
		}
		if over.Looked != int64(len(seen)) || over.Of != jobs || over.Next == next || !strings.Contains(over.Error(), "of about 3000 jobs") {
			t.Fatalf("%+v after %d jobs", over, len(seen))
		}
		next = over.Next
	}
	if len(seen) != jobs || calls < 3 {
		t.Errorf("%d jobs in %d calls", len(seen), calls)
	}
	page, err := i.Find(ctx, q, "", 1, inspect.Budget(time.Hour))
	if err != nil || page.Of != 0 || page.Next == "" || len(page.Jobs) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
}
