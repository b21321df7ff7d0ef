package goworker

import (
	"context"
	"log/slog"

	"github.com/goworker/goworker/internal/feature/results"
)

// Progress says how far the job is to which ctx belongs: so much done of a total, and a note of at most 1 KiB, of
// which the rest is cut. It returns at once. What is said within 100 ms is written once, and the latest counts, so a
// loop may say it as often as it likes. In a job without WithResult, and outside a job, it does nothing.
//
// It works in the child process of an Isolated job too.
func Progress(ctx context.Context, done, total int64, note string) {
	if r := results.Of(ctx); r != nil {
		r.Progress(done, total, note)
	}
}

// Logger returns the logger of the job to which ctx belongs: the daemon's, with the job's class, id and queue. Its
// lines are captured too if the job was enqueued with CaptureLogs. In the child process of an Isolated job, and
// outside a job, it is that of slog.Default.
func Logger(ctx context.Context) *slog.Logger {
	d := FromContext(ctx)
	if d == nil {
		return slog.Default()
	}
	log := d.logger
	if log == nil {
		log = slog.Default()
	}
	log = log.With("class", d.Class, "id", d.ID, "queue", d.Queue)
	if r := results.Of(ctx); r.Captures() {
		log = slog.New(results.Capture(log.Handler(), r))
	}
	return log
}

// LogHandler returns a handler that passes records on to next. It also captures those that were logged with the
// context of a job that was enqueued with CaptureLogs:
//
//	slog.SetDefault(slog.New(goworker.LogHandler(slog.NewJSONHandler(os.Stderr, nil))))
//	…
//	slog.InfoContext(ctx, "fetched", "bytes", n) // in a handler
//
// Lines of level Info and above are captured even where next drops them.
func LogHandler(next slog.Handler) slog.Handler { return results.Capture(next, nil) }
