package workflows

import "github.com/goworker/goworker/internal/resque"

var arrive = resque.LoadVerb(scriptFiles, "arrive")

// Arrive returns the effect of a step's end: in the same step as its commit the letter moves, its joins count it, and
// what follows is sent. It refuses the commit only where a key of the workflow has another type.
func (s Store) Arrive(a *Arrival) resque.Effect {
	hint := "-"
	if p, ok := ParsePlace(a.Place); ok && p.Queue != "" {
		hint = p.Queue
	}
	// The letters are proven where they are read: as a string Redis would read all of them.
	keys := []resque.Key{s.AnyKey("wf-steps:" + a.Workflow), s.WorkflowKey(a.Workflow)}
	few := append(resque.KeyList(s.keys(a.Workflow, hint)[2:]), s.QueueKey(a.Job.Queue))
	args := []any{a.Step, string(a.Letter), a.Place, few}
	if a.Letter == Failed || a.Halted { // it may halt the workflow, or have it go on, which this process has to know too
		args[3] = resque.WrittenKeys(few)
	}
	switch {
	case a.Letter == NotRun:
		name := a.Job.Queue
		if s.NamesKey(name) != s.NamesKey(hint) {
			name = "" // it is in the other set of names, since the job came from there
		}
		args = append(args, a.Value, a.Again, a.Job.PrefixSize(), name)
	case a.Again != "":
		args = append(args, a.Value, a.Again)
	case len(a.Value) > 0:
		args = append(args, a.Value)
	}
	if a.Trace != "" && a.Letter != NotRun {
		for len(args) < 8 {
			args = append(args, "")
		}
		args = append(args, a.Trace)
	}
	return arrive.Effect(keys, args...)
}
