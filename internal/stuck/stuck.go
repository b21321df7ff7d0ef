// Package stuck lists the jobs that run past their time limit.
package stuck

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/logging"
)

// Job is a job whose class has a time limit.
type Job struct {
	Queue, Class, ID, Worker string

	Started time.Time
	Limit   time.Duration
}

// Jobs are the stuck jobs of a daemon. The zero value is ready; it is safe for
// concurrent use.
type Jobs struct {
	mu   sync.Mutex
	jobs map[*run]bool
}

// run is a run of a job.
type run struct {
	Job
	log       *slog.Logger // nil outside a daemon
	goroutine string
	ended     bool // guarded by Jobs.mu
}

// Watch lists j as stuck once it has run for grace longer than its limit. The goroutine
// that runs the job calls Watch now and done at the end of the run, whatever the end.
// It logs that the job is stuck, and where, to logger; nil: nothing is logged.
func (s *Jobs) Watch(j Job, grace time.Duration, logger *slog.Logger) (done func()) {
	r := &run{Job: j, log: logger, goroutine: failure.Goroutine()}
	timer := time.AfterFunc(j.Limit+grace, func() { s.add(r) })
	return func() {
		if !timer.Stop() {
			s.remove(r)
		}
	}
}

func (s *Jobs) add(r *run) {
	trace := failure.ShortTrace(failure.StackOf(r.goroutine))
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.ended {
		return
	}
	if s.jobs == nil {
		s.jobs = make(map[*run]bool)
	}
	s.jobs[r] = true
	s.report(r, "job is stuck: it runs past its time limit, and its worker is taken until it ends", slog.Any("stack", trace))
}

func (s *Jobs) remove(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.ended = true
	if s.jobs[r] {
		delete(s.jobs, r)
		s.report(r, "stuck job ended; its worker is free again")
	}
}

// report logs something about a stuck job. The mutex is held.
func (s *Jobs) report(r *run, message string, more ...slog.Attr) {
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

// List returns the stuck jobs, the oldest first.
func (s *Jobs) List() []Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var jobs []Job
	for r := range s.jobs {
		jobs = append(jobs, r.Job)
	}
	slices.SortFunc(jobs, func(a, b Job) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Worker, b.Worker))
	})
	return jobs
}

// All returns for how long all of so many workers have had a stuck job. grace is that of Watch. It is 0 while
// one of them has none.
func (s *Jobs) All(workers int, grace time.Duration, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if workers == 0 || len(s.jobs) < workers {
		return 0
	}
	var since time.Time
	for r := range s.jobs {
		if at := r.Started.Add(r.Limit + grace); at.After(since) {
			since = at
		}
	}
	return max(0, now.Sub(since))
}
