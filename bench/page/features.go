package page

import (
	"fmt"

	"github.com/goworker/goworker/bench/result"
)

// told names the option of the jobs in each row about the cost of a feature.
var told = []struct{ contender, what string }{
	{"ours", "nothing"},
	{"ours-expiring", "to expire after an hour"},
	{"ours-unique", "to be unique until done"},
	{"ours-limited", "a limit of how many run at a time, far above need"},
	{"ours-keyed", "that limit for each of ten keys"},
	{"ours-many-keys", "that limit for each of a hundred thousand keys"},
	{"ours-rated", "a limit of how many start in a second, far above need"},
	{"ours-fair", "to take turns by one of ten keys"},
	{"ours-retried", "to be retried, after a first run that fails"},
	{"ours-results", "to keep its result for an hour"},
	{"ours-chord", "to be one of a thousand members of a chord"},
	{"ours-isolated", "to run in a process of its own"},
	{"ours-isolated-static", "the same, of a program built without cgo"},
	{"ours-reused", "to run in a process that is kept for the next job"},
}

// workOf is the work at which a contender is beside plain jobs: so many keys need more jobs than others.
func workOf(contender string) string {
	if contender == "ours-many-keys" {
		return "keys"
	}
	return "features"
}

// features is what a no-op job costs with each option, and that as a
// multiple of its cost without options.
func features(f result.File) string {
	figures := []figure{
		{"jobs/s", "jobs_per_s"}, {"worker's CPU, µs", "worker_cpu_us_per_job"}, {"Redis's CPU, µs", "redis_cpu_us_per_job"},
		{"commands", "commands_per_job"}, {"inside scripts", "inner_commands_per_job"}, {"bytes", "bytes_per_job"},
	}
	var t table
	heads := []string{"a job is told"}
	for _, x := range figures {
		heads = append(heads, x.head)
	}
	t.head(append(heads, "jobs/s : none")...)
	if f.Median("ours", "features", 25, "jobs_per_s") == 0 {
		return notMeasured
	}
	for _, row := range told {
		work := workOf(row.contender)
		plain, own := f.Median("ours", work, 25, "jobs_per_s"), f.Median(row.contender, work, 25, "jobs_per_s")
		if own == 0 || plain == 0 {
			continue
		}
		cells := []string{row.what}
		for _, x := range figures {
			cells = append(cells, number(f, row.contender, work, 25, x.name))
		}
		t.row(append(cells, result.Number(own/plain)+"×")...)
	}
	return t.String()
}

// unused compares no-op jobs of a daemon that uses nothing with those of one that uses
// everything for other jobs.
func unused(f result.File) string {
	var t table
	t.head("workers", "jobs/s, nothing is used", "jobs/s, all is used by others", "ratio", "worker's CPU, ratio", "Redis's CPU, ratio")
	empty := true
	for _, n := range []int{1, 25, 100} {
		cells := []string{fmt.Sprint(n), number(f, "ours", "unused", n, "jobs_per_s"), number(f, "ours-unused", "unused", n, "jobs_per_s")}
		for _, name := range []string{"jobs_per_s", "worker_cpu_us_per_job", "redis_cpu_us_per_job"} {
			with, without := f.Median("ours-unused", "unused", n, name), f.Median("ours", "unused", n, name)
			if with == 0 || without == 0 {
				break
			}
			cells = append(cells, result.Number(with/without)+"×")
		}
		if len(cells) == 6 {
			empty = false
			t.row(cells...)
		}
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// unique compares pushing unique jobs with pushing any.
func unique(f result.File) string {
	var t table
	t.head("", "any", "unique", "ratio")
	empty := true
	for _, name := range []string{"ours", "asynq", "gocraft"} {
		any, one := f.Median(name, "push-unique", 8, "jobs_per_s"), f.Median(name+"-unique", "push-unique", 8, "jobs_per_s")
		if any > 0 && one > 0 {
			empty = false
			t.row(title(name), cell(f, name, "push-unique", 8, "jobs_per_s"), number(f, name+"-unique", "push-unique", 8, "jobs_per_s"),
				result.Number(one/any)+"×")
		}
	}
	if empty {
		return notMeasured
	}
	return t.String()
}
