package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
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
	server.Do(t, "SADD", "resque:workers", "h1:1:plain", "h1:2:*", "h2:3:rails,plain", "h2:4:!plain,*", "gone:5:*")
	server.Do(t, "HSET", "resque:workers:heartbeat", "h1:1:plain", resque.HeartbeatAt(time.Now()), "gone:5:*", resque.HeartbeatAt(time.Now().Add(-6*time.Minute)))
	server.Do(t, "SET", "resque:worker:gone:5:*", `{"queue":"plain","run_at":"2026-11-21T12:00:00Z","payload":{"class":"A","args":[]}}`)
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
	want(t, "workers", inspect.SampleWorkers{All: exact(5), Go: exact(0), Other: exact(5), Dead: exact(1), Busy: exact(1), Looked: 4}, s.Workers, nil)
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

// With a keeper the ages and rates are what it found out. The sample counts goworker's workers apart from others, and jobs in lanes.
func TestSampleGo(t *testing.T) {
	i, server, _ := setup(t)
	now := time.Now()
	server.Do(t, "SADD", "resque:queues", "mail", "lanes")
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[]}`)
	server.Do(t, "HSET", "resque:go:depths", "mail", fmt.Sprintf("%d counted %d 1 100 0 0.300 0.500", now.UnixMilli(), now.Add(-4*time.Minute).UnixMilli()),
		"lanes", "what another program wrote", "low", fmt.Sprintf("%d counted 0 0 7 0 0.000 0.000", now.Add(-time.Minute).UnixMilli()))
	server.Do(t, "SADD", "resque:queues", "low")
	server.Do(t, "RPUSH", "resque:queue:low", `{"class":"A","args":[]}`)
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
	server.Do(t, "ZADD", "resque:go:takers", now.Add(time.Hour).UnixMilli(), "t1", 5, "gone")
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
	if age := queueOf(t, s, "low").Oldest; age.Method != inspect.AgeCounted || age.For > 2*time.Second {
		t.Errorf("what came since the keeper looked: %v", age)
	}
	want(t, "alive workers", exact(5), q.Go, nil)
	want(t, "other workers", exact(0), q.Other, nil)
	want(t, "pushed", int64(100), q.Pushed, nil)
	want(t, "workers", inspect.SampleWorkers{All: exact(10), Go: exact(10), Other: exact(0), Dead: exact(0), Busy: exact(0), Looked: 10}, s.Workers, nil)
	want(t, "delayed", exact(2), s.Delayed, nil)
	want(t, "retrying", exact(1), s.Retrying, nil)
	if len(s.Processes) != 2 || s.Processes[0].Busy != (inspect.Count{N: 2, Bound: inspect.AtMost}) || !s.Processes[1].Dead {
		t.Errorf("%+v", s.Processes)
	}
	if len(s.Servings) != 1 || s.Servings[0].Host != "web" || s.Servings[0].Waiting != 2 {
		t.Errorf("%+v", s.Servings)
	}
	redistest.Eventually(t, soon, "Redis's clock goes on", func() bool { return sample(t, i).At.After(s.At) })
	if r := sample(t, i).Rates(s).Queues["mail"]; r.In.PerSecond != 0.3 || r.Out.PerSecond != 0.5 || r.In.Bound != inspect.Exact || r.EmptyIn != 5*time.Second {
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

// trips counts how often a connection waits for Redis: for an answer, or for all answers of a pipeline.
type trips struct {
	redis.Conn
	n *int
}

func (c trips) Do(command string, args ...any) (any, error) {
	*c.n++
	return c.Conn.Do(command, args...)
}

func (c trips) Flush() error {
	*c.n++
	return c.Conn.Flush()
}

type counting struct {
	*lender
	n *int
}

func (l counting) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return l.lender.Do(ctx, func(s resque.Store, c redis.Conn) error { return f(s, trips{c, l.n}) })
}

// A Sample takes three round trips, and leaves out what would make it take long: it says that its numbers are bounds.
func TestSampleBounds(t *testing.T) {
	_, server, l := setup(t)
	server.Do(t, "EVAL", `
		for n = 1, 3000 do
			redis.call('SADD', 'resque:workers', 'h:' .. n .. ':q0001')
			redis.call('SET', 'resque:worker:h:' .. n .. ':q0001', '{}')
		end
		for n = 1, 1200 do redis.call('SADD', 'resque:queues', string.format('q%04d', n)) end
		for n = 1, 600 do
			redis.call('ZADD', 'resque:go:processes', ARGV[1], 'p' .. n)
			redis.call('HSET', 'resque:go:process:p' .. n, 'concurrency', 2, 'queues', 'q0001', 'vitals', '{"workers":2,"busy":1}',
				'stuck', '[{"queue":"q0001","class":"A","started":' .. ARGV[2] .. ',"limit":1000}]')
			redis.call('ZADD', 'resque:delayed_queue_schedule', n, n)
			redis.call('RPUSH', 'resque:delayed:' .. n, 'a', 'b')
			redis.call('ZADD', 'resque:go:schedule', ARGV[1], '4:mail{"class":"A","args":[' .. n .. '],"attempt":2}')
			redis.call('ZADD', 'resque:go:lanes:5:q0002L', 1, 'lane' .. n)
			redis.call('RPUSH', 'resque:go:lane:' .. n, 'x')
		end
		redis.call('SADD', 'resque:go:lanes', '5:q0002L')`, 0, time.Now().Add(time.Hour).UnixMilli(), time.Now().Add(-time.Minute).UnixMilli())
	n := 0
	i := inspect.New(counting{l, &n})
	s := sample(t, i)
	if n > 3 {
		t.Errorf("%d round trips", n)
	}
	atLeast := func(n int64) inspect.Count { return inspect.Count{N: n, Bound: inspect.AtLeast} }
	want(t, "delayed", atLeast(600+400+400), s.Delayed, nil)
	want(t, "retrying", atLeast(200), s.Retrying, nil)
	want(t, "queues", exact(1200), s.QueueCount, nil)
	want(t, "queues of the page", 1000, len(s.Queues), nil)
	want(t, "processes", 500, len(s.Processes), nil)
	want(t, "stuck", 500, len(s.Stuck), nil)
	want(t, "go workers", atLeast(1000), s.Workers.Go, nil)
	want(t, "other workers", inspect.Count{N: 2000, Bound: inspect.AtMost}, s.Workers.Other, nil)
	if w := s.Workers; w.All != exact(3000) || w.Busy.Bound != inspect.AtLeast || w.Busy.N < 500 || w.Looked < 500 || w.Looked >= 3000 {
		t.Errorf("%+v", w)
	}
	if q := queueOf(t, s, "q0001"); q.Go != atLeast(1000) || q.Other.Bound != inspect.AtLeast || q.Other.N != s.Workers.Looked {
		t.Errorf("%+v", q)
	}
	want(t, "busy of a process", exact(1), s.Processes[0].Busy, nil)
	next := sample(t, i, inspect.SamplePage(s.NextQueues))
	if len(next.Queues) != 200 || next.Queues[0].Name <= s.Queues[999].Name || next.NextQueues != "" {
		t.Errorf("%d queues from %s", len(next.Queues), next.Queues[0].Name)
	}
	few := sample(t, i, inspect.SampleQueues("q0007", "gone"))
	if len(few.Queues) != 2 || few.Queues[1].Waiting != exact(0) {
		t.Errorf("%+v", few.Queues)
	}
}

// Recordings of Ruby's tools: whatever they left, a Sample counts as resque-web does, changes nothing and needs no key of goworker.
func TestSampleRecordings(t *testing.T) {
	i, server, _ := setup(t)
	for _, scenario := range []string{"enqueue", "failed_retry", "pause", "prune_expired", "schedule", "schedule_pump", "schedule_recurring", "wildcard", "work_failure", "work_running", "work_success"} {
		server.Do(t, "FLUSHALL")
		for _, command := range redistest.Golden(t, scenario).Commands {
			args := make([]any, len(command)-1)
			for n, a := range command[1:] {
				args[n] = a
			}
			if command[0] != "MULTI" && command[0] != "EXEC" { // each command has a connection of its own
				server.Do(t, command[0], args...)
			}
		}
		before := server.Dump(t, "")
		s := sample(t, i)
		fleet, err := i.Fleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		delayed, err := i.Delayed().Count(t.Context())
		want(t, scenario, []inspect.Count{exact(fleet.Pending), exact(fleet.Processed), exact(fleet.Failed), exact(delayed), exact(int64(fleet.Workers)), exact(int64(fleet.Working)), exact(int64(fleet.Queues))},
			[]inspect.Count{s.Waiting, s.Processed, s.Failures, s.Delayed, s.Workers.All, s.Workers.Busy, s.QueueCount}, err)
		want(t, scenario+": keys", before, server.Dump(t, ""), nil)
	}
}

// Over shards numbers are sums, a queue of several is one, and where a shard is away the rest is a bound.
func TestSampleShards(t *testing.T) {
	i, servers := sharded(t)
	at := time.Now().Add(-time.Hour)
	for n, server := range servers {
		server.Do(t, "SADD", "resque:queues", "both", fmt.Sprint("only", n))
		for range n + 1 {
			server.Do(t, "RPUSH", "resque:queue:both", fmt.Sprintf(`{"class":"A","args":[],"queued_at":%d}`, at.UnixMilli()))
		}
		server.Do(t, "SET", "resque:stat:processed", 10)
		server.Do(t, "SADD", "resque:workers", "h:1:both", fmt.Sprintf("h:2%d:only%d", n, n))
		server.Do(t, "ZADD", "resque:go:processes", time.Now().Add(time.Hour).UnixMilli(), fmt.Sprint("h:1:", n))
		server.Do(t, "HSET", fmt.Sprint("resque:go:process:h:1:", n), "host", "h", "pid", 1, "started", "2026-11-21 12:00:00 +0000", "concurrency", 3, "queues", "both")
	}
	s := sample(t, i)
	want(t, "waiting", exact(6), s.Waiting, nil)
	want(t, "processed", exact(30), s.Processed, nil)
	want(t, "queues", exact(4), s.QueueCount, nil)
	if q := queueOf(t, s, "both"); q.Waiting != exact(6) || q.Shard != "" || q.Oldest.Method != inspect.AgeExact || q.Go != exact(3) || q.Other != exact(1) {
		t.Errorf("%+v", q)
	}
	if q := queueOf(t, s, "only1"); q.Shard != "redis://shard1" || q.Oldest.Known() {
		t.Errorf("%+v", q)
	}
	if len(s.Servers) != 3 || len(s.Processes) != 1 || len(s.Refused) > 0 {
		t.Errorf("%+v", s)
	}
	servers[0].Do(t, "RPUSH", "resque:queue:both", `{"class":"B","args":[]}`)
	servers[2].Do(t, "RPUSH", "resque:queue:both", `{"class":"B","args":[]}`)
	redistest.Eventually(t, soon, "Redis's clock goes on", func() bool { return sample(t, i).At.After(s.At) })
	r := sample(t, i, inspect.SampleAfter(s)).Rates(s)
	if in := r.Queues["both"].In; in.PerSecond*r.For.Seconds() < 1.9 || in.PerSecond*r.For.Seconds() > 2.1 {
		t.Errorf("%+v in %v", in, r.For)
	}
	servers[0].Kill()
	s, err := i.Sample(t.Context())
	if err == nil || !strings.Contains(err.Error(), "shard0") || s.Waiting != (inspect.Count{N: 6, Bound: inspect.AtLeast}) || len(s.Servers) != 2 {
		t.Errorf("%+v, %v", s.Waiting, err)
	}
}

// asWorker is a lender whose user may do no more than a daemon needs.
type asWorker struct{ *lender }

func (l asWorker) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return l.lender.Do(ctx, func(s resque.Store, c redis.Conn) error {
		if _, err := c.Do("AUTH", redistest.ACLUser, redistest.ACLPassword); err != nil {
			return err
		}
		return f(s, c)
	})
}

// A user who may not page through the workers: nobody knows then who is busy, and everything else is as ever.
func TestSampleACL(t *testing.T) {
	redistest.OwnUser(t)
	_, server, l := setup(t)
	server.Do(t, "ACL", redis.Args{"SETUSER"}.AddFlat(redistest.MinimalACL(t)).Add("-sscan")...)
	server.Do(t, "SADD", "resque:queues", "mail")
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[]}`)
	server.Do(t, "SADD", "resque:workers", "h:1:mail")
	s, err := inspect.New(asWorker{l}).Sample(t.Context())
	if err != nil || len(s.Refused) != 1 || !strings.Contains(fmt.Sprint(s.Refused), "set of workers") {
		t.Errorf("%v, refused %v", err, s.Refused)
	}
	want(t, "workers", inspect.SampleWorkers{All: exact(1), Go: exact(0), Other: exact(1)}, s.Workers, nil)
	q := queueOf(t, s, "mail")
	want(t, "waiting", exact(1), q.Waiting, nil)
	want(t, "served by", inspect.Count{N: 0, Bound: inspect.AtLeast}, q.Other, nil)
}
