package page

import (
	"github.com/goworker/goworker/bench/result"
)

// flowing are the contenders that have workflows.
var flowing = []string{"ours", "machinery-results", "bullmq"}

// chords compares a group with a callback with the same jobs that have none.
func chords(f result.File) string {
	var t table
	t.head("", "members", "the same jobs alone, s", "with the callback, s", "ratio", "members/s", "Redis's CPU a member, µs", "bytes a member")
	empty := true
	for _, n := range []int{2000, 100_000} {
		for _, name := range flowing {
			alone, own := f.Median(name, "members", n, "workflow_s"), f.Median(name, "chord", n, "workflow_s")
			if alone == 0 || own == 0 {
				continue
			}
			empty = false
			t.row(title(name), result.Number(float64(n)), cell(f, name, "members", n, "workflow_s"), cell(f, name, "chord", n, "workflow_s"),
				result.Number(own/alone)+"×", cell(f, name, "chord", n, "members_per_s"), cell(f, name, "chord", n, "redis_cpu_us_per_job"),
				cell(f, name, "chord", n, "bytes_per_job"))
		}
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// flows compares many small workflows, and one whose steps come one after the other.
func flows(f result.File) string {
	var t table
	t.head("", "2,000 chords of two: members/s", "Redis's CPU a member, µs", "chain of 100: ms a step")
	empty := true
	for _, name := range flowing {
		small, step := cell(f, name, "chords", 2000, "members_per_s"), cell(f, name, "chain", 100, "step_ms")
		if small+step == "" {
			continue
		}
		empty = false
		t.row(title(name), small, cell(f, name, "chords", 2000, "redis_cpu_us_per_job"), step)
	}
	if empty {
		return notMeasured
	}
	return t.String()
}

// streams is what a large batch takes, and whether a soak leaves keys behind.
func streams(f result.File) string {
	var t table
	t.head("a batch of a million", "members added a second", "the producer's memory, MiB", "Redis's memory a member, bytes")
	if f.Median("ours", "batch", 1_000_000, "added_per_s") == 0 {
		return notMeasured
	}
	const million = 1_000_000
	t.row("**this**", cell(f, "ours", "batch", million, "added_per_s"), cell(f, "ours", "batch", million, "rss_mb"),
		cell(f, "ours", "batch", million, "redis_bytes_per_member"))
	t.WriteString("\n")
	t.head("chords of two for a minute, 10,000 a second wanted", "started a second", "keys before", "highest", "at the end")
	cells := []string{"**this**"}
	for _, name := range []string{"workflows_per_s", "keys_at_start", "keys_highest", "keys_at_end"} {
		cells = append(cells, cell(f, "ours", "soak", 10_000, name))
	}
	t.row(cells...)
	return t.String()
}
