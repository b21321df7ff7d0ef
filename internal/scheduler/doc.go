// Package scheduler enqueues jobs when their time comes. The Pump moves delayed jobs that are due
// to their queues. The Ticker fires the schedules of package recurring. Both share resque-scheduler's master
// Lock, which Ruby's schedulers respect too.
//
// The words: a schedule has fire times; the public options call one of them a tick. The last fired
// time is the one up to which the fleet is done with a schedule. Schedules with the same timing
// hash have the same fire times. An entry is a schedule as one process watches it. The owner of a
// schedule is the process that fired it last.
package scheduler

import "time"

// Fleet is what the scheduler needs to know of this process and the others.
type Fleet interface {
	// Self returns this process as its lease names it.
	Self() string

	// Worker returns the id of this process's first worker.
	Worker() string

	// Leads reports whether this process does what one process of the fleet is enough for.
	Leads() bool

	// Alive reports whether a process has a lease. While nothing is known of the fleet, every
	// process counts as alive.
	Alive(process string) bool
}

// Clock is Redis's clock, as this process knows it.
type Clock interface {
	// Now returns the time by Redis's clock.
	Now() time.Time

	// Saw is called when Redis has said what time it is.
	Saw(now time.Time)
}
