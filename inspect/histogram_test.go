package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque"
)

// Columns count the jobs of both schedules, each at the edge in one of them, and say where they are a bound.
func TestDelayedHistogram(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	from := time.Unix(2_000_000_000, 0)
	for _, ms := range []int{-1, 0, 999, 1000, 9_999, 10_000} {
		server.Do(t, "ZADD", "resque:go:schedule", from.UnixMilli()+int64(ms), fmt.Sprint("4:mail{", ms, "}"))
	}
	for _, second := range []int64{-1, 0, 9, 10} {
		at := from.Unix() + second
		server.Do(t, "ZADD", "resque:delayed_queue_schedule", at, at)
		server.Do(t, "RPUSH", fmt.Sprint("resque:delayed:", at), "a", "b", "c")
	}
	before := server.Dump(t, "")
	var got []inspect.Count
	var err error
	n := commandsOf(t, server, func() { got, err = i.DelayedHistogram(ctx, from, from.Add(10*time.Second), 10) })
	want(t, "columns", []inspect.Count{exact(5), exact(1), exact(0), exact(0), exact(0), exact(0), exact(0), exact(0), exact(0), exact(4)}, got, err)
	if n > 2 {
		t.Errorf("%d commands", n)
	}
	got, err = i.DelayedHistogram(ctx, from.Add(500*time.Millisecond), from.Add(1500*time.Millisecond), 2)
	want(t, "columns between seconds", []inspect.Count{exact(1), exact(1)}, got, err)
	got, err = i.DelayedHistogram(ctx, from.Add(time.Hour), from.Add(2*time.Hour), 1)
	want(t, "none", []inspect.Count{exact(0)}, got, err)
	want(t, "keys", before, server.Dump(t, ""), nil)

	server.Do(t, "EVAL", `for n = 20, 3019 do
		redis.call('ZADD', 'resque:delayed_queue_schedule', ARGV[1] + n, ARGV[1] + n)
		redis.call('RPUSH', 'resque:delayed:' .. ARGV[1] + n, 'a', 'b')
	end`, 0, from.Unix())
	got, err = i.DelayedHistogram(ctx, from.Add(20*time.Second), from.Add(3020*time.Second), 3)
	want(t, "many seconds", []inspect.Count{exact(2000), exact(2000), {N: 1000, Bound: inspect.AtLeast}}, got, err)

	for _, columns := range []int{0, 501} {
		if _, err := i.DelayedHistogram(ctx, from, from.Add(time.Hour), columns); err == nil {
			t.Errorf("%d columns", columns)
		}
	}
	if _, err := i.DelayedHistogram(ctx, from, from, 1); err == nil || !strings.Contains(err.Error(), "millisecond") {
		t.Error(err)
	}
	server.Do(t, "DEL", "resque:go:schedule")
	server.Do(t, "SET", "resque:go:schedule", "x")
	if _, err := i.DelayedHistogram(ctx, from, from.Add(time.Hour), 1); !resque.IsWrongType(err) {
		t.Error(err)
	}
}

// Over shards a column is the sum.
func TestDelayedHistogramOverShards(t *testing.T) {
	i, servers := sharded(t)
	from := time.Unix(2_000_000_000, 0)
	for n, server := range servers {
		server.Do(t, "ZADD", "resque:go:schedule", from.UnixMilli()+int64(n)*1000, "4:mail{}")
	}
	got, err := i.DelayedHistogram(t.Context(), from, from.Add(2*time.Second), 1)
	want(t, "sum", []inspect.Count{exact(2)}, got, err)
}
