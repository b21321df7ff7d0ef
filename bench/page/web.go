package page

import (
	"fmt"
	"strings"

	"github.com/goworker/goworker/bench/result"
)

// webRows are the works of jobs over HTTP, each at some numbers of clients.
var webRows = []struct {
	work, name string
	clients    []int
}{
	{"web-publish", "publish", []int{1, 10, 50, 200, 500}},
	{"web-consume", "take and acknowledge", []int{1, 10, 50, 200, 500}},
	{"web-bulk", "publish 64 a call", []int{8}},
	{"web-batch", "take 100 a call, acknowledge them", []int{8}},
}

// web is what jobs over HTTP cost, beside lmstfy.
func web(f result.File) string {
	var t table
	t.head("", "clients", "jobs/s", "p50, ms", "p99, ms", "server's CPU a job, µs", "Redis's, µs",
		"lmstfy, jobs/s", "p99, ms", "server's CPU, µs", "Redis's, µs", "jobs/s : lmstfy's")
	empty := true
	for _, w := range webRows {
		for _, clients := range w.clients {
			if _, ok := f.Get("ours", w.work, clients, "jobs_per_s"); !ok {
				continue
			}
			empty = false
			row := []string{w.name, fmt.Sprint(clients)}
			for _, figure := range []string{"jobs_per_s", "web_p50_ms", "web_p99_ms", "server_cpu_us_per_job", "redis_cpu_us_per_job"} {
				row = append(row, cell(f, "ours", w.work, clients, figure))
			}
			for _, figure := range []string{"jobs_per_s", "web_p99_ms", "server_cpu_us_per_job", "redis_cpu_us_per_job"} {
				row = append(row, number(f, "lmstfy", w.work, clients, figure))
			}
			ratio := ""
			if theirs := f.Median("lmstfy", w.work, clients, "jobs_per_s"); theirs > 0 {
				ratio = result.Number(f.Median("ours", w.work, clients, "jobs_per_s")/theirs) + "×"
			}
			t.row(append(row, ratio)...)
		}
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// webWaits is how soon jobs are where they are wanted, and what a delayed one takes of Redis, beside lmstfy.
func webWaits(f result.File) string {
	var t table
	t.head("", "publish to one of 1,000 clients that wait: p50, ms", "p99, ms", "60,000 jobs due at once: ms until all are in their queue",
		"bytes of Redis for a delayed job")
	empty := true
	for _, name := range []string{"ours", "lmstfy"} {
		row := []string{cell(f, name, "web-wake", 1_000, "web_p50_ms"), cell(f, name, "web-wake", 1_000, "web_p99_ms"),
			cell(f, name, "web-due", 60_000, "behind_ms"), cell(f, name, "web-delayed", 1, "redis_bytes_per_job")}
		if strings.Join(row, "") != "" {
			empty = false
			t.row(append([]string{title(name)}, row...)...)
		}
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// webWaiters is what clients cost that wait for jobs.
func webWaiters(f result.File) string {
	const waiters = 10_000
	if _, ok := f.Get("ours", "web-waiters", waiters, "bytes_per_waiter"); !ok {
		return notMeasured
	}
	var t table
	t.head("clients that wait", "memory of the server for each, bytes", "its descriptors", "its connections to Redis", "commands a second", "ms from a publish to its answer")
	t.row(result.Number(waiters), cell(f, "ours", "web-waiters", waiters, "bytes_per_waiter"), cell(f, "ours", "web-waiters", waiters, "descriptors"),
		cell(f, "ours", "web-waiters", waiters, "connections"), cell(f, "ours", "web-waiters", waiters, "idle_commands_per_s"),
		cell(f, "ours", "web-waiters", waiters, "web_p50_ms"))
	return t.String()
}
