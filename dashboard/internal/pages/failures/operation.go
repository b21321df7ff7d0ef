package failures

import (
	"context"
	"slices"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// Operation is a change of many failures that goes on, or stands.
type Operation struct {
	ID    string    `json:"id"`
	Verb  string    `json:"verb"`
	Of    int64     `json:"of"` // 0: that is not known
	Done  int64     `json:"done"`
	Again int64     `json:"failed_again"`
	Pace  float64   `json:"pace"`
	State string    `json:"state"`
	Why   string    `json:"why,omitempty"`
	Who   string    `json:"who"`
	Begun site.Time `json:"begun"`
	Left  site.Span `json:"left_ms"` // by its pace; 0: that is not known
	On    string    `json:"on"`      // which failures
	Undo  bool      `json:"undoing"`
}

// Doing says what it does, as a sentence begins.
func (o Operation) Doing() string {
	switch {
	case o.Undo:
		return "Taking back"
	case o.Verb == string(inspect.Drop):
		return "Removing"
	}
	return "Retrying"
}

// Share are the parts of its bar in per cent: what went well, and what failed again.
func (o Operation) Share() (parts [2]float64) {
	if of := float64(max(o.Of, o.Done)); of > 0 {
		parts = [2]float64{100 * float64(o.Done-o.Again) / of, 100 * float64(o.Again) / of}
	}
	return parts
}

const (
	operationsFor  = 2 * time.Second  // how long pages share the list of operations
	stoppedFor     = time.Hour        // how long one that was stopped is shown
	mostOperations = 3                // shown
	standing       = 10 * time.Minute // how long one that nobody has begun to run is shown
)

// operations are those that change failures now. They are left out where Redis refuses their records.
func operations(ctx context.Context, a *site.Ask) (some []Operation) {
	all, err := site.Keep(ctx, a.Fleet, "operations", operationsFor, func(ctx context.Context) ([]inspect.Operation, error) {
		return a.In().Operations().List(ctx)
	})
	if err != nil {
		return nil
	}
	for _, op := range all {
		if !slices.Equal(op.Plan.Query.Places, []inspect.Place{inspect.Failed}) || !a.User.Whole() && op.Who != a.User.Name {
			continue
		}
		switch past := a.Now().Sub(op.Changed); op.State {
		case inspect.OperationRunning, inspect.OperationStands:
		case inspect.OperationStopped:
			if past > stoppedFor {
				continue
			}
		case inspect.OperationReady:
			if past > standing {
				continue
			}
		default:
			continue
		}
		o := Operation{
			ID: op.ID, Verb: string(op.Plan.Verb), Of: op.Plan.Expected, Done: op.Done, Again: op.Again, Pace: op.Plan.Pace, State: string(op.State), Why: op.Why,
			Who: op.Who, Begun: site.Time{Time: op.Begun}, On: op.Plan.Query.String(), Undo: op.Undoing,
		}
		if o.Pace > 0 && o.Of > o.Done {
			o.Left = site.Span(float64(o.Of-o.Done) / o.Pace * float64(time.Second))
		}
		if some = append(some, o); len(some) == mostOperations {
			break
		}
	}
	return some
}
