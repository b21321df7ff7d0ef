package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
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

	// Dead says that its last heartbeat is more than 300 s old by Redis's clock, as Ruby counts. Only WorkersPage and Worker say it.
	Dead bool

	Shard string // of several Redises, the one where it is registered
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
//
// Over shards a goworker process registers all of its workers with each of them, so they are on the list
// once for each.
func (i *Inspector) Workers(ctx context.Context) ([]WorkerInfo, error) {
	if i.several() {
		all, err := over(i, func(a, b []WorkerInfo) []WorkerInfo { return append(a, b...) }, func(one *Inspector) ([]WorkerInfo, error) {
			workers, err := one.Workers(ctx)
			for n := range workers {
				workers[n].Shard = one.name()
			}
			return workers, err
		})
		slices.SortStableFunc(all, func(a, b WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
		return all, err
	}
	workers, err := query(ctx, i, resque.Store.Workers)
	var infos []WorkerInfo
	for _, w := range workers {
		infos = append(infos, workerInfo(w))
	}
	return infos, err
}

func workerInfo(w resque.Worker) WorkerInfo {
	info := WorkerInfo{
		ID: w.ID, Host: w.Host, PID: w.PID, Queues: w.Queues,
		Started: w.Started, Heartbeat: w.Heartbeat,
		Processed: w.Processed, Failed: w.Failed,
	}
	if j := w.Working; j != nil {
		info.Working = &WorkingInfo{Queue: j.Queue, Class: j.Class, RunAt: j.RunAt, Payload: j.Payload}
	}
	return info
}

// FleetInfo is the state of a whole Resque, as Ruby's Resque.info returns it.
type FleetInfo struct {
	Pending   int64 // jobs waiting in all queues
	Processed int64 // jobs ever run, failed ones included
	Failed    int64 // failures in the list now; see FailureList
	Expired   int64 // jobs ever dropped because their time was over; see ExpireAfter
	Stalled   int64 // workflows that stand still because jobs of theirs are lost
	Queues    int
	Workers   int
	Working   int      // workers that have a job in hand
	Servers   []string // the Redis URI, with *** for its password

	Environment string // RAILS_ENV or RACK_ENV or "development"

	QueueSizes map[string]int64 // jobs waiting, by queue
}

// Fleet counts queues, jobs, workers and failures.
func (i *Inspector) Fleet(ctx context.Context) (FleetInfo, error) {
	if i.several() {
		return over(i, mergeInfo, func(one *Inspector) (FleetInfo, error) { return one.Fleet(ctx) })
	}
	info, settings, err := i.info(ctx)
	if err != nil {
		return FleetInfo{}, err
	}
	stalled, err := query(ctx, i, func(s resque.Store, c redis.Conn) (int64, error) { return workflows.New(s).Stalled(c) })
	if err != nil {
		return FleetInfo{}, err
	}
	sizes := make(map[string]int64, len(info.Queues))
	for _, q := range info.Queues {
		sizes[q.Name] = q.Size
	}
	return FleetInfo{
		Pending: info.Pending, Processed: info.Processed, Failed: info.Failed, Expired: info.Expired,
		Stalled: stalled, Queues: len(info.Queues), Workers: info.Workers, Working: info.Working,
		Servers:     []string{settings.Server},
		Environment: cmp.Or(os.Getenv("RAILS_ENV"), os.Getenv("RACK_ENV"), "development"),
		QueueSizes:  sizes,
	}, nil
}

// StatsText returns what resque-web serves as /stats.txt, for monitoring that
// already reads it: lines such as resque.pending=3 and queues.mail=3, queues
// sorted by name, without a newline after the last.
func (i *Inspector) StatsText(ctx context.Context) (string, error) {
	if i.several() {
		sum, err := i.Fleet(ctx)
		info := resque.Info{Pending: sum.Pending, Processed: sum.Processed, Failed: sum.Failed, Workers: sum.Workers, Working: sum.Working}
		for _, queue := range slices.Sorted(maps.Keys(sum.QueueSizes)) {
			info.Queues = append(info.Queues, resque.QueueInfo{Name: queue, Size: sum.QueueSizes[queue]})
		}
		return info.StatsText(), err
	}
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

// ProcessInfo describes a goworker process of the fleet. Ruby's workers have no such record; see Workers.
type ProcessInfo struct {
	ID          string // host:pid:random, new for each start and each lost lease
	Name        string // WorkerSettings.Name, by default that of its program; "": its release has none
	Host        string
	PID         int
	Version     string // of goworker
	AppVersion  string // of its program, as its setting AppVersion has it; "": it has none
	Queues      string // the list it was given
	Concurrency int    // its workers
	Since       time.Time

	// Control is which commands it obeys, its setting WorkerSettings.Control: "off", "on" or "full". "": its release knows no commands.
	Control string

	Jobs int64 // that it has reserved: those that run, and some that are about to

	// LeaseAge is how long ago it renewed its lease, by Redis's clock. A live process renews it every 2 s. After
	// 8 s without it counts as dead, and others bring its jobs back.
	LeaseAge time.Duration
	Dead     bool // it was found dead, and its jobs are being brought back

	Vitals Vitals
	Stuck  []StuckJob // the first twenty that run past their time limits

	Bridges []Bridge // from other libraries, of package delayedbridge; the first twenty

	Shard string // of several Redises, the one where it has this lease
}

// Processes returns the goworker processes of the fleet, sorted by id. Those of benmanns/goworker and of Ruby
// are among Workers only.
func (i *Inspector) Processes(ctx context.Context) ([]ProcessInfo, error) {
	if i.several() {
		return over(i, func(a, b []ProcessInfo) []ProcessInfo { return append(a, b...) }, func(one *Inspector) ([]ProcessInfo, error) {
			all, err := one.Processes(ctx)
			for n := range all {
				all[n].Shard = one.name()
			}
			return all, err
		})
	}
	var now time.Time
	live, err := query(ctx, i, func(s resque.Store, c redis.Conn) (live []resque.LiveProcess, err error) {
		live, now, err = s.LiveProcesses(c)
		return live, err
	})
	infos := make([]ProcessInfo, 0, len(live))
	for _, p := range live {
		infos = append(infos, processInfo(p, now))
	}
	return infos, err
}

// processInfo is what is known of a process at a time.
func processInfo(p resque.LiveProcess, now time.Time) ProcessInfo {
	info := ProcessInfo{
		ID: p.ID, Name: p.Name, Host: p.Host, Control: p.Control, PID: p.PID, Version: p.Version, AppVersion: p.App, Queues: p.Queues, Concurrency: p.Concurrency,
		Since: p.Started, Jobs: p.Jobs, Dead: p.Dead, LeaseAge: max(0, now.Sub(p.Ends.Add(-resque.LeasePeriod))),
	}
	if p.Dead {
		info.LeaseAge = max(0, now.Sub(p.Ends)) + resque.LeasePeriod
	}
	info.Vitals, info.Stuck = vitals(p, now)
	info.Bridges = bridges(p.Bridges, now)
	return info
}

// Bridge is a queue of another library from which a process takes tasks. The process says so each ten seconds.
type Bridge struct {
	Queue   string    // of that library: "delayed:mail"
	To      string    // the queue where the jobs go
	At      time.Time // when it looked, by Redis's clock
	Waiting int64     // tasks that waited
	Taken   int64     // by the bridges of all processes, since Redis has the number

	// Oldest is how long the first task has waited. It is not known while workers of that library take from the queue too, which do not
	// say how much, and ten minutes after that.
	Oldest Age
}

// bridges returns what a record says of bridges.
func bridges(from []resque.Bridge, now time.Time) (all []Bridge) {
	for _, b := range from {
		to := Bridge{Queue: b.Queue, To: b.To, At: resque.Time(b.At), Waiting: b.Waiting, Taken: b.Taken}
		switch {
		case b.Method == resque.AgeCounted && b.Oldest > 0:
			to.Oldest = Age{Method: AgeCounted, For: max(0, now.Sub(resque.Time(b.Oldest)))}
		case b.Method == resque.AgeSeen && b.Oldest > 0:
			to.Oldest = Age{Method: AgeSeen, For: max(0, now.Sub(resque.Time(b.Oldest)))}
		case b.Method == resque.AgeCounted && b.Waiting == 0:
			to.Oldest.Method = AgeCounted
		}
		all = append(all, to)
	}
	return all
}
