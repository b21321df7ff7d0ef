package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/gate"
	"github.com/goworker/goworker/internal/part"
)

// HungAfter is how much longer than Patience a loop may be silent before it counts as hung.
const HungAfter = time.Minute

// Standing returns the loops of a daemon that have been in one turn for so long that people should know. The lease's is not among them:
// the report names it by itself. A long turn is no reason to restart. The reaper has one where it looks at all keys, and so has the
// sorter with a long queue.
func Standing(l *part.Loops, limits time.Duration) []part.Standing {
	return slices.DeleteFunc(l.Standing(Patience(limits)+HungAfter), func(s part.Standing) bool { return s.Loop == "lease" })
}

// Patience is how long a loop may wait for a Redis that does not answer, where the settings let it take this
// long for one answer.
func Patience(limits time.Duration) time.Duration { return 2 * limits }

// Poller is the poller's answer about what keeps it from taking jobs.
type Poller struct {
	Connected bool // to Redis
	Fenced    bool // the lease is not held
	Stopping  bool
	Held      bool // the program has paused the process
	Operated  bool // an operator has paused the process
	Paused    bool // the fleet is paused
}

// Signs are the figures from which the health of a daemon follows.
type Signs struct {
	Now     time.Time
	Begun   bool // it has run
	Running bool // it runs now
	Started bool // all its parts run
	Ended   bool // its poller has ended

	Poller Answer[Poller]
	Lease  time.Duration // for how long the loop that renews the lease has owed a turn
	Limits time.Duration // how long the settings let Redis take for one answer

	LastExchange time.Time
	Renewed      time.Time // the lease was, last; zero: it was never taken
	Silent       bool      // the lease was not renewed for too long
	AwaySince    time.Time // zero: there is no outage
	Down         []string  // the parts that have failed
	Loops        []part.Standing
	Gate         gate.State
}

// Report is the health of a daemon. The public Health has the same fields, and documents them.
type Report struct {
	Running          bool
	Live             bool
	Ready            bool
	Stopping         bool
	Reasons          []string
	LastExchange     time.Time
	ExchangeAge      time.Duration
	LeaseHeld        bool
	LeaseAge         time.Duration
	AwaySince        time.Time
	PausedByProgram  bool
	PausedByOperator bool
	PausedByFleet    bool
	PausedByGate     bool
	GateReason       string
}

// Say adds a reason.
func (r *Report) Say(format string, args ...any) {
	r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...))
}

func brief(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// Report returns the health of a daemon with these signs.
func (s Signs) Report() Report {
	r := Report{Running: s.Running, Live: s.Running, LastExchange: s.LastExchange, AwaySince: s.AwaySince}
	if !s.LastExchange.IsZero() {
		r.ExchangeAge = s.Now.Sub(s.LastExchange)
	}
	switch {
	case !s.Begun:
		r.Say("the daemon does not run: call Run or Work")
	case !s.Running:
		r.Say("the daemon does not run any more: Run or Work has returned")
	}
	if !s.Running {
		r.AwaySince = time.Time{}
		return r
	}
	p := s.Poller.Last
	r.Stopping = s.Ended || p.Stopping
	hangs := !s.Ended && (s.Started || s.Poller.Ever) && s.Poller.Silent > Patience(s.Limits)+HungAfter
	starting := !s.Poller.Ever && !s.Ended && !hangs
	switch {
	case r.Stopping:
		r.Say("the daemon is stopping: it takes no more jobs")
	case starting:
		r.Say("the daemon is starting")
	}
	if hangs {
		r.Live = false
		r.Say("the poller has not answered for %s and seems to hang: restart the process", brief(s.Poller.Silent))
	}
	if s.Lease > Patience(s.Limits)+HungAfter {
		r.Live = false
		r.Say("the lease's loop has not turned for %s and seems to hang: restart the process", brief(s.Lease))
	}
	for _, name := range s.Down {
		r.Say("part %s has failed: PartStates says why", name)
	}
	if r.AwaySince.IsZero() { // else they wait for Redis
		for _, l := range s.Loops {
			r.Say("the loop %s has been in one turn for %s: goworker inspect stacks shows where; if it does not go on, restart the process", l.Loop, brief(l.For))
		}
	}
	switch {
	case !r.AwaySince.IsZero():
		r.Say("Redis has been away for %s", brief(s.Now.Sub(r.AwaySince)))
	case !p.Connected && s.Poller.Ever && !r.Stopping:
		r.Say("the poller is connecting to Redis")
	}
	if !s.Renewed.IsZero() {
		r.LeaseAge = s.Now.Sub(s.Renewed)
		if r.LeaseHeld = !s.Silent && !p.Fenced; !r.LeaseHeld {
			r.Say("the lease was last renewed %s ago: other processes may have taken over the jobs of this one", brief(r.LeaseAge))
		}
	}
	r.pauses(p, s.Gate)
	r.Ready = r.Live && p.Connected && r.LeaseHeld && !r.Stopping && !r.PausedByProgram && !r.PausedByOperator && !r.PausedByFleet && !r.PausedByGate
	return r
}

// pauses adds the pauses that keep a daemon from taking jobs.
func (r *Report) pauses(p Poller, g gate.State) {
	r.PausedByProgram, r.PausedByOperator, r.PausedByFleet = p.Held, p.Operated, p.Paused
	if p.Held {
		r.Say("the program or the signal USR2 has paused this process: call Resume, or send CONT")
	}
	if p.Operated {
		r.Say("an operator has paused this process by remote control: run goworker control resume --self, with --to for this process alone")
	}
	if p.Paused {
		r.Say("the key pause-all-workers pauses the whole fleet: remove it")
	}
	if g.Closed != nil {
		r.PausedByGate, r.GateReason = true, g.Closed.Error()
		r.Say("the gate is closed: %s", r.GateReason)
	}
	if g.Silent > 0 {
		r.Say("the function of the gate has not answered for %s; its last answer holds", brief(g.Silent))
	}
}

// Merge adds the health of one of several shards. away is since when its Redis has kept it from starting;
// zero: it has started, or was not tried.
func (r *Report) Merge(of Report, name string, away time.Time, first bool) {
	if !of.Running && !away.IsZero() {
		of.AwaySince, of.Reasons = away, []string{"its Redis cannot be reached, so it is not started yet"}
	}
	r.Live = r.Live && (of.Live || !of.Running)
	r.Ready = r.Ready || of.Ready
	r.Stopping = r.Stopping || of.Stopping
	r.LeaseHeld = of.LeaseHeld && (first || r.LeaseHeld)
	r.LeaseAge = max(r.LeaseAge, of.LeaseAge)
	if first || of.LastExchange.Before(r.LastExchange) {
		r.LastExchange, r.ExchangeAge = of.LastExchange, of.ExchangeAge
	}
	if r.AwaySince.IsZero() || !of.AwaySince.IsZero() && of.AwaySince.Before(r.AwaySince) {
		r.AwaySince = of.AwaySince
	}
	r.PausedByProgram = r.PausedByProgram || of.PausedByProgram
	r.PausedByOperator = r.PausedByOperator || of.PausedByOperator
	r.PausedByFleet = r.PausedByFleet || of.PausedByFleet
	if of.PausedByGate {
		r.PausedByGate, r.GateReason = true, of.GateReason
	}
	for _, reason := range of.Reasons {
		r.Say("%s: %s", name, reason)
	}
}
