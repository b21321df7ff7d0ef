package page

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/goworker/goworker/bench/result"
	"github.com/goworker/goworker/internal/sizing"
)

// Model is where the figures of the model of sizes are, from docs.
const Model = "../internal/sizing/figures.json"

// smallJob is the length of the jobs of the rows that the model is made of.
const smallJob = 44

// Figures are what the model of sizes takes of the results. The rows of one and of a hundred workers say what an exchange takes and what a
// job takes beside it; those of kinds say what is beside their commands.
func Figures(f result.File) sizing.Figures {
	var m sizing.Figures
	m.Size = smallJob
	row := func(contender, work string, workers int) sample {
		return sample{
			f.Median(contender, work, workers, "commands_per_job"), f.Median(contender, work, workers, "redis_cpu_us_per_job"),
			f.Median(contender, work, workers, "worker_cpu_us_per_job"), f.Median(contender, work, workers, "bytes_per_job"),
		}
	}
	one, many := row("ours", "noop", 1), row("ours", "noop", 100)
	m.Exchange = sizing.Cost{
		Redis: slope(many.commands, many.redis, one.commands, one.redis), Worker: slope(many.commands, many.worker, one.commands, one.worker),
		Bytes: slope(many.commands, many.bytes, one.commands, one.bytes),
	}
	beside := func(s sample) sizing.Cost {
		return sizing.Cost{
			Redis: rounded(max(s.redis-m.Exchange.Redis*s.commands, 0)), Worker: rounded(max(s.worker-m.Exchange.Worker*s.commands, 0)),
			Bytes: rounded(max(s.bytes-m.Exchange.Bytes*s.commands, 0)),
		}
	}
	m.Kinds = map[string]sizing.Cost{sizing.Plain: beside(many), sizing.Result: beside(row("ours-results", "results", 25))}
	for _, kind := range []string{"expiring", "unique", "limited", "keyed", "rated", "fair", "retried"} {
		m.Kinds[kind] = beside(row("ours-"+kind, "features", 25))
	}
	delayed := row("ours", "delayed", 100) // its commands are those of the same jobs without a delay, and a move for many
	delayed.commands = many.commands
	m.Kinds["delayed"] = beside(delayed)
	push := row("ours", "push", 8)
	m.Push = sizing.Cost{Redis: push.redis, Worker: push.worker, Bytes: rounded(push.bytes - 100 + smallJob)}
	idle := func(figure string) float64 { return f.Median("ours", "fleet-idle", 100, figure) }
	m.Idle = sizing.Cost{Redis: idle("redis_us_per_s"), Worker: idle("worker_us_per_s"), Bytes: idle("bytes_per_s")}
	few, all := f.Median("ours", "noop", 25, "rss_mb"), f.Median("ours", "sleep-100ms", 10_000, "rss_mb")
	m.Process.Worker = rounded((all - few) * (1 << 20) / (10_000 - 25))
	m.Process.Bytes = rounded(few*(1<<20) - 25*m.Process.Worker)
	m.Process.Redis = idle("redis_bytes")
	memory := func(work string) float64 { return f.Median("ours", work, 200, "redis_bytes") }
	m.Memory.Waiting = rounded(memory("memory-waiting") - 200)
	m.Memory.Delayed = rounded(memory("memory-delayed") - 200)
	m.Memory.Failure = rounded(memory("memory-failure") - 200)
	m.Memory.Result = memory("memory-result")
	m.Memory.History = f.Median("ours", "history-rows", 50, "redis_bytes")
	return m
}

// sample is what a job takes with so many commands.
type sample struct{ commands, redis, worker, bytes float64 }

func slope(x0, y0, x1, y1 float64) float64 {
	if x0 == x1 {
		return 0
	}
	return rounded((y1 - y0) / (x1 - x0))
}

// rounded keeps what differs between two machines of one kind.
func rounded(v float64) float64 { return float64(int64(v*100+0.5)) / 100 }

// writeModel writes the figures of the model.
func writeModel(docs string, f result.File) error {
	text, err := json.MarshalIndent(Figures(f), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, filepath.FromSlash(Model)), append(text, '\n'), 0o644)
}
