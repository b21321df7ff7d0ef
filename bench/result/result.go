// Package result is what a benchmark run leaves: rows of figures, kept in a file,
// compared with what was aimed at, and shown as tables.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// File is a results file; what is beside the rows tells readers how far the
// numbers can be compared with their own.
type File struct {
	Date     string            `json:"date"`
	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions"`
	Rounds   int               `json:"rounds"`
	Rows     []Row             `json:"rows"`
	Failed   []Failure         `json:"failed,omitempty"`
	Cannot   []Failure         `json:"cannot,omitempty"`
}

// Machine is what a reader needs to judge the numbers. It does not say whose it is.
type Machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu,omitempty"`
	Cores  int    `json:"cores"`
	Loaded string `json:"load_average_at_start,omitempty"`
}

// Key names one measured number.
type Key struct {
	Contender string `json:"contender"`
	Work      string `json:"work"`
	Workers   int    `json:"workers"`
	Figure    string `json:"figure"`
}

// Row is one line of the results file.
type Row struct {
	Key
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// Date is when the row was measured, if that was in another run than the file's last.
	Date string `json:"date,omitempty"`
}

// Failure is a measurement that has no row, and why: it went wrong, or the
// contender cannot do that work.
type Failure struct {
	Contender string `json:"contender"`
	Work      string `json:"work"`
	Workers   int    `json:"workers,omitempty"`
	Why       string `json:"why"`
}

// Read reads a results file.
func Read(path string) (File, error) {
	var f File
	text, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("results file %s: %w", path, err)
	}
	return f, nil
}

// Write writes the file whole.
func (f File) Write(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Merge returns the file with the rows of an earlier one that it does not have
// itself, each with the date of its run.
func (f File) Merge(old File) File {
	seen := map[Key]bool{}
	for _, r := range f.Rows {
		seen[r.Key] = true
	}
	for _, r := range old.Rows {
		if seen[r.Key] {
			continue
		}
		if r.Date == "" {
			r.Date = old.Date
		}
		f.Rows = append(f.Rows, r)
	}
	measured := func(x Failure) bool {
		return slices.ContainsFunc(f.Rows, func(r Row) bool {
			return r.Date == "" && r.Contender == x.Contender && r.Work == x.Work && r.Workers == x.Workers
		})
	}
	for _, x := range old.Failed {
		if !measured(x) && !slices.Contains(f.Failed, x) {
			f.Failed = append(f.Failed, x)
		}
	}
	for name, version := range old.Versions {
		if _, ok := f.Versions[name]; !ok {
			f.Versions[name] = version
		}
	}
	Sort(f.Rows)
	return f
}

// Get returns a row.
func (f File) Get(contender, work string, workers int, figure string) (Row, bool) {
	i := slices.IndexFunc(f.Rows, func(r Row) bool { return r.Key == Key{contender, work, workers, figure} })
	if i < 0 {
		return Row{}, false
	}
	return f.Rows[i], true
}

// Median is the median of a row, 0 without one.
func (f File) Median(contender, work string, workers int, figure string) float64 {
	r, _ := f.Get(contender, work, workers, figure)
	return r.Median
}

// Contenders in the order of the tables.
var Contenders = []string{
	"ours", "ours-unused", "ours-no-history", "ours-unscraped", "ours-scraped", "ours-events", "ours-events-all", "ours-traced", "ours-retried", "ours-unique", "ours-expiring", "ours-limited", "ours-keyed", "ours-many-keys", "ours-rated", "ours-fair",
	"ours-isolated", "ours-isolated-static", "ours-reused", "ours-results", "ours-chord", "ours-called", "ours-gathering", "ours-msgpack", "ours-named", "ours-set", "ours-cursor", "ours-sets", "ours-once",
	"ours-plain", "ours-no-look-ahead", "limit", "raw", "goworker", "asynq", "asynq-unique", "asynq-results",
	"asynq-gathering", "gocraft", "gocraft-unique", "machinery", "machinery-results", "node-resque", "bullmq", "bullmq-results",
}

// Figures in the order of the tables.
var Figures = []string{
	"jobs_per_s", "commands_per_job", "inner_commands_per_job", "bytes_per_job",
	"redis_cpu_us_per_job", "worker_cpu_us_per_job", "allocations_per_job", "rss_mb",
	"idle_latency_p50_ms", "idle_latency_p99_ms", "idle_latency_max_ms", "woken_per_push", "idle_commands_per_s",
	"due_latency_p50_ms", "due_latency_p99_ms", "due_latency_max_ms", "redis_bytes_per_job", "moved_per_s", "redis_cpu_us_per_moved",
	"await_latency_p50_ms", "await_latency_p99_ms", "await_latency_max_ms", "connections", "redis_bytes_per_waiter",
	"workflow_s", "members_per_s", "step_ms", "added_per_s", "redis_bytes_per_member",
	"workflows_per_s", "keys_at_start", "keys_highest", "keys_at_end",
	"share_of_6_percent", "share_of_3_percent", "share_of_1_percent",
	"item_bytes", "encode_ns", "decode_ns",
	"sample_p50_ms", "sample_p95_ms", "redis_p50_ms", "redis_p95_ms", "redis_us_per_call", "call_us", "call_ns", "allocations_per_call", "pack_bytes", "redis_bytes", "reached_p50_ms", "reached_p95_ms", "behind_s", "behind_starts", "page_p50_ms", "page_p95_ms", "group_ms",
	"recovery_s", "round_trip_ms", "redis_busy_percent", "redis_us_per_s", "worker_us_per_s", "bytes_per_s",
}

// Works in the order of the tables.
var Works = []string{
	"noop", "payload-100B", "payload-1KiB", "payload-64KiB",
	"strict-1", "strict-10", "strict-200", "weighted-1", "weighted-10", "weighted-200", "all-1", "all-10", "all-200",
	"failing", "sleep-1ms", "sleep-100ms", "link", "push", "push-bulk", "push-bulk-named", "unused", "features", "keys", "push-unique", "weights",
	"results", "call", "call-many", "waiters", "waiters-burst", "aggregation", "aggregation-one", "msgpack-small", "msgpack-record", "msgpack-numbers", "cursor", "members", "chord", "chords", "chain", "batch", "soak", "delayed", "schedule",
	"history", "events", "events-1ms", "traces-1ms", "sample", "sample-3-queues", "dashboard-page", "dashboard-slowest-page", "group-failures", "clear", "renewal", "renewal-idle-pack", "renewal-20-classes", "renewal-fleet", "fold", "recorder", "history-rows", "idle-history", "ping-first", "ping", "pause", "limit", "queue-idle", "queue-added", "failure-idle", "failure-heard", "behind-cold", "behind-sorted", "behind-sorted-p90",
	"memory-waiting", "memory-delayed", "memory-failure", "memory-result", "shards", "shards-shared", "fleet", "fleet-shards", "fleet-idle", "fleet-woken",
	"idle", "idle-200-queues", "idle-processes", "due", "hold",
}

// Sort puts rows in the order in which tables show them.
func Sort(rows []Row) {
	slices.SortStableFunc(rows, func(a, b Row) int {
		if d := slices.Index(Figures, a.Figure) - slices.Index(Figures, b.Figure); d != 0 {
			return d
		}
		if d := slices.Index(Works, a.Work) - slices.Index(Works, b.Work); d != 0 {
			return d
		}
		if d := a.Workers - b.Workers; d != 0 {
			return d
		}
		return slices.Index(Contenders, a.Contender) - slices.Index(Contenders, b.Contender)
	})
}
