package resque

import (
	"strings"
	"time"
)

// DefaultNamespace is the prefix Ruby Resque uses when nobody sets another.
const DefaultNamespace = "resque:"

// Store knows the key names of one namespace and speaks Resque's protocol over
// the connection each call is given. It holds no connection and no state: it is
// a value, safe for concurrent use as long as the connections are not shared.
type Store struct {
	ns       string
	replicas int           // see Replicated; 0: none
	within   time.Duration // how long to wait for them
}

// New returns the Store of a namespace. A missing final colon is added, so
// "resque" and "resque:" name the same keys; an empty namespace is Resque's own.
func New(namespace string) Store {
	if namespace == "" {
		return Store{ns: DefaultNamespace}
	}
	if !strings.HasSuffix(namespace, ":") {
		namespace += ":"
	}
	return Store{ns: namespace}
}

// Namespace returns the key prefix, its colon included.
func (s Store) Namespace() string { return s.ns }

// Ruby's keys.

func (s Store) queues() string                 { return s.ns + "queues" }
func (s Store) queue(name string) string       { return s.ns + "queue:" + name }
func (s Store) workers() string                { return s.ns + "workers" }
func (s Store) worker(id string) string        { return s.ns + "worker:" + id }
func (s Store) started(id string) string       { return s.ns + "worker:" + id + ":started" }
func (s Store) heartbeats() string             { return s.ns + "workers:heartbeat" }
func (s Store) pruneLock() string              { return s.ns + "pruning_dead_workers_in_progress" }
func (s Store) stat(name string) string        { return s.ns + "stat:" + name }
func (s Store) workerStat(n, id string) string { return s.ns + "stat:" + n + ":" + id }
func (s Store) failed() string                 { return s.ns + "failed" }
func (s Store) failedQueues() string           { return s.ns + "failed_queues" }
func (s Store) pauseAll() string               { return s.ns + "pause-all-workers" }
func (s Store) delayed() string                { return s.ns + "delayed_queue_schedule" }
func (s Store) bucket(second string) string    { return s.ns + "delayed:" + second }
func (s Store) timestamps(item string) string  { return s.ns + "timestamps:" + item }

// list is a failure list by its bare name: "failed", or "<queue>_failed".
func (s Store) list(name string) string { return s.ns + name }

// Our keys. All live under go: so that no Ruby tool takes them for its own.

func (s Store) processes() string        { return s.ns + "go:processes" }
func (s Store) process(p string) string  { return s.ns + "go:process:" + p }
func (s Store) inflight(p string) string { return s.ns + "go:inflight:" + p }
func (s Store) pulse() string            { return s.ns + "go:pulse" }
func (s Store) recovered() string        { return s.ns + "go:recovered" }
func (s Store) reaped(p string) string   { return s.ns + "go:reaped:" + p }
func (s Store) kept(queue string) string { return s.ns + "go:kept:" + queue }
func (s Store) schedule() string         { return s.ns + "go:schedule" }
func (s Store) precise() string          { return s.ns + "go:precise" }
func (s Store) leased() string           { return s.ns + "go:leased" }
func (s Store) leases() string           { return s.ns + "go:leases" }
func (s Store) probe(p string) string    { return s.ns + "go:probe:" + p }
