package fleet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// Session is one life of this process in the fleet. It starts when the process takes a lease, and
// ends when it leaves the fleet or notices that it lost the lease. A job belongs to the session
// that reserved it. All methods are safe for concurrent use.
type Session struct {
	Process resque.Process // as it entered; its workers may have changed since, see Record

	clock *Clock
	names atomic.Pointer[names] // the registrar replaces it
	ctx   context.Context
	end   context.CancelCauseFunc

	large atomic.Bool  // it has had a job with a large payload; the poller writes it
	renew func()       // renews the lease now; nil: nothing does
	apart atomic.Int64 // see Apart; the lease writes it

	// jobs is the parent of the running jobs' contexts. CancelJobs replaces it, so that it does
	// not cancel jobs that start later.
	jobs     atomic.Pointer[generation]
	replaces sync.Mutex // held while jobs is replaced
}

// generation is the parent of the contexts of jobs that are cancelled together.
type generation struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// names are the worker ids of a session. They never change: a change of the workers makes others.
type names struct {
	record     resque.Process // covers all ids that are registered
	workers    []string       // by slot: the ids of jobs that start now
	registered []string       // those, and the ids of jobs that run and began under others
	sent       []string       // those that may be registered too, because an answer was lost
	covered    bool           // the record in Redis says what record says
}

func newSession(parent context.Context, process resque.Process, c *Clock) *Session {
	s := Enter(process)
	s.clock = c
	s.ctx, s.end = context.WithCancelCause(parent)
	s.replace()
	return s
}

// Enter returns a session of a process that needs neither a clock nor contexts.
func Enter(process resque.Process) *Session {
	s := &Session{Process: process}
	ids := process.WorkerIDs()
	s.names.Store(&names{record: process, workers: ids, registered: ids, covered: true})
	return s
}

// Worker returns the id of the worker with this number, for a job that starts now.
func (s *Session) Worker(n int) string {
	names := s.names.Load()
	if n < len(names.workers) {
		return names.workers[n]
	}
	return names.record.WorkerID(n)
}

// Record returns the process as its record in Redis must say it now.
func (s *Session) Record() resque.Process { return s.names.Load().record }

// replace makes another parent for the contexts of jobs that start from now on.
func (s *Session) replace() {
	g := new(generation)
	g.ctx, g.cancel = context.WithCancelCause(s.ctx)
	s.jobs.Store(g)
}

// Context ends when the session does. Its cause is Config.Lost or Config.Shutdown.
func (s *Session) Context() context.Context { return s.ctx }

// Jobs returns the parent of the context of a job that starts now.
func (s *Session) Jobs() context.Context { return s.jobs.Load().ctx }

// Now returns the time by Redis's clock.
func (s *Session) Now() time.Time { return s.clock.Now() }

// CancelJobs cancels the contexts of the jobs that run now.
func (s *Session) CancelJobs(cause error) {
	s.replaces.Lock()
	defer s.replaces.Unlock()
	old := s.jobs.Load()
	if old.ctx.Err() != nil {
		return // StopJobs was called, or the session has ended
	}
	s.replace()
	old.cancel(cause)
}

// StopJobs cancels the contexts of all jobs, those that start later too.
func (s *Session) StopJobs(cause error) {
	s.replaces.Lock()
	defer s.replaces.Unlock()
	s.jobs.Load().cancel(cause)
}

// SawLarge is called when the process has reserved a job with a large payload: the lease then looks whether all processes know records
// that have such payloads in fields of their own.
func (s *Session) SawLarge() {
	if s.large.Load() {
		return
	}
	s.large.Store(true)
	if s.renew != nil {
		s.renew()
	}
}

// Large reports whether SawLarge was called.
func (s *Session) Large() bool { return s.large.Load() }

// Apart returns from how many bytes on payloads are to be in fields of their own in the in-flight record; 0: none is, because a process
// may live whose release does not know that.
func (s *Session) Apart() int { return int(s.apart.Load()) }

// SetApart says from how many bytes on they are.
func (s *Session) SetApart(from int) { s.apart.Store(int64(from)) }
