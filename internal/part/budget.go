package part

import (
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// The graces of a stop begin when the shutdown timeout is over.
const (
	// CancelGrace is how long jobs have to return whose contexts were cancelled.
	CancelGrace = 2 * time.Second

	// CommitGrace is how long Redis then has to take the last outcomes.
	CommitGrace = 2 * time.Second

	// aboveGrace is how long the program's parts above the workers have to return when their contexts
	// have ended.
	aboveGrace = time.Second

	// haltGrace is how long the poller has to return when it gives up.
	haltGrace = 250 * time.Millisecond

	// partsGrace is how long the parts of the program have that outlive the jobs.
	partsGrace = 2 * time.Second

	// leaveGrace is how long the process has to leave the fleet.
	leaveGrace = 1250 * time.Millisecond

	// CloseGrace is how long the connections have to close.
	CloseGrace = 250 * time.Millisecond

	// Graces is how much longer than its shutdown timeout a stop may take. It leaves the machine a
	// quarter of a second.
	Graces = 8 * time.Second
)

// Step is one of the steps of a stop. They come one after another.
type Step int

const (
	Above      Step = iota // the program's parts that require the workers
	Schedulers             // the daemon's parts that require the poller
	Jobs                   // the poller and the workers
	Below                  // the program's other parts
	Leave                  // the daemon's parts that outlive the jobs
)

// ownSteps says in which step a daemon's own part stops.
var ownSteps = map[string]Step{
	"recurring": Schedulers, "schedule": Schedulers, "workflows": Schedulers, "groups": Schedulers, "leases": Schedulers, "guard": Schedulers, "history": Schedulers, "rules": Schedulers, "events": Schedulers, "autoscale": Schedulers,
	"poller": Jobs, "gate": Jobs, "workers": Jobs,
	"control": Leave, "records": Leave, "lease": Leave,
}

// Layout says how long after the shutdown timeout each step is over at the latest.
type Layout [Leave + 1]time.Duration

const (
	jobsEnd  = CancelGrace + CommitGrace + haltGrace
	stopEnds = jobsEnd + partsGrace + leaveGrace
)

// In a group of daemons, half of the time for the program's parts is for the parts around the group.
var (
	OfDaemon = Layout{aboveGrace, CancelGrace, jobsEnd, jobsEnd + partsGrace, stopEnds}
	OfMember = Layout{aboveGrace, CancelGrace, jobsEnd, jobsEnd + partsGrace/2, stopEnds - partsGrace/2}
	OfGroup  = Layout{aboveGrace, CancelGrace, stopEnds - partsGrace/2, stopEnds, stopEnds}
)

// Budget is the time that one stop has. All methods are safe for concurrent use.
type Budget struct {
	clock   clock.Clock
	timeout time.Duration // for the jobs; 0: no limit
	parts   time.Duration // for the program's parts while the jobs have no limit
	layout  Layout
	group   *Budget // of the stop of the daemons around; nil: there is none

	mu    sync.Mutex
	began time.Time     // zero: the stop has not begun
	cut   time.Time     // when the jobs lost the rest of their time; zero: they did not
	begun chan struct{} // closed by Begin
	cuts  chan struct{} // closed by Cut
}

// NewBudget returns the time of a stop whose jobs may go on for the timeout, 0: without limit. The
// program's parts then have as long as parts says. Group is the stop of a group of daemons to which this
// one belongs, nil: to none.
func NewBudget(c clock.Clock, timeout, parts time.Duration, l Layout, group *Budget) *Budget {
	return &Budget{clock: c, timeout: timeout, parts: parts, layout: l, group: group, begun: make(chan struct{}), cuts: make(chan struct{})}
}

// SetTimeout changes how long the jobs may go on, 0: without limit; also where the stop has begun.
func (b *Budget) SetTimeout(timeout time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timeout = timeout
}

// Begin starts the time. Only the first call counts. If the stop of the group has begun, the time started
// with it.
func (b *Budget) Begin() {
	now := b.clock.Now()
	if b.group != nil && closed(b.group.begun) {
		now = b.group.Began()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.began.IsZero() {
		b.began = now
		close(b.begun)
	}
}

// Began returns when the stop began; zero: it has not.
func (b *Budget) Began() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.began
}

// Most returns how long the stop takes at most; 0: it has no limit.
func (b *Budget) Most() time.Duration {
	if b.timeout <= 0 {
		return 0
	}
	return b.timeout + Graces
}

// Begun is closed when the stop has begun. The Begun of no budget is never closed.
func (b *Budget) Begun() <-chan struct{} {
	if b == nil {
		return nil
	}
	return b.begun
}

// Cut takes the rest of the shutdown timeout away. Before Begin it takes all of it.
func (b *Budget) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut.IsZero() {
		b.cut = b.clock.Now()
		close(b.cuts)
	}
}

// timeoutEnds returns when the graces begin. Limited is false while no time is set.
func (b *Budget) timeoutEnds() (at time.Time, limited bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeout > 0 {
		at = b.began.Add(b.timeout)
	}
	if cut := b.cut; !cut.IsZero() {
		if cut.Before(b.began) {
			cut = b.began
		}
		if at.IsZero() || cut.Before(at) {
			at = cut
		}
	}
	return at, !at.IsZero()
}

// ends returns when a step is over that began at a time; zero: it has no limit.
func (b *Budget) ends(s Step, entered time.Time) time.Time {
	if at, limited := b.timeoutEnds(); limited {
		return at.Add(b.layout[s])
	}
	switch s {
	case Above, Schedulers:
		return b.Began().Add(b.parts + b.layout[s])
	case Jobs:
		return time.Time{}
	default:
		return entered.Add(b.layout[s] - b.layout[s-1])
	}
}
