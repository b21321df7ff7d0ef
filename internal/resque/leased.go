package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// A leased job is one that a server has given to a client for a time. Its payload is in go:leased
// under its place, and go:leases says when its lease ends. A client or the server ends the job by a
// commit that changes nothing if the lease has changed.

// Leased returns the rows that every end of a leased job has: the guard that the lease is still the
// one that was read, and the removal of the lease.
func (s Store) Leased(place, lease string) []Effect {
	return []Effect{Guard("ZSCORE", zsetKey(s.leases()), lease, place), effect("ZREM", zsetKey(s.leases()), place)}
}

// Committed is the answer to CommitLeased.
type Committed struct {
	Missing int       // places that have no leased job
	Refused []Refusal // of effects and guards
	Filled  []string  // the queues that effects pushed to
}

// CommitLeased ends leased jobs, which have a Place and the rows of Leased.
func (s Store) CommitLeased(c redis.Conn, ended []Ended) (Committed, error) {
	out, err := s.commit(c, s.byLease(), ended)
	if err != nil {
		return Committed{}, fmt.Errorf("ending %s: %w", Plural(len(ended), "leased job"), Explain(err))
	}
	return Committed{out.missing, out.refusals(), s.queueNames(out.filled)}, nil
}
