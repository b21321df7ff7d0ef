package failures

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

var retriedAt = time.Date(2026, 11, 21, 2, 41, 26, 0, time.UTC)

func record(n int, queue string) string {
	f := payload.Failure{FailedAt: "2026/11/21 02:41:26 UTC", Payload: fmt.Appendf(nil, `{"class":"J","args":[%d.0],"id":"x"}`, n),
		Exception: "E", Error: "it broke", Worker: "h:1:q", Queue: queue}
	return string(f.Encode())
}

// fail puts records into a failure list.
func (a admin) fail(t *testing.T, list string, records ...string) {
	t.Helper()
	for _, r := range records {
		a.Do(t, "RPUSH", "resque:"+list, r)
	}
}

func (a admin) failures(t *testing.T, lists ...string) []Record {
	t.Helper()
	records, err := a.Page(a.c, lists, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func (a admin) wantList(t *testing.T, key string, want ...string) {
	t.Helper()
	got := a.List(t, "LRANGE", "resque:"+key, 0, -1)
	if diff := cmp.Diff(want, slices.Concat([]string(nil), got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", key, diff)
	}
}

func marked(t *testing.T, record string) string {
	t.Helper()
	b, err := payload.MarkRetried([]byte(record), payload.FailedAt(retriedAt))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRetryAsRuby(t *testing.T) {
	a := newAdmin(t)
	golden := redistest.Golden(t, "failed_retry")
	for _, key := range golden.Snapshots["three_failed"] {
		switch v := key.Value.(type) {
		case string:
			a.Do(t, "SET", key.Key, v, "EX", 3600)
		case []string:
			for _, e := range v {
				a.Do(t, map[string]string{"list": "RPUSH", "set": "SADD"}[key.Type], key.Key, e)
			}
		}
	}
	snapshot := func(name string) map[string]any { return redistest.Values(golden.Snapshots[name]) }
	a.wantKeys(t, snapshot("three_failed"))

	if err := a.Retry(a.c, a.failures(t, resque.FailedList)[0], retriedAt, false); err != nil {
		t.Fatal(err)
	}
	a.wantKeys(t, snapshot("requeued_0"))

	if err := a.Remove(a.c, a.failures(t, resque.FailedList)[0]); err != nil {
		t.Fatal(err)
	}
	a.wantKeys(t, snapshot("removed_0"))

	if n, err := a.RetryAll(a.c, resque.FailedList, Filter{}, retriedAt, false); n != 2 || err != nil {
		t.Fatalf("retried %d, %v; want 2", n, err)
	}
	a.wantKeys(t, snapshot("requeued_all"))
	if n, err := a.RetryAll(a.c, resque.FailedList, Filter{}, retriedAt, false); n != 0 || err != nil {
		t.Fatalf("again: retried %d, %v; want 0", n, err)
	}
	a.wantKeys(t, snapshot("requeued_all"))

	monitor := a.Monitor(t)
	if err := a.Clear(a.c, resque.FailedList); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(golden.Commands[len(golden.Commands)-1:], monitor.Commands()); diff != "" {
		t.Errorf("commands (-ruby +ours):\n%s", diff)
	}
	a.wantKeys(t, redistest.Values(golden.KeysAfter))
}

func TestFailuresPages(t *testing.T) {
	a := newAdmin(t)
	a.fail(t, "failed", "A", "", "B")
	a.fail(t, "x_failed", "C", "D")
	a.Do(t, "SADD", "resque:failed_queues", "x_failed", "gone_failed")

	lists, err := a.Lists(a.c)
	if want := []string{"failed", "gone_failed", "x_failed"}; err != nil || !slices.Equal(lists, want) {
		t.Fatalf("lists %q, %v; want %q", lists, err, want)
	}
	if n, err := a.Count(a.c, lists...); n != 5 || err != nil {
		t.Errorf("count %d, %v; want 5, the blank one included as Ruby does", n, err)
	}
	for _, test := range []struct {
		start, count int64
		want         string
	}{
		{0, -1, "A0 B2 C0 D1"}, {0, 2, "A0"}, {2, 2, "B2 C0"}, {3, 1, "C0"}, {4, 9, "D1"}, {5, 1, ""}, {99, -1, ""},
		{-1, 1, "D1"}, {-3, 2, "B2 C0"}, {-99, 1, "A0"}, {0, 0, ""},
	} {
		records, err := a.Page(a.c, lists, test.start, test.count)
		var got []string
		for _, r := range records {
			got = append(got, fmt.Sprintf("%s%d", r.Raw, r.Index))
			if r.Err == nil {
				t.Errorf("%q is taken for a record", r.Raw)
			}
		}
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("Failures(%d, %d) = %q, %v; want %q", test.start, test.count, got, err, test.want)
		}
	}
	a.Do(t, "SET", "resque:odd_failed", "x")
	_, err = a.Page(a.c, []string{"failed", "odd_failed"}, 0, 1)
	wantError(t, err, "list odd_failed", "WRONGTYPE")
	if err := a.Clear(a.c); err != nil {
		t.Errorf("clearing no list: %v", err)
	}
}

func TestRetryKeepsBytes(t *testing.T) {
	a := newAdmin(t)
	foreign := ` {"worker":"h:1","queue":"q","payload":{"queue":"q","args":[1.0,"\u003c"],"class":"J","id":7},"failed_at":"Sat"} `
	a.fail(t, "failed", foreign)
	if err := a.Retry(a.c, a.failures(t, resque.FailedList)[0], retriedAt, false); err != nil {
		t.Fatal(err)
	}
	if err := a.Retry(a.c, a.failures(t, resque.FailedList)[0], retriedAt.Add(time.Second), true); err != nil {
		t.Fatal(err)
	}
	a.wantList(t, "queue:q", `{"class":"J","args":[1.0,"\u003c"]}`, `{"queue":"q","args":[1.0,"\u003c"],"class":"J","id":7}`)
	a.wantList(t, "failed", strings.TrimSuffix(foreign, "} ")+`,"retried_at":"2026/11/21 02:41:27 UTC"} `)
}

// Others change the list between its reading and what is done about a record.
func TestMovedRecords(t *testing.T) {
	r := func(n int) string { return record(n, "q") }
	tests := []struct {
		name   string
		change func(a admin, t *testing.T)
		left   []string // after removing r(1)
		gone   bool
	}{
		{"unchanged", func(admin, *testing.T) {}, []string{r(0), r(2)}, false},
		{"first removed", func(a admin, t *testing.T) { a.Do(t, "LPOP", "resque:failed") }, []string{r(2)}, false},
		{"one put before", func(a admin, t *testing.T) { a.Do(t, "LPUSH", "resque:failed", r(9)) }, []string{r(9), r(0), r(2)}, false},
		{"ruby died removing the first", func(a admin, t *testing.T) { a.Do(t, "LSET", "resque:failed", 0, "") }, []string{r(2)}, false},
		{"an equal one before", func(a admin, t *testing.T) { a.Do(t, "LSET", "resque:failed", 0, r(1)) }, []string{r(1), r(2)}, false},
		{"removed", func(a admin, t *testing.T) { a.Do(t, "LREM", "resque:failed", 0, r(1)) }, []string{r(0), r(2)}, true},
		{"retried by another", func(a admin, t *testing.T) { a.Do(t, "LSET", "resque:failed", 1, r(5)) }, []string{r(0), r(5), r(2)}, true},
		{"cleared", func(a admin, t *testing.T) { a.Do(t, "DEL", "resque:failed") }, nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := newAdmin(t)
			a.fail(t, "failed", r(0), r(1), r(2))
			it := a.failures(t, resque.FailedList)[1]
			test.change(a, t)

			err := a.Retry(a.c, it, retriedAt, false)
			if errors.Is(err, ErrNoFailure) != test.gone || !test.gone && err != nil {
				t.Errorf("retry: %v", err)
			}
			if test.gone {
				a.wantList(t, "queue:q")
			} else {
				a.wantList(t, "queue:q", `{"class":"J","args":[1.0]}`)
				if err := a.Retry(a.c, it, retriedAt, false); !errors.Is(err, ErrNoFailure) && test.name != "an equal one before" {
					t.Errorf("retrying what was retried since: %v", err)
				}
				// Back to what it was.
				i := a.Int(t, "LPOS", "resque:failed", marked(t, r(1)))
				a.Do(t, "LSET", "resque:failed", i, r(1))
			}
			if err := a.Remove(a.c, it); errors.Is(err, ErrNoFailure) != test.gone || !test.gone && err != nil {
				t.Errorf("remove: %v", err)
			}
			if test.name != "an equal one before" {
				a.wantList(t, "failed", test.left...)
			}
		})
	}
}

// Of two equal records the one at the place it was read is meant.
func TestEqualRecords(t *testing.T) {
	a := newAdmin(t)
	x, y := record(0, "q"), record(1, "q")
	a.fail(t, "failed", x, y, x)
	if err := a.Remove(a.c, a.failures(t, resque.FailedList)[2]); err != nil {
		t.Fatal(err)
	}
	a.wantList(t, "failed", x, y)
	a.fail(t, "failed", x)
	if err := a.Retry(a.c, a.failures(t, resque.FailedList)[2], retriedAt, false); err != nil {
		t.Fatal(err)
	}
	a.wantList(t, "failed", x, y, marked(t, x))
}

// What cannot be retried says why, is passed over by RetryAll, and can be removed.
func TestPoisonRecords(t *testing.T) {
	a := newAdmin(t)
	poison := []struct{ record, says string }{
		{`not JSON`, "cannot be read"},
		{`null`, "cannot be read"},
		{`5`, "cannot be read"},
		{`{"queue":"q"}`, "payload is missing"},
		{`{"queue":"q","payload":null}`, "payload is null"},
		{`{"queue":"q","payload":"J"}`, "holds no job"},
		{`{"queue":"q","payload":{"args":[]}}`, "names no class"},
		{`{"payload":{"class":"J"}}`, "names no queue"},
		{`{"queue":"odd","payload":{"class":"J"}}`, "WRONGTYPE"},
	}
	a.Do(t, "SET", "resque:queue:odd", "x")
	a.fail(t, "failed", record(0, "q"))
	for _, p := range poison {
		a.fail(t, "failed", p.record)
	}
	a.fail(t, "failed", "", `{"queue":"q","payload":{"class":"InvalidPayload","args":["null"]}}`)

	records := a.failures(t, resque.FailedList)
	for i, p := range poison {
		wantError(t, a.Retry(a.c, records[i+1], retriedAt, false), "retrying a failure of list failed", p.says)
	}
	n, err := a.RetryAll(a.c, resque.FailedList, Filter{}, retriedAt, false)
	if n != 2 {
		t.Errorf("retried %d; want 2", n)
	}
	wantError(t, err, fmt.Sprintf("%d failures of list failed", len(poison)), "cannot be read")
	a.wantList(t, "queue:q", `{"class":"J","args":[0.0]}`, `{"class":"InvalidPayload","args":["null"]}`)

	if n, err := a.RemoveAll(a.c, resque.FailedList, Filter{Retried: true}); n != 2 || err != nil {
		t.Errorf("cleared %d, %v; want 2", n, err)
	}
	for i, p := range poison {
		if err := a.Remove(a.c, records[i+1]); err != nil {
			t.Errorf("removing %s: %v", p.record, err)
		}
	}
	a.wantList(t, "failed")
}

func TestManyFailures(t *testing.T) {
	a := newAdmin(t)
	const n = 2*firstPage + 7
	var want, left []string
	for i := range n {
		r := record(i, "q")
		if i%3 == 0 {
			r = marked(t, r)
		} else {
			left = append(left, r)
			want = append(want, fmt.Sprintf(`{"class":"J","args":[%d.0]}`, i))
		}
		a.fail(t, "failed", r)
	}
	if removed, err := a.RemoveAll(a.c, resque.FailedList, Filter{Retried: true}); removed != n-len(left) || err != nil {
		t.Errorf("cleared %d, %v; want %d", removed, err, n-len(left))
	}
	a.wantList(t, "failed", left...)
	if retried, err := a.RetryAll(a.c, resque.FailedList, Filter{}, retriedAt, false); retried != len(left) || err != nil {
		t.Errorf("retried %d, %v; want %d", retried, err, len(left))
	}
	a.wantList(t, "queue:q", want...)
	if removed, err := a.RemoveAll(a.c, resque.FailedList, Filter{Retried: true}); removed != len(left) || err != nil {
		t.Errorf("cleared %d, %v; want %d", removed, err, len(left))
	}
	a.wantList(t, "failed")
}

// A key of the wrong type, or Redis refusing to write, changes nothing.
func TestFailuresRefused(t *testing.T) {
	tests := []struct {
		name    string
		command []any
		says    string
	}{
		{"queues of another type", []any{"SET", "resque:queues", "x"}, "WRONGTYPE"},
		{"queue of another type", []any{"SET", "resque:queue:q", "x"}, "WRONGTYPE"},
		{"out of memory", []any{"CONFIG", "SET", "maxmemory", "1"}, "OOM"},
		{"replica", []any{"REPLICAOF", "127.0.0.1", "1"}, "READONLY"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := newAdmin(t)
			a.fail(t, "failed", record(0, "q"), record(1, "q"))
			records := a.failures(t, resque.FailedList)
			a.Do(t, test.command[0].(string), test.command[1:]...)
			before := a.Dump(t, resque.DefaultNamespace)
			wantError(t, a.Retry(a.c, records[0], retriedAt, false), test.says)
			n, err := a.RetryAll(a.c, resque.FailedList, Filter{}, retriedAt, false)
			wantError(t, err, test.says)
			if n != 0 {
				t.Errorf("retried %d", n)
			}
			a.wantKeys(t, before)

			err = a.Remove(a.c, records[0])
			if test.says == "READONLY" {
				wantError(t, err, "READONLY")
				a.wantKeys(t, before)
			} else if err != nil {
				t.Errorf("a failure cannot be removed: %v", err)
			}
		})
	}
	t.Run("list of another type", func(t *testing.T) {
		a := newAdmin(t)
		a.fail(t, "failed", record(0, "q"))
		it := a.failures(t, resque.FailedList)[0]
		a.Do(t, "SET", "resque:failed", "x")
		before := a.Dump(t, resque.DefaultNamespace)
		wantError(t, a.Retry(a.c, it, retriedAt, false), "WRONGTYPE")
		wantError(t, a.Remove(a.c, it), "WRONGTYPE")
		_, err := a.RetryAll(a.c, resque.FailedList, Filter{}, retriedAt, false)
		wantError(t, err, "list failed", "WRONGTYPE")
		_, err = a.RemoveAll(a.c, resque.FailedList, Filter{Retried: true})
		wantError(t, err, "list failed", "WRONGTYPE")
		a.Do(t, "SET", "resque:failed_queues", "x")
		_, err = a.Lists(a.c)
		wantError(t, err, "WRONGTYPE")
		a.Do(t, "DEL", "resque:failed_queues")
		a.wantKeys(t, before)
	})
}

// Two operators press the button at a time.
func TestRetryTwiceAtOnce(t *testing.T) {
	a := newAdmin(t)
	a.fail(t, "failed", record(0, "q"))
	it := a.failures(t, resque.FailedList)[0]
	errs := make(chan error)
	for range 8 {
		c := a.Dial(t)
		go func() { errs <- a.Retry(c, it, retriedAt, false) }()
	}
	done := 0
	for range 8 {
		if err := <-errs; err == nil {
			done++
		} else if !errors.Is(err, ErrNoFailure) {
			t.Error(err)
		}
	}
	if jobs := a.Int(t, "LLEN", "resque:queue:q"); done != 1 || jobs != 1 {
		t.Errorf("%d retries done, %d jobs; want 1 and 1", done, jobs)
	}
}

// A list that is cleared before it is read has nothing to be removed any more.
func TestRemoveAllOfAClearedList(t *testing.T) {
	a := newAdmin(t)
	a.Do(t, "RPUSH", a.store.KeyOfFailures(resque.FailedList), "a", "b", "c")
	cleared := &meddler{Conn: a.c, before: 1, meddle: func() { must(t, a.Clear(a.c, resque.FailedList)) }}
	done := make(chan int)
	go func() {
		n, _ := a.RemoveAll(cleared, resque.FailedList, Filter{})
		done <- n
	}()
	select {
	case n := <-done:
		same(t, "removed", 0, n)
	case <-time.After(20 * time.Second):
		t.Fatal("it never ends")
	}
}

// Pieces are as large as they may be, however many of a page are removed: each costs a
// look through the list.
func TestRemoveAllInFullPieces(t *testing.T) {
	a := newAdmin(t)
	args := []any{a.store.KeyOfFailures(resque.FailedList)}
	for i := range 10_000 {
		args = append(args, fmt.Sprintf(`{"failed_at":"2026/11/21 12:00:00 UTC","payload":{"class":"C%d","args":[%d]}}`, i%7, i))
	}
	a.Do(t, "RPUSH", args...)
	monitor := a.Monitor(t)
	n, err := a.RemoveAll(a.c, resque.FailedList, Filter{Class: "C1"})
	must(t, err)
	same(t, "removed", 1429, n)
	scripts := 0
	for _, command := range monitor.Commands() {
		if strings.HasPrefix(strings.ToUpper(command[0]), "EVAL") {
			scripts++
		}
	}
	if most := 1429/removeTogether + 2; scripts > most { // one may be sent twice, once with its text
		t.Errorf("%d scripts, want at most %d", scripts, most)
	}
	same(t, "left", int64(8571), int64(a.Int(t, "LLEN", a.store.KeyOfFailures(resque.FailedList))))
}

func TestBrokenConnection(t *testing.T) {
	a := newAdmin(t)
	a.Kill()
	if _, err := a.Count(a.c, resque.FailedList); err == nil {
		t.Error("Count: no error")
	}
}
