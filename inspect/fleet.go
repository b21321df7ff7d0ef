package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/resque"
)

// WorkerInfo is what a registered worker, of any program that speaks Resque,
// writes about itself. A field that it does not write, or not readably, is zero.
type WorkerInfo struct {
	ID     string   // host:pid:queues
	Host   string   // of a goworker process with ".go" at its end
	PID    string   // of a goworker process with the worker's number at its end
	Queues []string // names and patterns it looks at, in their order

	Started   time.Time
	Heartbeat time.Time // Ruby counts a worker as dead 300 s after this

	Processed int64 // jobs run since it started, failed ones included
	Failed    int64

	Working *WorkingInfo // the job in hand; nil while idle
}

// WorkingInfo is the job that a worker has in hand. All fields are zero if the worker
// is busy but its entry is not readable.
type WorkingInfo struct {
	Queue   string
	Class   string
	RunAt   time.Time       // when it started
	Payload json.RawMessage // as it was in the queue
}

// Workers returns the workers of the whole fleet, sorted by id. A goworker worker
// that runs a job shorter than about 100 ms is shown as idle.
func (i *Inspector) Workers(ctx context.Context) ([]WorkerInfo, error) {
	workers, err := query(ctx, i, resque.Store.Workers)
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

// FleetInfo is the state of a whole Resque, as Ruby's Resque.info returns it.
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
func (i *Inspector) Info(ctx context.Context) (FleetInfo, error) {
	info, settings, err := i.info(ctx)
	if err != nil {
		return FleetInfo{}, err
	}
	sizes := make(map[string]int64, len(info.Queues))
	for _, q := range info.Queues {
		sizes[q.Name] = q.Size
	}
	return FleetInfo{
		Pending: info.Pending, Processed: info.Processed, Failed: info.Failed, Expired: info.Expired,
		Queues: len(info.Queues), Workers: info.Workers, Working: info.Working,
		Servers:     []string{settings.Server},
		Environment: cmp.Or(os.Getenv("RAILS_ENV"), os.Getenv("RACK_ENV"), "development"),
		QueueSizes:  sizes,
	}, nil
}

// StatsText returns what resque-web serves as /stats.txt, for monitoring that
// already reads it: lines such as resque.pending=3 and queues.mail=3, queues
// sorted by name, without a newline after the last.
func (i *Inspector) StatsText(ctx context.Context) (string, error) {
	info, _, err := i.info(ctx)
	if err != nil {
		return "", err
	}
	return info.StatsText(), nil
}

func (i *Inspector) info(ctx context.Context) (resque.Info, access.Settings, error) {
	settings, err := i.redis.Settings()
	if err != nil {
		return resque.Info{}, settings, err
	}
	info, err := query(ctx, i, func(s resque.Store, c redis.Conn) (resque.Info, error) {
		return s.Info(c, settings.MultiQueue)
	})
	return info, settings, err
}
