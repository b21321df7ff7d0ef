package groups_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// lender is what a client is for an Inspector: it has one connection.
type lender struct {
	c     redis.Conn
	name  string
	multi bool
	away  bool
}

func (l *lender) Usable() error { return nil }

func (l *lender) Settings() (access.Settings, error) {
	return access.Settings{Style: payload.Plain, MaxPayload: 1 << 20, Server: l.name, MultiQueue: l.multi}, nil
}

func (l *lender) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	if l.away {
		return errors.New("connection refused")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(resque.New(""), l.c)
}

func lend(t testing.TB, server *redistest.Server, name string) *lender {
	t.Helper()
	c, err := redis.DialURL(server.URI())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &lender{c: c, name: name}
}

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// failed is a failure record.
func failed(class, exception, text, queue string, ago time.Duration, args ...any) string {
	raw, err := payload.Encode(class, args, payload.Plain)
	if err != nil {
		panic(err)
	}
	return string(payload.Failure{
		FailedAt: payload.FailedAt(now.Add(-ago)), Payload: raw, Exception: exception, Error: text, Worker: "vm:1:" + queue, Queue: queue,
	}.Encode())
}

func push(t testing.TB, server *redistest.Server, list string, records ...string) {
	t.Helper()
	for piece := range slices.Chunk(records, 5000) {
		server.Do(t, "RPUSH", redis.Args{}.Add("resque:"+list).AddFlat(piece)...)
	}
}

// ticking returns a clock on which a second is never over, however slow the machine is: each look at it takes a nanosecond.
func ticking() func() time.Time {
	var looks atomic.Int64
	return func() time.Time { return now.Add(time.Duration(looks.Add(1))) }
}

func options() groups.Options { return groups.Options{Now: ticking(), Again: -1} }

func refreshed(t testing.TB, x *groups.Index) groups.Progress {
	t.Helper()
	p, err := x.Refresh(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The failures of several lists are grouped, whatever wrote them, and elements that are no records too.
func TestGroups(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	push(t, server, "failed",
		failed("Mail", "Net::ReadTimeout", "timeout after 5s to user 7", "mail", 25*time.Hour, 1),
		failed("Mail", "Net::ReadTimeout", "timeout after 10s to user 8", "mail", 2*time.Hour, 2),
		"",
		`{"worker":"w","queue":"low","payload":{"class":"Mail","args":[3]},"exception":"Net::ReadTimeout","error":"timeout after 1m to user 9","backtrace":null,"failed_at":"Sun Nov 22 2026 11:59:00 GMT+0000 (UTC)","retried_at":"2026/11/22 11:59:30"}`,
		failed("ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper", "Resque::DirtyExit", "Child process received unhandled signal 9", "low", time.Minute, map[string]any{"job_class": "Report", "arguments": []any{}}),
		"no record",
	)
	server.Do(t, "SADD", "resque:failed_queues", "mail_failed", "gone_failed")
	push(t, server, "mail_failed", failed("Mail", "Net::ReadTimeout", "timeout after 99s to user 1", "mail", 3*time.Hour, 4))
	x := groups.New(inspect.New(lend(t, server, "a")), options())
	if got := x.Groups(groups.Filter{}); len(got) != 0 || x.Progress().Done {
		t.Errorf("before the first Refresh: %+v", got)
	}
	if p := refreshed(t, x); p != (groups.Progress{Indexed: 7, Of: 7, Done: true}) {
		t.Errorf("progress %+v", p)
	}
	all := x.Groups(groups.Filter{Columns: 4, Span: 4 * time.Hour})
	for n := range all {
		if all[n].ID == "" || all[n].ID == groups.Others {
			t.Errorf("group %d has no id", n)
		}
		all[n].ID = ""
	}
	want := []groups.Group{
		{Class: "Mail", Exception: "Net::ReadTimeout", Pattern: "timeout after ‹duration› to user ‹n›", Example: "timeout after 1m to user 9", Count: 4, Unretried: 3,
			Queues: []groups.QueueCount{{Queue: "mail", Count: 3}, {Queue: "low", Count: 1}}, First: now.Add(-25 * time.Hour), Last: now.Add(-time.Minute), Trend: []int{0, 1, 1, 1}},
		{Class: "Report", Exception: "Resque::DirtyExit", Pattern: "Child process received unhandled signal ‹n›", Example: "Child process received unhandled signal 9", Count: 1, Unretried: 1,
			Queues: []groups.QueueCount{{Queue: "low", Count: 1}}, First: now.Add(-time.Minute), Last: now.Add(-time.Minute), Trend: []int{0, 0, 0, 1}, Kills: true, New: true},
		{Pattern: "‹no failure record›", Count: 1, Unretried: 1, Queues: []groups.QueueCount{{Queue: "", Count: 1}}, Trend: []int{0, 0, 0, 0}},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	count := func(f groups.Filter) (n int) {
		for _, g := range x.Groups(f) {
			n += g.Count
		}
		return n
	}
	for name, tt := range map[string]struct {
		f    groups.Filter
		want int
	}{
		"queues":    {groups.Filter{Queues: func(q string) bool { return q == "low" }}, 2},
		"since":     {groups.Filter{Since: now.Add(-2 * time.Hour)}, 3},
		"until":     {groups.Filter{Until: now.Add(-2 * time.Hour)}, 2},
		"class":     {groups.Filter{Class: "Report"}, 1},
		"exception": {groups.Filter{Exception: "Net::ReadTimeout"}, 4},
		"text":      {groups.Filter{Text: "SIGNAL"}, 1},
		"unretried": {groups.Filter{Unretried: true}, 5},
	} {
		if got := count(tt.f); got != tt.want {
			t.Errorf("%s: %d and not %d", name, got, tt.want)
		}
	}
	if got := x.Histogram(groups.Filter{Class: "Mail"}, now.Add(-4*time.Hour), now, 2); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("histogram %v", got)
	}
}

// The members of a group come from all lists, the newest first, page by page, while others are removed.
func TestMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SADD", "resque:failed_queues", "mail_failed")
	for n := range 30 {
		list := "failed"
		if n%3 == 0 {
			list = "mail_failed"
		}
		push(t, server, list, failed("Mail", "E", fmt.Sprintf("user %d", n), "mail", time.Duration(30-n)*time.Minute, n), failed("Other", "E", "user", "mail", time.Minute, n))
	}
	in := inspect.New(lend(t, server, "a"))
	x := groups.New(in, options())
	refreshed(t, x)
	gid := x.Groups(groups.Filter{Class: "Mail"})[0].ID
	var got []string
	for after, pages := "", 0; ; pages++ {
		found, next, err := x.Members(t.Context(), gid, after, 7, groups.Filter{})
		if err != nil || pages > 9 {
			t.Fatal(pages, err)
		}
		for _, f := range found {
			got = append(got, f.Error)
			if id, pattern := groups.Fingerprint(f); id != gid || pattern != "user ‹n›" {
				t.Errorf("%s is of group %s, %s", f.Error, id, pattern)
			}
		}
		if pages == 1 { // one that was seen, and one that was not
			for _, f := range []inspect.Failure{found[0], found[6]} {
				if err := in.Failures().Remove(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := in.Failures().RemoveWhere(t.Context(), inspect.FailureFilter{Text: "user 3"}); err != nil {
				t.Fatal(err)
			}
		}
		if after = next; after == "" {
			break
		}
	}
	var want []string
	for n := 29; n >= 0; n-- {
		if n != 3 {
			want = append(want, fmt.Sprintf("user %d", n))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	ids, next := x.IDs(gid, groups.Filter{}, "", 5)
	more, _ := x.IDs(gid, groups.Filter{}, next, 1000)
	if len(ids) != 5 || len(more) != 22 || slices.Contains(more, ids[4]) {
		t.Errorf("%d ids, then %d", len(ids), len(more))
	}
	if _, _, err := x.Members(t.Context(), gid, "x", 5, groups.Filter{}); !errors.Is(err, inspect.ErrCursor) {
		t.Errorf("a wrong cursor: %v", err)
	}
	if found, _, err := x.Members(t.Context(), "0123456789ab", "", 5, groups.Filter{}); err != nil || len(found) > 0 {
		t.Errorf("an unknown group: %v, %v", found, err)
	}
	// a search by the group finds the same
	q, err := inspect.ParseQuery("group:"+gid, now)
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := in.Failures().Search(t.Context(), inspect.FailureFilter{Query: &q}, "", 100)
	if err != nil || len(found) != 27 {
		t.Errorf("the search finds %d, %v", len(found), err)
	}
}

// Twins have one id, and each is on one page.
func TestTwins(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	twin := failed("Mail", "E", "e", "mail", time.Minute, 1)
	push(t, server, "failed", twin, twin, failed("Mail", "E", "e", "mail", time.Minute, 2), twin, twin)
	x := groups.New(inspect.New(lend(t, server, "a")), options())
	refreshed(t, x)
	gid, n := x.Groups(groups.Filter{})[0].ID, 0
	for after := ""; ; n++ {
		ids, next := x.IDs(gid, groups.Filter{}, after, 1)
		if len(ids) != 1 || n > 9 {
			t.Fatal(ids)
		}
		if after = next; after == "" {
			break
		}
	}
	if n != 4 {
		t.Errorf("%d pages of one", n+1)
	}
}

// What is above MaxIndexed is left out, and the newest are kept when others come.
func TestMaxIndexed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var records []string
	for n := range 3000 {
		records = append(records, failed("Mail", "E", "e", "mail", time.Hour, n))
	}
	push(t, server, "failed", records[:2500]...)
	o := options()
	o.MaxIndexed = 1000
	x := groups.New(inspect.New(lend(t, server, "a")), o)
	if p := refreshed(t, x); p != (groups.Progress{Indexed: 1000, Of: 2500, Older: 1500, Done: true}) {
		t.Errorf("%+v", p)
	}
	push(t, server, "failed", records[2500:]...)
	if p := refreshed(t, x); p != (groups.Progress{Indexed: 1000, Of: 3000, Older: 2000, Done: true}) {
		t.Errorf("%+v", p)
	}
	server.Do(t, "LTRIM", "resque:failed", 1500, -1) // the oldest were trimmed, of which it knows none
	if p := refreshed(t, x); p != (groups.Progress{Indexed: 1000, Of: 1500, Older: 500, Done: true}) {
		t.Errorf("%+v", p)
	}
	server.Do(t, "LTRIM", "resque:failed", 0, 1199)
	if p := refreshed(t, x); p != (groups.Progress{Indexed: 1000, Of: 1200, Older: 200, Done: true}) {
		t.Errorf("%+v", p)
	}
	if got := x.Groups(groups.Filter{}); len(got) != 1 || got[0].Count != 1000 {
		t.Errorf("%+v", got)
	}
}

// Where there are too many failures, the newest of each list are kept: a list that is read last does not lose all of them again.
func TestManyLists(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const lists = 12
	for n := range lists {
		name := fmt.Sprintf("q%d_failed", n)
		server.Do(t, "SADD", "resque:failed_queues", name)
		for i := range 40 {
			push(t, server, name, failed("Mail", "E", "e", name, time.Hour, i))
		}
	}
	o := options()
	o.MaxIndexed = 30
	x := groups.New(inspect.New(lend(t, server, "a")), o)
	for calls := 0; ; calls++ {
		p, err := x.Refresh(t.Context(), time.Nanosecond)
		if err != nil || calls > 10*lists {
			t.Fatal(p, err)
		}
		if p.Done {
			break
		}
	}
	if p := refreshed(t, x); p.Indexed != int64(o.MaxIndexed) {
		t.Errorf("%+v", p)
	}
	if got := x.Groups(groups.Filter{}); len(got) != 1 || len(got[0].Queues) != lists {
		t.Errorf("%+v", got)
	}
}

// Groups beyond MaxGroups are one. Where a group goes, there is room for another.
func TestMaxGroups(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	push(t, server, "failed", failed("A", "E", "e", "q", 0, 1), failed("B", "E", "e", "q", 0, 1), failed("C", "E", "e", "q", 0, 1), failed("D", "E", "e", "q", 0, 1))
	o := options()
	o.MaxGroups = 2
	x := groups.New(inspect.New(lend(t, server, "a")), o)
	refreshed(t, x)
	classes := func() (all []string) {
		for _, g := range x.Groups(groups.Filter{}) {
			all = append(all, fmt.Sprintf("%s%d", g.Class, g.Count))
		}
		slices.Sort(all)
		return all
	}
	if got := classes(); !slices.Equal(got, []string{"2", "C1", "D1"}) {
		t.Error(got)
	}
	if found, _, err := x.Members(t.Context(), groups.Others, "", 5, groups.Filter{}); err != nil || len(found) != 2 {
		t.Errorf("%d others, %v", len(found), err)
	}
	server.Do(t, "RPOP", "resque:failed")
	refreshed(t, x)
	push(t, server, "failed", failed("E", "E", "e", "q", 0, 1))
	refreshed(t, x)
	if got := classes(); !slices.Equal(got, []string{"2", "B1", "C1"}) { // B was read again before E came
		t.Error(got)
	}
}

// A shard that is away hides no other, and what was known of it stays.
func TestShards(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	push(t, a, "failed", failed("Mail", "E", "e 1", "mail", time.Hour, 1))
	push(t, b, "failed", failed("Mail", "E", "e 2", "mail", time.Minute, 2))
	second := lend(t, b, "b")
	x := groups.New(inspect.New(lend(t, a, "a"), second), options())
	second.away = true
	p, err := x.Refresh(t.Context(), time.Second)
	if err == nil || !strings.Contains(err.Error(), "shard b: ") || p.Indexed != 1 || p.Done {
		t.Errorf("one is away: %+v, %v", p, err)
	}
	second.away = false
	refreshed(t, x)
	second.away = true
	push(t, a, "failed", failed("Mail", "E", "e 3", "mail", time.Second, 1))
	_, _ = x.Refresh(t.Context(), 0)
	all := x.Groups(groups.Filter{})
	if len(all) != 1 || all[0].Count != 3 {
		t.Fatalf("%+v", all)
	}
	second.away = false
	found, _, err := x.Members(t.Context(), all[0].ID, "", 10, groups.Filter{})
	var got []string
	for _, f := range found {
		got = append(got, f.Error+f.Shard)
	}
	if err != nil || !slices.Equal(got, []string{"e 3a", "e 2b", "e 1a"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// Only what matches a query is grouped.
func TestQuery(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	push(t, server, "failed", failed("Mail", "E", "e", "mail", 0, 1), failed("Mail", "E", "e", "mail", 0, 2), failed("A", "E", "e", "mail", 0, 1))
	q, err := inspect.ParseQuery("class:Mail arg.0:2", now)
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Query = &q
	x := groups.New(inspect.New(lend(t, server, "a")), o)
	refreshed(t, x)
	if got := x.Groups(groups.Filter{}); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("%+v", got)
	}
}

// What Ruby's workers have left behind is grouped by its texts.
func TestGoldenFailures(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	seen := make(map[string]string)
	for _, scenario := range []string{"work_failure", "failed_retry", "unknown_class", "prune_expired", "prune_same_host"} {
		for _, keys := range redistest.Golden(t, scenario).Snapshots {
			plant(t, server, seen, scenario, keys)
		}
		plant(t, server, seen, scenario, redistest.Golden(t, scenario).KeysAfter)
	}
	if len(seen) < 4 {
		t.Fatalf("the recordings have %d failures", len(seen))
	}
	x := groups.New(inspect.New(lend(t, server, "a")), options())
	refreshed(t, x)
	var got []string
	for _, g := range x.Groups(groups.Filter{}) {
		got = append(got, fmt.Sprint(g.Class, " ", g.Exception, ": ", g.Pattern, " kills ", g.Kills))
	}
	slices.Sort(got)
	want := []string{
		"Boom Boom::Oops: it broke: <é&> ‹text› kills false",
		"Echo Resque::DirtyExit: Job still being processed kills true",
		"Echo Resque::PruneDeadWorkerDirtyExit: Worker deadhost:‹n›:low did not gracefully exit while processing Echo kills true",
		"Nope NameError: uninitialized constant Nope constant = constant.const_missing(name) ^^^^^^^^^^^^^^ kills false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func plant(t *testing.T, server *redistest.Server, seen map[string]string, scenario string, keys []redistest.Key) {
	for _, k := range keys {
		list, _ := k.Value.([]string)
		for _, raw := range list {
			if k.Key == "resque:failed" && seen[raw] == "" {
				seen[raw] = scenario
				push(t, server, "failed", raw)
			}
		}
	}
}

// A Refresh where nothing has happened sends at most eight commands, and reads little.
func TestFewCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	push(t, server, "failed", many(5000)...)
	x := groups.New(inspect.New(lend(t, server, "a")), options())
	refreshed(t, x)
	refreshed(t, x)
	for _, pushed := range []int{0, 50} {
		push(t, server, "failed", many(pushed)...)
		m := server.Monitor(t)
		p := refreshed(t, x)
		if n := len(m.Commands()); n > 8 || !p.Done {
			t.Errorf("%d more failures: %d commands, %+v\n%.200v", pushed, n, p, m.Commands())
		}
	}
	// A removal in the middle is found by a few.
	server.Do(t, "LSET", "resque:failed", 1234, "")
	server.Do(t, "LREM", "resque:failed", 1, "")
	m := server.Monitor(t)
	p := refreshed(t, x)
	if n := len(m.Commands()); n > 25 || p.Indexed != 5049 || !p.Done {
		t.Errorf("one removed: %d commands, %+v", n, p)
	}
}

func many(n int) (records []string) {
	for n := range n {
		records = append(records, failed([]string{"Mail", "Report", "Import"}[n%3], "Net::ReadTimeout",
			fmt.Sprintf("Failed to open TCP connection to api.example.com:443 (user %d, %s)", n, []string{"execution expired", "refused"}[n%2]), "mail", time.Duration(n)*time.Second, n, map[string]any{"account": n % 7}))
	}
	return records
}

// A budget ends a call, and further ones go on.
func TestBudget(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	push(t, server, "failed", many(3000)...)
	x := groups.New(inspect.New(lend(t, server, "a")), options())
	for calls := 0; ; calls++ {
		p, err := x.Refresh(t.Context(), time.Nanosecond)
		if err != nil || calls > 100 {
			t.Fatal(p, err)
		}
		if calls == 0 && (p.Indexed == 0 || p.Done || p.Of != 3000) {
			t.Errorf("after the first call: %+v", p)
		}
		if p.Done {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Refresh(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// Readers are served while the lists change and the Index follows.
func TestReadersMeanwhile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	push(t, server, "failed", many(2000)...)
	x := groups.New(inspect.New(lend(t, server, "a")), options())
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, g := range x.Groups(groups.Filter{Text: "refused"}) {
					x.IDs(g.ID, groups.Filter{}, "", 10)
				}
				x.Histogram(groups.Filter{}, now.Add(-time.Hour), now, 10)
				x.Progress()
				x.Changed()
			}
		})
	}
	for n := range 20 {
		if _, err := x.Refresh(t.Context(), time.Nanosecond); err != nil {
			t.Error(err)
		}
		server.Do(t, "LSET", "resque:failed", 50*n, "DELETE")
		server.Do(t, "LREM", "resque:failed", 1, "DELETE")
		push(t, server, "failed", many(3)...)
	}
	close(done)
	readers.Wait()
	if p := refreshed(t, x); !p.Done || p.Indexed != 2040 {
		t.Errorf("%+v", p)
	}
}

// BenchmarkBuild groups 100,000 failures.
func BenchmarkBuild(b *testing.B) {
	const n = 100_000
	server := redistest.Start(b)
	push(b, server, "failed", many(n)...)
	l := lend(b, server, "a")
	var x *groups.Index
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		x = groups.New(inspect.New(l), options())
		if p := refreshed(b, x); !p.Done || p.Indexed != n {
			b.Fatalf("%+v", p)
		}
	}
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "build-ms")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/record")
	runtime.KeepAlive(x)
}

// BenchmarkGroups counts the groups of 100,000 failures.
func BenchmarkGroups(b *testing.B) {
	server := redistest.Start(b)
	push(b, server, "failed", many(100_000)...)
	x := groups.New(inspect.New(lend(b, server, "a")), options())
	refreshed(b, x)
	for b.Loop() {
		if len(x.Groups(groups.Filter{})) != 6 {
			b.Fatal("groups are missing")
		}
	}
}
