package page

import "github.com/goworker/goworker/bench/result"

// summary is the page's first table: goworker v0.1.3, this, and the limit.
func summary(f result.File) string {
	var t table
	t.head("", "goworker v0.1.3", "this", "ratio", "*limit*")
	for _, row := range []struct {
		what, work string
		workers    int
		figure     string
	}{
		{"jobs/s, 1 worker", "noop", 1, "jobs_per_s"},
		{"jobs/s, 25 workers", "noop", 25, "jobs_per_s"},
		{"jobs/s, 100 workers", "noop", 100, "jobs_per_s"},
		{"jobs/s, 100 workers, Redis a millisecond away", "link", 100, "jobs_per_s"},
		{"commands sent to Redis a job, 25 workers", "noop", 25, "commands_per_job"},
		{"worker's CPU a job, 100 workers, µs", "noop", 100, "worker_cpu_us_per_job"},
		{"Redis's CPU a job, 100 workers, µs", "noop", 100, "redis_cpu_us_per_job"},
		{"idle: from push to start, p50, ms", "idle", 25, "idle_latency_p50_ms"},
		{"idle: from push to start, p99, ms", "idle", 25, "idle_latency_p99_ms"},
		{"idle: commands a second", "idle", 25, "idle_commands_per_s"},
		{"memory, 100 workers, MiB", "noop", 100, "rss_mb"},
	} {
		cells := []string{row.what}
		var medians [3]float64
		for i, name := range []string{"goworker", "ours", "limit"} {
			text := ""
			if r, ok := f.Get(name, row.work, row.workers, row.figure); ok {
				medians[i], text = r.Median, result.Number(r.Median)
			}
			cells = append(cells, text)
		}
		ratio := ""
		if medians[0] > 0 && medians[1] > 0 {
			ratio = result.Number(medians[1]/medians[0]) + "×"
		}
		t.row(cells[0], cells[1], "**"+cells[2]+"**", ratio, cells[3])
	}
	return t.String()
}

// limits is what limits and turns cost a no-op job.
func limits(f result.File) string {
	var t table
	t.head("no-op jobs, 25 workers", "jobs/s", "ratio")
	if f.Median("ours", "features", 25, "jobs_per_s") == 0 {
		return notMeasured
	}
	for _, row := range []struct{ contender, what string }{
		{"ours", "no limit"}, {"ours-rated", "a rate for the class"}, {"ours-limited", "a number at a time for the class"},
		{"ours-fair", "turns of ten keys"}, {"ours-keyed", "a number at a time for each of ten keys"},
		{"ours-many-keys", "a number at a time for each of a hundred thousand keys"},
	} {
		work := workOf(row.contender)
		plain, own := f.Median("ours", work, 25, "jobs_per_s"), f.Median(row.contender, work, 25, "jobs_per_s")
		if own == 0 || plain == 0 {
			continue
		}
		t.row(row.what, result.Number(own), result.Number(own/plain)+"×")
	}
	return t.String()
}
