package resque

import (
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// KeyKind is what a key of a Resque is for, as far as its name says.
type KeyKind int

const (
	OtherKey         KeyKind = iota
	QueueKey                 // the list of a queue
	OwnQueueKey              // the list of a queue of goworker's own
	BucketKey                // the delayed jobs of a second, in resque-scheduler's schedule
	InFlightKey              // the record of the jobs that a process has reserved
	LockKey                  // the lock of a unique job
	SlotsKey                 // who runs under a limit
	LaneKey                  // the jobs of a lane
	SchedulerLockKey         // resque-scheduler's lock, in a fleet that has given it a prefix
	WorkerKey                // the job that a worker has in hand
)

// KeyOf says what a key is for, and the name in it: of a queue, a second, a process, a lock, a limit, a lane or a worker, or the prefix of
// a lock.
func (s Store) KeyOf(key string) (KeyKind, string) {
	rest, ok := strings.CutPrefix(key, s.ns)
	if !ok {
		return OtherKey, ""
	}
	if lock, ok := strings.CutPrefix(key, s.ns+s.ns); ok { // Ruby's key has the namespace twice
		if name, ok := strings.CutSuffix(lock, ":"+masterLockName); ok && name != "" {
			return SchedulerLockKey, name
		}
	}
	for _, k := range []struct {
		kind   KeyKind
		prefix string
	}{
		{QueueKey, s.KeyOfRubys("")}, {OwnQueueKey, s.ownQueue("")}, {BucketKey, s.KeyOfSecond("")},
		{InFlightKey, s.inflight("")}, {LockKey, s.KeyOfLock("")}, {SlotsKey, s.slots("")}, {LaneKey, s.ns + "go:lane:"}, {WorkerKey, s.worker("")},
	} {
		if name, ok := strings.CutPrefix(key, k.prefix); ok {
			if k.kind == WorkerKey && strings.HasSuffix(name, ":started") || k.kind == BucketKey && !isSecond(name) || // delayed:last_enqueued_at
				k.kind == LockKey && strings.HasSuffix(name, refusedEnd) {
				return OtherKey, ""
			}
			return k.kind, name
		}
	}
	return OtherKey, rest
}

// walkCount is how many keys of the server one step of a walk looks at.
const walkCount = 1000

// WalkKeys returns keys of the namespace, some of those that one step of a SCAN over all keys of the server finds, and where
// the next step begins. The first begins at 0, and after the last one next is 0. Of a Cluster it walks the node that has the namespace.
func (s Store) WalkKeys(c redis.Conn, cursor uint64) (keys []string, next uint64, err error) {
	reply, err := redis.Values(s.ask(c, "SCAN", strconv.FormatUint(cursor, 10), "MATCH", globText(s.ns)+"*", "COUNT", walkCount))
	if err == nil {
		_, err = redis.Scan(reply, &next, &keys)
	}
	return keys, next, err
}

// ServerKeys returns how many steps of WalkKeys look at all keys of the server. It is 0 if Redis does not say.
func (s Store) ServerKeys(c redis.Conn) (steps int, err error) {
	n, err := redis.Int(s.ask(c, "DBSIZE"))
	if err != nil {
		return 0, err
	}
	return n/walkCount + 1, nil
}

// isSecond reports whether a name is that of a second.
func isSecond(name string) bool {
	n, err := strconv.ParseInt(name, 10, 64)
	return err == nil && n >= 0 && n <= LastSecond && strconv.FormatInt(n, 10) == name
}
