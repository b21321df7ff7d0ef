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

// The variables with the Redis of a process of these tests that is a daemon, and of one that listens to events.
const (
	workerOf = "CONTROL_WORKER_OF"
	readerOf = "CONTROL_READER_OF"
)

func TestMain(m *testing.M) {
	if uri := os.Getenv(workerOf); uri != "" {
		os.Exit(work(uri))
	}
	if uri := os.Getenv(readerOf); uri != "" {
		os.Exit(read(uri))
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
