package inspect

import (
	"time"
)

// Sample is what a Resque looks like at one time: what the command's status shows. Two of them give rates.
//
// It costs at most three round trips and 25 commands, however many workers, jobs and queues there are. So not everything is
// read. Each number says whether it is exact, a bound, or unknown. On a Redis where only Ruby works, ages are exact where payloads
// say them, and the others and the rates need a second Sample: see SampleAfter.
type Sample struct {
	At        time.Time // by Redis's clock; of shards by that of the first
	Namespace string    // with its colon
	Servers   []SampleServer

	Processed Count // jobs ever run, failed ones included
	Failed    Count // jobs that ever failed
	Waiting   Count // in all queues that were looked at, lanes included
	Delayed   Count // in both schedules
	Late      Age   // how late the first delayed job is; 0: none is
	Retrying  Count // delayed jobs of goworker that failed before
	Failures  Count // in the lists of failures
	Leased    Count // jobs that clients hold over HTTP

	// Queues are sorted by their names. There are at most 1,000 of them; NextQueues is where the next ones begin, for
	// SamplePage, "" if there are no more.
	Queues     []SampleQueue
	QueueCount Count // all queues
	NextQueues string

	Workers   SampleWorkers
	Processes []SampleProcess // of goworker, sorted by id: at most 500, those whose leases end first
	Servings  []SampleTaker   // servers that take jobs for clients, sorted by id
	Stuck     []StuckJob      // jobs that processes report as past their time limit

	// PausedAll says that the key pause-all-workers is set, which every worker of every program obeys.
	PausedAll bool

	// Refused says which keys Redis refused to read, and why. What depends on them is unknown.
	Refused []error
}

// SampleServer is one Redis as a Sample saw it.
type SampleServer struct {
	Name        string // the URI, with *** for its password
	Version     string // of Redis, or what it says in place of it
	Role        string // "master" or "slave", as Redis calls them
	Policy      string // what Redis does when its memory is full: "noeviction", "allkeys-lru" …
	Persistence string // "aof" if it writes each change to a file
	Memory      int64  // bytes in use
	MaxMemory   int64  // bytes; 0: no limit
	Clients     int64  // connections
	RoundTrip   time.Duration
}

// SampleQueue is a queue as a Sample saw it.
type SampleQueue struct {
	Name    string
	Shard   string // of several Redises, "" if it is on more than one
	Waiting Count  // jobs in it and in its lanes
	InLanes Count  // of them those in lanes, because of limits or turns
	Oldest  Age    // how long the job at its head has waited
	Paused  bool

	// Who takes from it: workers of goworker processes, workers of other programs, and servers that take jobs
	// for clients.
	Go, Other, HTTP Count

	// Counted says that everything that takes from the queue says how much, and Pushed and Taken are how many
	// jobs ever came and went. Else these are zero.
	Counted       bool
	Pushed, Taken int64

	ends  map[string]endsOf // by the mark of the shard
	rates *depthRates
}

// SampleWorkers counts the registered workers of all programs.
type SampleWorkers struct {
	All    Count
	Go     Count // of goworker processes
	Other  Count // of other programs
	Dead   Count // of Other: those whose last heartbeat is more than 300 s old, as Ruby counts. They serve no queue and are not busy
	Busy   Count // that have a job in hand. Where only some workers were looked at, processes say it, at most ten seconds late
	Looked int64 // how many of them were looked at for Busy, without the dead ones
}

// SampleProcess is a goworker process as a Sample saw it.
type SampleProcess struct {
	ProcessInfo
	Busy Count // workers that have a job
}

// SampleTaker is a server that takes jobs for clients.
type SampleTaker struct {
	ID      string
	Host    string
	PID     int
	Version string
	Address string
	Since   time.Time
	Queues  []string // for which requests wait
	Waiting int      // requests that wait for a job
	Shard   string
}

// StuckJob is a job whose handler runs on after its time limit.
type StuckJob struct {
	Process string
	Worker  string
	Queue   string
	Class   string
	ID      string
	For     time.Duration // since it began
	Limit   time.Duration // of its class; 0: not known
	Stack   string        // where its handler is, if the process says so
}

// SampleOption is how a Sample is taken.
type SampleOption func(*sampleOptions)

type sampleOptions struct {
	before *Sample
	cursor string
	queues []string
	shards bool // it is one of several
}

// SampleAfter says which Sample was taken before. A job that it saw at the head of a queue, and that is still there, has
// waited since then at least. It also lets Rates say how many jobs came to a queue and went, where nothing counts
// them.
func SampleAfter(before Sample) SampleOption { return func(o *sampleOptions) { o.before = &before } }

// SamplePage continues with the queues behind those of the Sample whose NextQueues this is.
func SamplePage(next string) SampleOption { return func(o *sampleOptions) { o.cursor = next } }

// SampleQueues looks at these queues only.
func SampleQueues(names ...string) SampleOption { return func(o *sampleOptions) { o.queues = names } }

// Rates are what happened between two Samples.
type Rates struct {
	For       time.Duration // between the two
	Processed Rate
	Failed    Rate
	Queues    map[string]QueueRates
}

// QueueRates are those of one queue.
type QueueRates struct {
	In, Out Rate
	Growth  Rate // of the jobs that wait, below zero if they become fewer; exact also where In and Out are not known

	// EmptyIn is when no job will wait if all goes on like this. Never says that this does not come: no fewer jobs wait. Both are zero
	// for a queue that is empty or whose jobs go within a second, and where nothing is known.
	EmptyIn time.Duration
	Never   bool
}

// endsOf are the ends of a queue in one Redis: by them the next Sample knows what came and went.
type endsOf struct {
	head   string    // the job at the head, or a digest of it
	since  time.Time // since when samples have seen it there
	tail   []byte    // the last job; nil: it is large
	length int64
	pushed int64 // jobs that came since the Sample before; -1: nobody knows
}

// depthRates are what the keeper of the fleet says of a queue: jobs a second, negative: not known.
type depthRates struct{ in, out float64 }
