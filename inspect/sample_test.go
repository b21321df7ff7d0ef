package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// soon is the deadline of what comes at once.
const soon = time.Minute

func exact(n int64) inspect.Count { return inspect.Count{N: n, Bound: inspect.Exact} }

// queueOf returns a queue of a Sample.
func queueOf(t *testing.T, s inspect.Sample, name string) inspect.SampleQueue {
	t.Helper()
	for _, q := range s.Queues {
		if q.Name == name {
			return q
		}
	}
	t.Fatalf("queue %s is not in %+v", name, s.Queues)
	return inspect.SampleQueue{}
}

func sample(t *testing.T, i *inspect.Inspector, options ...inspect.SampleOption) inspect.Sample {
	t.Helper()
	s, err := i.Sample(t.Context(), options...)
	if err != nil || len(s.Refused) > 0 {
		t.Fatalf("%v, refused %v", err, s.Refused)
	}
	return s
}

// On a Redis where only Ruby works a Sample has all totals and who serves each queue. Ages are exact where a payload says them. A second
// Sample adds since when the head is there, and bounds of what came and went.
func TestSampleRuby(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "SADD", "resque:queues", "rails", "plain", "empty", "php")
	hourAgo := time.Now().Add(-time.Hour)
	server.Do(t, "RPUSH", "resque:queue:rails", fmt.Sprintf(`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Mail","job_id":"x","arguments":[],"enqueued_at":%q}]}`,
		hourAgo.UTC().Format(time.RFC3339Nano)))
	server.Do(t, "RPUSH", "resque:queue:php", fmt.Sprintf(`{"class":"P","args":[{}],"id":"ab","prefix":"","queue_time":%d.5}`, hourAgo.Unix()))
	for n := range 10 {
		server.Do(t, "RPUSH", "resque:queue:plain", fmt.Sprintf(`{"class":"A","args":[%d]}`, n))
	}
	server.Do(t, "SADD", "resque:workers", "h1:1:plain", "h1:2:*", "h2:3:rails,plain", "h2:4:!plain,*")
	server.Do(t, "SET", "resque:worker:h1:2:*", `{"queue":"plain","run_at":"2026-11-21T12:00:00Z","payload":{"class":"A","args":[]}}`)
	server.Do(t, "MSET", "resque:stat:processed", 70, "resque:stat:failed", 3)
	server.Do(t, "RPUSH", "resque:failed", record("A", 0), record("A", 1))
	late := time.Now().Add(-time.Minute).Unix()
	for n, second := range []int64{late, late + 3600} {
		server.Do(t, "RPUSH", fmt.Sprint("resque:delayed:", second), `{"class":"D","args":[],"queue":"plain"}`, `{"class":"D","args":[1],"queue":"plain"}`)
		server.Do(t, "ZADD", "resque:delayed_queue_schedule", second, second)
		_ = n
	}
	before := server.Keys(t)
	s := sample(t, i)

	want(t, "processed", exact(70), s.Processed, nil)
	want(t, "failed", exact(3), s.Failed, nil)
	want(t, "failures", exact(2), s.Failures, nil)
	want(t, "waiting", exact(12), s.Waiting, nil)
	want(t, "delayed", exact(4), s.Delayed, nil)
	want(t, "retrying", exact(0), s.Retrying, nil)
	want(t, "queues", exact(4), s.QueueCount, nil)
	want(t, "workers", inspect.SampleWorkers{All: exact(4), Go: exact(0), Other: exact(4), Busy: exact(1), Looked: 4}, s.Workers, nil)
	if s.Late.Method != inspect.AgeExact || s.Late.For < 30*time.Second || s.Late.For > 30*time.Minute {
		t.Errorf("late %v", s.Late)
	}
	for name, want := range map[string]struct{ waiting, others int64 }{"plain": {10, 3}, "rails": {1, 3}, "php": {1, 2}, "empty": {0, 2}} {
		q := queueOf(t, s, name)
		if q.Waiting != exact(want.waiting) || q.Other != exact(want.others) || q.Go != exact(0) || q.HTTP != exact(0) || q.Counted {
			t.Errorf("%s: %+v", name, q)
		}
	}
	for _, name := range []string{"rails", "php"} {
		if age := queueOf(t, s, name).Oldest; age.Method != inspect.AgeExact || age.For < 55*time.Minute || age.For > 90*time.Minute {
			t.Errorf("%s: %v", name, age)
		}
	}
	for _, name := range []string{"plain", "empty"} {
		if age := queueOf(t, s, name).Oldest; age.Known() {
			t.Errorf("%s: %v, and nobody watched", name, age)
		}
	}
	if server := s.Servers[0]; server.Role != "master" || server.Version == "" || server.Policy != "noeviction" || server.Memory == 0 || server.Name != "redis://:***@cache" {
		t.Errorf("%+v", server)
	}
	want(t, "keys", before, server.Keys(t), nil)

	// Three come, and two go.
	server.Do(t, "RPUSH", "resque:queue:plain", `{"class":"A","args":[10]}`, `{"class":"A","args":[11]}`, `{"class":"A","args":[12]}`)
	server.Do(t, "INCRBY", "resque:stat:processed", 2)
	redistest.Eventually(t, soon, "Redis's clock goes on", func() bool { return sample(t, i).At.After(s.At.Add(10 * time.Millisecond)) })
	next := sample(t, i, inspect.SampleAfter(s))
	age := queueOf(t, next, "plain").Oldest
	if age.Method != inspect.AgeSeen || age.For != next.At.Sub(s.At) {
		t.Errorf("the head that is there still: %v", age)
	}
	server.Do(t, "LPOP", "resque:queue:plain")
	server.Do(t, "LPOP", "resque:queue:plain")
	third := sample(t, i, inspect.SampleAfter(s))
	if age := queueOf(t, third, "plain").Oldest; age.Known() {
		t.Errorf("another head is as old as %v", age)
	}
	r := third.Rates(s)
	seconds := r.For.Seconds()
	near := func(what string, rate inspect.Rate, n float64, bound inspect.Bound) {
		t.Helper()
		if rate.Bound != bound || rate.PerSecond*seconds < n-0.01 || rate.PerSecond*seconds > n+0.01 {
			t.Errorf("%s: %+v, %f in %f s", what, rate, rate.PerSecond*seconds, seconds)
		}
	}
	near("processed", r.Processed, 2, inspect.Exact)
	near("growth", r.Queues["plain"].Growth, 1, inspect.Exact)
	near("in", r.Queues["plain"].In, 3, inspect.AtLeast)
	near("out", r.Queues["plain"].Out, 2, inspect.AtLeast)
	if q := r.Queues["plain"]; !q.Never || q.EmptyIn != 0 {
		t.Errorf("%+v", q)
	}
	for range 5 {
		server.Do(t, "LPOP", "resque:queue:plain")
	}
	fourth := sample(t, i, inspect.SampleAfter(third))
	if q := fourth.Rates(third).Queues["plain"]; q.Never || q.EmptyIn <= 0 {
		t.Errorf("%+v", q)
	}
}

// With a keeper the ages and rates are what it found out, goworker's processes are told from others, and lanes count.
func TestSampleGo(t *testing.T) {
	i, server, _ := setup(t)
	now := time.Now()
	server.Do(t, "SADD", "resque:queues", "mail", "lanes")
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[]}`)
	server.Do(t, "HSET", "resque:go:depths", "mail", fmt.Sprintf("%d counted %d 1 100 0 3.000 5.000", now.UnixMilli(), now.Add(-4*time.Minute).UnixMilli()),
		"lanes", "what another program wrote")
	for p, ends := range map[string]int64{"h:1:a": now.UnixMilli() + 8000, "h:2:b": -now.UnixMilli()} {
		server.Do(t, "ZADD", "resque:go:processes", ends, p)
		server.Do(t, "HSET", "resque:go:process:"+p, "host", "h", "pid", 1, "version", "1", "queues", "mail,l*", "concurrency", 5,
			"id_head", "h.go:"+p[2:3]+"-", "id_queues", "mail,l*")
		for n := range 5 {
			server.Do(t, "SADD", "resque:workers", fmt.Sprintf("h.go:%s-%d:mail,l*", p[2:3], n))
		}
	}
	server.Do(t, "HSET", "resque:go:inflight:h:1:a", 1, "4:mail{}", 2, "4:mail{}", "entered", "1")
	server.Do(t, "SADD", "resque:go:paused", "mail")
	server.Do(t, "ZADD", "resque:go:takers", now.UnixMilli()+8000, "t1", 5, "gone")
	server.Do(t, "HSET", "resque:go:taker:t1", "host", "web", "queues", "mail\nother", "waiting", 2)
	server.Do(t, "SADD", "resque:go:lanes", "5:lanesL")
	server.Do(t, "ZADD", "resque:go:lanes:5:lanesL", now.Add(-time.Minute).UnixMicro(), "one", now.UnixMicro(), "two")
	server.Do(t, "ZADD", "resque:go:schedule", now.Add(time.Hour).UnixMilli(), `4:mail{"class":"A","args":[],"attempt":2}`,
		now.Add(time.Hour).UnixMilli(), `4:mail{"class":"A","args":[{"attempt":2}]}`)
	s := sample(t, i)
	q := queueOf(t, s, "mail")
	if q.Oldest.Method != inspect.AgeCounted || q.Oldest.For < 3*time.Minute || q.Oldest.For > 30*time.Minute || !q.Counted || !q.Paused || q.HTTP != exact(1) {
		t.Errorf("%+v", q)
	}
	want(t, "alive workers", exact(5), q.Go, nil)
	want(t, "other workers", exact(0), q.Other, nil)
	want(t, "pushed", int64(100), q.Pushed, nil)
	want(t, "workers", inspect.SampleWorkers{All: exact(10), Go: exact(10), Other: exact(0), Busy: exact(0), Looked: 10}, s.Workers, nil)
	want(t, "delayed", exact(2), s.Delayed, nil)
	want(t, "retrying", exact(1), s.Retrying, nil)
	if len(s.Processes) != 2 || s.Processes[0].Busy != (inspect.Count{N: 2, Bound: inspect.AtMost}) || !s.Processes[1].Dead {
		t.Errorf("%+v", s.Processes)
	}
	if len(s.Servings) != 1 || s.Servings[0].Host != "web" || s.Servings[0].Waiting != 2 {
		t.Errorf("%+v", s.Servings)
	}
	redistest.Eventually(t, soon, "Redis's clock goes on", func() bool { return sample(t, i).At.After(s.At) })
	if r := sample(t, i).Rates(s).Queues["mail"]; r.In.PerSecond != 3 || r.Out.PerSecond != 5 || r.In.Bound != inspect.Exact || r.EmptyIn != 500*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

// A key of another type hides nothing else: what depends on it is unknown.
func TestSampleWrongTypes(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "SADD", "resque:queues", "a", "b")
	server.Do(t, "RPUSH", "resque:queue:a", `{"class":"A","args":[]}`)
	server.Do(t, "SET", "resque:queue:b", "x")
	for _, key := range []string{"workers", "go:processes", "go:paused", "go:lanes", "go:schedule", "delayed_queue_schedule", "go:takers", "go:depths", "go:leased", "failed", "go:queues"} {
		server.Do(t, "SET", "resque:"+key, "x")
	}
	server.Do(t, "RPUSH", "resque:stat:processed", "x")
	s, err := i.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "a queue, perhaps with lanes", inspect.Count{N: 1, Bound: inspect.AtLeast}, queueOf(t, s, "a").Waiting, nil)
	want(t, "a refused queue", inspect.Count{}, queueOf(t, s, "b").Waiting, nil)
	want(t, "waiting", inspect.Count{N: 1, Bound: inspect.AtLeast}, s.Waiting, nil)
	for what, c := range map[string]inspect.Count{"processed": s.Processed, "delayed": s.Delayed, "failures": s.Failures, "workers": s.Workers.All, "go workers": s.Workers.Go, "busy": s.Workers.Busy, "leased": s.Leased} {
		if c.Known() {
			t.Errorf("%s: %v", what, c)
		}
	}
	if len(s.Refused) < 10 || !strings.Contains(fmt.Sprint(s.Refused), "queue b") {
		t.Errorf("refused %v", s.Refused)
	}
}
