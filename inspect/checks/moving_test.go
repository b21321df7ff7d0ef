package checks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
)

func exactly(n int64) inspect.Count { return inspect.Count{N: n, Bound: inspect.Exact} }

// calm is a sample in which no check finds anything.
func calm() inspect.Sample {
	return inspect.Sample{
		At: time.Unix(1000, 0), Namespace: "resque:", Processed: exactly(1000), Failed: exactly(3), Waiting: exactly(7), Delayed: exactly(9),
		Late:    inspect.Age{Method: inspect.AgeExact},
		Servers: []inspect.SampleServer{{Name: "redis://cache", Role: "master", Policy: "noeviction", Persistence: "aof", Memory: 10, MaxMemory: 100}},
		Queues: []inspect.SampleQueue{{
			Name: "mail", Waiting: exactly(7), InLanes: exactly(0), Go: exactly(20), Other: exactly(0), HTTP: exactly(0),
			Oldest: inspect.Age{For: 2 * time.Second, Method: inspect.AgeCounted},
		}},
		Workers: inspect.SampleWorkers{All: exactly(20), Go: exactly(20), Busy: exactly(5), Looked: 20},
	}
}

// Each moving check is found where its bound is passed, and not where it is not.
func TestMoving(t *testing.T) {
	t.Parallel()
	usual := inspect.History{Step: 10 * time.Minute}
	for n := range 100 { // 95 of them at most 10 minutes; then what waits now begins to wait
		q := inspect.QueueHistory{Age: inspect.DurationLevel{Looks: 60, Most: 10 * time.Minute}}
		switch {
		case n < 5:
			q.Age.Most = 5 * time.Hour
		case n < 50:
			q = inspect.QueueHistory{Depth: inspect.Level{Looks: 60}}
		}
		usual.Rows = append(usual.Rows, inspect.HistoryRow{At: calm().At.Add(-2*time.Hour - time.Duration(100-n)*usual.Step), Queues: map[string]inspect.QueueHistory{"nightly": q}})
	}
	for n := range 10 {
		q := inspect.QueueHistory{Age: inspect.DurationLevel{Looks: 60, Most: time.Hour}}
		usual.Rows = append(usual.Rows, inspect.HistoryRow{At: calm().At.Add(time.Duration(n-10) * usual.Step), Queues: map[string]inspect.QueueHistory{"nightly": q, "mail": q}})
	}
	for name, tt := range map[string]struct {
		change func(s *inspect.Sample)
		want   string // the name of the check and a part of its sentence; "": nothing
	}{
		"calm":         {func(*inspect.Sample) {}, ""},
		"a replica":    {func(s *inspect.Sample) { s.Servers[0].Role = "slave" }, "redis-replica: "},
		"memory":       {func(s *inspect.Sample) { s.Servers[0].Memory = 81 }, "redis-memory: Redis uses 81 B of its 100 B (81 %)"},
		"at the bound": {func(s *inspect.Sample) { s.Servers[0].Memory = 80 }, ""},
		"no limit":     {func(s *inspect.Sample) { s.Servers[0].Memory, s.Servers[0].MaxMemory = 81, 0 }, ""},
		"all paused":   {func(s *inspect.Sample) { s.PausedAll = true }, "paused-all: "},
		"paused":       {func(s *inspect.Sample) { s.Queues[0].Paused = true }, `paused: queue "mail" is paused, and 7 jobs wait`},
		"paused and empty": {func(s *inspect.Sample) {
			s.Queues[0].Paused, s.Queues[0].Waiting = true, exactly(0)
		}, ""},
		"unserved": {func(s *inspect.Sample) { s.Queues[0].Go = exactly(0) }, "unserved: "},
		"perhaps served": {func(s *inspect.Sample) {
			s.Queues[0].Go, s.Queues[0].Other = exactly(0), inspect.Count{}
		}, ""},
		"old": {func(s *inspect.Sample) {
			s.Queues[0].Oldest = inspect.Age{For: 6 * time.Minute, Method: inspect.AgeSeen}
		}, `waits-long: the oldest job of queue "mail" has waited for more than 6m: 7 jobs wait`},
		"old, as usual": {func(s *inspect.Sample) {
			s.Queues[0].Name, s.Queues[0].Oldest.For = "nightly", 99*time.Minute
		}, ""},
		"older than usual": {func(s *inspect.Sample) {
			s.Queues[0].Name, s.Queues[0].Oldest.For = "nightly", 101*time.Minute
		}, `waits-long: the oldest job of queue "nightly" has waited about 1h41m, usually up to 10m: 7 jobs wait`},
		"old, all busy": {func(s *inspect.Sample) {
			s.Queues[0].Oldest.For, s.Workers.Busy = 6*time.Minute, exactly(19)
		}, "workers-saturated: 95 % of the workers are busy, and 7 jobs wait"},
		"limited": {func(s *inspect.Sample) {
			s.Queues[0].Oldest.For, s.Queues[0].InLanes = 6*time.Minute, exactly(7)
		}, "goworker limits ls"},
		"busy with what is limited": {func(s *inspect.Sample) { s.Queues[0].InLanes, s.Workers.Busy = exactly(7), exactly(20) }, ""},
		"late":                      {func(s *inspect.Sample) { s.Late.For = 31 * time.Second }, "delayed-late: "},
		"on time":                   {func(s *inspect.Sample) { s.Late.For = 29 * time.Second }, ""},
		"stuck": {func(s *inspect.Sample) {
			s.Stuck = []inspect.StuckJob{{Process: "web:1:x", Class: "Re\x1bsize", For: 41 * time.Minute}}
		}, `stuck-job: "Re\x1bsize" is stuck in "web:1:x" for 41m`},
		"failing":  {func(s *inspect.Sample) { s.Processed, s.Failed = exactly(1400), exactly(23) }, `jobs-fail: 20 of the last 400 jobs failed (5 %)`},
		"few fail": {func(s *inspect.Sample) { s.Processed, s.Failed = exactly(1010), exactly(13) }, ""},
	} {
		before, after := calm(), calm()
		after.At = before.At.Add(time.Minute)
		tt.change(&after)
		var got []string
		for _, f := range Moving(before, after, Usually(usual)) {
			got = append(got, fmt.Sprintf("%s: %s: %s", f.Check.Name, f.Sentence, f.Remedy.Words))
			if f.State != Found || f.Fixable() || !f.Check.In(Status) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if text := strings.Join(got, "\n"); !strings.Contains(text, tt.want) || tt.want == "" && text != "" {
			t.Errorf("%s: found %q, not %q", name, text, tt.want)
		}
	}
}

func TestGrowing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		waits  int64
		growth inspect.Rate
		want   bool
	}{
		{1800, inspect.Rate{PerSecond: 1, Bound: inspect.Exact}, true},
		{1801, inspect.Rate{PerSecond: 1, Bound: inspect.Exact}, false},
		{999, inspect.Rate{PerSecond: 100, Bound: inspect.Exact}, false},
		{1800, inspect.Rate{}, false},
	} {
		q := inspect.SampleQueue{Waiting: exactly(tt.waits)}
		if got := growing(q, inspect.QueueRates{Growth: tt.growth}); got != tt.want {
			t.Errorf("%d wait, and it grows by %v: %v", tt.waits, tt.growth, got)
		}
	}
}

// A class is found where it fails five times as often as it usually does, and not where it always does.
func TestFailing(t *testing.T) {
	t.Parallel()
	h := inspect.History{Step: 10 * time.Minute}
	for range 100 {
		h.Rows = append(h.Rows, inspect.HistoryRow{Classes: map[string]inspect.ClassHistory{
			"Mail": {Done: 990, Failed: 5, Retried: 5}, "Flaky": {Done: 80, Failed: 20}, "Rare": {Done: 3},
		}})
	}
	h.Rows = append(h.Rows,
		inspect.HistoryRow{Classes: map[string]inspect.ClassHistory{"Mail": {Done: 900, Failed: 60, Retried: 40}, "Flaky": {Done: 70, Failed: 30}, "Rare": {Failed: 3}}},
		inspect.HistoryRow{Open: true})
	found := Failing(h)
	if len(found) != 1 || found[0].Sentence != `100 of 1,000 of class "Mail" failed within 10m (10 %, usually 1 %)` || found[0].Remedy.Command != "goworker failed groups -- class:Mail" {
		t.Errorf("found %+v", found)
	}
}

// A kind of failure is new within an hour of its first one, where there are ten of it; of jobs whose process was killed the first one counts.
func TestNewFailures(t *testing.T) {
	t.Parallel()
	now := time.Unix(100_000, 0)
	group := func(class, exception string, count int64, first time.Duration) inspect.FailureGroup {
		return inspect.FailureGroup{Class: class, Exception: exception, Count: count, First: now.Add(-first), Last: now}
	}
	found := NewFailures([]inspect.FailureGroup{
		group("Mail", "Net::ReadTimeout", 10, 12*time.Minute), group("Few", "E", 9, time.Minute), group("Old", "E", 1000, 61*time.Minute),
		group("Killed", "Resque::DirtyExit", 1, time.Second), {Class: "Undated", Count: 100},
	}, now)
	var got []string
	for _, f := range found {
		got = append(got, f.Sentence+"; "+f.Remedy.Command)
	}
	want := []string{
		`10 failures of class "Mail" with "Net::ReadTimeout", the first one 12m ago; goworker failed ls -- class:Mail`,
		`1 failure of class "Killed" with "Resque::DirtyExit", the first one 1s ago; goworker failed ls -- class:Killed`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("found\n%s", strings.Join(got, "\n"))
	}
}
