package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/resque"
)

// DrainReport is what goworker's Client.DrainToResque did, or with DrainDryRun would do.
type DrainReport struct {
	Dead     []string // the processes that were found dead
	Requeued int      // jobs of dead processes that went back to their queues or lanes
	Failed   int      // jobs of dead processes that became failures, see WorkerSettings.RecoverLimit

	Lanes   int // jobs that went from lanes to the heads of their queues
	Groups  int // jobs that were made of groups of aggregated jobs
	Delayed int // delayed jobs that went to resque-scheduler's schedule
	Queued  int // delayed jobs that went to their queues: those that were due; with DrainNow all
	Kept    int // payloads that were kept and went to their queues
	Own     int // jobs of MessagePack queues that went, as JSON, to the queues of the same names that Ruby reads

	Locks   int // locks of unique jobs that were released
	Removed int // other keys that were removed; none held a job

	// Dropped says, by the name of a field, how many of the Delayed jobs lost it, because
	// resque-scheduler keeps class, arguments and queue only: attempt, expires_at, id, unique….
	// Ignored says how many of the other jobs still have it, and Ruby passes over it.
	Dropped, Ignored map[string]int

	Left  []DrainLeft // what stays in goworker's keys
	Notes []string    // what Ruby does not do, each a sentence with what to do about it

	Alive     []string // the processes that hold leases; then there is an ErrProcessesAlive too
	StoppedAt string   // what the drain was doing when it ended with an error
}

// DrainLeft is something that a drain left in a key of goworker.
type DrainLeft struct {
	Key  string // with the namespace; of shards, with the shard before it
	Jobs int    // 0: it holds none, or they were not counted
	Why  string // and what to do about it
}

// String says in lines what was done, what delayed jobs lost, and what is left.
func (r DrainReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dead processes: %d; their jobs back: %d, filed as failures: %d\n", len(r.Dead), r.Requeued, r.Failed)
	fmt.Fprintf(&b, "from lanes to their queues: %d\n", r.Lanes)
	if r.Groups > 0 {
		fmt.Fprintf(&b, "from groups to their queues: %d\n", r.Groups)
	}
	fmt.Fprintf(&b, "delayed, to resque-scheduler: %d; to their queues: %d\n", r.Delayed, r.Queued)
	fmt.Fprintf(&b, "payloads that were kept, to their queues: %d\n", r.Kept)
	if r.Own > 0 {
		fmt.Fprintf(&b, "jobs of MessagePack queues, as JSON to where Ruby reads: %d\n", r.Own)
	}
	fmt.Fprintf(&b, "locks released: %d; other keys removed: %d\n", r.Locks, r.Removed)
	for _, name := range slices.Sorted(maps.Keys(r.Dropped)) {
		fmt.Fprintf(&b, "lost %s: %s\n", name, resque.Plural(r.Dropped[name], "delayed job"))
	}
	for _, l := range r.Left {
		fmt.Fprintf(&b, "left %s: %s: %s\n", l.Key, resque.Plural(l.Jobs, "job"), l.Why)
	}
	for _, process := range r.Alive {
		fmt.Fprintf(&b, "alive: %s\n", process)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}
