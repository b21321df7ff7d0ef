package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

var dueBase = time.Unix(2_000_000_000, 0)

// own and rubys put jobs into the two schedules, so many ms or seconds after dueBase.
func own(t *testing.T, server *redistest.Server, ms int, name string) {
	server.Do(t, "ZADD", "resque:go:schedule", dueBase.UnixMilli()+int64(ms), `4:mail{"class":"Own","args":["`+name+`"],"id":"`+name+`"}`)
}

func rubys(t *testing.T, server *redistest.Server, second int, names ...string) {
	at := dueBase.Unix() + int64(second)
	server.Do(t, "ZADD", "resque:delayed_queue_schedule", at, at)
	for _, name := range names {
		server.Do(t, "RPUSH", fmt.Sprint("resque:delayed:", at), `{"class":"Ruby","args":["`+name+`"],"queue":"low"}`)
	}
}

// all pages through the delayed jobs, and returns their first arguments.
func dueNames(t *testing.T, i *inspect.Inspector, q inspect.Query, from, to time.Time, count int) (names []string) {
	t.Helper()
	for after, pages := "", 0; ; pages++ {
		p, err := i.FindDelayed(t.Context(), q, from, to, after, count)
		if err != nil || len(p.Jobs) > count || pages > 200 {
			t.Fatal(len(p.Jobs), pages, err)
		}
		for _, e := range p.Jobs {
			names = append(names, string(e.Args[0]))
		}
		if after = p.Next; after == "" {
			return names
		}
	}
}

// Jobs of both schedules come in the order of their times, whatever the pages are, from a time to another.
func TestFindDelayed(t *testing.T) {
	i, server, _ := setup(t)
	own(t, server, 500, "b")
	own(t, server, 2000, "e")
	own(t, server, 2000, "f")
	own(t, server, 9000, "i")
	rubys(t, server, 0, "a")
	rubys(t, server, 1, "c", "d")
	rubys(t, server, 2, "g")
	rubys(t, server, 5, "h")
	rubys(t, server, 10, "j")
	every := []string{`"a"`, `"b"`, `"c"`, `"d"`, `"e"`, `"f"`, `"g"`, `"h"`, `"i"`, `"j"`}
	for _, count := range []int{1, 2, 3, 4, 7, 100} {
		want(t, fmt.Sprint(count, " a page"), every, dueNames(t, i, inspect.Query{}, time.Time{}, time.Time{}, count), nil)
		want(t, "of two seconds", every[2:7], dueNames(t, i, inspect.Query{}, dueBase.Add(time.Second), dueBase.Add(3*time.Second), count), nil)
		want(t, "from between two seconds", every[1:4], dueNames(t, i, inspect.Query{}, dueBase.Add(time.Millisecond), dueBase.Add(1001*time.Millisecond), count), nil)
		want(t, "of a class", []string{`"b"`, `"e"`, `"f"`, `"i"`}, dueNames(t, i, inspect.Query{Class: "Own"}, time.Time{}, time.Time{}, count), nil)
	}
	p, err := i.FindDelayed(t.Context(), inspect.Query{}, time.Time{}, time.Time{}, "", 2)
	want(t, "jobs", 2, len(p.Jobs), err)
	if e := p.Jobs[0]; !e.Plain || e.Place != inspect.Delayed || !e.At.Equal(dueBase) || e.Queue != "low" {
		t.Errorf("%+v", e)
	}
	n, err := i.Remove(t.Context(), p.Jobs...)
	want(t, "removed", 2, n, err)
	want(t, "those behind the removed ones", every[2:], func() (names []string) {
		rest, err := i.FindDelayed(t.Context(), inspect.Query{}, time.Time{}, time.Time{}, p.Next, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range rest.Jobs {
			names = append(names, string(e.Args[0]))
		}
		return names
	}(), nil)
	for _, after := range []string{"x", p.Next[:8]} {
		if _, err := i.FindDelayed(t.Context(), inspect.Query{}, time.Time{}, time.Time{}, after, 2); !errors.Is(err, inspect.ErrCursor) {
			t.Errorf("%q: %v", after, err)
		}
	}
	if _, err := i.FindDelayed(t.Context(), inspect.Query{Class: "Own"}, time.Time{}, time.Time{}, p.Next, 2); !errors.Is(err, inspect.ErrCursor) {
		t.Error(err)
	}
	if _, err := i.FindDelayed(t.Context(), inspect.Query{}, time.Time{}, time.Time{}, "", 501); err == nil {
		t.Error("a page of 501")
	}
}

// A second with more jobs than a page goes on where it ended, and one of another type hides no other.
func TestFindDelayedLong(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "EVAL", `for n = 1, 3000 do redis.call('RPUSH', KEYS[1], '{"class":"R","args":[' .. n .. '],"queue":"low"}') end`, 1, fmt.Sprint("resque:delayed:", dueBase.Unix()))
	server.Do(t, "ZADD", "resque:delayed_queue_schedule", dueBase.Unix(), dueBase.Unix(), dueBase.Unix()+1, dueBase.Unix()+1)
	server.Do(t, "SET", fmt.Sprint("resque:delayed:", dueBase.Unix()+1), "x")
	own(t, server, 0, "first")
	own(t, server, 2000, "last")
	names := dueNames(t, i, inspect.Query{}, dueBase, time.Time{}, 499)
	if len(names) != 3002 || names[0] != `"first"` || names[1] != "1" || names[3000] != "3000" || names[3001] != `"last"` {
		t.Errorf("%d names, %v … %v", len(names), names[:3], names[len(names)-3:])
	}
	p, err := i.FindDelayed(t.Context(), inspect.Query{}, dueBase.Add(time.Second), time.Time{}, "", 10)
	want(t, "jobs", 1, len(p.Jobs), err)
	want(t, "refused", 1, len(p.Refused), nil)
}

// Over shards the jobs of all come in the order of their times.
func TestFindDelayedOverShards(t *testing.T) {
	i, servers := sharded(t)
	var all []string
	for n := range 20 {
		name := fmt.Sprintf("n%02d", n)
		own(t, servers[n*7%len(servers)], n*100, name)
		all = append(all, `"`+name+`"`)
	}
	for _, count := range []int{1, 3, 50} {
		if got := dueNames(t, i, inspect.Query{}, time.Time{}, time.Time{}, count); !slices.Equal(got, all) {
			t.Errorf("%d a page: %v", count, got)
		}
	}
}

// What resque-retry keeps of a job that waits for another run.
func TestRubyRetries(t *testing.T) {
	i, server, _ := setup(t)
	rubys(t, server, 0, "a", "b")
	own(t, server, 0, "own")
	server.Do(t, "SET", "resque:resque-retry:Ruby:86f7e437faa5a7fce15d1ddcb9eaeaea377667b8", 1) // SHA-1 of a
	server.Do(t, "SET", "resque:failure-resque-retry:Ruby:86f7e437faa5a7fce15d1ddcb9eaeaea377667b8", `{"payload":{"class":"Ruby","args":["a"]},"exception":"Net::ReadTimeout","error":"timeout"}`)
	p, err := i.FindDelayed(t.Context(), inspect.Query{}, time.Time{}, time.Time{}, "", 10)
	want(t, "jobs", 3, len(p.Jobs), err)
	var got []inspect.RubyRetry
	n := commandsOf(t, server, func() { got, err = i.RubyRetries(t.Context(), p.Jobs) })
	want(t, "retries", []inspect.RubyRetry{{}, {Attempt: 3, Exception: "Net::ReadTimeout", Error: "timeout"}, {}}, got, err)
	if n > 2 {
		t.Errorf("%d commands", n)
	}
}
