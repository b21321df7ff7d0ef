package inspect

import (
	"fmt"
	"time"
)

// findOptionsOf returns what the options say.
func findOptionsOf(options []FindOption) (o findOptions) {
	for _, option := range options {
		option(&o)
	}
	return o
}

// FindOption is how Find and All look for jobs.
type FindOption func(*findOptions)

type findOptions struct {
	budget time.Duration
	most   int
	after  string
}

// Budget ends a search when it has waited so long for Redis, with the jobs that it has found until then. Find returns a
// page whose Next says where to go on, and whose Seen and Of say how far it came. All ends with an *UnfinishedError. A search looks
// at a page of jobs at least, so calls with any budget come to an end. 0 is no budget.
func Budget(d time.Duration) FindOption { return func(o *findOptions) { o.budget = d } }

// LookAt ends a call of Find once it has looked at so many jobs, or a page more than that, as Budget does. 0: about 10,000.
func LookAt(jobs int) FindOption { return func(o *findOptions) { o.most = jobs } }

// From begins All where an *UnfinishedError says that it ended.
func From(next string) FindOption { return func(o *findOptions) { o.after = next } }

// UnfinishedError says that the Budget of a search was over before it had seen all jobs.
type UnfinishedError struct {
	Next   string // where to go on; see From
	Looked int64  // jobs that were looked at since the search began
	Of     int64  // about how many there are to look at
	Budget time.Duration
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("goworker: the search has looked at %d of about %d jobs in %s, which is its budget; go on where it ended, or give it more time", e.Looked, e.Of, e.Budget)
}
