package inspect

import (
	"fmt"
	"time"
)

// FindOption is how Find and All look for jobs.
type FindOption func(*findOptions)

type findOptions struct {
	budget time.Duration
	after  string
}

// Budget ends a search after a time, with the jobs that it has found until then. Find returns a page whose Next says where
// to go on. All ends with an *UnfinishedError.
func Budget(d time.Duration) FindOption { return func(o *findOptions) { o.budget = d } }

// From begins All where an *UnfinishedError says that it ended.
func From(next string) FindOption { return func(o *findOptions) { o.after = next } }

// UnfinishedError says that the Budget of a search was over before it had seen all jobs.
type UnfinishedError struct {
	Next   string        // where to go on; see From
	Looked int64         // jobs that were looked at since the search began
	Of     int64         // about how many there are to look at
	After  time.Duration // the budget
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("goworker: the search has looked at %d of about %d jobs in %s, which is its budget; go on where it ended, or give it more time", e.Looked, e.Of, e.After)
}
