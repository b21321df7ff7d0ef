package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/bench/probe"
)

// scale is the group of what grows with the number of processes. It runs only when it is asked for.
const scale = "scale"

const (
	// fleetWorkers are the workers of each process.
	fleetWorkers = 25
	// fleetJobs are the jobs of a full queue. Processes that work it together are measured between its first and its last tenth.
	fleetJobs = 600_000
	// perProgram is how many processes of a large fleet one program simulates.
	perProgram = 250
	// pushesASecond is the load of a fleet that mostly waits.
	pushesASecond = 100
)

// fleets are how many processes work one full queue, and how many wait.
var (
	busyFleets = []int{1, 2, 4, 8, 16}
	idleFleets = []int{1, 10, 100, 300, 1000}
)

// scaled measures what grows with the number of processes.
func (b *bench) scaled() {
	if !slices.Contains(b.opts.groups, scale) {
		return
	}
	i := slices.IndexFunc(b.contenders, func(c contender) bool { return c.name == "ours" })
	if i < 0 {
		return
	}
	c := b.contenders[i]
	measure := func(name string, workers int, do func(*server) error) {
		b.withServer(&cell{c: c, w: work{name: name}, workers: workers}, func(s *server) error {
			b.say("%s: %d", name, workers)
			return s.explain(do(s))
		})
	}
	for range b.opts.rounds {
		b.measureGauge(memory)
		for _, n := range busyFleets {
			measure("fleet", n, func(s *server) error { return b.together(c, n, s) })
		}
		measure("fleet-shards", 2, func(s *server) error {
			other, err := startServer(b.opts.redisServer, b.dir)
			if err != nil {
				return err
			}
			defer other.stop()
			return b.together(c, 2, s, other)
		})
		for _, n := range idleFleets {
			measure("fleet-idle", n, func(s *server) error { return b.waiting(c, n, s) })
		}
	}
}

// memory is what jobs take in Redis, by where they are.
var memory = gauge{"test/operate/scale", "^BenchmarkMemory$", "1x", map[string]rowOf{
	"B/waiting": {"memory-waiting", 200, "redis_bytes"},
	"B/delayed": {"memory-delayed", 200, "redis_bytes"},
	"B/failure": {"memory-failure", 200, "redis_bytes"},
	"B/result":  {"memory-result", 200, "redis_bytes"},
}}

// renewals are what a renewal takes of Redis, in the mean of a fleet, by how many processes it has.
var renewals = gauge{"internal/fleet", "^BenchmarkRenewals$", "1x", map[string]rowOf{
	"redis-µs/1":    {"renewal-fleet", 1, "redis_us_per_call"},
	"redis-µs/100":  {"renewal-fleet", 100, "redis_us_per_call"},
	"redis-µs/500":  {"renewal-fleet", 500, "redis_us_per_call"},
	"redis-µs/1000": {"renewal-fleet", 1000, "redis_us_per_call"},
}}

// spent is what processes and servers have used at a moment, and how many jobs are left.
type spent struct {
	at             time.Time
	server, worker time.Duration
	bytes, scripts int64
	left           int64
}

func (s *server) spent(processes []*process) (spent, error) {
	var now spent
	u, err := s.usage()
	if err != nil {
		return now, err
	}
	now.server, now.bytes = u.cpu, u.bytes
	if now.scripts, err = s.scripts(); err != nil {
		return now, err
	}
	for _, p := range processes {
		d, err := cpuOf(p.cmd.Process.Pid)
		if err != nil {
			return now, err
		}
		now.worker += d
	}
	now.left, err = redis.Int64(s.conn.Do("LLEN", resqueDepth))
	now.at = time.Now()
	return now, err
}

// scripts is how many scripts were called: each exchange is one, and each renewal.
func (s *server) scripts() (int64, error) {
	info, err := redis.String(s.conn.Do("INFO", "commandstats"))
	if err != nil {
		return 0, err
	}
	var all int64
	for line := range strings.Lines(info) {
		for _, name := range []string{"cmdstat_evalsha:calls=", "cmdstat_eval:calls="} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				n, _, _ := strings.Cut(rest, ",")
				v, err := strconv.ParseInt(n, 10, 64)
				if err != nil {
					return 0, err
				}
				all += v
			}
		}
	}
	return all, nil
}

// cpuOf is what a process has used of the processors. Linux only.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // from the third one of proc(5) on
	if len(fields) < 13 {
		return 0, fmt.Errorf("read /proc/%d/stat: %q", pid, text)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// together lets n processes work full queues, divided evenly over the servers, and adds the figures of the time in which all worked.
func (b *bench) together(c contender, n int, servers ...*server) error {
	jobs := fleetJobs
	if b.opts.quick {
		jobs /= 10
	}
	work := "fleet"
	if len(servers) > 1 {
		work = "fleet-shards"
	}
	each := jobs / len(servers)
	processes := make([][]*process, len(servers))
	for i, s := range servers {
		config := workOf("noop").config(probe.Work, s.addr, fleetWorkers, each)
		if err := s.fill(config); err != nil {
			return err
		}
		config.Jobs = 2 * jobs // no process has so many, so none ends
		for range n / len(servers) {
			p, err := c.start(b.ctx, b.dir, config)
			if err != nil {
				return err
			}
			defer p.kill()
			processes[i] = append(processes[i], p)
		}
	}
	befores, afters := make([]spent, len(servers)), make([]spent, len(servers))
	errs := make([]error, len(servers))
	var group sync.WaitGroup
	for i, s := range servers {
		group.Go(func() {
			if befores[i], errs[i] = b.until(s, processes[i], int64(each)*9/10); errs[i] == nil {
				afters[i], errs[i] = b.until(s, processes[i], int64(each)/10)
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return processes[0][0].failed(err)
	}
	var done, per, scripts, bytes, busy float64
	var server, worker time.Duration
	for i, before := range befores {
		after := afters[i]
		took := after.at.Sub(before.at).Seconds()
		done += float64(before.left - after.left)
		per += float64(before.left-after.left) / took
		busy += 100 * (after.server - before.server).Seconds() / took / float64(len(servers))
		scripts += float64(after.scripts - before.scripts)
		bytes += float64(after.bytes - before.bytes)
		server += after.server - before.server
		worker += after.worker - before.worker
	}
	add := func(figure string, v float64) { b.results.Add(c.name, work, n, figure, v) }
	add("jobs_per_s", per)
	add("redis_busy_percent", busy)
	add("redis_cpu_us_per_job", float64(server.Microseconds())/done)
	add("worker_cpu_us_per_job", float64(worker.Microseconds())/done)
	add("commands_per_job", scripts/done)
	add("bytes_per_job", bytes/done)
	return nil
}

// until waits until at most so many jobs are left.
func (b *bench) until(s *server, processes []*process, most int64) (spent, error) {
	for deadline := time.Now().Add(trialLimit); ; {
		left, err := redis.Int64(s.conn.Do("LLEN", resqueDepth))
		if err != nil {
			return spent{}, err
		}
		if left <= most {
			return s.spent(processes)
		}
		if time.Now().After(deadline) {
			return spent{}, fmt.Errorf("%d jobs are left after %s", left, trialLimit)
		}
		if err := sleep(b.ctx, 5*time.Millisecond); err != nil {
			return spent{}, err
		}
	}
}

// waiting measures n processes that wait: what they send and cost while nothing happens, and then for each of the jobs that come singly.
func (b *bench) waiting(c contender, n int, s *server) error {
	settle, count := silent, silentCount
	if b.opts.quick {
		settle, count = time.Second, time.Second
	}
	bare, err := s.memory()
	if err != nil {
		return err
	}
	c.variant = "fleet"
	var processes []*process
	for rest := n; rest > 0; rest -= perProgram {
		config := work{}.config(probe.Work, s.addr, fleetWorkers, 0)
		config.Producers = min(rest, perProgram)
		p, err := c.start(b.ctx, b.dir, config)
		if err != nil {
			return err
		}
		defer p.kill()
		go func() {
			for range p.reports {
			}
		}()
		processes = append(processes, p)
		if err := b.joined(s, n-max(rest-perProgram, 0)); err != nil { // so many starts at one time are another matter
			return p.failed(err)
		}
	}
	// What each of them does at its start is over then.
	if err := sleep(b.ctx, settle); err != nil {
		return err
	}
	idle, err := b.during(s, processes, func(ctx context.Context) error { return sleep(ctx, count) })
	if err != nil {
		return err
	}
	full, err := s.memory()
	if err != nil {
		return err
	}
	clients, err := redis.String(s.conn.Do("CLIENT", "LIST"))
	if err != nil {
		return err
	}
	jobs := 0
	loaded, err := b.during(s, processes, func(ctx context.Context) error {
		for begun := time.Now(); time.Since(begun) < count; jobs++ {
			if _, err := s.conn.Do("RPUSH", resqueDepth, `{"class":"Noop","args":["a",1]}`); err != nil {
				return err
			}
			if err := sleep(ctx, time.Until(begun.Add(time.Duration(jobs+1)*time.Second/pushesASecond))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if loaded.left > 0 {
		return fmt.Errorf("%d of %d jobs still wait", loaded.left, jobs)
	}
	if there, err := redis.Int(s.conn.Do("ZCARD", "resque:go:processes")); err != nil || there != n {
		return errors.Join(err, fmt.Errorf("there are %d processes, not %d: this machine is too busy for so many", there, n))
	}
	add := func(work, figure string, v float64) { b.results.Add(c.name, work, n, figure, v) }
	processesSeconds := float64(n) * idle.took.Seconds()
	add("fleet-idle", "idle_commands_per_s", float64(idle.scripts)/processesSeconds)
	add("fleet-idle", "redis_us_per_s", float64(idle.server.Microseconds())/processesSeconds)
	add("fleet-idle", "worker_us_per_s", float64(idle.worker.Microseconds())/processesSeconds)
	add("fleet-idle", "bytes_per_s", float64(idle.bytes)/processesSeconds)
	add("fleet-idle", "connections", float64(strings.Count(clients, "\n")-1)/float64(n)) // but for the runner's
	add("fleet-idle", "redis_bytes", float64(full-bare)/float64(n))
	more := loaded.took.Seconds() / idle.took.Seconds()
	add("fleet-woken", "commands_per_job", (float64(loaded.scripts)-more*float64(idle.scripts))/float64(jobs))
	add("fleet-woken", "redis_cpu_us_per_job", (float64(loaded.server.Microseconds())-more*float64(idle.server.Microseconds()))/float64(jobs))
	add("fleet-woken", "redis_busy_percent", 100*loaded.server.Seconds()/loaded.took.Seconds())
	return nil
}

// joined waits until n processes are in the fleet, with all of their connections.
func (b *bench) joined(s *server, n int) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		there, err := redis.Int(s.conn.Do("ZCARD", "resque:go:processes"))
		if err != nil {
			return err
		}
		fields := map[string]string{}
		info, err := redis.String(s.conn.Do("INFO", "clients"))
		parseInfo(fields, info)
		clients, _ := strconv.Atoi(fields["connected_clients"])
		if err != nil || there >= n && clients > 4*n {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d processes have joined the fleet", there, n)
		}
		if err := sleep(b.ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// span is what was used during a time.
type span struct {
	spent
	took time.Duration
}

// during measures what a function takes; left is how many jobs there are after it.
func (b *bench) during(s *server, processes []*process, do func(context.Context) error) (span, error) {
	before, err := s.spent(processes)
	if err != nil {
		return span{}, err
	}
	if err := do(b.ctx); err != nil {
		return span{}, err
	}
	after, err := s.spent(processes)
	took := after.at.Sub(before.at)
	after.server -= before.server
	after.worker -= before.worker
	after.bytes -= before.bytes
	after.scripts -= before.scripts
	return span{after, took}, err
}

// workOf is a kind of work by its name.
func workOf(name string) work {
	all := works()
	return all[slices.IndexFunc(all, func(w work) bool { return w.name == name })]
}
