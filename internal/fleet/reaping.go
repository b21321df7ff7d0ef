package fleet

import (
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Reaping takes the jobs of dead processes and removes what is left of these. The reaper uses it,
// and a program that drains goworker's keys.
type Reaping struct {
	Store resque.Store
	Limit int // see resque.Store.Recover
	Ends  Ends

	// Died gives back what a dead process holds beside its jobs.
	Died func(c redis.Conn, process string) error

	// Owner returns what reports whether a live process has a worker id of the dead one; nil: none has.
	Owner func(c redis.Conn, dead resque.Process) (owns func(id string) bool, err error)
}

// Reaped is what became of a dead process.
type Reaped struct {
	resque.Recovered
	Taken bool // the lease was still the one that was seen; else nothing was done
	Left  int  // jobs that stay in the record, because their queues refuse them
}

// Reap takes the jobs of a process whose lease was seen to be over. It may be repeated.
func (r Reaping) Reap(c redis.Conn, l resque.Lease, now time.Time) (out Reaped, err error) {
	if out.Taken, err = r.Store.Fence(c, l.Process, l.Value); err != nil || !out.Taken {
		return out, err
	}
	dead, err := r.Store.ReadProcess(c, l.Process)
	if err != nil {
		return out, err
	}
	if out.Recovered, err = r.Store.Recover(c, dead, r.Limit, now, r.Ends.Bury); err != nil {
		return out, err
	}
	if err := r.Died(c, dead.ID); err != nil {
		return out, err
	}
	ids := dead.WorkerIDs()
	if r.Owner != nil {
		owns, err := r.Owner(c, dead)
		if err != nil {
			return out, err
		}
		ids = slices.DeleteFunc(ids, owns)
	}
	if dead.IDHead != "" {
		if err := r.Store.Unregister(c, ids); err != nil {
			return out, err
		}
	}
	out.Left, err = r.Store.Leave(c, dead.ID)
	return out, err
}
