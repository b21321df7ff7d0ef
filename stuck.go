package goworker

import (
	"cmp"
	"context"
	"github.com/goworker/goworker/internal/logging"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// StuckAfter is how long after the time limit of its class a job still runs until it
// counts as stuck.
const StuckAfter = 10 * time.Second

// StuckJob is a job that runs although the time limit of its class has passed. Its
// worker takes no other job until the handler returns: nothing ends a goroutine from
// outside.
type StuckJob struct {
	Queue  string
	Class  string
	ID     string // as Delivery.ID
	Worker string // as Delivery.Worker

	Started time.Time
	Limit   time.Duration // the Timeout of its class, or the HardTimeout of an isolated one
}

// Stuck returns the jobs that run in this process past their time limit by more than
// StuckAfter, the oldest first. Each is logged once, with the place where its handler
// is; a job that ends after all leaves the list, and its outcome counts as it is.
func (d *Daemon) Stuck() []StuckJob { return d.registry.stuck.list() }

// Stuck returns the jobs of all shards that run past their time limit; see
// Daemon.Stuck.
func (s *Shards) Stuck() []StuckJob { return s.handlers.stuck.list() }

// Stuck is Daemon.Stuck of the default daemon.
func Stuck() []StuckJob { return std().Stuck() }

// stuckJobs are the stuck jobs of a daemon. The zero value is ready; it is safe for
// concurrent use.
type stuckJobs struct {
	mu   sync.Mutex
	jobs map[*limitedRun]bool
}

// limitedRun is a run of a job whose class has a time limit.
type limitedRun struct {
	StuckJob
	log       *slog.Logger // nil outside a daemon
	goroutine string
	ended     bool // guarded by stuckJobs.mu
}

// watch is called by the goroutine that runs d. The function it returns is to be
// called at the end of the run, by whatever way it ends.
func (s *stuckJobs) watch(d *Delivery) (done func()) {
	r := &limitedRun{
		StuckJob:  StuckJob{Queue: d.Queue, Class: d.Class, ID: d.ID, Worker: d.Worker, Started: time.Now(), Limit: d.limit},
		goroutine: goroutineID(),
	}
	if d.workers != nil {
		r.log = d.workers.logger
	}
	timer := time.AfterFunc(d.limit+StuckAfter, func() { s.add(r) })
	return func() {
		if !timer.Stop() {
			s.remove(r)
		}
	}
}

func (s *stuckJobs) add(r *limitedRun) {
	trace := shortTrace(stackOf(r.goroutine))
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.ended {
		return
	}
	if s.jobs == nil {
		s.jobs = make(map[*limitedRun]bool)
	}
	s.jobs[r] = true
	s.tell(r, "job is stuck: it runs past its time limit, and its worker is taken until it ends", slog.Any("stack", trace))
}

func (s *stuckJobs) remove(r *limitedRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.ended = true
	if s.jobs[r] {
		delete(s.jobs, r)
		s.tell(r, "stuck job ended; its worker is free again")
	}
}

// tell logs something about a stuck job. The mutex is held.
func (s *stuckJobs) tell(r *limitedRun, message string, more ...slog.Attr) {
	if r.log == nil {
		return
	}
	attrs := []slog.Attr{
		slog.String("queue", logging.Shorten(r.Queue, logging.MaxText)), slog.String("class", logging.Shorten(r.Class, logging.MaxText)), slog.String("worker", r.Worker),
		slog.Duration("limit", r.Limit), slog.Duration("running", time.Since(r.Started)), slog.Int("stuck", len(s.jobs)),
	}
	if r.ID != "" {
		attrs = append(attrs, slog.String("id", logging.Shorten(r.ID, logging.MaxText)))
	}
	r.log.LogAttrs(context.Background(), slog.LevelWarn, message, append(attrs, more...)...)
}

func (s *stuckJobs) list() []StuckJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	var jobs []StuckJob
	for r := range s.jobs {
		jobs = append(jobs, r.StuckJob)
	}
	slices.SortFunc(jobs, func(a, b StuckJob) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Worker, b.Worker))
	})
	return jobs
}
