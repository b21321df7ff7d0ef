package fleet

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

const (
	// LeasePeriod is how long a process must be silent to be found dead. A longer period forgives longer
	// stalls. A job of a killed process is back in its queue after at most LeasePeriod + 2·renewEvery. Then
	// a free worker takes it, one suspect after the other. The docs say for all of it: within 15 s.
	LeasePeriod = resque.LeasePeriod

	// renewEvery is how often a process renews its lease and looks at all others.
	renewEvery = 2 * time.Second

	// renewalGap is how long all processes together may be silent before their renewals say
	// nothing about which of them is dead: Redis may have stood still.
	renewalGap = 2 * renewEvery

	// HeartbeatEvery is how often the workers' heartbeats are sent, and their registration is
	// restored if it was removed. Ruby sends a heartbeat each 60 s.
	HeartbeatEvery = 20 * time.Second

	// enterGrace is how long entering the fleet may go on when the start was cancelled.
	enterGrace = 3 * time.Second
)

// Config is what the fleet's part is given of the settings.
type Config struct {
	// Process returns an identity for this process. A distinct one has worker ids that no other
	// process can have.
	Process func(distinct bool) resque.Process

	Workers    int  // how many workers the process has
	MultiQueue bool // each queue has a failure list of its own
	Caps            // when the process enters the fleet; see Lease.SetCaps

	Lost     error // the cause with which a session ends that lost its lease
	Shutdown error // the cause with which the last session ends
}

// Caps are what the reaper goes by.
type Caps struct {
	RecoverLimit  int           // see resque.Store.Recover
	FailedMaxSize int           // of a failure list; 0: no limit
	FailedMaxAge  time.Duration // of a failure; 0: no limit
}

// SetCaps changes what the reaper goes by, from its next turn on.
func (l *Lease) SetCaps(c Caps) { l.caps.Store(&c) }

// Owner owns the jobs of this process: the poller. Its methods are called by the lease's
// goroutine and do not wait for Redis.
type Owner interface {
	// LeaseHeld is called after each renewal.
	LeaseHeld(*Session)

	// RecordGone is called when Redis has lost the process's record.
	RecordGone(*Session)

	// LeaseLost is called when a session has lost its lease and another session has begun.
	LeaseLost(*Session)
}

// Rider gets with each renewal of the lease what Redis answered about delayed jobs and workflows. It may be a Carrier.
type Rider interface {
	// Answered does not wait for Redis. leads says whether this process is the leader.
	Answered(leads bool, due resque.Due)
}

// Carrier is a Rider whose renewals carry something: it writes and reads with them.
type Carrier interface {
	// Load adds to the next renewal what it is to write and read. Those that add hear the answers before Answered is
	// called. Load does not wait for Redis. It is called once for each renewal that Redis answers, and one that was not
	// answered is sent again with what it had.
	Load(*resque.Cargo)
}

// Heir holds something in Redis that a process must not keep when it ends.
type Heir interface {
	// Leaving is called when this process leaves the fleet.
	Leaving(c redis.Conn) error

	// Died is called when a process was found dead.
	Died(c redis.Conn, process string) error
}

// Ends decides how the jobs of dead processes end.
type Ends interface {
	// Bury returns the effects with which a job ends.
	Bury(resque.DeadJob) []resque.Effect
}
