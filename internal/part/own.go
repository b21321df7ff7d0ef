package part

import (
	"context"
	"slices"
)

// Work are the parts that take jobs and run them, in order.
var Work = []Part{
	{Name: "lease"},
	{Name: "records", Requires: []string{"lease"}},
	{Name: "workers", Requires: []string{"records"}},
	{Name: "gate", Requires: []string{"workers"}},
	{Name: "poller", Requires: []string{"gate"}},
}

// Own are all parts of a daemon.
var Own = append(slices.Clip(Work),
	Part{Name: "control", Requires: []string{"lease"}},
	Part{Name: "schedule", Requires: []string{"poller"}},
	Part{Name: "recurring", Requires: []string{"poller"}},
	Part{Name: "workflows", Requires: []string{"poller"}},
	Part{Name: "groups", Requires: []string{"poller"}},
	Part{Name: "leases", Requires: []string{"poller"}},
	Part{Name: "guard", Requires: []string{"poller"}},
	Part{Name: "history", Requires: []string{"poller"}},
	Part{Name: "rules", Requires: []string{"poller"}},
	Part{Name: "events", Requires: []string{"poller"}},
	Part{Name: "autoscale", Requires: []string{"poller"}},
)

// Steps start and stop one of a daemon's own parts. Info is what it says of itself; nil: nothing.
type Steps struct {
	Start, Stop func(context.Context) error
	Info        func() any
}

// Arrange returns own parts, with their steps, and the parts of the program, in the order in which they
// start. An own part without steps does nothing.
func Arrange(own []Part, steps map[string]Steps, added []Part) ([]Part, error) {
	all := slices.Clone(own)
	for i, p := range all {
		of := steps[p.Name]
		all[i].Start, all[i].Stop, all[i].Info = of.Start, of.Stop, of.Info
	}
	return Around(append(all, added...), "workers", "poller")
}

// Isolated returns the parts that run in the child of an isolated job, sorted. There they require each
// other only.
func Isolated(parts []Part) ([]Part, error) {
	kept := slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return !p.Isolated })
	for i, p := range kept {
		kept[i].Requires = slices.DeleteFunc(slices.Clone(p.Requires), func(name string) bool {
			return !slices.ContainsFunc(kept, func(p Part) bool { return p.Name == name })
		})
	}
	return Sort(kept)
}
