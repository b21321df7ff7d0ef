package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/bench/probe"
)

// operate is the group of what an operator uses: the calls of package inspect, and what the history costs beside jobs.
const operate = "operate"

// gauge is one of the benchmarks of goworker's own tests. Each measures by turns what is compared, and reports it in units of its own.
type gauge struct {
	folder string // of its package
	name   string // as -bench has it
	times  string // as -benchtime has it
	rows   map[string]rowOf
}

// rowOf is where a unit of a benchmark stands in the results.
type rowOf struct {
	work    string
	workers int
	figure  string
}

var gauges = []gauge{
	{"test/operate/scale", "^BenchmarkSample$", "300x", map[string]rowOf{
		"small-p50-ms":      {"sample", 10, "sample_p50_ms"},
		"small-p95-ms":      {"sample", 10, "sample_p95_ms"},
		"large-p50-ms":      {"sample", 10_000, "sample_p50_ms"},
		"large-p95-ms":      {"sample", 10_000, "sample_p95_ms"},
		"few-queues-p50-ms": {"sample-3-queues", 10, "sample_p50_ms"},
		"few-queues-p95-ms": {"sample-3-queues", 10, "sample_p95_ms"},
	}},
	{"test/operate/scale", "^BenchmarkPages$", "20x", map[string]rowOf{
		"page-p50-ms":    {"dashboard-page", 10_000, "page_p50_ms"},
		"page-p95-ms":    {"dashboard-page", 10_000, "page_p95_ms"},
		"slowest-p95-ms": {"dashboard-slowest-page", 10_000, "page_p95_ms"},
	}},
	{"inspect/groups", "^BenchmarkBuild$", "3x", map[string]rowOf{
		"build-ms": {"group-failures", 100_000, "group_ms"},
	}},
	{"test/operate/operations", "^BenchmarkClear$", "300x", map[string]rowOf{
		"1000-jobs-p50-ms":    {"clear", 1000, "redis_p50_ms"},
		"1000-jobs-p95-ms":    {"clear", 1000, "redis_p95_ms"},
		"1000000-jobs-p50-ms": {"clear", 1_000_000, "redis_p50_ms"},
		"1000000-jobs-p95-ms": {"clear", 1_000_000, "redis_p95_ms"},
	}},
	{"internal/record", "^BenchmarkRenewal$", "30x", map[string]rowOf{
		"redis-µs/renewal":    {"renewal", 1, "redis_us_per_call"},
		"redis-µs/idle":       {"renewal-idle-pack", 1, "redis_us_per_call"},
		"redis-µs/20-classes": {"renewal-20-classes", 1, "redis_us_per_call"},
		"redis-µs/fold":       {"fold", 100, "redis_us_per_call"},
		"keeper-µs/fold":      {"fold", 100, "call_us"},
		"B/pack":              {"fold", 100, "pack_bytes"},
	}},
	renewals,
	{"internal/record", "^BenchmarkEnded$/^1_", "20000000x", map[string]rowOf{
		"ns/op":     {"recorder", 1, "call_ns"},
		"allocs/op": {"recorder", 1, "allocations_per_call"},
	}},
	{"internal/record", "^BenchmarkEnded$/^20_", "20000000x", map[string]rowOf{
		"ns/op":     {"recorder", 20, "call_ns"},
		"allocs/op": {"recorder", 20, "allocations_per_call"},
	}},
	{"internal/record", "^BenchmarkRows$", "1x", map[string]rowOf{
		"B/redis": {"history-rows", 50, "redis_bytes"},
	}},
	{"test/operate/control", "^BenchmarkFifty$", "200x", map[string]rowOf{
		"first-p50-ms": {"ping-first", 50, "reached_p50_ms"},
		"first-p95-ms": {"ping-first", 50, "reached_p95_ms"},
		"ping-p50-ms":  {"ping", 50, "reached_p50_ms"},
		"ping-p95-ms":  {"ping", 50, "reached_p95_ms"},
		"pause-p50-ms": {"pause", 50, "reached_p50_ms"},
		"pause-p95-ms": {"pause", 50, "reached_p95_ms"},
		"limit-p50-ms": {"limit", 50, "reached_p50_ms"},
		"limit-p95-ms": {"limit", 50, "reached_p95_ms"},
	}},
	{"test/operate/control", "^BenchmarkAdded$", "300x", map[string]rowOf{
		"idle-p50-ms":  {"queue-idle", 1, "reached_p50_ms"},
		"idle-p95-ms":  {"queue-idle", 1, "reached_p95_ms"},
		"added-p50-ms": {"queue-added", 1, "reached_p50_ms"},
		"added-p95-ms": {"queue-added", 1, "reached_p95_ms"},
	}},
	{"test/operate/scale", "^BenchmarkBehind$", "3x", map[string]rowOf{
		"cold-s":            {"behind-cold", 1_000_000, "behind_s"},
		"sorted-starts":     {"behind-sorted", 1_000_000, "behind_starts"},
		"sorted-p90-starts": {"behind-sorted-p90", 1_000_000, "behind_starts"},
	}},
	{"test/operate/control", "^BenchmarkFailure$", "300x", map[string]rowOf{
		"idle-p50-ms":  {"failure-idle", 1, "reached_p50_ms"},
		"idle-p95-ms":  {"failure-idle", 1, "reached_p95_ms"},
		"heard-p50-ms": {"failure-heard", 1, "reached_p50_ms"},
		"heard-p95-ms": {"failure-heard", 1, "reached_p95_ms"},
	}},
}

// gaugeLimit ends a benchmark that hangs.
const gaugeLimit = 5 * time.Minute

// operated runs the benchmarks of goworker's own tests, once a round.
func (b *bench) operated() {
	if !slices.Contains(b.opts.groups, operate) || !slices.ContainsFunc(b.contenders, func(c contender) bool { return c.name == "ours" }) {
		return
	}
	for round := range b.opts.rounds {
		for _, g := range gauges {
			if b.ctx.Err() != nil {
				return
			}
			b.say("round %d of %d: %s of %s", round+1, b.opts.rounds, g.name, g.folder)
			b.measureGauge(g)
		}
	}
}

// measureGauge runs a benchmark and adds its rows.
func (b *bench) measureGauge(g gauge) {
	units, err := b.gauge(g)
	for unit, row := range g.rows {
		v, ok := units[unit]
		if ok {
			b.results.Add("ours", row.work, row.workers, row.figure, v)
		} else if err == nil {
			err = fmt.Errorf("%s of %s reports no %s", g.name, g.folder, unit)
		}
	}
	if err != nil {
		b.fail(&cell{c: contenderNamed("ours"), w: work{name: operate}}, err)
	}
}

// gauge builds the tests of a package, if that was not done, and runs a benchmark of them.
func (b *bench) gauge(g gauge) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(b.ctx, gaugeLimit)
	defer cancel()
	binary := filepath.Join(b.dir, strings.ReplaceAll(g.folder, "/", "-")+".test")
	if _, err := os.Stat(binary); err != nil {
		build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./"+g.folder)
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the tests of %s (the runner must be started in bench/): %w\n%s", g.folder, err, out)
		}
	}
	times := g.times
	if b.opts.quick {
		times = "1x"
	}
	run := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.bench="+g.name, "-test.benchtime="+times, "-test.benchmem")
	run.Dir = filepath.Join("..", filepath.FromSlash(g.folder))
	run.Env = append(os.Environ(), "REDIS_SERVER="+b.opts.redisServer)
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	err := startToDieWithParent(run)
	if err == nil {
		err = run.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("run %s of %s: %w\n%s", g.name, g.folder, err, &out)
	}
	return unitsOf(out.String())
}

// unitsOf reads what a benchmark has printed: its name, how often it ran, and pairs of a number and its unit.
func unitsOf(text string) (map[string]float64, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		units := make(map[string]float64)
		for pair := range slices.Chunk(fields[2:], 2) {
			v, err := strconv.ParseFloat(pair[0], 64)
			if err != nil || len(pair) < 2 {
				return nil, fmt.Errorf("read %q: a number and its unit are expected: %w", line, err)
			}
			units[pair[1]] = v
		}
		return units, nil
	}
	return nil, errors.New("it printed no benchmark")
}

const (
	// silent is how long a process has nothing to do before its commands are counted. What it does at its start, and what it says of
	// that start with the next pack of its history, is over then.
	silent = 30 * time.Second
	// silentCount is how long they are counted: a process renews its lease each two seconds.
	silentCount = 20 * time.Second
)

// silence counts the commands of processes that are given no job at all, with the history and without, at the same time.
func (b *bench) silence() {
	if !slices.Contains(b.opts.groups, "history") {
		return
	}
	for range b.opts.rounds {
		var group sync.WaitGroup
		for _, c := range b.contenders {
			if c.name != "ours" && c.name != "ours-no-history" {
				continue
			}
			group.Go(func() {
				b.withServer(&cell{c: c, w: work{name: "idle-history"}, workers: idleWorkers}, func(s *server) error { return b.silent(s, c) })
			})
		}
		group.Wait()
	}
}

func (b *bench) silent(s *server, c contender) error {
	b.say("idle-history: %s", c.name)
	settle, count := silent, silentCount
	if b.opts.quick {
		settle, count = time.Second, 2*time.Second
	}
	p, err := c.start(b.ctx, b.dir, work{}.config(probe.Work, s.addr, idleWorkers, 0))
	if err != nil {
		return err
	}
	defer p.kill()
	if err := sleep(b.ctx, settle); err != nil {
		return err
	}
	m, err := s.monitor()
	if err != nil {
		return err
	}
	if err := sleep(b.ctx, count); err != nil {
		m.conn.Close()
		return err
	}
	counted, err := s.stopMonitor(m)
	if err != nil {
		return err
	}
	b.results.Add(c.name, "idle-history", idleWorkers, "idle_commands_per_s", float64(counted.sent)/count.Seconds())
	return nil
}
