package health

import "time"

// StuckFor is how long all workers may be stuck in jobs past their time limits, before only a restart helps.
const StuckFor = 10 * time.Minute

// Life is what a probe of liveness goes by: for how long the loops of the poller and of the lease have owed a turn, how long each may
// wait for Redis, and for how long all workers have been stuck.
type Life struct{ Poller, Lease, Patience, AllStuck time.Duration }

// Of says which of the three are as they should be. A loop may hang for a time beside Patience, and workers be stuck for a time, 0: for any.
func (l Life) Of(hung, stuck time.Duration) (poller, lease, workers bool) {
	return l.Poller <= l.Patience+hung, l.Lease <= l.Patience+hung, stuck <= 0 || l.AllStuck < stuck
}

// Lives reports whether all three are as they should be, by the usual times.
func (l Life) Lives() bool {
	poller, lease, workers := l.Of(HungAfter, StuckFor)
	return poller && lease && workers
}
