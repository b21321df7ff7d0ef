package resque

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// This file reads the answers to exchanges.

// Exchanged is Redis's answer.
type Exchanged struct {
	Jobs     []Reserved
	Missing  int      // committed tickets that were not in the record
	Empty    []string // asked queues that had nothing left
	Paused   bool     // pause-all-workers is set: nothing was reserved
	Fenced   bool     // the lease is not held: nothing was reserved
	Suspects bool     // a job here may have been found in a dead process: read Deaths
	Queues   []string // the set of queues, if List asked for it
	Sizes    []int    // in the order of Sizes; 0 where Redis refused
	Unlisted bool     // List was asked for and Redis refused
	Removed  bool     // the in-flight record has lost its mark: it was removed
	Broken   []KeyError
	Refused  []Refusal // of effects and guards of Ended
	Filled   []string  // the queues that effects of Ended pushed to
	Wrote    []string  // the keys of all lists that they pushed to, and those that their verbs name
	Late     bool      // Ended was committed last: the rest of the answer may be older
	Taken    *Taken    // the answer to Take
	Sorted   int       // how many jobs of Sorting were moved
	Policy   *Policy   // where it was asked for
	Seat     Seat      // the answer to Sentry
}

// KeyError says that Redis refused a command on one key, and why. The rest of
// the exchange was done.
type KeyError struct{ Key, Reason string }

func (e KeyError) Error() string { return fmt.Sprintf("key %s: %s", e.Key, e.Reason) }

// Advice returns the reason and, where there is one, the way out.
func (e KeyError) Advice() string { return Explain(redis.Error(e.Reason)).Error() }

// exchanged reads the answer of the script by which the exchange went.
func (s Store) exchanged(x *Exchange, reply any) (out Exchanged, err error) {
	if x.brief != nil {
		out, err = s.exchangedBriefly(x, reply)
	} else {
		out, err = s.exchangedInFull(x, reply)
	}
	s.exchangeKeys(x.Process).briefs.learn(s, x, &out)
	return out, err
}

func (s Store) exchangedInFull(x *Exchange, reply any) (Exchanged, error) {
	r, err := redis.Values(reply, nil)
	if err != nil || len(r) == 0 {
		return Exchanged{}, fmt.Errorf("exchange: unexpected answer %v", reply)
	}
	status, _ := redis.String(r[0], nil)
	if err := statusError(status); err != nil {
		return Exchanged{}, err
	}
	var out Exchanged
	ended, sits, parts := len(x.parted.groups) > 0, x.sits(), 7
	if ended || sits {
		parts = 8
	}
	switch {
	case len(r) != parts:
		return Exchanged{}, fmt.Errorf("exchange: unexpected answer %v", reply)
	case ended:
		if err := s.ended(r[7], &out); err != nil {
			return Exchanged{}, err
		}
	case sits:
		out.Seat.Held = r[7] == int64(1)
	}
	flags, _ := redis.String(r[1], nil)
	out.Paused = strings.Contains(flags, "p")
	out.Fenced = strings.Contains(flags, "f")
	out.Suspects = strings.Contains(flags, "s")
	out.Removed = strings.Contains(flags, "r")
	missing, _ := redis.Int(r[2], nil)
	out.Missing += missing

	ticket := x.Last
	groups, _ := r[3].([]any)
	for _, g := range groups {
		group, _ := g.([]any)
		if len(group) == 0 {
			continue
		}
		ask, _ := group[0].(int64)
		if ask < 1 || int(ask) > len(x.Asks) {
			return Exchanged{}, fmt.Errorf("exchange: answer names queue %d of %d", ask, len(x.Asks))
		}
		queue := x.Asks[ask-1].Queue
		out.Jobs = slices.Grow(out.Jobs, len(group)-1)
		for _, payload := range group[1:] {
			raw, _ := payload.([]byte)
			ticket++
			out.Jobs = append(out.Jobs, Reserved{Ticket: ticket, Queue: queue, Payload: raw})
		}
	}
	empty, _ := r[4].([]any)
	for _, e := range empty {
		if ask, _ := e.(int64); ask >= 1 && int(ask) <= len(x.Asks) {
			out.Empty = append(out.Empty, x.Asks[ask-1].Queue)
		}
	}
	broken, _ := redis.Strings(r[5], nil)
	for i := 0; i+1 < len(broken); i += 2 {
		out.Broken = append(out.Broken, KeyError{Key: broken[i], Reason: broken[i+1]})
		out.Unlisted = out.Unlisted || x.List && broken[i] == s.KeyOfQueues()
	}
	out.Queues, _ = redis.Strings(r[6], nil)
	return out, nil
}

// queueNames returns the names of those lists that are queues.
func (s Store) queueNames(lists []string) (names []string) {
	for _, key := range lists {
		if queue, ok := s.QueueOf(key); ok {
			names = append(names, queue)
		}
	}
	return names
}
