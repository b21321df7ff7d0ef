package goworker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Dequeue removes from job.Queue every waiting job equal to this one and returns
// how many there were. A job already reserved by a worker is not touched.
//
// With Payload.Args nil it removes all jobs of the class, as Resque.dequeue does
// when it is given the class only; it then reads the whole queue. Otherwise class
// and arguments are encoded as Enqueue encodes them, and what has exactly these
// bytes is removed. A job with further fields, such as an id, differs. So does one
// whose writer prints numbers or escapes in another way; see WorkerSettings.RailsJSON.
// Arguments that are empty but not nil mean a job without arguments.
func (d *Daemon) Dequeue(job *Job) (removed int, err error) {
	config, err := d.clientConfig()
	switch {
	case err != nil:
		return 0, err
	case job == nil:
		return 0, errors.New("goworker: Dequeue was given no job")
	case job.Queue == "":
		return 0, errors.New("goworker: the job to dequeue names no queue; set Job.Queue")
	case job.Payload.Class == "":
		return 0, errors.New("goworker: the job to dequeue names no class; set Job.Payload.Class")
	}
	if job.Payload.Args == nil {
		return query(d, func(s resque.Store, c redis.Conn) (int, error) {
			return s.DequeueClass(c, job.Queue, job.Payload.Class)
		})
	}
	payload, err := payload.Encode(job.Payload.Class, job.Payload.Args, config.style)
	if err != nil {
		return 0, fmt.Errorf("goworker: dequeueing %s: %w", job.Payload.Class, err)
	}
	return query(d, func(s resque.Store, c redis.Conn) (int, error) {
		return s.Dequeue(c, job.Queue, payload)
	})
}

// RemoveQueue removes a queue with all the jobs that wait in it. Workers keep
// looking at the queue, and the next job pushed to it brings it back.
func (d *Daemon) RemoveQueue(queue string) error {
	return d.withConn(func(s resque.Store, c redis.Conn) error {
		return errors.Join(s.RemoveQueue(c, queue), s.RemoveLanes(c, queue))
	})
}

// Queues returns the names of all queues, sorted. A queue stays when it becomes
// empty, until somebody removes it.
func (d *Daemon) Queues() ([]string, error) {
	return query(d, resque.Store.Queues)
}

// QueueSize returns how many jobs wait in a queue. A queue that does not exist
// has none.
func (d *Daemon) QueueSize(queue string) (int64, error) {
	return query(d, func(s resque.Store, c redis.Conn) (int64, error) { return s.QueueSize(c, queue) })
}

// WorkerInfo is what a registered worker, of any program that speaks Resque,
// tells about itself. What it does not tell, or not readably, is zero.
type WorkerInfo struct {
	ID     string   // host:pid:queues
	Host   string   // of a goworker process with ".go" at its end
	PID    string   // of a goworker process with the worker's number at its end
	Queues []string // names and patterns it looks at, in their order

	Started   time.Time
	Heartbeat time.Time // Ruby takes a worker for dead 300 s after this

	Processed int64 // jobs run since it started, failed ones included
	Failed    int64

	Working *WorkingInfo // the job in hand; nil while idle
}

// WorkingInfo is the job that a worker has in hand. All is zero where the worker
// is busy but does not tell readably with what.
type WorkingInfo struct {
	Queue   string
	Class   string
	RunAt   time.Time       // when it started
	Payload json.RawMessage // as it was in the queue
}

// Workers returns the workers of the whole fleet, sorted by id. A goworker worker
// that runs a job shorter than about 100 ms is shown as idle.
func (d *Daemon) Workers() ([]WorkerInfo, error) {
	workers, err := query(d, resque.Store.Workers)
	var infos []WorkerInfo
	for _, w := range workers {
		infos = append(infos, WorkerInfo{
			ID: w.ID, Host: w.Host, PID: w.PID, Queues: w.Queues,
			Started: w.Started, Heartbeat: w.Heartbeat,
			Processed: w.Processed, Failed: w.Failed,
		})
		if j := w.Working; j != nil {
			infos[len(infos)-1].Working = &WorkingInfo{Queue: j.Queue, Class: j.Class, RunAt: j.RunAt, Payload: j.Payload}
		}
	}
	return infos, err
}

// FleetInfo is the state of a whole Resque, as Ruby's Resque.info tells it.
type FleetInfo struct {
	Pending   int64 // jobs waiting in all queues
	Processed int64 // jobs ever run, failed ones included
	Failed    int64 // failures in the list now; see FailureList
	Expired   int64 // jobs ever dropped because their time was over; see ExpireAfter
	Queues    int
	Workers   int
	Working   int      // workers that have a job in hand
	Servers   []string // the Redis URI, with *** for its password

	Environment string // RAILS_ENV or RACK_ENV or "development"

	QueueSizes map[string]int64 // jobs waiting, by queue
}

// Info counts queues, jobs, workers and failures.
func (d *Daemon) Info() (FleetInfo, error) {
	i, config, err := d.info()
	if err != nil {
		return FleetInfo{}, err
	}
	sizes := make(map[string]int64, len(i.Queues))
	for _, q := range i.Queues {
		sizes[q.Name] = q.Size
	}
	return FleetInfo{
		Pending: i.Pending, Processed: i.Processed, Failed: i.Failed, Expired: i.Expired,
		Queues: len(i.Queues), Workers: i.Workers, Working: i.Working,
		Servers:     []string{conn.RedactURI(config.URI)},
		Environment: cmp.Or(os.Getenv("RAILS_ENV"), os.Getenv("RACK_ENV"), "development"),
		QueueSizes:  sizes,
	}, nil
}

// StatsText returns what resque-web serves as /stats.txt, for monitoring that
// already reads it: lines such as resque.pending=3 and queues.mail=3, queues
// sorted by name, without a newline after the last.
func (d *Daemon) StatsText() (string, error) {
	i, _, err := d.info()
	if err != nil {
		return "", err
	}
	return i.StatsText(), nil
}

func (d *Daemon) info() (resque.Info, config, error) {
	config, err := d.clientConfig()
	if err != nil {
		return resque.Info{}, config, err
	}
	info, err := query(d, func(s resque.Store, c redis.Conn) (resque.Info, error) {
		return s.Info(c, config.multiQueueFailures)
	})
	return info, config, err
}

// query asks something on a connection of the pool.
func query[T any](d *Daemon, ask func(s resque.Store, c redis.Conn) (T, error)) (answer T, err error) {
	err = d.withConn(func(s resque.Store, c redis.Conn) error {
		answer, err = ask(s, c)
		return err
	})
	return answer, err
}

// clientConfig returns the settings that Init has, or would have, checked.
func (d *Daemon) clientConfig() (config, error) {
	client, err := d.init(false)
	if err != nil {
		return config{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return client.config, nil
}

// Dequeue is Daemon.Dequeue of the default daemon.
func Dequeue(job *Job) (removed int, err error) { return std().Dequeue(job) }

// RemoveQueue is Daemon.RemoveQueue of the default daemon.
func RemoveQueue(queue string) error { return std().RemoveQueue(queue) }

// Queues is Daemon.Queues of the default daemon.
func Queues() ([]string, error) { return std().Queues() }

// QueueSize is Daemon.QueueSize of the default daemon.
func QueueSize(queue string) (int64, error) { return std().QueueSize(queue) }

// Workers is Daemon.Workers of the default daemon.
func Workers() ([]WorkerInfo, error) { return std().Workers() }

// Failures is Daemon.Failures of the default daemon.
func Failures() *FailureList { return std().Failures() }

// Info is Daemon.Info of the default daemon.
func Info() (FleetInfo, error) { return std().Info() }

// StatsText is Daemon.StatsText of the default daemon.
func StatsText() (string, error) { return std().StatsText() }
