// Package outcome decides the outcome of a job, in one place for all jobs: those that a worker has
// run, those of a dead process, and those that go back without a run. The decision is an Outcome,
// which one script commits. Features take part in it by policies: see Feature.
//
// The package needs neither a poller nor Redis.
package outcome

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// State is the full name of what became of a job.
type State uint8

const (
	Done      State = iota
	Failed          // for good: it is filed as failed
	Retried         // it runs again, at At or now: an attempt is used up
	Snoozed         // it runs again, at At or now: no attempt is used up
	Returned        // to the head of its queue or lane, no byte changed: the run does not count
	Passed          // to the tail, no byte changed: for a process that knows its class
	Discarded       // its handler gave it up: it is not filed
	Expired         // its time was over: it was not run
	Cancelled       // it was not run, or cut short, because it was no longer wanted
	Gathered        // it was not run: it is a part of another job now
)

var stateNames = [...]string{"done", "failed", "retried", "snoozed", "returned", "passed", "discarded", "expired", "cancelled", "gathered"}

// States is how many states there are.
const States = len(stateNames)

// String returns the name, such as "done".
func (s State) String() string { return stateNames[s] }

// Over reports whether the job has come to its end: no further run follows.
func (s State) Over() bool {
	switch s {
	case Done, Failed, Discarded, Expired, Cancelled, Gathered:
		return true
	}
	return false
}

// Counts returns what such an end adds to Resque's totals: what ran is processed, what failed has failed.
func (s State) counts() resque.Counts {
	switch s {
	case Failed:
		return resque.CountsFailed
	case Done, Retried, Snoozed, Discarded:
		return resque.CountsDone
	}
	return resque.CountsNothing
}

// Outcome is one decision about one job. It is all that the poller and the commit know of it.
type Outcome struct {
	State     State
	Err       error           // why, unless Done
	Result    json.RawMessage // of the handler; only where a policy set Job.Keep
	ResultErr error           // why the Result cannot be encoded
	At        time.Time       // of Retried and Snoozed, by Redis's clock; zero or past: now
	Fields    []payload.Field // of policies, for the payload of the next run
	Next      Next            // where the job goes; Nowhere if its state is Over
	Effects   []resque.Effect // written as one with the end, in any order; some are soft
	Started   bool            // the handler was called; of a dead process's job: it was handed out
	Ran       time.Duration   // from when a worker took the job
	Failure   fmt.Stringer    // the id of the failure record, which is computed when it is asked for; nil: there is none

	// Counts is what the end adds to Resque's totals. A policy that ends a job otherwise than its
	// state says sets Counted, and Counts with it.
	Counts  resque.Counts
	Counted bool

	Log Log
}

// Add adds effects, whose list it keeps if they are the first: most ends with effects have one.
func (o *Outcome) Add(effects []resque.Effect) {
	if len(o.Effects) == 0 {
		o.Effects = effects
		return
	}
	o.Effects = append(o.Effects, effects...)
}

// Plain reports whether an acknowledgement is all that the outcome takes.
func (o *Outcome) Plain() bool { return o.Counts == resque.CountsDone && len(o.Effects) == 0 }

// Commit is an outcome on its way to Redis: the writes of the commit, and the data that the poller and
// the source of its jobs need.
type Commit struct {
	resque.Ended
	State   State
	Lane    *resque.Lane  // where the job waits then, if it goes into a lane
	Started bool          // the handler was called
	Ran     time.Duration // from when a worker took the job
}

// Commit returns what is to be committed of the job's outcome.
func (o *Outcome) Commit(j *Job) Commit {
	return Commit{Ended: o.Ended(j.Ticket), State: o.State, Lane: o.Next.Lane, Started: o.Started, Ran: o.Ran}
}

// Plain reports whether an acknowledgement is all that the commit takes.
func (c *Commit) Plain() bool { return c.Counts == resque.CountsDone && len(c.Effects) == 0 }

// Regroups reports whether the job goes into another lane than the one it came from: it came from
// its queue, or from the lane of an unknown class.
func (c *Commit) Regroups(j *Job) bool {
	return c.State == Returned && c.Lane != nil && (j.Lane == nil || *j.Lane != *c.Lane)
}

// Ended is the outcome as the commit takes it.
func (o *Outcome) Ended(ticket int64) resque.Ended {
	return resque.Ended{Ticket: ticket, Counts: o.Counts, Effects: o.Effects}
}

// Next is the next run of a job: where its payload goes, and what the payload is.
type Next struct {
	Place   Place
	Lane    *resque.Lane // of Lane
	At      time.Time    // of Schedule and RubySchedule
	Payload []byte       // nil: the very bytes of this run
}

// Place is where a job goes.
type Place uint8

const (
	Nowhere      Place = iota
	Head               // in front of all others of its queue, byte for byte
	Tail               // behind all others of its queue
	Lane               // in front of all others of a lane, byte for byte
	Schedule           // goworker's own schedule, to the millisecond
	RubySchedule       // resque-scheduler's, to the second, if the job is one it can hold; else Schedule
)

// Log is the log line of an outcome. An outcome without a message has the line of its state.
type Log struct {
	Level   slog.Level
	Message string
	Attrs   []slog.Attr
}

var lines = [...]struct {
	level   slog.Level
	message string
}{
	Done:      {slog.LevelDebug, "job done"},
	Failed:    {slog.LevelError, "job failed"},
	Retried:   {slog.LevelWarn, "job failed; it is retried"},
	Snoozed:   {slog.LevelInfo, "job snoozed; it runs again later"},
	Returned:  {slog.LevelInfo, "job interrupted; it goes back to its queue"},
	Passed:    {slog.LevelDebug, "job left to others; it goes to the tail of its queue"},
	Discarded: {slog.LevelWarn, "job discarded"},
	Expired:   {slog.LevelInfo, "job expired; it is dropped"},
	Cancelled: {slog.LevelInfo, "job cancelled"},
	Gathered:  {slog.LevelDebug, "job gathered; it is a part of its group"},
}

// Line returns the level and the message of the outcome's line in the log.
func (o *Outcome) Line() (slog.Level, string) {
	if o.Log.Message != "" {
		return o.Log.Level, o.Log.Message
	}
	return lines[o.State].level, lines[o.State].message
}
