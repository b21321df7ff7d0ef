package goworker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// DaemonOf returns the daemon of the shard on which a queue lies: the one that names
// the queue, or else the first with a pattern for it. The error says which queues
// there are.
func (s *Shards) DaemonOf(queue string) (*Daemon, error) {
	routes, _, err := s.table()
	if err != nil {
		return nil, err
	}
	i, err := s.route(routes, queue)
	if err != nil {
		return nil, fmt.Errorf("goworker: %w", err)
	}
	return s.daemons[i], nil
}

// table returns the queues of each shard, and what their jobs are collected in.
func (s *Shards) table() ([]queues.Spec, resque.Bulk, error) {
	if err := s.init(false); err != nil {
		return nil, resque.Bulk{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes, s.config.bulk(), nil
}

// route finds the shard of a queue. A name goes before a pattern, so that a shard
// for all the rest may stand anywhere in the list.
func (s *Shards) route(routes []queues.Spec, queue string) (int, error) {
	for _, pattern := range []bool{false, true} {
		i := slices.IndexFunc(routes, func(q queues.Spec) bool {
			return !q.Excludes(queue) && slices.ContainsFunc(q.Patterns, func(p queues.Queue) bool {
				return queues.IsPattern(p.Name) == pattern && (p.Name == queue || pattern && queues.MatchGlob(p.Name, queue))
			})
		})
		if i >= 0 {
			return i, nil
		}
	}
	var there []string
	for i, shard := range s.shards {
		there = append(there, s.name(i)+" ("+strings.Join(shard.Queues, ",")+")")
	}
	return 0, fmt.Errorf("queue %q lies on no shard; there are %s", queue, strings.Join(there, ", "))
}

// Enqueue pushes a job to the tail of its queue, on the shard of that queue; see
// DaemonOf and Daemon.Enqueue.
func (s *Shards) Enqueue(job *Job) error {
	if s.handlers.told(job) {
		_, err := s.EnqueueWith(job)
		return err
	}
	return s.EnqueueAll(job)
}

// EnqueueWith is Enqueue for a job that is told more, on the shard of its queue; see
// Daemon.EnqueueWith.
func (s *Shards) EnqueueWith(job *Job, opts ...EnqueueOption) (Receipt, error) {
	if err := s.init(false); err != nil {
		return Receipt{}, err
	}
	if job == nil {
		return Receipt{}, unsent(errNoJob, 0, 1)
	}
	d, err := s.DaemonOf(job.Queue)
	if err != nil {
		return Receipt{}, err
	}
	return d.EnqueueWith(job, opts...)
}

// EnqueueAll pushes any number of jobs, with one round trip to each of the shards on
// which their queues lie, to all of them at once; see Daemon.EnqueueAll.
//
// On each shard it is all or none, but not on all together: the error joins a
// *ShardError for each that refused, and what the others were to take is there.
// With a job that cannot be encoded, or whose queue lies nowhere, nothing is sent.
func (s *Shards) EnqueueAll(jobs ...*Job) error {
	routes, empty, err := s.table()
	if err != nil {
		return err
	}
	parts := make([]struct {
		jobs []*Job
		bulk resque.Bulk
		err  error
	}, len(s.shards))
	places := make(map[string]int) // of the queues seen
	for n, job := range jobs {
		if job == nil {
			return unsent(errNoJob, n, len(jobs))
		}
		i, seen := places[job.Queue]
		if !seen {
			if i, err = s.route(routes, job.Queue); err != nil {
				return unsent(err, n, len(jobs))
			}
			places[job.Queue] = i
		}
		part := &parts[i]
		if len(part.jobs) == 0 {
			part.bulk = empty
		}
		if err := s.daemons[i].addJob(&part.bulk, job); err != nil {
			return unsent(err, n, len(jobs))
		}
		if part.jobs = append(part.jobs, job); len(part.jobs) == 1 {
			part.bulk.Grow(len(jobs) / len(parts))
		}
	}
	var wg sync.WaitGroup
	for i := range parts {
		part := &parts[i]
		if len(part.jobs) == 0 {
			continue
		}
		wg.Go(func() {
			client, err := s.daemons[i].init(false)
			if err == nil {
				err = client.push(&part.bulk)
			}
			if err != nil {
				part.err = &ShardError{URI: s.name(i), Jobs: part.jobs, Err: err}
			}
		})
	}
	wg.Wait()
	var errs []error
	for _, part := range parts {
		errs = append(errs, part.err)
	}
	return errors.Join(errs...)
}

// EnqueueAt enqueues a job at a time, on the shard of its queue; see DaemonOf and
// Daemon.EnqueueAt.
func (s *Shards) EnqueueAt(t time.Time, job *Job) error {
	if err := s.init(false); err != nil {
		return err
	}
	if job == nil {
		return unsent(errNoJob, 0, 1)
	}
	d, err := s.DaemonOf(job.Queue)
	if err != nil {
		return err
	}
	return d.EnqueueAt(t, job)
}

// EnqueueIn is EnqueueAt after a duration, from now on.
func (s *Shards) EnqueueIn(in time.Duration, job *Job) error {
	return s.EnqueueAt(time.Now().Add(in), job)
}

// Schedule enqueues a job again and again, on the shard of its queue; see DaemonOf and
// Daemon.Schedule. That Daemon has the schedule, and what else can be done with it.
func (s *Shards) Schedule(name string, r Recurring) error {
	if err := s.init(false); err != nil {
		return err
	}
	if _, err := newRecurring(name, r); err != nil {
		return err
	}
	d, err := s.DaemonOf(r.Queue)
	if err != nil {
		return err
	}
	return d.Schedule(name, r)
}
