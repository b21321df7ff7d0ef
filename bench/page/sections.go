package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goworker/goworker/bench/result"
)

// sections by their names in the page.
var sections = map[string]func(result.File) string{
	"about":          about,
	"scale-busy":     busyFleets,
	"scale-idle":     idleFleets,
	"scale-renewals": renewed,
	"sizes":          planned(usual),
	"sizes-scale":    planned(large),
	"kinds":          kinds,
	"weights-redis":  weights,
	"summary":        summary,
	"limits":         limits,
	"shards":         overShards,
	"targets":        targets,
	"throughput":     columns("noop", "jobs_per_s", []string{"1", "10", "25", "100", "1000"}),
	"cost": costs("noop", 100, []figure{
		{"worker's CPU, µs", "worker_cpu_us_per_job"}, {"Redis's CPU, µs", "redis_cpu_us_per_job"}, {"commands", "commands_per_job"},
		{"inside scripts", "inner_commands_per_job"}, {"bytes", "bytes_per_job"}, {"allocations", "allocations_per_job"},
	}),
	"growth": growth,
	"work": works("jobs_per_s", []column{
		{"100 B", "payload-100B", 25},
		{"1 KiB", "payload-1KiB", 25},
		{"64 KiB", "payload-64KiB", 25},
		{"every tenth fails", "failing", 25},
		{"1 ms, 25 workers", "sleep-1ms", 25},
		{"1 ms, 100 workers", "sleep-1ms", 100},
		{"100 ms, 10,000 workers", "sleep-100ms", 10_000},
	}),
	"memory": works("rss_mb", []column{
		{"1 worker", "noop", 1},
		{"25", "noop", 25},
		{"100", "noop", 100},
		{"1,000", "noop", 1000},
		{"10,000 and jobs of 100 ms", "sleep-100ms", 10_000},
	}),
	"queues": works("jobs_per_s", []column{
		{"strict, 1", "strict-1", 25},
		{"10", "strict-10", 25},
		{"200", "strict-200", 25},
		{"weighted, 1", "weighted-1", 25},
		{"10", "weighted-10", 25},
		{"200", "weighted-200", 25},
		{"`*`, 1", "all-1", 25},
		{"10", "all-10", 25},
		{"200", "all-200", 25},
	}),
	"link": works("jobs_per_s", []column{{"25 workers", "link", 25}, {"100 workers", "link", 100}}),
	"push": works("jobs_per_s", []column{
		{"one by one", "push", 1}, {"8 at the same time", "push", 8}, {"100 at the same time", "push", 100},
		{"1,000 a call", "push-bulk", 1}, {"1,000 a call, with ids", "push-bulk-named", 1},
	}),
	"delayed": costs("delayed", 100, []figure{
		{"jobs/s", "jobs_per_s"}, {"worker's CPU a job, µs", "worker_cpu_us_per_job"}, {"Redis's CPU a job, µs", "redis_cpu_us_per_job"},
	}),
	"due": costs("due", 25, []figure{
		{"p50, ms", "due_latency_p50_ms"}, {"p99, ms", "due_latency_p99_ms"}, {"max, ms", "due_latency_max_ms"},
	}),
	"schedule": costs("schedule", 100_000, []figure{
		{"jobs delayed a second", "jobs_per_s"}, {"Redis's CPU a job, µs", "redis_cpu_us_per_job"}, {"bytes of Redis's memory a job", "redis_bytes_per_job"},
	}),
	"weights": costs("weights", 25, []figure{
		{"weight 6, %", "share_of_6_percent"}, {"weight 3, %", "share_of_3_percent"}, {"weight 1, %", "share_of_1_percent"},
	}),
	"web":         web,
	"web-waiters": webWaiters,
	"web-waits":   webWaits,
	"results":     kept,
	"call": awaits("call", 25, []figure{
		{"p50, ms", "await_latency_p50_ms"}, {"p99, ms", "await_latency_p99_ms"}, {"max, ms", "await_latency_max_ms"},
	}),
	"calls": awaits("call-many", 1000, []figure{
		{"calls/s", "jobs_per_s"}, {"p50, ms", "await_latency_p50_ms"}, {"p99, ms", "await_latency_p99_ms"},
		{"Redis's CPU a call, µs", "redis_cpu_us_per_job"}, {"bytes a call", "bytes_per_job"}, {"memory of the process, MiB", "rss_mb"},
	}),
	"waiters":       awaits("waiters", 10_000, waiting),
	"waiters-burst": awaits("waiters-burst", 10_000, waiting),

	"chords":      chords,
	"workflows":   flows,
	"batch":       streams,
	"aggregation": aggregation,
	"messagepack": packed,
	"cursor":      cursors,
	"reach":       reach,
	"features":    features,
	"operated":    operated,
	"unused":      unused,
	"unique":      unique,
	"idle":        idle,
	"fleet":       fleet,
	"cannot":      cannot,
	"failed":      failed,
	"round-trip":  roundTrip,
}

func about(f result.File) string {
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(f.Versions)) {
		versions = append(versions, name+" "+f.Versions[name])
	}
	m := f.Machine
	rounds := "one round"
	if f.Rounds > 1 {
		rounds = fmt.Sprint(f.Rounds, " rounds")
	}
	text := fmt.Sprintf("Measured %s, %s, on %s %s, %d cores (%s), with %s.\n",
		minute(f.Date), rounds, m.OS, m.Arch, m.Cores, m.CPU, strings.Join(versions, ", "))
	var earlier []string
	for _, r := range f.Rows {
		if r.Date != "" {
			earlier = append(earlier, r.Date)
		}
	}
	if n := len(earlier); n > 0 {
		text += fmt.Sprintf("%d of the %d figures are of earlier runs, from %s to %s.\n", n, len(f.Rows), minute(slices.Min(earlier)), minute(slices.Max(earlier)))
	}
	return text
}

// minute writes a date for people.
func minute(date string) string {
	return strings.Replace(strings.TrimSuffix(date, "Z"), "T", " ", 1) + " UTC"
}

func targets(f result.File) string {
	var t table
	t.head("to reach", "measured", "reached")
	for _, x := range f.Targets() {
		reached := x.Reached.String()
		if x.Reached == result.No {
			reached = "**no**"
		}
		t.row(x.What, x.Measured, reached)
	}
	return t.String()
}

// reach is what many waiting jobs change.
func reach(f result.File) string {
	var t table
	t.head("", "waiting", "bytes a job", "moved a second", "Redis's CPU for each, µs")
	empty := true
	for _, name := range []string{"ours", "ours-plain"} {
		for _, n := range []int{10_000, 100_000, 1_000_000, 10_000_000} {
			if _, ok := f.Get(name, "schedule", n, "redis_bytes_per_job"); ok {
				empty = false
				t.row(title(name), result.Number(float64(n)), cell(f, name, "schedule", n, "redis_bytes_per_job"),
					cell(f, name, "schedule", n, "moved_per_s"), cell(f, name, "schedule", n, "redis_cpu_us_per_moved"))
			}
		}
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// growth is each figure at 1,000 workers as a multiple of that at one, and at 200
// queues as a multiple of that at one.
func growth(f result.File) string {
	var t table
	t.head("1,000 workers : 1", "jobs/s", "worker's CPU", "Redis's CPU", "commands", "bytes", "allocations", "memory")
	figures := []string{
		"jobs_per_s", "worker_cpu_us_per_job", "redis_cpu_us_per_job", "commands_per_job", "bytes_per_job", "allocations_per_job", "rss_mb",
	}
	ratios := func(head, name, from string, fromWorkers int, to string, toWorkers int) {
		cells, any := []string{head}, false
		for _, figure := range figures {
			a, b := f.Median(name, from, fromWorkers, figure), f.Median(name, to, toWorkers, figure)
			text := ""
			if a > 0 && b > 0 {
				any, text = true, result.Number(b/a)+"×"
			}
			cells = append(cells, text)
		}
		if any {
			t.row(cells...)
		}
	}
	for _, name := range result.Contenders {
		ratios(title(name), name, "noop", 1, "noop", 1000)
	}
	t.WriteString("\n")
	t.head("200 queues : 1", "jobs/s", "worker's CPU", "Redis's CPU", "commands", "bytes", "allocations", "memory")
	for _, order := range []string{"strict", "weighted", "all"} {
		for _, name := range result.Contenders {
			ratios(title(name)+", "+strings.Replace(order, "all", "`*`", 1), name, order+"-1", 25, order+"-200", 25)
		}
	}
	return t.String()
}

func idle(f result.File) string {
	var t table
	t.head("", "p50, ms", "p99, ms", "max, ms", "commands/s")
	figures := []string{"idle_latency_p50_ms", "idle_latency_p99_ms", "idle_latency_max_ms", "idle_commands_per_s"}
	line := func(head, name, work string, workers int) {
		if _, ok := f.Get(name, work, workers, figures[0]); !ok {
			return
		}
		cells := []string{head}
		for _, figure := range figures {
			cells = append(cells, cell(f, name, work, workers, figure))
		}
		t.row(cells...)
	}
	for _, name := range result.Contenders {
		line(title(name), name, "idle", 25)
	}
	line("**this**, 1,000 workers", "ours", "idle", 1000)
	line("**this**, 200 queues", "ours", "idle-200-queues", 25)
	return t.String()
}

func fleet(f result.File) string {
	var t table
	t.head("idle processes on one Redis", "p50, ms", "p99, ms", "max, ms", "woken by a push", "commands/s a process")
	for _, n := range []int{1, 10, 50, 200} {
		if _, ok := f.Get("ours", "idle-processes", n, "idle_latency_p50_ms"); !ok {
			continue
		}
		cells := []string{fmt.Sprint(n)}
		for _, figure := range []string{"idle_latency_p50_ms", "idle_latency_p99_ms", "idle_latency_max_ms", "woken_per_push", "idle_commands_per_s"} {
			cells = append(cells, result.Number(f.Median("ours", "idle-processes", n, figure)))
		}
		t.row(cells...)
	}
	return t.String()
}

// cannot names the rows there cannot be, each reason once.
func cannot(f result.File) string {
	var t table
	t.WriteString("| | cannot | because |\n|---|---|---|\n")
	for _, name := range result.Contenders {
		var reasons []string
		by := map[string][]string{}
		for _, x := range f.Cannot {
			if x.Contender != name {
				continue
			}
			if !slices.Contains(reasons, x.Why) {
				reasons = append(reasons, x.Why)
			}
			by[x.Why] = append(by[x.Why], x.Work)
		}
		for _, why := range reasons {
			t.row(title(name), strings.Join(by[why], ", "), why)
		}
	}
	return t.String()
}

func failed(f result.File) string {
	if len(f.Failed) == 0 {
		return "Every measurement ran its jobs exactly once each.\n"
	}
	var t table
	t.WriteString("| | work | workers | what went wrong |\n|---|---|--:|---|\n")
	for _, x := range f.Failed {
		t.row(title(x.Contender), x.Work, fmt.Sprint(x.Workers), strings.ReplaceAll(x.Why, "|", "\\|"))
	}
	return t.String()
}

func roundTrip(f result.File) string {
	r, ok := f.Get("raw", "link", 1, "round_trip_ms")
	if !ok {
		return "The round trip was not measured.\n"
	}
	return fmt.Sprintf("The round trip of an ECHO over it was %s ms in the median of 300 (%s to %s).\n",
		result.Number(r.Median), result.Number(r.Min), result.Number(r.Max))
}
