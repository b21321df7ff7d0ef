package result

import (
	"fmt"
	"math"
)

// Target is something to reach and what was measured of it.
type Target struct {
	What, Measured string
	Reached        Verdict
}

// Verdict is yes, no, or unknown where rows are missing.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota
	Yes
	No
)

func (v Verdict) String() string { return [...]string{"not measured", "yes", "no"}[v] }

// Targets compares the medians with what was aimed at.
func (f File) Targets() []Target {
	t := targets{f: f}
	for _, peer := range []string{"goworker", "asynq"} {
		t.faster("over the slow link", 20, peer, "link", 25)
		t.faster("over the slow link", 20, peer, "link", 100)
	}
	t.atLeast("jobs/s over the slow link, 100 workers", 30_000, f.Median("ours", "link", 100, "jobs_per_s"))
	for _, of := range []struct {
		peer  string
		times float64
	}{{"goworker", 20}, {"asynq", 16}} {
		t.faster("no-op jobs", 8, of.peer, "noop", 25)
		t.faster("no-op jobs", of.times, of.peer, "noop", 100)
	}
	t.fastest(3, 25)
	t.fastest(6, 100)
	t.faster("no-op jobs", 1.8, "goworker", "noop", 1)
	t.faster("no-op jobs", 0.9, "limit", "noop", 1)
	for _, workers := range []int{10, 25, 100, 1000} {
		t.ratio(fmt.Sprintf("no-op jobs against limit without look-ahead, %s", count(workers)), 0.45,
			f.Median("ours-no-look-ahead", "noop", workers, "jobs_per_s"), f.Median("limit", "noop", workers, "jobs_per_s"))
		t.faster("no-op jobs", 0.7, "limit", "noop", workers)
	}
	t.atMost("Redis's CPU a job in µs, 100 workers", 1.4, f.Median("ours", "noop", 100, "redis_cpu_us_per_job"))
	t.atMost("the worker's CPU a job in µs, 100 workers", 6, f.Median("ours", "noop", 100, "worker_cpu_us_per_job"))
	t.below("idle, push to start, p50 in ms", 0.5, f.Median("ours", "idle", 25, "idle_latency_p50_ms"))
	t.most("idle, push to start, p50: of limit", 1, f.Median("ours", "idle", 25, "idle_latency_p50_ms"), f.Median("limit", "idle", 25, "idle_latency_p50_ms"))
	t.below("idle, push to start, p99 in ms", 2, f.Median("ours", "idle", 25, "idle_latency_p99_ms"))
	t.atMost("idle commands/s, 25 workers", 0.7, f.Median("ours", "idle", 25, "idle_commands_per_s"))
	t.atMost("idle commands/s, 1,000 workers", 0.7, f.Median("ours", "idle", 1000, "idle_commands_per_s"))
	t.atMost("idle commands/s, 200 queues", 0.7, f.Median("ours", "idle-200-queues", 25, "idle_commands_per_s"))
	for _, processes := range []int{10, 50, 200} {
		t.atMost(fmt.Sprintf("idle commands/s a process, %d processes", processes), 0.7,
			f.Median("ours", "idle-processes", processes, "idle_commands_per_s"))
	}
	for _, figure := range []string{"p50", "p99"} {
		key := "idle_latency_" + figure + "_ms"
		t.most("push to start with 200 idle processes, "+figure+": with one", 2,
			f.Median("ours", "idle-processes", 200, key), f.Median("ours", "idle-processes", 1, key))
	}
	t.atMost("processes of 200 that wake for a push", 4, f.Median("ours", "idle-processes", 200, "woken_per_push"))
	t.pushes()
	t.features()
	t.ratio("the rate of limit, payloads of 64 KiB", 1.17, f.Median("ours", "payload-64KiB", 25, "jobs_per_s"), f.Median("limit", "payload-64KiB", 25, "jobs_per_s"))
	t.atMost("Redis's CPU a job of 64 KiB in µs", 120, f.Median("ours", "payload-64KiB", 25, "redis_cpu_us_per_job"))
	t.below("MiB of memory at 10,000 workers", 80, f.Median("ours", "sleep-100ms", 10000, "rss_mb"))
	t.most("asynq's memory at 10,000 workers", 1, f.Median("ours", "sleep-100ms", 10000, "rss_mb"), f.Median("asynq", "sleep-100ms", 10000, "rss_mb"))
	for _, order := range []string{"strict", "weighted", "all"} {
		t.cost(order)
	}
	for _, workers := range []int{1, 25, 100} {
		t.ratio(fmt.Sprintf("no-op jobs where all features are used by other classes, %s", count(workers)), 0.97,
			f.Median("ours-unused", "unused", workers, "jobs_per_s"), f.Median("ours", "unused", workers, "jobs_per_s"))
	}
	t.atLeast("jobs/s with results kept, 25 workers", 40_000, f.Median("ours-results", "results", 25, "jobs_per_s"))
	t.below("idle, call to its result, p50 in ms", 1.5, f.Median("ours-results", "call", 25, "await_latency_p50_ms"))
	t.below("10,000 waiters, handler's end to result, p50 in ms", 1, f.Median("ours-results", "waiters", 10_000, "await_latency_p50_ms"))
	t.atMost("connections of 10,000 waiters", 2, f.Median("ours-results", "waiters", 10_000, "connections"))
	t.below("idle, call of a function to its result, p50 in ms", 1.5, f.Median("ours-called", "call", 25, "await_latency_p50_ms"))
	t.called()
	t.flows()
	for _, of := range []struct{ work, keys string }{{"aggregation-one", "one key"}, {"aggregation", "100 keys"}} {
		t.atLeast("items/s gathered into groups of 100, "+of.keys, 100_000, f.Median("ours-gathering", of.work, 25, "jobs_per_s"))
	}
	t.packed()
	t.cursors()
	t.shares()
	for _, n := range []int{10_000, 100_000, 1_000_000, 10_000_000} {
		waiting := Number(float64(n)) + " waiting"
		if n >= 1_000_000 { // with few the tables of Redis that they stand in weigh more
			t.atMost("bytes of Redis's memory a delayed job, "+waiting, 200, f.Median("ours", "schedule", n, "redis_bytes_per_job"))
		}
		t.atLeast("delayed jobs moved a second, "+waiting, 50_000, f.Median("ours", "schedule", n, "moved_per_s"))
	}
	t.ratio("the jobs moved a second with 10,000 waiting, 10,000,000 waiting", 0.5,
		f.Median("ours", "schedule", 10_000_000, "moved_per_s"), f.Median("ours", "schedule", 10_000, "moved_per_s"))
	for _, name := range []string{"ours", "ours-plain"} {
		t.atMost("delayed, due to start, p99 in ms"+map[string]string{"ours-plain": ", resque-scheduler's keys"}[name], 50,
			f.Median(name, "due", 25, "due_latency_p99_ms"))
	}
	t.sharded()
	t.bounds()
	return t.list
}

type targets struct {
	f    File
	list []Target
}

func (t *targets) add(what, measured string, known, reached bool) {
	v := Unknown
	switch {
	case known && reached:
		v = Yes
	case known:
		v = No
	default:
		measured = "-"
	}
	t.list = append(t.list, Target{what, measured, v})
}

func (t *targets) faster(what string, times float64, peer, work string, workers int) {
	t.ratio(fmt.Sprintf("%s against %s, %s", what, peer, count(workers)), times,
		t.f.Median("ours", work, workers, "jobs_per_s"), t.f.Median(peer, work, workers, "jobs_per_s"))
}

func (t *targets) ratio(what string, times, ours, theirs float64) {
	t.add(fmt.Sprintf("≥ %v× %s", times, what), Number(ours/theirs)+"×", ours > 0 && theirs > 0, ours >= times*theirs)
}

// fastest compares with the fastest worker a program can have instead of goworker.
func (t *targets) fastest(times float64, workers int) {
	peer, best := "", 0.0
	for _, name := range Contenders {
		switch name {
		case "ours", "ours-no-look-ahead", "limit", "raw":
			continue
		}
		if v := t.f.Median(name, "noop", workers, "jobs_per_s"); v > best {
			peer, best = name, v
		}
	}
	ours := t.f.Median("ours", "noop", workers, "jobs_per_s")
	t.add(fmt.Sprintf("≥ %v× no-op jobs against the fastest peer, %s", times, count(workers)),
		fmt.Sprintf("%s× (%s)", Number(ours/best), peer), ours > 0 && best > 0, ours >= times*best)
}

func (t *targets) atLeast(what string, limit, v float64) {
	t.add(fmt.Sprintf("≥ %s %s", Number(limit), what), Number(v), v > 0, v >= limit)
}

func (t *targets) most(what string, times, ours, theirs float64) {
	t.add(fmt.Sprintf("≤ %v× %s", times, what), Number(ours/theirs)+"×", ours > 0 && theirs > 0, ours <= times*theirs)
}

func (t *targets) atMost(what string, limit, v float64) {
	t.add(fmt.Sprintf("≤ %v %s", limit, what), Number(v), v > 0, v <= limit)
}

func (t *targets) below(what string, limit, v float64) {
	t.add(fmt.Sprintf("< %v %s", limit, what), Number(v), v > 0, v < limit)
}

// pushes are those of producers. The peers are those that read Redis's answers.
func (t *targets) pushes() {
	speed := func(name, work string, n int) float64 { return t.f.Median(name, work, n, "jobs_per_s") }
	for _, of := range []struct {
		work, what string
		least      float64
	}{{"push-bulk", "bare RPUSH, pushed in bulk", 0.8}, {"push-bulk-named", "bare RPUSH, pushed in bulk with ids", 0.55}} {
		t.ratio(of.what, of.least, speed("ours", of.work, 1), speed("raw", of.work, 1))
	}
	peers := []string{"asynq", "gocraft", "machinery", "node-resque", "bullmq"}
	for _, of := range []struct {
		producers int
		least     float64
	}{{8, 2}, {100, 4}} {
		best := 0.0
		for _, peer := range peers {
			best = max(best, speed(peer, "push", of.producers))
		}
		t.ratio(fmt.Sprintf("the fastest peer's pushes, %d at the same time", of.producers), of.least, speed("ours", "push", of.producers), best)
	}
	t.ratio("the fastest peer's unique pushes, 8 at the same time", 1.5, speed("ours-unique", "push-unique", 8),
		max(speed("asynq-unique", "push-unique", 8), speed("gocraft-unique", "push-unique", 8)))
}

// features are those of jobs that use one, beside plain ones. What limits cost is among the bounds.
func (t *targets) features() {
	speed := func(name string) float64 { return t.f.Median(name, "features", 25, "jobs_per_s") }
	for _, of := range []struct {
		name, what string
		least      float64
	}{
		{"ours-unique", "unique ones", 0.75}, {"ours-retried", "ones retried once", 0.35}, {"ours-results", "ones whose result is kept", 0.5}, {"ours-chord", "steps of a chord", 0.4},
	} {
		t.ratio("plain jobs, "+of.what, of.least, speed(of.name), speed("ours"))
	}
	t.atLeast("isolated jobs/s, children kept", 15_000, speed("ours-reused"))
	t.atLeast("isolated jobs/s, a child a job", 500, speed("ours-isolated"))
	t.atLeast("isolated jobs/s, a child a job, built without cgo", 500, speed("ours-isolated-static"))
}

// flows are those of workflows.
func (t *targets) flows() {
	median := func(name, work string, n int, figure string) float64 { return t.f.Median(name, work, n, figure) }
	chord, alone := median("ours", "chord", 2000, "workflow_s"), median("ours", "members", 2000, "workflow_s")
	t.add("≤ 0.1 s for a chord of 2,000, beyond the same jobs alone", Number(math.Max(chord-alone, 0)), chord > 0 && alone > 0, chord-alone <= 0.1)
	theirs := median("machinery-results", "chord", 2000, "workflow_s")
	t.add("≥ 50× a chord of 2,000 against machinery", Number(theirs/chord)+"×", chord > 0 && theirs > 0, theirs >= 50*chord)
	chord, alone = median("ours", "chord", 100_000, "workflow_s"), median("ours", "members", 100_000, "workflow_s")
	t.add("≤ 2.5× the time of the same jobs alone, a chord of 100,000", Number(chord/alone)+"×", chord > 0 && alone > 0, chord <= 2.5*alone)
	t.atLeast("members/s in 2,000 chords of two", 20_000, median("ours", "chords", 2000, "members_per_s"))
	t.atMost("ms a step in a chain of 100", 0.6, median("ours", "chain", 100, "step_ms"))
	t.atLeast("members/s streamed into a batch of a million", 200_000, median("ours", "batch", 1_000_000, "added_per_s"))
	t.below("MiB of memory of the producer of a million", 64, median("ours", "batch", 1_000_000, "rss_mb"))
	t.atLeast("chords of two a second for a minute", 10_000, median("ours", "soak", 10_000, "workflows_per_s"))
	before, after := median("ours", "soak", 10_000, "keys_at_start"), median("ours", "soak", 10_000, "keys_at_end")
	t.add("no key left of them after their time", Number(after-before), before > 0, after <= before)
}

// called compares calls of functions with jobs of a class.
func (t *targets) called() {
	t.ratio("calls/s of a function against a class's jobs, 1,000 callers", 0.9,
		t.f.Median("ours-called", "call-many", 1000, "jobs_per_s"), t.f.Median("ours-results", "call-many", 1000, "jobs_per_s"))
}

// packed compares jobs in MessagePack with the same jobs in JSON.
func (t *targets) packed() {
	for _, shape := range []string{"small", "record", "numbers"} {
		packed, text := t.f.Median("ours-msgpack", "msgpack-"+shape, 25, "item_bytes"), t.f.Median("ours", "msgpack-"+shape, 25, "item_bytes")
		t.add("< 1× the bytes of JSON, a job in MessagePack, "+shape, Number(packed/text)+"×", packed > 0 && text > 0, packed < text)
		t.ratio("jobs/s of MessagePack against JSON, "+shape, 0.9,
			t.f.Median("ours-msgpack", "msgpack-"+shape, 25, "jobs_per_s"), t.f.Median("ours", "msgpack-"+shape, 25, "jobs_per_s"))
	}
}

// cursors is what a job pays for each step that it keeps.
func (t *targets) cursors() {
	one, many := t.f.Median("ours-cursor", "cursor", 25, "worker_cpu_us_per_job"), t.f.Median("ours-sets", "cursor", 25, "worker_cpu_us_per_job")
	set := 1000 * (many - one) / 999
	t.add("≤ 1,000 ns of the worker's CPU for a set of a cursor", Number(set), one > 0 && many > 0, set <= 1000)
}

// shares are those of queues by weight.
func (t *targets) shares() {
	off, measured, known := 0.0, "", true
	for _, want := range []float64{6, 3, 1} {
		v := t.f.Median("ours", "weights", 25, fmt.Sprintf("share_of_%v_percent", want))
		off, known = math.Max(off, math.Abs(v-10*want)), known && v > 0
		measured += fmt.Sprintf(", %.1f", v)
	}
	t.add("60, 30 and 10 % of the jobs, to 1 %, taken of full queues of the weights 6, 3 and 1", measured[2:], known, off <= 1)
}

// sharded is what a job costs each side over several Redises, against one, with as many workers for each.
func (t *targets) sharded() {
	for _, of := range []struct{ whose, figure string }{{"the worker's", "worker_cpu_us_per_job"}, {"Redis's", "redis_cpu_us_per_job"}} {
		one := t.f.Median("ours", "shards", 1, of.figure)
		for _, n := range []int{2, 4, 8} {
			many := t.f.Median("ours", "shards", n, of.figure)
			t.add(fmt.Sprintf("≤ 1.25× %s CPU a job over %d Redises, 25 workers for each: over one", of.whose, n), Number(many/one)+"×",
				one > 0 && many > 0, many <= 1.25*one)
		}
	}
}

// cost is what 200 queues cost against one.
func (t *targets) cost(order string) {
	one, many := t.f.Median("ours", order+"-1", 25, "jobs_per_s"), t.f.Median("ours", order+"-200", 25, "jobs_per_s")
	t.add(fmt.Sprintf("< 1.3× the time a job for 200 queues, order %s", order), Number(one/many)+"×",
		one > 0 && many > 0, one < 1.3*many)
}

func count(n int) string {
	switch {
	case n == 1:
		return "1 worker"
	case n < 1000:
		return fmt.Sprintf("%d workers", n)
	}
	return Number(float64(n)) + " workers"
}
