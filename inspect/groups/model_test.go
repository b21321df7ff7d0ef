package groups_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// counts is what a group has.
type counts struct{ All, Unretried int }

// naive groups the elements of the lists as they are, the newest of each.
func naive(t *testing.T, server *redistest.Server, most int) map[string]counts {
	t.Helper()
	all := make(map[string]counts)
	for _, list := range []string{"resque:failed", "resque:mail_failed"} {
		for _, raw := range server.List(t, "LRANGE", list, -most, -1) {
			if raw == "" {
				continue
			}
			f, err := payload.ParseFailure([]byte(raw))
			gid, _ := groups.Fingerprint(inspect.Failure{Payload: f.Payload, Exception: f.Exception, Error: f.Error, Invalid: err})
			c := all[gid]
			if c.All++; f.RetriedAt == "" {
				c.Unretried++
			}
			all[gid] = c
		}
	}
	return all
}

func known(x *groups.Index, unretried bool) map[string]counts {
	all := make(map[string]counts)
	for _, g := range x.Groups(groups.Filter{}) {
		c := counts{All: g.Count}
		if unretried {
			c.Unretried = g.Unretried
		}
		all[g.ID] = c
	}
	return all
}

// Whatever is pushed, retried, removed, trimmed and put back between two calls, the Index has what the lists have: how many
// there are at once, what was retried when all was read again.
func TestModel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := lend(t, server, "a")
	server.Do(t, "SADD", "resque:failed_queues", "mail_failed")
	serial := 0
	rapid.Check(t, func(r *rapid.T) {
		server.Do(t, "DEL", "resque:failed", "resque:mail_failed")
		record := func() string {
			serial++
			return failed(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(r, "class"), "E", fmt.Sprintf("%s %d", rapid.SampledFrom([]string{"timeout", "gone"}).Draw(r, "text"), serial), "q", time.Hour, serial)
		}
		plain := func(n int) (records []string) {
			for range n {
				serial++
				records = append(records, failed([]string{"A", "B", "C"}[serial%3], "E", fmt.Sprint("bulk ", serial), "q", time.Hour, serial))
			}
			return records
		}
		push(t, server, "failed", plain(rapid.SampledFrom([]int{0, 5, 130, 130, 1500}).Draw(r, "at first"))...)
		x := groups.New(inspect.New(l), groups.Options{Now: ticking()})
		for range rapid.IntRange(1, 3).Draw(r, "rounds") {
			for range rapid.IntRange(1, 8).Draw(r, "steps") {
				list := rapid.SampledFrom([]string{"failed", "mail_failed"}).Draw(r, "list")
				length := server.Int(t, "LLEN", "resque:"+list)
				at := 0
				if length > 0 {
					at = rapid.IntRange(0, length-1).Draw(r, "at")
				}
				switch what := rapid.SampledFrom([]string{"push", "bulk", "retry", "remove", "removeMany", "trim", "cut", "clear", "prepend", "blank", "refresh"}).Draw(r, "what"); {
				case what == "push":
					push(t, server, list, record())
				case what == "bulk":
					push(t, server, list, plain(rapid.IntRange(1, 400).Draw(r, "many"))...)
				case what == "prepend":
					server.Do(t, "LPUSH", "resque:"+list, record())
				case what == "refresh":
					if _, err := x.Refresh(t.Context(), time.Nanosecond); err != nil {
						r.Fatal(err)
					}
				case length == 0:
				case what == "retry":
					raw := server.Text(t, "LINDEX", "resque:"+list, at)
					if marked, err := payload.MarkRetried([]byte(raw), "2026/11/22 12:00:00 UTC"); err == nil {
						server.Do(t, "LSET", "resque:"+list, at, marked)
					}
				case what == "remove":
					server.Do(t, "LSET", "resque:"+list, at, "DELETE")
					server.Do(t, "LREM", "resque:"+list, 1, "DELETE")
				case what == "removeMany":
					for n := at; n < length; n += 1 + n%7 {
						server.Do(t, "LSET", "resque:"+list, n, "DELETE")
					}
					server.Do(t, "LREM", "resque:"+list, 0, "DELETE")
				case what == "trim":
					server.Do(t, "LTRIM", "resque:"+list, min(at, 50), -1)
				case what == "cut":
					server.Do(t, "LTRIM", "resque:"+list, 0, -1-min(at, 50))
				case what == "clear":
					server.Do(t, "DEL", "resque:"+list)
				case what == "blank":
					if server.Do(t, "LPOS", "resque:"+list, "") == nil { // two look alike: that one is gone is seen when they are read again
						server.Do(t, "LSET", "resque:"+list, length-1, "")
					}
				}
			}
			p, err := x.Refresh(t.Context(), 0)
			if again, err2 := x.Refresh(t.Context(), 0); err != nil || err2 != nil || !again.Done {
				r.Fatal(p, again, err, err2)
			}
			want := naive(t, server, 1<<30)
			for gid, c := range want {
				want[gid] = counts{All: c.All}
			}
			if diff := cmp.Diff(want, known(x, false)); diff != "" {
				r.Fatalf("at once (-want +got):\n%s", diff)
			}
			x.Changed()
			if _, err := x.Refresh(t.Context(), 0); err != nil {
				r.Fatal(err)
			}
			if diff := cmp.Diff(naive(t, server, 1<<30), known(x, true)); diff != "" {
				r.Fatalf("all read again (-want +got):\n%s", diff)
			}
		}
	})
}

// Ruby's retries and removals far from both ends of a list are seen by the calls that follow, without Changed.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	push(t, server, "failed", many(3000)...)
	x := groups.New(inspect.New(lend(t, server, "a")), options())
	refreshed(t, x)
	for n := 300; n < 2300; n++ {
		raw := server.Text(t, "LINDEX", "resque:failed", n)
		marked, err := payload.MarkRetried([]byte(raw), "2026/11/22 12:00:00 UTC")
		if err != nil {
			t.Fatal(err)
		}
		server.Do(t, "LSET", "resque:failed", n, marked)
	}
	for n := 0; !maps.Equal(naive(t, server, 1<<30), known(x, true)); n++ {
		if n > 100 {
			t.Fatal("100 calls have not seen the retries")
		}
		refreshed(t, x)
	}
}

// A change at any place of a long list is found: the naive groups are those of the Index.
func TestRemovedAnywhere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	records := many(6000)
	push(t, server, "failed", records...)
	x := groups.New(inspect.New(lend(t, server, "a")), groups.Options{MaxIndexed: 5000, Now: ticking()})
	refreshed(t, x)
	for _, remove := range [][]int{{0}, {999}, {1000}, {1001}, {3000}, {-1}, {-2}, {0, 2500, -1}, {100, 1200, 1300, 4000}, {2000, 2001, 2002, 2003}} {
		for _, n := range remove {
			server.Do(t, "LSET", "resque:failed", n, "DELETE")
		}
		server.Do(t, "LREM", "resque:failed", 0, "DELETE")
		push(t, server, "failed", failed("New", "E", fmt.Sprint(remove), "q", 0, len(remove)))
		refreshed(t, x)
		refreshed(t, x)
		if diff := cmp.Diff(naive(t, server, 5000), known(x, true)); diff != "" {
			t.Fatalf("%v removed (-want +got):\n%s", remove, diff)
		}
	}
}
