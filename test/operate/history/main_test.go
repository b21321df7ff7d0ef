package history

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// workerOf is the variable with the Redis of a process that is a daemon of these tests.
const workerOf = "HISTORY_WORKER_OF"

func TestMain(m *testing.M) {
	if uri := os.Getenv(workerOf); uri != "" {
		os.Exit(work(uri))
	}
	daemontest.Main(m)
}

// work is a daemon that runs until SIGTERM.
func work(uri string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	d := goworker.New(goworker.WorkerSettings{QueuesString: "work", Concurrency: 3, URI: uri, LogLevel: "error"})
	defer d.Close()
	d.Register("Nap", func(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) })
	if d.Run(ctx) != nil {
		return 1
	}
	return 0
}
