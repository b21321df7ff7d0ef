package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// index is a daemon with an aggregated class, and what its handler was called with.
type index struct {
	*daemontest.Bundle
	mu    sync.Mutex
	calls []string
}

// indexing registers Index, whose items are a catalog and an id, with the first as the key.
func indexing(t *testing.T, opts ...goworker.AggregateOption) *index {
	t.Helper()
	i := &index{Bundle: daemontest.Setup(t)}
	i.gather("Index", func(_ context.Context, catalog string, ids []int) {
		slices.Sort(ids) // several workers gather
		i.called(catalog, ids)
	}, append(opts, goworker.KeyArgs(0))...)
	return i
}

func (i *index) gather(class string, handler any, opts ...goworker.AggregateOption) {
	i.Daemon.Register(class, handler, goworker.Aggregate(opts...))
}

func (i *index) called(args ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls = append(i.calls, strings.TrimSpace(fmt.Sprintln(args...)))
}

func (i *index) seen() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := slices.Clone(i.calls)
	slices.Sort(all)
	return all
}

func item(catalog string, id int) string {
	return fmt.Sprintf(`{"class":"Index","args":[%q,%d]}`, catalog, id)
}

func (i *index) items(catalog string, from, to int) {
	var all []string
	for id := from; id <= to; id++ {
		all = append(all, item(catalog, id))
	}
	i.Push(all...)
}

// wait waits until the handler was called with these.
func (i *index) wait(want ...string) {
	i.T.Helper()
	slices.Sort(want)
	i.Eventually(fmt.Sprintf("the handler was called with %q", want), func() bool { return slices.Equal(i.seen(), want) })
}

// gathers waits until the handler got so many items, and returns an error if it was not called with these. Items that came in time are
// apart if this process gathers them too late.
func (i *index) gathers(items int, want ...string) error {
	i.T.Helper()
	i.Eventually(fmt.Sprint(items, " items have come"), func() bool {
		n := 0
		for _, call := range i.seen() {
			n += len(strings.Fields(call)) - 1
		}
		return n == items
	})
	if seen := i.seen(); !slices.Equal(seen, want) {
		return fmt.Errorf("the handler was called with %q, want %q", seen, want)
	}
	return nil
}

// The items of one key that come within MaxWait are one job with their list.
func TestAggregate(t *testing.T) {
	t.Parallel()
	var i *index
	daemontest.Punctually(t, func() error {
		i = indexing(t, goworker.MaxWait(300*time.Millisecond))
		i.Start()
		i.items("books", 1, 4)
		i.items("films", 1, 1)
		return i.gathers(5, "books [1 2 3 4]", "films [1]")
	})
	i.Eventually("only the jobs of the groups count", func() bool { return i.Stat("processed") == 2 })
	if keys := i.Redis.List(t, "KEYS", "resque:go:group*"); len(keys) > 0 {
		t.Errorf("left are %q", keys)
	}
}

// A group is flushed at once when it has MaxCount items.
func TestAggregateMaxCount(t *testing.T) {
	t.Parallel()
	i := indexing(t, goworker.MaxCount(3), goworker.MaxWait(time.Hour))
	i.Start()
	i.items("books", 1, 3)
	i.wait("books [1 2 3]")
	i.items("books", 4, 7)
	i.Eventually("the rest waits in its group", func() bool {
		return len(i.seen()) == 2 && len(i.Redis.List(t, "ZRANGE", "resque:go:groups", 0, -1)) == 1
	})
}

// Quiet flushes a group when no item has come for so long; MaxWait bounds it.
func TestAggregateQuiet(t *testing.T) {
	t.Parallel()
	daemontest.Punctually(t, func() error {
		i := indexing(t, goworker.MaxWait(time.Hour), goworker.Quiet(100*time.Millisecond))
		i.Start()
		i.items("books", 1, 2)
		return i.gathers(2, "books [1 2]")
	})
}

// either is what remains of an item: a value, or a list of several.
type either struct{ json.RawMessage }

// What remains of an item is its value, or a list of several values or none. Both are not in one group.
func TestAggregateForms(t *testing.T) {
	t.Parallel()
	i := &index{Bundle: daemontest.Setup(t)}
	forms := func(key string, all []either) {
		list, _ := json.Marshal(all)
		i.called(key, string(list))
	}
	i.gather("Several", forms, goworker.KeyArgs(0), goworker.MaxWait(100*time.Millisecond))
	i.gather("None", func(all []either) { forms("-", all) }, goworker.MaxWait(100*time.Millisecond))
	i.gather("Second", func(b, a string, all []either) { forms(b+a, all) }, goworker.KeyArgs(1, 0), goworker.MaxWait(100*time.Millisecond))
	i.Start()
	i.Push(
		`{"class":"Several","args":["a",1,{"x": 1.0}]}`, `{"class":"Several","args":["b"]}`, `{"class":"Several","args":["c",null]}`,
		`{"class":"Several","args":["d",[1, 2]]}`, // as the job of a group whose other fields are lost
		`{"class":"None","args":[12345678901234567890123]}`, `{"class":"Second","args":["a","b",1e400]}`,
	)
	i.wait(`a [[1,{"x":1.0}]]`, `b [[]]`, `c [null]`, `d [1,2]`, `- [12345678901234567890123]`, `ba [1e400]`)

	i.Push(`{"class":"Several","args":["e",1]}`, `{"class":"Several","args":["e",2,3]}`)
	i.wait(`a [[1,{"x":1.0}]]`, `b [[]]`, `c [null]`, `d [1,2]`, `- [12345678901234567890123]`, `ba [1e400]`, `e [1]`, `e [[2,3]]`)
}

// The bytes of an item are those of its producer: numbers keep their digits, and keys their order.
func TestAggregateBytes(t *testing.T) {
	t.Parallel()
	i := &index{Bundle: daemontest.Setup(t)}
	i.gather("Raw/\"é", func(ctx context.Context, _ any, _ []map[string]any) {
		d := goworker.FromContext(ctx)
		i.called(strings.ReplaceAll(string(d.Raw()), d.ID, "<id>"))
	}, goworker.KeyArgs(0), goworker.MaxCount(1))
	i.Start()
	const value = `{"b" : 1.50,"a":[ 100000000000000000001 ],"a":"\u00e9\/é"}`
	i.Push(`{"class":"Raw\/\"\u00e9","args":[ {"k": 1} ,` + value + `],"meta":{"trace":"x"},"retries":3}`)
	i.wait(`{"class":"Raw/\"é","args":[{"k": 1},[` + value + `]],"gathered":1,"id":"<id>"}`)
}

// Keys are equal if their characters are, however they are escaped.
func TestAggregateEqualKeys(t *testing.T) {
	t.Parallel()
	i := indexing(t, goworker.MaxCount(3))
	i.Start()
	i.Push(`{"class":"Index","args":["é\"/",1]}`, `{"class":"Index","args":["\u00e9\"\/",2]}`, `{"args":["\u00E9\u0022/",3],"class":"Index"}`)
	i.wait(`é"/ [1 2 3]`)
}

// An item without the arguments of the key fails by itself, with a sentence. So does one that the handler cannot take.
func TestAggregateMisfits(t *testing.T) {
	t.Parallel()
	i := indexing(t, goworker.MaxCount(2))
	i.Start()
	i.Push(`{"class":"Index","args":[]}`, item("books", 1), `{"class":"Index","args":["books","seven"]}`, `{"class":"Index","args":["books",1,2]}`, item("books", 2))
	i.wait("books [1 2]")
	i.Eventually("three items failed", func() bool { return len(i.Failures()) == 3 })
	var errs []string
	for _, f := range i.Failures() {
		errs = append(errs, string(f.Payload)+": "+f.Exception+": "+f.Error)
	}
	slices.Sort(errs)
	for n, want := range []string{
		`{"class":"Index","args":["books","seven"]}: ArgumentError: argument 2 of Index is`,
		`{"class":"Index","args":["books",1,2]}: ArgumentError: argument 2 of Index is`,
		`{"class":"Index","args":[]}: ArgumentError: wrong number of arguments for Index (given 0, expected at least 1)`,
	} {
		if !strings.HasPrefix(errs[n], want) {
			t.Errorf("a failure is %s, want %s…", errs[n], want)
		}
	}
}
