package gateway

import (
	"encoding/json"
	"time"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/leases"
)

// Job is a reserved job.
type Job struct {
	Queue   string
	ID      string
	Lease   string // when its lease ends, in ms; it names this reservation
	Payload []byte // as it is in Redis
	Parsed  payload.Payload
	Now     int64 // Redis's time when it was reserved, in ms
	Attempt int   // which delivery this is; the first is 1
	Tries   int   // how many there are at most; at least 1

	Pool string // for a server with several Redises: from which one it is. The gateway does not read it
}

// Ask is what a consumer asks for.
type Ask struct {
	Queues []string      // in their order; the first that has a job gives it
	TTR    time.Duration // the lease of each job
	Wait   time.Duration // how long to wait for the first job; 0: not at all
	Count  int           // most jobs; 0 is one

	// Over ends the call when it is closed, as the end of the context does; nil: nothing more does. A context that ends with
	// two contexts costs more.
	Over <-chan struct{}
}

// Publication is a job to be published.
type Publication struct {
	Queue string
	Class string          // "": DefaultClass
	Args  json.RawMessage // the JSON list of the arguments; its bytes are kept

	// ID is the id of the job. "": the gateway makes one that tells when the job is due. Chosen says that a
	// client chose it, so that an earlier job may have had it.
	ID     string
	Chosen bool

	Delay     time.Duration // from now; or
	At        time.Time     // when it is due. Zero, or over: now
	TTL       time.Duration // how long it may be started, from now; 0: for ever
	ExpiresAt time.Time     // TTL as a time
	Tries     int           // deliveries; 0 is one
	Meta      map[string]string
	Result    time.Duration // how long its result is kept; 0: it has none
	Unique    *Unique       // nil: it has no lock
	Priority  int           // within its queue, 0 to 2
	Timeout   time.Duration // of a run by a worker; 0: none of its own

	// Most is how long the queue's list may become. 0: no limit.
	Most int
}

// DefaultClass is the class of a job whose publication names none.
const DefaultClass = httpjob.DefaultClass

// Unique is the lock of a unique job.
type Unique struct {
	Key  string        // "": the class and the arguments are the key
	Hold Hold          // "" is UntilDone
	Most time.Duration // how long the lock is held at most, or with UntilElapsed exactly; 0: the default
}

// Hold is how long a unique job holds its lock.
type Hold string

// Until when a unique job holds its lock.
const (
	UntilDone    Hold = "done"  // or failed for good
	UntilStarted Hold = "start" // by a worker
	UntilElapsed Hold = "time"
)

// Ack names a reserved job that has been done, and maybe the lease with which it was given.
type Ack = leases.Ack

// What says what became of the end of a reserved job.
type What = leases.What

// What becomes of the end of a reserved job.
const (
	Acked   = leases.Acked   // the job ended so
	Changed = leases.Changed // it has another lease: another consumer has it
	Back    = leases.Back    // it had gone back to its queue; an acknowledged one ends as done when it is taken again
	Late    = leases.Late    // it had gone back, and was acknowledged before
	Dead    = leases.Dead    // it is filed as failed
	Unknown = leases.Unknown // no job of this id is reserved
)

// Sizes are the numbers of a queue's jobs.
type Sizes struct {
	Queue                 string
	Ready, Reserved, Dead int
	Delayed               int   // as of AsOf. A gateway leaves this to those who count them: it is 0
	AsOf                  int64 // when the delayed jobs were counted, in ms; 0: they were not
	NextDueMs             int64 // when the first of them is due; 0: there is none, or they were not counted
	Paused                bool  // this queue or all of them
	Limited               bool  // daemons sort its jobs into lanes, from which no server takes
	OldestReadyMs         int64 // when the first job of the queue was due, from its id; 0: unknown
	Err                   error // a key of the queue that has another type; its number is 0
}

// State is where a job is.
type State string

const (
	Ready    State = "ready"
	Delayed  State = "delayed"
	Reserved State = "reserved"
	Filed    State = "dead"
)

// Found is a job that was looked for.
type Found struct {
	Job
	State State // "": it was not found
	DueMs int64 // of a delayed job

	Record []byte // of a dead one: the failure record
}

// Page is some jobs of a queue.
type Page struct {
	Jobs []Found
	Next string // for the page behind it; "": there is none
	AsOf int64  // Redis's time, in ms
}

// FailureRecord is a dead letter.
type FailureRecord struct {
	Job
	Error  string
	Failed time.Time // zero: the record has another form of time
}
