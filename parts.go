package goworker

import (
	"context"
	"slices"

	"github.com/goworker/goworker/internal/part"
)

// Part is something a Daemon starts before it works and stops when it is done: a
// metrics server, a database pool. The daemon's own pieces are parts too:
// "lease", "records", "workers", "poller", "schedule" and "recurring", each requiring the
// ones before it.
//
// Parts start in the order of what they require and stop in reverse. A part that
// does not require "workers" or "poller", itself or through others, starts before
// the workers and outlives every job.
type Part struct {
	// Name is how other parts require this one, and how errors speak of it.
	Name string

	// Requires names the parts that must run before this one starts and until it
	// has stopped.
	Requires []string

	// Isolated says that the part also runs in the child processes of isolated jobs
	// (see Isolated), around the handler: a database pool that handlers use, not a
	// server. What it requires counts there only if it is of that kind too.
	Isolated bool

	// Start returns once the part really runs; nil means that there is nothing to
	// start. When a later part fails to start, those that did are stopped.
	Start func(ctx context.Context) error

	// Stop returns once the part has really stopped; nil means nothing to stop. It
	// is called once, and only after a Start that succeeded. All parts share the
	// context's deadline, which for those below the workers leaves a little time
	// after the shutdown timeout.
	Stop func(ctx context.Context) error
}

// startStop is how an own part of a daemon starts and stops.
type startStop struct{ start, stop func(context.Context) error }

// workParts are the parts that take jobs and run them, in order.
var workParts = []part.Part{
	{Name: "lease"},
	{Name: "records", Requires: []string{"lease"}},
	{Name: "workers", Requires: []string{"records"}},
	{Name: "poller", Requires: []string{"workers"}},
}

// daemonParts are all own parts of a daemon.
var daemonParts = append(slices.Clip(workParts),
	part.Part{Name: "schedule", Requires: []string{"poller"}},
	part.Part{Name: "recurring", Requires: []string{"poller"}},
)

// arrangeParts returns own parts, with what starts and stops them, and the parts added to
// them, in the order in which they start. An own part that has no steps does nothing.
func arrangeParts(own []part.Part, steps map[string]startStop, added []Part) ([]part.Part, error) {
	all := slices.Clone(own)
	for i, p := range all {
		all[i].Start, all[i].Stop = steps[p.Name].start, steps[p.Name].stop
	}
	return part.Around(append(all, internalParts(added)...), "workers", "poller")
}

// internalParts returns the parts as the package part takes them.
func internalParts(parts []Part) []part.Part {
	all := make([]part.Part, len(parts))
	for i, p := range parts {
		all[i] = part.Part{Name: p.Name, Requires: p.Requires, Start: p.Start, Stop: p.Stop}
	}
	return all
}

// childParts returns the parts that run in a child process, sorted.
func childParts(parts []Part) ([]part.Part, error) {
	kept := slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return !p.Isolated })
	for i, p := range kept {
		kept[i].Requires = slices.DeleteFunc(slices.Clone(p.Requires), func(name string) bool {
			return !slices.ContainsFunc(kept, func(p Part) bool { return p.Name == name })
		})
	}
	return part.Sort(internalParts(kept))
}
