package page

import (
	"fmt"

	"github.com/goworker/goworker/bench/result"
)

// overShards is what a job costs by the number of Redises over which the queues of one process lie.
func overShards(f result.File) string {
	var t table
	t.head("shards", "workers", "worker's CPU a job, µs", "of one shard", "Redis's CPU a job, µs", "of one shard", "exchanges a job")
	empty := true
	for _, of := range []struct {
		work    string
		workers func(n int) int
	}{{"shards", func(n int) int { return 25 * n }}, {"shards-shared", func(int) int { return 100 }}} {
		for _, n := range []int{1, 2, 4, 8} {
			cells := []string{fmt.Sprint(n), fmt.Sprint(of.workers(n))}
			for _, figure := range []string{"worker_cpu_us_per_job", "redis_cpu_us_per_job"} {
				one, many := f.Median("ours", of.work, 1, figure), f.Median("ours", of.work, n, figure)
				cells = append(cells, number(f, "ours", of.work, n, figure), fmt.Sprintf("%.2f×", many/one))
				empty = empty && (one == 0 || many == 0)
			}
			t.row(append(cells, number(f, "ours", of.work, n, "commands_per_job"))...)
		}
	}
	if empty {
		return notMeasured
	}
	return t.String()
}
