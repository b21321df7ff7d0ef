package resque

import (
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// A leased job is one that a server has given to a client for a time. Its payload is in go:leased
// under its place, and go:leases says when its lease ends. A client or the server ends the job by a
// commit that changes nothing if the lease has changed.

// LeasedTicket is the ticket of all leased jobs: they have none, and no prefix in their record.
const LeasedTicket = -1

// KeyOfLeased is the hash of the jobs that clients hold: place to payload, byte for byte.
func (s Store) KeyOfLeased() string { return s.ns + "go:leased" }

// KeyOfLeases is the set of their leases: place to when the lease ends, in ms of Redis's clock. Half a millisecond more
// says that the job's end has effects.
func (s Store) KeyOfLeases() string { return s.ns + "go:leases" }

// PlaceOf is the place of a leased job. The queue is in it, so that nobody reaches a job by an id of another queue.
func PlaceOf(queue, id string) string { return JobPrefix(queue) + id }

// ParsePlace returns the queue and the id of a place.
func ParsePlace(place string) (queue, id string, ok bool) {
	queue, rest, ok := CutPrefix([]byte(place))
	return queue, string(rest), ok && len(rest) > 0
}

// TurnKeys are the keys of Resque and of goworker that the turn of a server uses: pause-all-workers, the paused queues and
// the total of processed jobs.
func (s Store) TurnKeys() (pauseAll, paused, processed string) {
	return s.pauseAll(), s.paused(), s.stat("processed")
}

// LeasedHead puts a leased job in front of all others of its queue, byte for byte.
func (s Store) LeasedHead(queue string) []Effect { return s.leasedTo("head", queue) }

// LeasedTail puts a leased job behind all others of its queue, byte for byte.
func (s Store) LeasedTail(queue string) []Effect { return s.leasedTo("tail", queue) }

func (s Store) leasedTo(verb, queue string) []Effect {
	return []Effect{effect(verb, listKey(s.KeyOfQueue(queue)), 0), s.named(queue)}
}

// EndLease returns the rows that every end of a leased job has: the guard that the lease is still the
// one that was read, and the removal of the lease.
func (s Store) EndLease(place, lease string) []Effect {
	return []Effect{Guard("ZSCORE", zsetKey(s.KeyOfLeases()), lease, place), unleaseVerb.Effect([]Key{zsetKey(s.KeyOfLeases())})}
}

// Committed is the answer to CommitLeased.
type Committed struct {
	Ended   map[string]bool // the places of the jobs that this call has ended; of no others
	Missing int             // places that have no leased job
	Refused []Refusal       // of effects and guards
	Filled  []string        // the queues that effects pushed to
}

// CommitLeased ends leased jobs, which have a Place and the rows of EndLease.
func (s Store) CommitLeased(c redis.Conn, ended []Ended) (Committed, error) {
	out, err := s.commit(c, s.byLease(), ended)
	if err != nil {
		return Committed{}, fmt.Errorf("ending %s: %w", Plural(len(ended), "leased job"), Explain(err))
	}
	done := Committed{make(map[string]bool, len(ended)), out.missing, out.refusals(), s.queueNames(out.filled)}
	for _, key := range out.filled {
		if place, ok := strings.CutPrefix(key, s.KeyOfLeases()+" "); ok {
			done.Ended[place] = true
		}
	}
	return done, nil
}
