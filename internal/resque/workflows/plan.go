package workflows

import (
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// Plan is a workflow as it starts, or a piece that is added to one: what internal/workflow compiles and start.lua or
// add.lua writes.
type Plan struct {
	ID      string
	Name    string // "": none
	Letters []byte
	Fields  []any            // of the hash, names and texts in turns: j<n>, p<n>, s<n>, k<n>, n:<name>, rest, result, …
	Jobs    []Job            // the steps that are sent first, in their order
	Hashes  []resque.NewHash // documents of steps that keep a result

	Deadline time.Duration // 0: none
	Keep     time.Duration // how long it is kept after its end; 0: an hour if it is done, else seven days
	Lock     string        // the name under which it is unique; "": none
	Meta     []byte        // JSON of its metadata; nil: none

	// Open is set for a batch, and for a plan that is added in pieces. Join OpenJoin has one left more until Close:
	// its field j<OpenJoin> counts that one.
	Open     bool
	OpenJoin int

	Members int // of a piece: how many members of the open join it brings. Add counts them there
}

// Job is the job of a step.
type Job struct {
	Step     int
	Queue    string
	Payload  []byte
	At       time.Time     // zero: now
	Delay    time.Duration // from the start of the workflow, if At is zero
	Priority int           // 0: none
}

// Arrival is the end of a step's job.
type Arrival struct {
	Workflow string
	Step     int
	Letter   byte   // Done, Failed or NotRun
	Place    string // the payload's field
	Value    []byte // the result of a done step ('+' before the list of several values), the failure of a failed one, as JSON; nil: none
	Again    string // of a failed step, or one that was not run: the template that sends it once more
	Job      resque.Reserved
	Halted   bool // this process takes the workflow for a halted one

	// Trace is the traceparent of the run, for the steps that follow; Untraced: the workflow is traced and this run is not; "": neither.
	Trace string
}

// Untraced is the Trace of a run that is in no trace, in a workflow of which others may be.
const Untraced = "-"
