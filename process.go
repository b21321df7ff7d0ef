package goworker

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// newProcess makes a new identity. The host part of the worker ids is not the name of the host: a
// Ruby worker that starts on the same host would take ours for its own dead neighbours and fail
// their running jobs, whatever their heartbeats say. A distinct identity has its random part in
// the middle field too, because another process has the plain one.
func newProcess(c config, distinct bool) resque.Process {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	mark := hex.EncodeToString(random)
	pid := os.Getpid()
	p := resque.Process{
		ID:          fmt.Sprintf("%s:%d:%s", c.Hostname, pid, mark),
		Host:        c.Hostname,
		PID:         pid,
		Version:     version(),
		Queues:      c.queues.Label(),
		Concurrency: c.Concurrency,
		Started:     clock.System.Now(),
		IDHead:      fmt.Sprintf("%s.go:%d-", c.Hostname, pid),
		IDQueues:    c.queues.Label(),
	}
	if distinct {
		p.IDHead = fmt.Sprintf("%s.go:%d.%s-", c.Hostname, pid, mark)
	}
	return p
}

// version returns the version of this module in the program that uses it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/goworker/goworker" && m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}

// newLease makes the part that keeps this process in the fleet.
func newLease(b part.Base, c config) *fleet.Lease {
	return fleet.New(b, fleet.Config{
		Process:       func(distinct bool) resque.Process { return newProcess(c, distinct) },
		Workers:       c.Concurrency,
		RecoverLimit:  c.RecoverLimit,
		MultiQueue:    c.multiQueueFailures,
		FailedMaxSize: c.FailedMaxSize,
		FailedMaxAge:  c.FailedMaxAge,
		Lost:          ErrLeaseLost,
		Shutdown:      ErrShutdown,
	})
}
