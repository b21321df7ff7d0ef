package resque

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/queues"
)

// DefaultNamespace is the prefix that Ruby Resque uses by default.
const DefaultNamespace = "resque:"

// Store knows the key names of one namespace and speaks Resque's protocol over
// the connection that each call is given. It holds no connection, and no state but texts that it
// made before: it is a value, safe for concurrent use as long as each connection has one user.
type Store struct {
	ns       string
	replicas int           // see Replicated; 0: none
	within   time.Duration // how long to wait for them

	// ofExchange are the keys of the process that exchanged last. They save the poller their texts with each exchange.
	ofExchange *atomic.Pointer[exchangeKeys]

	ofLimits *[leavingMost]atomic.Pointer[leaving] // for LeaveLane
}

// New returns the Store of a namespace. A missing final colon is added, so
// "resque" and "resque:" name the same keys; an empty namespace is Resque's own.
func New(namespace string) Store {
	switch {
	case namespace == "":
		namespace = DefaultNamespace
	case !strings.HasSuffix(namespace, ":"):
		namespace += ":"
	}
	return Store{ns: namespace, ofExchange: new(atomic.Pointer[exchangeKeys]), ofLimits: new([leavingMost]atomic.Pointer[leaving])}
}

// Namespace returns the key prefix, its colon included.
func (s Store) Namespace() string { return s.ns }

// KeyOfQueues is the set of queues, in which Ruby's workers look for those that a pattern means.
func (s Store) KeyOfQueues() string { return s.ns + "queues" }

// KeyOfQueue is the list of a queue's jobs. Those of goworker's own queues lie where no Ruby worker looks.
func (s Store) KeyOfQueue(name string) string {
	if own, ok := strings.CutPrefix(name, queues.MessagePack); ok {
		return s.ownQueue(own)
	}
	return s.KeyOfRubys(name)
}

// KeyOfRubys is the list of a queue where Ruby reads. For all queues but goworker's own it is KeyOfQueue.
func (s Store) KeyOfRubys(name string) string { return s.ns + "queue:" + name }

// KeyOfNames is the set that has the name of a queue.
func (s Store) KeyOfNames(queue string) string {
	if queues.IsOwn(queue) {
		return s.ownQueues()
	}
	return s.KeyOfQueues()
}

// QueueOf returns the queue whose list a key is.
func (s Store) QueueOf(key string) (name string, ok bool) {
	if name, ok = strings.CutPrefix(key, s.KeyOfRubys("")); ok {
		return name, true
	}
	if name, ok = strings.CutPrefix(key, s.ownQueue("")); ok {
		return queues.MessagePack + name, true
	}
	return "", false
}

// KeyOfFailures is a failure list by its bare name: FailedList, or one of FailureListOf.
func (s Store) KeyOfFailures(list string) string { return s.ns + list }

// KeyOfFailureLists is the set of failure lists where each queue has its own.
func (s Store) KeyOfFailureLists() string { return s.ns + "failed_queues" }

// KeyOfSeconds is resque-scheduler's set of the seconds that have delayed jobs.
func (s Store) KeyOfSeconds() string { return s.ns + "delayed_queue_schedule" }

// KeyOfSecond is the list of the jobs that are delayed to a second.
func (s Store) KeyOfSecond(second string) string { return s.ns + "delayed:" + second }

// KeyOfJobSeconds is the set of the seconds that a job is delayed to.
func (s Store) KeyOfJobSeconds(item string) string { return s.ns + "timestamps:" + item }

// KeyOfSchedule is our own schedule of delayed jobs.
func (s Store) KeyOfSchedule() string { return s.ns + "go:schedule" }

// KeyOfHints is the set of hints to the milliseconds of delayed jobs.
func (s Store) KeyOfHints() string { return s.ns + "go:precise" }

// KeyOfInFlight is the record of the jobs that a process has reserved.
func (s Store) KeyOfInFlight(process string) string { return s.inflight(process) }

// KeyOfProcesses is the set of the processes of daemons: process to when its lease ends.
func (s Store) KeyOfProcesses() string { return s.processes() }

// Other keys of Ruby.

func (s Store) workers() string                { return s.ns + "workers" }
func (s Store) worker(id string) string        { return s.ns + "worker:" + id }
func (s Store) started(id string) string       { return s.ns + "worker:" + id + ":started" }
func (s Store) heartbeats() string             { return s.ns + "workers:heartbeat" }
func (s Store) pruneLock() string              { return s.ns + "pruning_dead_workers_in_progress" }
func (s Store) stat(name string) string        { return s.ns + "stat:" + name }
func (s Store) workerStat(n, id string) string { return s.ns + "stat:" + n + ":" + id }
func (s Store) failed() string                 { return s.ns + "failed" }
func (s Store) pauseAll() string               { return s.ns + "pause-all-workers" }

// Our keys. All are below go:, so that no Ruby tool takes them for its own.

func (s Store) ownQueues() string        { return s.ns + "go:queues" }
func (s Store) ownQueue(n string) string { return s.ns + "go:queue:" + n }
func (s Store) processes() string        { return s.ns + "go:processes" }
func (s Store) process(p string) string  { return s.ns + "go:process:" + p }
func (s Store) inflight(p string) string { return s.ns + "go:inflight:" + p }
func (s Store) pulse() string            { return s.ns + "go:pulse" }
func (s Store) recovered() string        { return s.ns + "go:recovered" }
func (s Store) reaped(p string) string   { return s.ns + "go:reaped:" + p }
func (s Store) kept(queue string) string { return s.ns + "go:kept:" + queue }
func (s Store) probe(p string) string    { return s.ns + "go:probe:" + p }
func (s Store) sentries(c string) string { return s.ns + "go:sentries:" + c }
