package outcome

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Job is a job that was taken, as features know it. A worker makes it, or a reaper for a job of a
// dead process, or an HTTP server for a leased one. Its class need not be registered here. It
// belongs to one goroutine at a time and runs once.
//
// Policy.Running and the goroutines that use Deps.Running read a job that a worker has. They may read
// what its taker has set: all down to StartedAt. Once Opened returns true they may also read Parsed,
// Name, Alias, Class, ID, Args and UnknownClass. They may call Cancel and Opened. They change nothing.
type Job struct {
	resque.Reserved // ticket, queue, lane, bytes

	// Set by the taker: a worker's process, a reaper, a server. A leased job has the ticket resque.LeasedTicket.
	Place      string // of a leased job, under which it is kept; "": a process has it
	Process    string // whose in-flight record holds it
	Worker     string // the worker's id, as Resque's tools show it
	Slot       int    // the worker's number
	Dead       bool   // a reaper ends it: its process is dead
	Found      int    // in how many dead processes it was with a worker
	ReservedAt time.Time
	StartedAt  time.Time // when a worker took it; by this machine's clock

	// Set by Run and End, which open the job.
	Parsed  payload.Payload   // zero for bytes that are no job
	Name    string            // the class; of an ActiveJob its own class, not the wrapper's
	Alias   string            // of the class, which the payload has in place of Name; "": it has Name
	Class   *Class            // nil: not registered here
	ID      string            // "": the producer gave none
	Args    []json.RawMessage // of an ActiveJob its own, with ActiveJob's encoding taken off
	Attempt int               // which run this is; the first is 1
	Err     error             // why it cannot run: its size, its form, its class

	UnknownClass bool // Err is that the class is not registered here

	// Handler is what runs: at first the class's. A policy may put another in its place by Wrap. It
	// is opaque to this package.
	Handler any

	// Fields are what policies add to the payload of the next run, whichever policy decides that there
	// is one. They are set by Admit, Wrap or Decide.
	Fields []payload.Field

	// Reroute, which a policy may set in Admit, changes the decision to run the job again before its next
	// run is built: where that goes, and how this run counts.
	Reroute func(j *Job, o *Outcome)

	Started bool // the handler was called; of a dead process's job: it was handed out
	Value   any  // the handler's result beside a nil error
	Several bool // Value is the list of several results
	Keep    bool // set by a policy: Value becomes Outcome.Result

	// View is what the taker makes of the job for the program.
	View any

	// Trace is the name under which the steps that follow this one find its run in the program's traces. It is set while the handler
	// runs; "": none.
	Trace string

	opened   atomic.Bool // set when the job was read
	policies []Policy
	running  atomic.Pointer[[]Policy] // the policies while the handler runs
	context  Context                  // of the handler
	set      *Set                     // that performs it
	joined   []joined                 // guarded by the context's mutex until the handler has returned
	shown    context.Context          // nil: none. Set while the handler runs
}

// Text returns the payload as JSON: what an item of a MessagePack queue became, and else its bytes. Run and End must have
// opened the job.
func (j *Job) Text() []byte {
	if j.Parsed.Text != nil {
		return j.Parsed.Text
	}
	return j.Payload
}

// Opened reports whether the job's bytes were read. Any goroutine may call it.
func (j *Job) Opened() bool { return j.opened.Load() }

// Called is the name of the class in the payload: the class's own, or an alias.
func (j *Job) Called() string {
	if j.Alias != "" {
		return j.Alias
	}
	return j.Name
}

// Readable reports whether the bytes are a job.
func (j *Job) Readable() bool { return j.Name != "" }
