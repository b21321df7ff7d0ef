// Package scale tests that an operator's tools stay quick and bounded on a large Resque: 10,000 workers, 500 queues and a
// million jobs.
package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// face is a program that looks at a Redis, over one connection.
type face struct{ c redis.Conn }

func (face) Usable() error { return nil }

func (face) Settings() (access.Settings, error) {
	return access.Settings{Style: payload.Plain, MaxPayload: 1 << 20, Server: "a Redis"}, nil
}

func (f face) Do(_ context.Context, do func(s resque.Store, c redis.Conn) error) error {
	return do(resque.New(""), f.c)
}

// fleet fills a Redis as Ruby's workers and producers do: so many workers, a third of them busy, so many queues, and jobs spread over them.
func fleet(t testing.TB, workers, queues, jobs int) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	const fill = `
		local workers, queues, first, jobs = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
		if first == 0 then
			for n = 1, workers do
				local id = 'host' .. n % 100 .. ':' .. n .. ':q' .. n % queues .. ',mail*'
				redis.call('SADD', 'resque:workers', id)
				redis.call('HSET', 'resque:workers:heartbeat', id, ARGV[5])
				if n % 3 == 0 then redis.call('SET', 'resque:worker:' .. id, '{"queue":"q1","run_at":"2026-11-21T12:00:00Z","payload":{"class":"A","args":[]}}') end
			end
			for n = 1, queues do redis.call('SADD', 'resque:queues', 'q' .. n - 1) end
			redis.call('SET', 'resque:stat:processed', 41204118)
		end
		for n = first, first + jobs - 1 do
			redis.call('RPUSH', 'resque:queue:q' .. n % queues, '{"class":"SendMail","args":[' .. n .. ',{"account":' .. n % 1000 .. ',"subject":"a subject of some length"}]}')
		end`
	for first := 0; first < jobs; first += 100_000 {
		server.Do(t, "EVAL", fill, 0, workers, queues, first, min(100_000, jobs-first), resque.HeartbeatAt(time.Now()))
	}
	return server
}

func inspector(t testing.TB, server *redistest.Server) *inspect.Inspector {
	t.Helper()
	return inspect.New(face{server.Dial(t)})
}

// BenchmarkSample takes by turns a Sample of a small Resque, of a large one with as many queues, and of a small one with few queues. It
// reports the median of each, and the time within which 95 of a hundred are.
func BenchmarkSample(b *testing.B) {
	type fixture struct {
		name string
		in   *inspect.Inspector
		took []time.Duration
	}
	var all []*fixture
	for _, size := range []struct {
		name                  string
		workers, queues, jobs int
	}{{"small", 10, 500, 1000}, {"large", 10_000, 500, 1_000_000}, {"few-queues", 10, 3, 1000}} {
		all = append(all, &fixture{name: size.name, in: inspector(b, fleet(b, size.workers, size.queues, size.jobs))})
	}
	for b.Loop() {
		for _, r := range all {
			begun := time.Now()
			if _, err := r.in.Sample(b.Context()); err != nil {
				b.Fatal(err)
			}
			r.took = append(r.took, time.Since(begun))
		}
	}
	for _, r := range all {
		slices.Sort(r.took)
		b.ReportMetric(ms(r.took, 50), r.name+"-p50-ms")
		b.ReportMetric(ms(r.took, 95), r.name+"-p95-ms")
	}
}

// ms is a percentile of sorted times, in milliseconds.
func ms(sorted []time.Duration, percent int) float64 {
	return float64(sorted[(len(sorted)-1)*percent/100]) / float64(time.Millisecond)
}

// A Sample of 10,000 workers, 500 queues and a million jobs is exact where that costs little, and says of the rest that it is a
// bound. It brings less than a MiB: not all workers, and of each queue the ends.
func TestSample(t *testing.T) {
	t.Parallel()
	const workers, queues, jobs = 10_000, 500, 1_000_000
	server := fleet(t, workers, queues, jobs)
	in := inspector(t, server)
	s, err := in.Sample(t.Context())
	if err != nil || len(s.Refused) > 0 {
		t.Fatal(err, s.Refused)
	}
	exact := func(n int64) inspect.Count { return inspect.Count{N: n, Bound: inspect.Exact} }
	if s.Waiting != exact(jobs) || s.QueueCount != exact(queues) || len(s.Queues) != queues || s.Workers.All != exact(workers) || s.Workers.Other != exact(workers) {
		t.Errorf("waiting %v in %d queues, %+v", s.Waiting, len(s.Queues), s.Workers)
	}
	if w := s.Workers; w.Busy.Bound != inspect.AtLeast || w.Busy.N < w.Looked/10 || w.Looked < 300 || w.Looked > 3000 {
		t.Errorf("%+v", w)
	}
	for _, q := range s.Queues {
		if q.Waiting != exact(jobs/queues) || q.Other.Bound != inspect.AtLeast {
			t.Fatalf("%+v", q)
		}
	}
	server.Do(t, "CONFIG", "RESETSTAT")
	if _, err := in.Sample(t.Context(), inspect.SampleAfter(s)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(server.Text(t, "INFO", "stats")) {
		if out, ok := strings.CutPrefix(line, "total_net_output_bytes:"); ok {
			var bytes int
			if _, err := fmt.Sscan(out, &bytes); err != nil || bytes > 1<<20 {
				t.Errorf("%d bytes from Redis, %v", bytes, err)
			}
		}
	}
}

// A search of a million jobs obeys its budget call by call, and finds each job once from cursor to cursor.
func TestSearch(t *testing.T) {
	t.Parallel()
	const queues, jobs = 500, 1_000_000
	in := inspector(t, fleet(t, 10, queues, jobs))
	q, err := inspect.ParseQuery("class:Send* arg.1.account:7 state:queued", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	calls := 0
	for next := ""; ; calls++ {
		page, err := in.Find(t.Context(), q, next, inspect.MaxPage, inspect.Budget(50*time.Millisecond))
		if err != nil || page.Looked > 20_000 {
			t.Fatalf("looked at %d jobs in one call, %v", page.Looked, err)
		}
		for _, e := range page.Jobs {
			found = append(found, string(e.Payload))
		}
		if page.Of != 0 && (page.Of != jobs || page.Seen > jobs) {
			t.Fatalf("it has seen %d of %d jobs", page.Seen, page.Of)
		}
		if next = page.Next; next == "" {
			if page.Seen != jobs {
				t.Errorf("it has seen %d jobs", page.Seen)
			}
			break
		}
	}
	slices.Sort(found)
	if n := len(slices.Compact(found)); n != jobs/1000 || n != len(found) {
		t.Errorf("%d jobs, %d of them twice, in %d calls", len(found), len(found)-n, calls)
	}
}
