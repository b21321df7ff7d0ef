package resqueretry

import (
	"encoding/json"
	"slices"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// dead gives back what a job of a dead process may have of resque-retry's. The class's options are not
// known there: so it drops the keys in both spellings, of an ActiveJob those of its wrapper too.
type dead struct {
	outcome.None
	deps outcome.Deps
}

// Settle drops the keys of a job that is filed as failed.
func (p dead) Settle(j *outcome.Job, o *outcome.Outcome) {
	if o.State != outcome.Failed {
		return
	}
	var dropped []resque.RetryKey
	drop := func(class string, args []json.RawMessage) {
		for _, blanks := range []bool{false, true} {
			if key := resque.NewRetryKey(class, args, blanks); !slices.Contains(dropped, key) {
				dropped = append(dropped, key)
				o.Effects = append(o.Effects, p.deps.Store.DropCount(key, true)...)
			}
		}
	}
	drop(j.Called(), j.Args)
	if j.Called() != j.Parsed.Class {
		drop(j.Parsed.Class, j.Parsed.Args)
	}
}
