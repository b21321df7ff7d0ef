package failures

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

func kind(n int, class, exception, queue, text, at string) string {
	return string(payload.Failure{FailedAt: at, Payload: fmt.Appendf(nil, `{"class":%q,"args":[%d],"id":"i%d"}`, class, n, n),
		Exception: exception, Error: text, Worker: "h:1:q", Queue: queue}.Encode())
}

func args(records []Record) string {
	var all []string
	for _, r := range records {
		_, rest, _ := strings.Cut(string(r.Failure.Payload), `"args":[`)
		n, _, _ := strings.Cut(rest, "]")
		all = append(all, n)
	}
	return strings.Join(all, " ")
}

func TestSearchFailures(t *testing.T) {
	a := newAdmin(t)
	wrapped := `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Mail","n":3}]}`
	a.fail(t, "failed",
		kind(0, "Mail", "Timeout", "mail", "dial tcp: i/o timeout", "2026/11/21 01:00:00 UTC"),
		kind(1, "Mail", "EOF", "mail", "connection lost", "2026/11/21 02:00:00 UTC"),
		"", "not JSON",
		marked(t, kind(2, "Sum", "EOF", "low", "Connection lost", "2026/11/21 03:00:00 UTC")),
		fmt.Sprintf(`{"failed_at":"2026/11/21 04:00:00 UTC","payload":%s,"exception":"EOF","error":"x","worker":"h:1","queue":"\u006d\u0061il"}`, wrapped))
	a.fail(t, "x_failed", kind(4, "Mail", "EOF", "x", "timeout", "yesterday"))
	hour := func(h int) time.Time { return time.Date(2026, 11, 21, h, 0, 0, 0, time.UTC) }
	for _, test := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, `{"job_class":"Mail","n":3} 2  1 0 4`},
		{Filter{Class: "Mail"}, `{"job_class":"Mail","n":3} 1 0 4`},
		{Filter{Class: "ail"}, ``},
		{Filter{Queue: "mail"}, `{"job_class":"Mail","n":3} 1 0`},
		{Filter{Exception: "EOF"}, `{"job_class":"Mail","n":3} 2 1 4`},
		{Filter{Text: "CONNECTION"}, `2 1`},
		{Filter{Text: "timeout", Exception: "EOF"}, `4`},
		{Filter{Retried: true}, `2`},
		{Filter{Unretried: true, Exception: "EOF"}, `{"job_class":"Mail","n":3} 1 4`},
		{Filter{Retried: true, Unretried: true}, ``},
		{Filter{Since: hour(2)}, `{"job_class":"Mail","n":3} 2 1`},
		{Filter{Until: hour(2)}, `0`},
		{Filter{Since: hour(2), Until: hour(3)}, `1`},
	} {
		for count := 1; count < 8; count++ {
			var found []Record
			after := ""
			for {
				page, next, err := a.Search(a.c, []string{"failed", "x_failed"}, test.filter, after, count)
				if err != nil || len(page) > count {
					t.Fatalf("%+v: %d, %v", test.filter, len(page), err)
				}
				found = append(found, page...)
				if after = next; next == "" {
					break
				}
			}
			if got := args(found); got != test.want {
				t.Errorf("%+v by %d: %s; want %s", test.filter, count, got, test.want)
			}
		}
	}
	_, _, err := a.Search(a.c, []string{"failed"}, Filter{}, "nonsense", 1)
	wantError(t, err, "not where a search")

	groups, err := a.Groups(a.c, []string{"failed", "x_failed"}, Filter{Exception: "EOF"})
	want := []Group{{"Mail", "EOF", 3, hour(2), hour(4)}, {"Sum", "EOF", 1, hour(3), hour(3)}}
	if err != nil || !slices.EqualFunc(groups, want, func(g, w Group) bool {
		return g.Class == w.Class && g.Exception == w.Exception && g.Count == w.Count && g.First.Equal(w.First) && g.Last.Equal(w.Last)
	}) {
		t.Errorf("groups %+v, %v; want %+v", groups, err, want)
	}
}

// A record is found by its id after other programs moved it and Ruby retried it.
func TestFailuresByID(t *testing.T) {
	a := newAdmin(t)
	lists := []string{resque.FailedList, "x_failed"}
	r := func(n int) string { return kind(n, "J", "E", "q", "broke", "2026/11/21 01:00:00 UTC") }
	a.fail(t, "failed", r(0), r(1), r(2), r(3), r(3))
	a.fail(t, "x_failed", r(4))
	id := func(n int) string { return ID([]byte(r(n))) }
	a.Do(t, "LPOP", "resque:failed")                                                                        // the cap
	a.Do(t, "LSET", "resque:failed", 0, strings.Replace(marked(t, r(1)), `"args":[1]`, `"args": [1.0]`, 1)) // Ruby's retry
	n, err := a.RetryByID(a.c, lists, []string{id(0), id(1), id(2), id(3), id(4), "short"}, retriedAt, true)
	if n != 3 || !errors.Is(err, ErrNoFailure) || !errors.Is(err, ErrRetried) {
		t.Errorf("retried %d, %v; want 3", n, err)
	}
	wantError(t, err, "failure "+id(0)+": goworker: the failure record is not there", "failure "+id(1)+": goworker: the failure has been retried", "short is no failure id (28 hex digits)")
	a.wantList(t, "queue:q", `{"class":"J","args":[3],"id":"i3"}`, `{"class":"J","args":[2],"id":"i2"}`, `{"class":"J","args":[4],"id":"i4"}`)
	if n, err = a.RetryByID(a.c, lists, []string{id(3)}, retriedAt, true); n != 1 || err != nil {
		t.Errorf("the twin: retried %d, %v; want 1", n, err)
	}
	if n, err = a.RetryByID(a.c, lists, []string{id(3)}, retriedAt, true); n != 0 || !errors.Is(err, ErrRetried) {
		t.Errorf("both retried: %d, %v; want ErrRetried", n, err)
	}
	n, err = a.RemoveByID(a.c, lists, []string{id(2), id(4), id(3), id(0)})
	if n != 3 || !errors.Is(err, ErrNoFailure) {
		t.Errorf("removed %d, %v; want 3", n, err)
	}
	if left := args(a.failures(t, lists...)); left != " 3" {
		t.Errorf("left %s", left)
	}
}

// Others remove records and push new ones all the while, and every one that stays is
// retried once, or removed, or found.
func TestFailuresMoveMeanwhile(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			a := newAdmin(t)
			random := rand.New(rand.NewPCG(seed, 0))
			const n = 2 * mostPage
			record := func(i int) string {
				return kind(i, []string{"Stay", "Go"}[i%2], "E", "q", strings.Repeat("x", random.IntN(400)), "2026/11/21 01:00:00 UTC")
			}
			var going []string
			for i := range n {
				r := record(i)
				if i%2 == 1 {
					going = append(going, r)
				}
				a.fail(t, "failed", r)
			}
			if seed%2 == 0 {
				random.Shuffle(len(going), func(i, j int) { going[i], going[j] = going[j], going[i] })
			}
			other := a.Dial(t)
			var wg sync.WaitGroup
			wg.Go(func() {
				for i, r := range going {
					_, err := other.Do("LREM", "resque:failed", 1, r)
					if err == nil && i%10 == 0 {
						_, err = other.Do("RPUSH", "resque:failed", kind(n+i, "New", "E", "q", "", ""))
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
			seen := make(map[string]int)
			after := ""
			for {
				page, next, err := a.Search(a.c, []string{"failed"}, Filter{Class: "Stay"}, after, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page {
					seen[ID(r.Raw)]++
				}
				if after = next; next == "" {
					break
				}
			}
			if len(seen) != n/2 {
				t.Errorf("found %d; want %d", len(seen), n/2)
			}
			retried, err := a.RetryAll(a.c, "failed", Filter{Class: "Stay"}, retriedAt, true)
			if retried != n/2 || err != nil {
				t.Errorf("retried %d, %v; want %d", retried, err, n/2)
			}
			removed, err := a.RemoveAll(a.c, "failed", Filter{Class: "Stay", Retried: true})
			if removed != n/2 || err != nil {
				t.Errorf("removed %d, %v; want %d", removed, err, n/2)
			}
			wg.Wait()
			if jobs := a.List(t, "LRANGE", "resque:queue:q", 0, -1); len(jobs) != n/2 || len(slices.Compact(slices.Sorted(slices.Values(jobs)))) != n/2 {
				t.Errorf("%d jobs; want %d, each once", len(jobs), n/2)
			}
			if left := a.failures(t, resque.FailedList); slices.ContainsFunc(left, func(r Record) bool { return JobClass(r.Failure.Payload) != "New" }) {
				t.Errorf("%d failures are left", len(left))
			}
		})
	}
}
