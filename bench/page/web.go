package page

import (
	"fmt"

	"github.com/goworker/goworker/bench/result"
)

// quoted are figures of lmstfy that were measured in another run: its module is not on the module proxy, so it cannot be
// built and measured beside this one. A figure that nobody measured is 0.
var quoted = []struct {
	work, name string
	clients    int
	perSecond  float64
}{
	{"web-publish", "publish", 1, 7_100}, {"web-publish", "publish", 50, 13_700}, {"web-publish", "publish", 500, 0},
	{"web-consume", "take and acknowledge", 1, 3_100}, {"web-consume", "take and acknowledge", 50, 6_900},
	{"web-consume", "take and acknowledge", 500, 0},
}

// web is what jobs over HTTP cost.
func web(f result.File) string {
	var t table
	t.head("", "clients", "jobs/s", "p50, ms", "p99, ms", "server's CPU a job, µs", "Redis's, µs", "lmstfy, jobs/s (quoted)")
	empty := true
	for _, q := range quoted {
		if _, ok := f.Get("ours", q.work, q.clients, "jobs_per_s"); !ok {
			continue
		}
		empty = false
		theirs := "–"
		if q.perSecond > 0 {
			theirs = result.Number(q.perSecond)
		}
		row := []string{q.name, fmt.Sprint(q.clients)}
		for _, figure := range []string{"jobs_per_s", "web_p50_ms", "web_p99_ms", "server_cpu_us_per_job", "redis_cpu_us_per_job"} {
			row = append(row, cell(f, "ours", q.work, q.clients, figure))
		}
		t.row(append(row, theirs)...)
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
