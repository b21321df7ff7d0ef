package workflows

import "strings"

// Letters of steps, branches and handlers: see scripts/parts/workflow.lua.
const (
	Waits    = 'w' // a step: not sent
	Sent     = 's'
	Outside  = 'y' // sent, and ended by a token
	Done     = 'd'
	Failed   = 'f'
	NotRun   = 'x' // its workflow was halted
	Armed    = 'h' // a handler: not sent
	Called   = 'r' // sent
	Over     = 'o'
	GoesOn   = 'b' // a branch: a member of a group that is more than one step
	EndWell  = 'g'
	EndBadly = 'n'
	Stopped  = 't'
)

// States of a workflow.
const (
	StateRunning   = "running"
	StateRetrying  = "retrying"
	StateFailed    = "failed"
	StateCancelled = "cancelled"
	StateExpired   = "expired"
	StateDone      = "done"
)

// Place is where a step stands in its workflow: the payload's field, seven words with blanks between.
// An empty word is written '-'.
type Place struct {
	Joins  string // the joins that count it, with commas; "" for a handler
	Letter string // the branch's letter that counts for it; "": its own
	Result string // the number under which its result is kept; "": its own
	Scope  string // whose error handlers its failure calls; "": none
	Borne  string // "c" by Collect, "i" by Ignore; "": the workflow fails with it
	Kept   string // "0" nobody needs its result, "n" only what comes next, "1" it is kept until the workflow goes
	Queue  string // of the next step, a hint; it stands last
}

// String returns the field's value.
func (p Place) String() string {
	words := [7]string{p.Joins, p.Letter, p.Result, p.Scope, p.Borne, p.Kept, p.Queue}
	for i, w := range words {
		if w == "" {
			words[i] = "-"
		}
	}
	return strings.Join(words[:], " ")
}

// ParsePlace reads a field's value. A blank is no letter of a name, except in the queue.
func ParsePlace(text string) (p Place, ok bool) {
	words := strings.SplitN(text, " ", 7)
	if len(words) != 7 {
		return p, false
	}
	for i, w := range words {
		if w == "" {
			return p, false
		}
		if w == "-" {
			words[i] = ""
		}
	}
	return Place{words[0], words[1], words[2], words[3], words[4], words[5], words[6]}, true
}
