package inspect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/groups"
	"github.com/goworker/goworker/internal/resque/leases"
)

// hold has a client hold a job until then.
func hold(t *testing.T, server *redistest.Server, queue, id string, ends time.Time, payload string) {
	t.Helper()
	server.Do(t, "HSET", "resque:go:leased", leases.Place(queue, id), payload)
	server.Do(t, "ZADD", "resque:go:leases", ends.UnixMilli(), leases.Place(queue, id))
}

// The jobs that clients hold are listed by the ends of their leases, each once.
func TestLeases(t *testing.T) {
	i, server, _ := setup(t)
	ends := time.Now().Add(time.Hour)
	for n := range 30 {
		hold(t, server, "mail", fmt.Sprint("id", n), ends.Add(time.Duration(n/7)*time.Minute), fmt.Sprintf(`{"class":"Send","args":[%d],"id":"id%d","attempt":2,"tries":5}`, n, n))
	}
	hold(t, server, "low", "over", ends.Add(-2*time.Hour), `{"class":"HTTPJob","args":["x"]}`)
	server.Do(t, "ZADD", "resque:go:leases", 1, "no place")
	server.Do(t, "ZADD", "resque:go:leases", 2, leases.Place("low", "gone"))
	for _, count := range []int{1, 4, 1000} {
		seen := make(map[string]bool)
		for after, pages := "", 0; ; pages++ {
			page, err := i.Leases(t.Context(), after, count)
			if err != nil || len(page.Jobs) > count || pages > 60 || page.Total != 33 {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, j := range page.Jobs {
				seen[j.ID] = true
				switch {
				case j.ID == "over" && (j.Queue != "low" || j.Left >= 0 || j.Try != 1 || j.Tries != 1 || len(seen) != 1):
					t.Errorf("the one that is over is %+v, %d, %d of %d", j.Entry, j.Left, j.Try, j.Tries)
				case j.ID != "over" && (j.Queue != "mail" || j.Class != "Send" || j.Left < 50*time.Minute || j.Try != 2 || j.Tries != 5 || j.Place != inspect.Leased || j.LeaseID == ""):
					t.Errorf("%+v", j)
				}
			}
			if after = page.Next; after == "" {
				break
			}
		}
		want(t, "jobs", 31, len(seen), nil)
	}
	server.Do(t, "HSET", "resque:go:leased", leases.Place("mail", "id1"), strings.Repeat("x", 2<<20), leases.Place("mail", "id2"), strings.Repeat("x", 2<<20))
	if page, err := i.Leases(t.Context(), "", 1000); err != nil || page.Next == "" || len(page.Jobs) > 10 || page.Jobs[len(page.Jobs)-1].Invalid == nil {
		t.Errorf("large ones: %d, %q, %v", len(page.Jobs), page.Next, err)
	}
	for _, after := range []string{"x", "1", "x+1", "1+-1"} {
		if _, err := i.Leases(t.Context(), after, 10); !errors.Is(err, inspect.ErrCursor) {
			t.Errorf("%q: %v", after, err)
		}
	}
	if _, err := i.Leases(t.Context(), "", 0); err == nil {
		t.Error("none may be asked for")
	}
}

// A released lease has ended for every process, after a jump of Redis's clock too. Another lease stays.
func TestReleaseLease(t *testing.T) {
	i, server, _ := setup(t)
	i = i.By("ada", "stuck").Face("dashboard")
	s, c := leases.New(resque.New("")), server.Dial(t)
	ends := time.Now().Add(time.Hour)
	for _, id := range []string{"a", "b", "c"} {
		hold(t, server, "mail", id, ends, `{"class":"Send","args":[]}`)
	}
	if err := s.Jump(c, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	page, err := i.Leases(t.Context(), "", 10)
	if err != nil || len(page.Jobs) != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	want(t, "released", nil, nil, i.ReleaseLease(t.Context(), "mail", "a", page.Jobs[0].LeaseID))
	want(t, "released, whichever it is", nil, nil, i.ReleaseLease(t.Context(), "mail", "b", ""))
	for name, err := range map[string]error{
		"once more":  i.ReleaseLease(t.Context(), "mail", "a", page.Jobs[0].LeaseID),
		"of nobody":  i.ReleaseLease(t.Context(), "mail", "x", ""),
		"of another": i.ReleaseLease(t.Context(), "low", "c", page.Jobs[2].LeaseID),
	} {
		if !errors.Is(err, inspect.ErrNoLease) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := i.ReleaseLease(t.Context(), "", "c", ""); err == nil || errors.Is(err, inspect.ErrNoLease) {
		t.Errorf("without a queue: %v", err)
	}
	_, _, jobs, err := s.Expired(c, 10)
	if err != nil || len(jobs) != 2 || jobs[0].ID != "a" || jobs[1].ID != "b" {
		t.Errorf("over are %+v, %v", jobs, err)
	}
	audit, err := i.Audit(t.Context(), 10)
	if err != nil || len(audit) != 2 || audit[1].What != "ReleaseLease" || audit[1].On != "job a of queue mail" || audit[1].Who != "ada" || audit[1].Face != "dashboard" {
		t.Errorf("the audit is %+v, %v", audit, err)
	}
	server.Do(t, "DEL", "resque:go:leases")
	server.Do(t, "SET", "resque:go:leases", "x")
	if err := i.ReleaseLease(t.Context(), "mail", "c", ""); err == nil || errors.Is(err, inspect.ErrNoLease) {
		t.Errorf("of another type: %v", err)
	}
}

// Over shards a list goes from one to the next, and a lease is released where it is.
func TestLeasesOfShards(t *testing.T) {
	i, servers := sharded(t)
	for n, server := range servers {
		hold(t, server, "mail", fmt.Sprint("id", n), time.Now().Add(time.Hour), `{"class":"Send","args":[]}`)
	}
	var shards []string
	for after := ""; ; {
		page, err := i.Leases(t.Context(), after, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			shards = append(shards, j.Shard)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	want(t, "shards", []string{"redis://shard0", "redis://shard1", "redis://shard2"}, shards, nil)
	want(t, "released", nil, nil, i.ReleaseLease(t.Context(), "mail", "id1", ""))
}

// A group becomes a job at once, with the items that it has. Another one waits on.
func TestFlushGroup(t *testing.T) {
	i, server, _ := setup(t)
	i = i.By("ada", "")
	add := func(digest, head string) {
		id := groups.ID("low", "Index", []byte(digest))
		now := time.Now().UnixMilli()
		server.Do(t, "ZADD", "resque:go:groups", now+3_600_000, id)
		server.Do(t, "RPUSH", "resque:go:group:"+id, fmt.Sprintf(`%d 3600000 0 x {"class":"Index","args":[%s`, now, head), fmt.Sprintf("2 %d 5", now), fmt.Sprintf("7 %d 1234", now))
	}
	add("books", `"books",7,[`)
	add("more books", `"books",7,[`)
	add("films", `"films",7,[`)
	add("all", `[`)
	key := []json.RawMessage{[]byte(` "books"`), []byte("7")}
	want(t, "flushed", nil, nil, i.FlushGroup(t.Context(), "low", "Index", key))
	want(t, "jobs", []string{`{"class":"Index","args":["books",7,[5,1234]],"gathered":2,"id":"x"}`, `{"class":"Index","args":["books",7,[5,1234]],"gathered":2,"id":"x"}`},
		server.List(t, "LRANGE", "resque:queue:low", 0, -1), nil)
	left, err := i.AggregateGroups(t.Context(), 10)
	if err != nil || len(left) != 2 {
		t.Errorf("left are %+v, %v", left, err)
	}
	for name, err := range map[string]error{
		"once more":      i.FlushGroup(t.Context(), "low", "Index", key),
		"of a class":     i.FlushGroup(t.Context(), "low", "Other", nil),
		"of a queue":     i.FlushGroup(t.Context(), "high", "Index", nil),
		"of another key": i.FlushGroup(t.Context(), "low", "Index", key[:1]),
	} {
		if !errors.Is(err, inspect.ErrNoGroup) {
			t.Errorf("%s: %v", name, err)
		}
	}
	want(t, "flushed, without a key", nil, nil, i.FlushGroup(t.Context(), "low", "Index", nil))
	audit, err := i.Audit(t.Context(), 10)
	if err != nil || len(audit) != 2 || audit[1].Changed != 4 || audit[1].On != `the group ["books",7] of class Index in queue low` && audit[1].On != `the group [ "books",7] of class Index in queue low` {
		t.Errorf("the audit is %+v, %v", audit, err)
	}
	server.Do(t, "DEL", "resque:queue:low")
	server.Do(t, "SET", "resque:queue:low", "x")
	if err := i.FlushGroup(t.Context(), "low", "Index", []json.RawMessage{[]byte(`"films"`), []byte("7")}); err == nil || errors.Is(err, inspect.ErrNoGroup) {
		t.Errorf("into a key of another type: %v", err)
	}
}

// Each list of failures is counted, by its queue.
func TestFailureCounts(t *testing.T) {
	i, server, l := setup(t)
	counts, err := i.Failures().Counts(t.Context())
	want(t, "without failures", map[string]int64{"": 0}, counts, err)
	server.Do(t, "RPUSH", "resque:failed", "a", "b")
	l.settings.MultiQueue = true
	server.Do(t, "SADD", "resque:failed_queues", "mail_failed", "low_failed")
	server.Do(t, "RPUSH", "resque:mail_failed", "a")
	counts, err = i.Failures().Counts(t.Context())
	want(t, "counts", map[string]int64{"": 2, "mail": 1, "low": 0}, counts, err)
	counts, err = i.Failures().In("mail").Counts(t.Context())
	want(t, "of one queue", map[string]int64{"mail": 1}, counts, err)
}
