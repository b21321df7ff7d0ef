package page

import (
	"github.com/goworker/goworker/bench/result"
)

// keeping are the contenders that keep results.
var keeping = []string{"ours", "asynq", "machinery", "bullmq"}

// waiting are the figures of many that wait.
var waiting = []figure{
	{"p50, ms", "await_latency_p50_ms"}, {"p99, ms", "await_latency_p99_ms"}, {"max, ms", "await_latency_max_ms"},
	{"connections", "connections"}, {"Redis's memory a waiter, bytes", "redis_bytes_per_waiter"}, {"memory of the process, MiB", "rss_mb"},
}

// kept compares jobs whose results are kept with the same jobs whose results are not.
func kept(f result.File) string {
	figures := []figure{
		{"worker's CPU, µs", "worker_cpu_us_per_job"}, {"Redis's CPU, µs", "redis_cpu_us_per_job"},
		{"commands", "commands_per_job"}, {"inside scripts", "inner_commands_per_job"}, {"bytes", "bytes_per_job"},
	}
	var t table
	heads := []string{"", "jobs/s, not kept", "jobs/s, kept", "ratio"}
	for _, x := range figures {
		heads = append(heads, x.head)
	}
	t.head(heads...)
	empty := true
	for _, name := range keeping {
		none, own := f.Median(name, "results", 25, "jobs_per_s"), f.Median(name+"-results", "results", 25, "jobs_per_s")
		if none == 0 || own == 0 {
			continue
		}
		empty = false
		cells := []string{title(name), cell(f, name, "results", 25, "jobs_per_s"), keeper(f, name, "results", 25, "jobs_per_s"), result.Number(own/none) + "×"}
		for _, x := range figures {
			cells = append(cells, keeper(f, name, "results", 25, x.name))
		}
		t.row(cells...)
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// keeper is cell for the variant of a contender that keeps results.
func keeper(f result.File, name, work string, workers int, figure string) string {
	text := number(f, name+"-results", work, workers, figure)
	if name == "ours" && text != "" {
		return "**" + text + "**"
	}
	return text
}

// awaits is a table of one work in which processes wait for results.
func awaits(work string, workers int, figures []figure) func(result.File) string {
	return func(f result.File) string {
		var t table
		heads := []string{""}
		for _, x := range figures {
			heads = append(heads, x.head)
		}
		t.head(heads...)
		empty := true
		line := func(head, contender string, bold bool) {
			cells, any := []string{head}, false
			for _, x := range figures {
				text := number(f, contender, work, workers, x.name)
				any = any || text != ""
				if bold && text != "" {
					text = "**" + text + "**"
				}
				cells = append(cells, text)
			}
			if any {
				empty = false
				t.row(cells...)
			}
		}
		for _, name := range keeping {
			line(title(name), name+"-results", name == "ours")
			if name == "ours" {
				line(title("ours-called"), "ours-called", true)
			}
		}
		if empty {
			return notMeasured
		}
		return t.String()
	}
}
