package metrics

import "github.com/prometheus/client_golang/prometheus"

// Kind is the type of a metric.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Scope is where a metric is.
type Scope string

// The scopes.
const (
	Process Scope = "process" // of each process of goworker
	OfFleet Scope = "fleet"   // of all processes and workers on one Redis: by Fleet or by an Exporter
)

// Row describes a metric. docs/metrics.md, the alert rules and the dashboard are made from, or compared with, the rows.
type Row struct {
	Name   string
	Kind   Kind
	Scope  Scope
	Labels []string
	Help   string

	desc *prometheus.Desc
}

// table collects the rows as they are made.
var table []*Row

// Table returns all metrics.
func Table() []Row {
	all := make([]Row, len(table))
	for n, r := range table {
		all[n] = *r
	}
	return all
}

func row(scope Scope, kind Kind, name, help string, labels ...string) *Row {
	r := &Row{Name: "goworker_" + name, Kind: kind, Scope: scope, Labels: labels, Help: help}
	r.desc = prometheus.NewDesc(r.Name, help, labels, nil)
	table = append(table, r)
	return r
}

// is a value of a row.
func (r *Row) is(value float64, labels ...string) prometheus.Metric {
	kind := prometheus.GaugeValue
	if r.Kind == Counter {
		kind = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(r.desc, kind, value, labels...)
}

// What each process says of itself.
var (
	jobs      = row(Process, Counter, "jobs_total", "Jobs that this process ended, by what became of them.", "queue", "class", "outcome")
	durations = row(Process, Histogram, "job_duration_seconds", "How long handlers ran.", "queue", "class")
	waits     = row(Process, Histogram, "job_wait_seconds", "How long jobs had waited when they began, those whose payloads say when they were enqueued.", "queue")

	running = row(Process, Gauge, "jobs_running", "Jobs that run now.")
	workers = row(Process, Gauge, "workers", "Workers, by whether they have a job.", "state")
	most    = row(Process, Gauge, "workers_limit", "How many jobs may run at a time.")
	stuck   = row(Process, Gauge, "stuck_jobs", "Jobs that run past their time limit.")

	enqueued   = row(Process, Counter, "enqueued_jobs_total", "Jobs that this process enqueued, by what became of the call.", "queue", "class", "result")
	recovered  = row(Process, Counter, "recovered_jobs_total", "Jobs of dead processes that this process brought back or ended.")
	poisoned   = row(Process, Counter, "poisoned_jobs_total", "Jobs that this process ended as failed because their processes died too often.")
	duplicates = row(Process, Counter, "duplicate_runs_total", "Runs of jobs that other processes had taken over before the run was committed.")
	leaseLost  = row(Process, Counter, "lease_losses_total", "How often other processes found this one dead, and took its jobs.")
	steps      = row(Process, Counter, "workflow_steps_total", "Steps of workflows that this process ended, by what became of them.", "outcome")

	exchanges    = row(Process, Histogram, "exchange_duration_seconds", "How long Redis took to answer an exchange, in which jobs are taken and committed.")
	exchanged    = row(Process, Histogram, "exchange_jobs", "Jobs that an exchange took and committed.")
	lastExchange = row(Process, Gauge, "last_exchange_timestamp_seconds", "When Redis answered the last exchange; of shards the one that is longest ago.")
	renewed      = row(Process, Gauge, "lease_renewed_timestamp_seconds", "When the lease of this process was last renewed; of shards the one that is longest ago.")
	started      = row(Process, Gauge, "start_timestamp_seconds", "When this process began to count.")

	redisErrors    = row(Process, Counter, "redis_errors_total", "Errors of Redis and of the way to it, by their kind.", "kind")
	reconnects     = row(Process, Counter, "reconnects_total", "How often a connection was made again.", "connection")
	outages        = row(Process, Counter, "redis_outages_total", "Outages of Redis, the present one too.")
	outageSeconds  = row(Process, Counter, "redis_outage_seconds_total", "How long outages of Redis took, the present one so far.")
	eventsDropped  = row(Process, Counter, "events_dropped_total", "Packs of events that listeners miss.")
	historyDropped = row(Process, Counter, "history_dropped_total", "Packs of counts that the history of the fleet lacks.")
	deliveries     = row(Process, Counter, "webhook_deliveries_total", "Deliveries of webhooks: delivered, tries that failed, and those that were given up.", "webhook", "result")
	restarts       = row(Process, Counter, "part_restarts_total", "How often a part was started again in this run.", "part")
	partsDown      = row(Process, Gauge, "parts_down", "Parts that have failed and do not run.")
	tracking       = row(Process, Gauge, "tracking", "1 while Redis notifies the process of changed queues; else it polls. Of shards: all do.")
	paused         = row(Process, Gauge, "paused", "1 while this process takes no jobs for this reason.", "scope")
	build          = row(Process, Gauge, "build_info", "1, with the versions of goworker and Go.", "version", "goversion")
)

// What one process says of all.
var (
	queueJobs    = row(OfFleet, Gauge, "queue_jobs", "Jobs in the queue, by whether a limit holds them back.", "queue", "state")
	queueOldest  = row(OfFleet, Gauge, "queue_oldest_seconds", "How long the first job of the queue has been due.", "queue", "method")
	queuePaused  = row(OfFleet, Gauge, "queue_paused", "1 while the queue is paused.", "queue")
	queueWorkers = row(OfFleet, Gauge, "queue_workers", "Who takes from the queue: workers of goworker, of other programs, and requests over HTTP.", "queue", "kind")
	queuePushed  = row(OfFleet, Counter, "queue_pushed_total", "Jobs that ever came to the queue, where all that take from it count.", "queue")
	queueTaken   = row(OfFleet, Counter, "queue_taken_total", "Jobs that were ever taken from the queue, where all that take from it count.", "queue")
	queueCount   = row(OfFleet, Gauge, "fleet_queues", "Queues; the first thousand have metrics.")

	delayed     = row(OfFleet, Gauge, "delayed_jobs", "Delayed jobs; retrying are those that failed before, and are in all too.", "schedule")
	delayedLate = row(OfFleet, Gauge, "delayed_late_seconds", "How late the first delayed job is.")
	failedJobs  = row(OfFleet, Gauge, "failed_jobs", "Records in the lists of failures.")
	leasedJobs  = row(OfFleet, Gauge, "leased_jobs", "Jobs that clients hold over HTTP.")

	fleetProcesses = row(OfFleet, Gauge, "fleet_processes", "Processes of goworker that hold a lease, and servers that take jobs over HTTP.", "kind")
	fleetWorkers   = row(OfFleet, Gauge, "fleet_workers", "Registered workers, of goworker and of other programs; dead are those without a heartbeat for five minutes.", "kind")
	fleetBusy      = row(OfFleet, Gauge, "fleet_workers_busy", "Workers that have a job, of those that were looked at.")
	fleetLooked    = row(OfFleet, Gauge, "fleet_workers_looked", "How many workers were looked at for that.")
	fleetStuck     = row(OfFleet, Gauge, "fleet_stuck_jobs", "Jobs that processes report as past their time limit.")
	notExchanging  = row(OfFleet, Gauge, "fleet_not_exchanging_processes", "Processes that have idle workers while jobs wait for them, and have not asked Redis for jobs for half a minute.")
	pausedAll      = row(OfFleet, Gauge, "fleet_paused", "1 while a key pauses all workers of all programs.")
	processed      = row(OfFleet, Counter, "processed_total", "Jobs ever run by all programs, failed ones too.")
	failed         = row(OfFleet, Counter, "failed_total", "Jobs that ever failed in all programs.")
	lookSeconds    = row(OfFleet, Gauge, "fleet_look_seconds", "How long the look took from which these numbers are.")
	lookAge        = row(OfFleet, Gauge, "fleet_look_age_seconds", "How old that look is.")

	limitRunning = row(OfFleet, Gauge, "limit_running", "Jobs that hold a slot of a limit.", "limit")
	limitMax     = row(OfFleet, Gauge, "limit_max", "How many jobs of a limit may run; of a rate there is none.", "limit")
	limitWaiting = row(OfFleet, Gauge, "limit_waiting", "Jobs that wait in lanes of a limit.", "limit")
	scheduleTick = row(OfFleet, Gauge, "schedule_last_tick_timestamp_seconds", "Up to when the ticks of a recurring schedule are done.", "schedule")
	scheduleNext = row(OfFleet, Gauge, "schedule_next_tick_timestamp_seconds", "When a recurring schedule ticks next.", "schedule")
	workflowsAll = row(OfFleet, Gauge, "workflows", "Workflows: open are those that go on or have failed and are kept, stalled those that have lost steps.", "state")

	redisUp        = row(OfFleet, Gauge, "redis_up", "1 if Redis answered the last look.")
	redisMemory    = row(OfFleet, Gauge, "redis_memory_bytes", "Memory that Redis uses; of shards all together.")
	redisMaxMemory = row(OfFleet, Gauge, "redis_max_memory_bytes", "Memory that Redis may use; 0: it has no limit. Of shards all together.")
	redisClients   = row(OfFleet, Gauge, "redis_clients", "Connections of Redis; of shards the most.")
	redisRTT       = row(OfFleet, Gauge, "redis_round_trip_seconds", "How long the slowest Redis took for a round trip of the look.")
	redisEvicts    = row(OfFleet, Gauge, "redis_evicts", "1 if a Redis deletes keys when its memory is full.")
)
