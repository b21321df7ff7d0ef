package control

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// workerOf is the variable with the Redis of a process that is a daemon of these tests.
const workerOf = "CONTROL_WORKER_OF"

func TestMain(m *testing.M) {
	if uri := os.Getenv(workerOf); uri != "" {
		os.Exit(work(uri))
	}
	redistest.Main(m)
}

// work is a daemon that runs until SIGTERM.
func work(uri string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	d := goworker.New(goworker.WorkerSettings{QueuesString: "work", Concurrency: 1, URI: uri, LogLevel: "error", AllowNoHandlers: true, DisableSignals: true})
	defer d.Close()
	d.Register("Mark", func() {})
	if d.Run(ctx) != nil {
		return 1
	}
	return 0
}
