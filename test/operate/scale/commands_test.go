package scale

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// goworkers adds processes of goworker to a Redis that fleet has filled, with so many workers each, a third of which run a job that
// they show; failures; jobs that clients hold over HTTP; and lanes of ten queues.
func goworkers(t testing.TB, server *redistest.Server, processes, workers, failures, leases, lanes int) {
	t.Helper()
	const fill = `
		local now, classes = tonumber(ARGV[5]), '["' .. string.rep('SendMail","', 100) .. '"]'
		for n = 1, tonumber(ARGV[1]) do
			local id = 'web' .. n .. ':' .. n .. ':' .. string.rep('x', 8)
			redis.call('ZADD', 'resque:go:processes', now + 3600000, id)
			redis.call('HSET', 'resque:go:process:' .. id, 'epoch', 1, 'host', 'web' .. n, 'pid', n, 'version', '1.0.0', 'queues', 'q' .. n % 100 .. ',mail*,low',
				'concurrency', ARGV[2], 'started', '2026-11-21 12:00:00 +0000', 'id_head', 'web' .. n .. '.go:' .. n .. '-', 'id_queues', 'q' .. n % 100 .. ',mail*,low',
				'knows', 'workflows msgpack leases', 'classes', classes, 'limits', '{}', 'handed', '9',
				'vitals', '{"at":' .. ARGV[5] .. ',"rss":104857600,"goroutines":60,"workers":' .. ARGV[2] .. ',"busy":6,"exchange":' .. ARGV[5] .. ',"rtt":200,"cpu":90000}')
			redis.call('HSET', 'resque:go:inflight:' .. id, 'entered', 'goworker wrote this when the process entered; do not remove the record')
			for w = 0, tonumber(ARGV[2]) - 1 do
				local worker = 'web' .. n .. '.go:' .. n .. '-' .. w .. ':q' .. n % 100 .. ',mail*,low'
				redis.call('SADD', 'resque:workers', worker)
				redis.call('HSET', 'resque:workers:heartbeat', worker, ARGV[6])
				if w % 3 == 0 then
					local payload = '{"class":"SendMail","args":[' .. w .. ',"' .. n .. '",{"account":7,"subject":"a subject of some length"}]}'
					redis.call('HSET', 'resque:go:inflight:' .. id, w + 1, '4:mail' .. payload)
					redis.call('SET', 'resque:worker:' .. worker, '{"queue":"mail","run_at":"2026-11-21T12:00:00Z","payload":' .. payload .. '}')
				end
			end
		end
		for n = 1, tonumber(ARGV[3]) do
			redis.call('RPUSH', 'resque:failed', '{"failed_at":"2026/11/21 12:00:00 UTC","payload":{"class":"SendMail","args":[' .. n .. ']},"exception":"E","error":"no","backtrace":[],"worker":"w","queue":"mail"}')
		end
		for n = 1, tonumber(ARGV[4]) do
			redis.call('ZADD', 'resque:go:leases', now + 60000 + n, '4:mailjob' .. n)
			redis.call('HSET', 'resque:go:leased', '4:mailjob' .. n, '{"class":"Hook","args":[' .. n .. '],"id":"job' .. n .. '"}')
		end
		for n = 0, tonumber(ARGV[7]) - 1 do
			local set = '2:q' .. n % 10 .. 'L'
			redis.call('SADD', 'resque:go:lanes', set)
			redis.call('ZADD', 'resque:go:lanes:' .. set, now * 1000, 'lane' .. n)
		end
		for n = 1, 20 do
			redis.call('ZADD', 'resque:go:takers', now + 3600000, 'taker' .. n)
			redis.call('HSET', 'resque:go:taker:taker' .. n, 'host', 'web', 'queues', 'mail', 'waiting', 2)
		end`
	server.Do(t, "EVAL", fill, 0, processes, workers, failures, leases, time.Now().UnixMilli(), resque.HeartbeatAt(time.Now()), lanes)
}

// counted is a connection that counts round trips: how often what was sent before is waited for.
type counted struct {
	redis.Conn
	trips *atomic.Int64
}

func (c counted) Flush() error {
	c.trips.Add(1)
	return c.Conn.Flush()
}

func (c counted) Do(command string, args ...any) (any, error) {
	if command != "" {
		c.trips.Add(1)
	}
	return c.Conn.Do(command, args...)
}

// cost is what a call costs Redis.
type cost struct {
	commands, inner, trips int
	bytes                  int           // of answers
	redis                  time.Duration // in all commands
	longest                time.Duration // in one of them
	names                  map[string]int
}

func (c cost) String() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.names)) {
		names = append(names, fmt.Sprint(c.names[name], " ", name))
	}
	return fmt.Sprintf("%d commands (%s) in %d round trips, %d inside scripts, %d KiB of answers, %.1f ms of Redis, the longest command %.1f ms",
		c.commands, strings.Join(names, ", "), c.trips, c.inner, c.bytes>>10, c.redis.Seconds()*1000, c.longest.Seconds()*1000)
}

// timesOf is how long Redis takes for the commands of a call, and for the longest one.
func timesOf(t testing.TB, server *redistest.Server, do func()) (all, longest time.Duration) {
	t.Helper()
	server.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "10000")
	server.Do(t, "SLOWLOG", "RESET")
	do()
	server.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "-1")
	entries, err := redis.Values(server.Do(t, "SLOWLOG", "GET", "-1"), nil)
	for _, e := range entries {
		row, _ := redis.Values(e, err)
		us, _ := redis.Int64(row[2], nil)
		args, _ := redis.Strings(row[3], nil)
		if args[0] != "CONFIG" && args[0] != "SLOWLOG" {
			took := time.Duration(us) * time.Microsecond
			all, longest = all+took, max(longest, took)
		}
	}
	return all, longest
}

// costOf counts what a call sends. The times are the best of ten calls: other programs use the machine too.
func costOf(t testing.TB, server *redistest.Server, do func(in *inspect.Inspector) error) (c cost) {
	t.Helper()
	trips := new(atomic.Int64)
	in := inspect.New(face{counted{server.Dial(t), trips}})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	stat := func(section, name string) (n int) {
		for line := range strings.Lines(server.Text(t, "INFO", section)) {
			if text, ok := strings.CutPrefix(line, name); ok {
				_, err := fmt.Sscan(text, &n)
				must(err)
			}
		}
		return n
	}
	must(do(in))
	trips.Store(0)
	server.Do(t, "CONFIG", "RESETSTAT")
	must(do(in))
	c.trips, c.bytes = int(trips.Load()), stat("stats", "total_net_output_bytes:")
	for n := range 10 {
		all, longest := timesOf(t, server, func() { must(do(in)) })
		if n == 0 || all < c.redis {
			c.redis = all
		}
		if n == 0 || longest < c.longest {
			c.longest = longest
		}
	}
	m := server.Monitor(t)
	must(do(in))
	c.names = make(map[string]int)
	for _, command := range m.Commands() {
		c.commands++
		c.names[command[0]]++
	}
	c.inner = len(m.Inner())
	return c
}

// A Sample costs at most 25 commands and three round trips on any Resque, and brings less than a MiB.
func TestSampleCommands(t *testing.T) {
	t.Parallel()
	for _, size := range []struct {
		name                                          string
		workers, queues, jobs                         int
		processes, goWorkers, failures, leases, lanes int
	}{
		{"small", 10, 500, 1000, 2, 20, 10, 2, 0},
		{"few queues", 10, 3, 1000, 2, 20, 10, 2, 0},
		{"large", 5_000, 500, 1_000_000, 500, 10, 100_000, 200, 1000},
		{"Ruby's", 10_000, 500, 1_000_000, 0, 0, 100_000, 0, 0},
	} {
		t.Run(size.name, func(t *testing.T) {
			t.Parallel()
			server := fleet(t, size.workers, size.queues, size.jobs)
			goworkers(t, server, size.processes, size.goWorkers, size.failures, size.leases, size.lanes)
			var before inspect.Sample
			c := costOf(t, server, func(in *inspect.Inspector) error {
				s, err := in.Sample(t.Context(), inspect.SampleAfter(before))
				if len(s.Refused) > 0 {
					t.Error(s.Refused)
				}
				before = s
				return err
			})
			t.Log(c)
			if c.commands > 25 || c.trips > 3 || c.bytes > 1<<20 {
				t.Errorf("a Sample costs %s", c)
			}
			if s := before; len(s.Processes) != size.processes || s.Workers.All.N != int64(size.workers+size.processes*size.goWorkers) || len(s.Queues) != size.queues {
				t.Errorf("%d processes, %d queues, %+v", len(s.Processes), len(s.Queues), s.Workers)
			}
		})
	}
}

// Pages of what runs, of workers and of processes, and a histogram of what is delayed, cost a few commands and less than a MiB each in a
// Resque of 10,000 workers of which a third are busy.
func TestPageCommands(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]struct{ workers, processes, goWorkers int }{"both": {5_000, 500, 10}, "Ruby's": {10_000, 0, 0}} {
		server := fleet(t, busy.workers, 500, 1000)
		goworkers(t, server, busy.processes, busy.goWorkers, 0, 200, 0)
		server.Do(t, "EVAL", `for n = 1, 3000 do
			redis.call('ZADD', 'resque:delayed_queue_schedule', ARGV[1] + n, ARGV[1] + n)
			redis.call('RPUSH', 'resque:delayed:' .. ARGV[1] + n, 'a', 'b')
		end`, 0, time.Now().Unix())
		found, next := 0, ""
		for what, page := range map[string]struct {
			commands, trips int
			read            func(in *inspect.Inspector) error
		}{
			"running": {12, 4, func(in *inspect.Inspector) error {
				p, err := in.Running(t.Context(), "", 50, inspect.RunningFilter{})
				found, next = len(p.Jobs), p.Next
				return err
			}},
			"running, all that is looked at": {12, 4, func(in *inspect.Inspector) error {
				_, err := in.Running(t.Context(), "", 500, inspect.RunningFilter{})
				return err
			}},
			"workers": {10, 7, func(in *inspect.Inspector) error {
				_, err := in.WorkersPage(t.Context(), "", 50, "")
				return err
			}},
			"workers that match": {10, 7, func(in *inspect.Inspector) error {
				_, err := in.WorkersPage(t.Context(), "", 50, "host7:")
				return err
			}},
			"processes": {6, 2, func(in *inspect.Inspector) error {
				_, err := in.ProcessesPage(t.Context(), "", 50)
				return err
			}},
			"histogram": {5, 2, func(in *inspect.Inspector) error {
				_, err := in.DelayedHistogram(t.Context(), time.Now(), time.Now().Add(time.Hour), 72)
				return err
			}},
		} {
			t.Run(name+", "+what, func(t *testing.T) { // what watches commands ends with it
				c := costOf(t, server, page.read)
				t.Log(c)
				if c.commands > page.commands || c.trips > page.trips || c.bytes > 1<<20 {
					t.Errorf("it costs %s", c)
				}
			})
		}
		if found != 50 || next == "" {
			t.Errorf("%s: %d running jobs", name, found)
		}
	}
}
