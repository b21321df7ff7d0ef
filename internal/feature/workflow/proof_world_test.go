package workflow_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/feature/cancel"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/failed"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/feature/workflow"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/playtest"
	"github.com/goworker/goworker/internal/resque/workflows"
	tree "github.com/goworker/goworker/internal/workflow"
)

var queueNames = []string{"a", "b"}

// ground is what all histories share: a Redis.
type ground struct {
	*playtest.Ground
	store workflows.Store
	tally tally
}

// tally is what the histories did.
type tally struct {
	workflows, letters, commits, twice, kills, refused, retries, cancelled, expired, looks int
}

func newGround(t *testing.T) *ground {
	g := playtest.NewGround(t)
	return &ground{Ground: g, store: workflows.New(g.Store)}
}

// features are those of a daemon, in its order, without those that have nothing to do with workflows.
func features() []func(outcome.Deps) outcome.Feature {
	return []func(outcome.Deps) outcome.Feature{cancel.New, workflow.New, expiry.New, retry.New, failed.New}
}

// world is one history: a workflow, the processes that work on it, and the model.
type world struct {
	*playtest.World
	store workflows.Store
	tally *tally
	shape drawn
	model *model

	places  map[int]workflows.Place // by number
	numbers map[*tree.Step]int
	tokens  map[int]string
	adders  map[string]*adder
	results int // the last number that a handler returned

	due     bool      // the sweep is to look
	fresh   []*member // sent by this call
	again   []*member // sent once more by this call
	looking bool      // the sweep looks, and may send the rest of a large group
	retried bool      // handlers may be armed by this call

	may map[*member][][]string // what could be sent between two ends of this call, and the results it then gets
}

func (g *ground) begin() *world {
	w := &world{
		World: g.NewWorld(), store: g.store, tally: &g.tally,
		places: make(map[int]workflows.Place), numbers: make(map[*tree.Step]int), may: make(map[*member][][]string), adders: make(map[string]*adder), tokens: make(map[int]string),
	}
	w.Rules = playtest.Rules{
		Queues: queueNames, Classes: newClasses(), Features: features(),
		Ended: func(raw []byte, o *outcome.Outcome, j *outcome.Job) any { return w.ended(raw, o, j) },
		Committed: func(end any, plain bool) {
			if e := end.(*ended); plain {
				w.plain(e)
			} else {
				w.arrive(e)
			}
		},
		Poison: func(raw []byte) {
			w.arrive(&ended{end: end{step: parse(raw).step, to: workflows.Failed}, over: true})
		},
	}
	return w
}

// end lets all handlers return.
func (w *world) end() {
	w.tally.kills += w.Kills
	w.tally.refused += w.Refused
	w.Close()
}

func newClasses() playtest.Classes {
	c := playtest.Classes{"Plain": {Name: "Plain"}, "Again": {Name: "Again"}}
	outcome.Put(c["Again"], &retry.Policy{Limit: 1, Delay: func(int, error) time.Duration { return 0 }, Allows: func(error) bool { return true }})
	return c
}

// ended is how a job ended.
type ended struct {
	end
	over bool // else it runs again
}

// ended says how a job ended, nil if it is no step.
func (w *world) ended(raw []byte, o *outcome.Outcome, j *outcome.Job) *ended {
	e := &ended{end: end{step: parse(raw).step}, over: o.State.Over()}
	switch {
	case o.State == outcome.Done:
		e.to = workflows.Done
		if j != nil && j.Value != nil {
			e.values, e.several = valuesOf(j)
		}
	case e.over && failure.Is(o.Err, failure.ErrHalted):
		e.to = workflows.NotRun
	case e.over:
		e.to = workflows.Failed
	}
	return e
}

// job is what a payload says.
type job struct {
	id       string
	step     int // -1: it is none
	args     []json.RawMessage
	place    string
	external bool
}

func parse(raw []byte) job {
	var f struct {
		ID       string            `json:"id"`
		Args     []json.RawMessage `json:"args"`
		Place    string            `json:"wf"`
		External bool              `json:"external"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		panic(playtest.Fatal{Text: fmt.Sprintf("%v in %s", err, raw)})
	}
	j := job{id: f.ID, args: f.Args, place: f.Place, external: f.External, step: -1}
	if _, n, ok := workflows.SplitID(f.ID); ok {
		j.step = n
	}
	return j
}
