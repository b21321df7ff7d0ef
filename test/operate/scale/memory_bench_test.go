package scale

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkMemory reports how many bytes of Redis's memory take: a plain job of 200 bytes that waits, one that waits for its time, the
// record of one that failed, and the document of one with a short result.
func BenchmarkMemory(b *testing.B) {
	const jobs, size = 20_000, 200
	for b.Loop() {
		for unit, what := range map[string]struct {
			class   string
			options []goworker.EnqueueOption
			idle    bool // no process runs the jobs
		}{
			"B/waiting": {class: "Plain", idle: true},
			"B/delayed": {class: "Plain", idle: true, options: []goworker.EnqueueOption{goworker.ProcessIn(time.Hour)}},
			"B/failure": {class: "Fails"},
			"B/result":  {class: "Plain", options: []goworker.EnqueueOption{goworker.WithResult(time.Hour)}},
		} {
			server := redistest.Start(b)
			d := goworker.New(goworker.WorkerSettings{URI: server.URI(), QueuesString: "work", History: goworker.HistoryOff, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			d.Register("Plain", func(string) (string, error) { return "a short result", nil })
			d.Register("Fails", func(string) error { return errors.New("the server answers 503") })
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			if !what.idle {
				go func() { ended <- d.Run(ctx) }()
			}
			client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()})
			if err != nil {
				b.Fatal(err)
			}
			enqueue := func(from, to int) {
				for from < to {
					var items []goworker.Item
					for ; from < to && len(items) < 1000; from++ {
						args := strings.Repeat("a", size-len(`{"class":"Plain","args":[""]}`)-6) + strconv.Itoa(100_000+from)
						items = append(items, goworker.Item{Job: goworker.NewJob("work", what.class, args), Options: what.options})
					}
					if _, err := client.EnqueueMany(b.Context(), items...); err != nil {
						b.Fatal(err)
					}
				}
			}
			settled := func(n int) int {
				if !what.idle {
					redistest.Eventually(b, time.Minute, "the jobs are done", func() bool { return server.Int(b, "GET", "resque:stat:processed") >= n })
				}
				for line := range strings.Lines(server.Text(b, "INFO", "memory")) {
					if bytes, ok := strings.CutPrefix(line, "used_memory:"); ok {
						v, err := strconv.Atoi(strings.TrimSpace(bytes))
						if err != nil {
							b.Fatal(err)
						}
						return v
					}
				}
				return 0
			}
			enqueue(0, 100) // so that there is all that comes with the first job
			before := settled(100)
			enqueue(100, 100+jobs)
			b.ReportMetric(float64(settled(100+jobs)-before)/jobs, unit)
			cancel()
			if !what.idle {
				<-ended
			}
			d.Close()
			client.Close()
			server.Stop()
		}
	}
}
