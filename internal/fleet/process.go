package fleet

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
)

// NewProcess makes a new identity. The host part of the worker ids is not the name of the host.
// Otherwise a Ruby worker that starts on the same host would take them for its own dead neighbours. It
// would fail their running jobs, in spite of their heartbeats. A distinct identity has its random part
// in the middle field too, because another process has the plain one.
func NewProcess(hostname, queues string, concurrency int, distinct bool) resque.Process {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	mark := hex.EncodeToString(random)
	pid := os.Getpid()
	p := resque.Process{
		ID:          fmt.Sprintf("%s:%d:%s", hostname, pid, mark),
		Host:        hostname,
		PID:         pid,
		Version:     version(),
		Queues:      queues,
		Concurrency: concurrency,
		Started:     clock.System.Now(),
		IDHead:      fmt.Sprintf("%s.go:%d-", hostname, pid),
		IDQueues:    queues,
	}
	if distinct {
		p.IDHead = fmt.Sprintf("%s.go:%d.%s-", hostname, pid, mark)
	}
	return p
}

// devel is the version of a module that was built from its sources.
const devel = "devel"

// version returns the version of this module in the program that uses it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return devel
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/goworker/goworker" && m.Version != "" && m.Version != "("+devel+")" {
			return m.Version
		}
	}
	return devel
}
