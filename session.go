package goworker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// session is one life of the daemon in the fleet: from the moment it takes a
// lease until it leaves or learns that the lease was lost. Jobs belong to the
// session that reserved them.
type session struct {
	process resque.Process
	workers []string // their ids, by slot
	ctx     context.Context
	end     context.CancelCauseFunc

	redisTime func(time.Time) time.Time // the lease's

	// jobs is what the running jobs' contexts derive from. Cancelling the running
	// jobs replaces it, so that the ones to come are not touched.
	jobs      atomic.Pointer[generation]
	cancelled sync.Mutex // held while jobs is replaced
}

type generation struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newSession(parent context.Context, process resque.Process, redisTime func(time.Time) time.Time) *session {
	s := &session{process: process, workers: process.WorkerIDs(), redisTime: redisTime}
	s.ctx, s.end = context.WithCancelCause(parent)
	s.renew()
	return s
}

func (s *session) renew() {
	g := new(generation)
	g.ctx, g.cancel = context.WithCancelCause(s.ctx)
	s.jobs.Store(g)
}

// cancelJobs cancels the contexts of the jobs that run now.
func (s *session) cancelJobs(cause error) {
	s.cancelled.Lock()
	defer s.cancelled.Unlock()
	old := s.jobs.Load()
	if old.ctx.Err() != nil {
		return // all are being stopped, those to come too
	}
	s.renew()
	old.cancel(cause)
}

// stopJobs cancels the contexts of all jobs, also of one that is just being started.
func (s *session) stopJobs(cause error) {
	s.cancelled.Lock()
	defer s.cancelled.Unlock()
	s.jobs.Load().cancel(cause)
}

// newProcess makes a new identity. The host part of the worker ids is not the
// name of the host: a Ruby worker that starts on the same one would take us for
// its own dead neighbours and fail our running jobs, whatever our heartbeat says.
// A distinct identity keeps its random part in the middle field, because the
// plain one is taken.
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
		Started:     time.Now(),
		IDHead:      fmt.Sprintf("%s.go:%d-", c.Hostname, pid),
		IDQueues:    c.queues.Label(),
	}
	if distinct {
		p.IDHead = fmt.Sprintf("%s.go:%d.%s-", c.Hostname, pid, mark)
	}
	return p
}

// version is the version of this module in the program that uses it.
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
