package resque

import (
	"github.com/gomodule/redigo/redis"
)

// typed are the single keys of a Resque and the types that it gives them.
func (s Store) typed() []KeyTypeError {
	return []KeyTypeError{
		{Key: s.workers(), Want: "set"}, {Key: s.heartbeats(), Want: "hash"}, {Key: s.KeyOfQueues(), Want: "set"},
		{Key: s.failed(), Want: "list"}, {Key: s.KeyOfFailureLists(), Want: "set"}, {Key: s.pruneLock(), Want: "string"},
		{Key: s.stat("processed"), Want: "string"}, {Key: s.stat("failed"), Want: "string"}, {Key: s.pauseAll(), Want: "string"},
		{Key: s.KeyOfSeconds(), Want: "zset"},
		{Key: s.processes(), Want: "zset"}, {Key: s.KeyOfSchedule(), Want: "zset"}, {Key: s.KeyOfHints(), Want: "zset"},
		{Key: s.recovered(), Want: "hash"}, {Key: s.ownQueues(), Want: "set"}, {Key: s.limits(), Want: "hash"},
		{Key: s.lanes(), Want: "set"}, {Key: s.paused(), Want: "set"}, {Key: s.clock(), Want: "string"},
	}
}

// typeOf is the type of the keys of a kind, by what the kind is.
var typeOf = map[KeyKind]string{
	QueueKey: "list", OwnQueueKey: "list", BucketKey: "list", InFlightKey: "hash", SlotsKey: "set", LockKey: "hash", WorkerKey: "string", SchedulerLockKey: "string",
}

// KeyNamed is the key of a kind with a name, as KeyOf takes it apart.
func (s Store) KeyNamed(kind KeyKind, name string) string {
	switch kind {
	case QueueKey:
		return s.KeyOfRubys(name)
	case OwnQueueKey:
		return s.ownQueue(name)
	case BucketKey:
		return s.KeyOfSecond(name)
	case InFlightKey:
		return s.inflight(name)
	case LockKey:
		return s.KeyOfLock(name)
	case SlotsKey:
		return s.slots(name)
	case WorkerKey:
		return s.worker(name)
	case SchedulerLockKey:
		return s.MasterLock("", name, false).Key()
	}
	return ""
}

// WrongTypes returns the single keys of Resque's and goworker's that are of another type than Resque gives them.
func (s Store) WrongTypes(c redis.Conn) ([]KeyTypeError, error) { return s.wrong(c, s.typed()) }

// WrongTypesOf returns those of another type among the keys of a kind.
func (s Store) WrongTypesOf(c redis.Conn, kind KeyKind, names []string) ([]KeyTypeError, error) {
	want, ok := typeOf[kind]
	if !ok {
		return nil, nil
	}
	keys := make([]KeyTypeError, len(names))
	for n, name := range names {
		keys[n] = KeyTypeError{Key: s.KeyNamed(kind, name), Want: want}
	}
	return s.wrong(c, keys)
}

func (s Store) wrong(c redis.Conn, keys []KeyTypeError) (wrong []KeyTypeError, err error) {
	b := Batch{Conn: c}
	for _, k := range keys {
		b.Send("TYPE", k.Key)
	}
	replies, err := b.Receive()
	for n, k := range keys {
		if err != nil {
			return nil, err
		}
		kind, refused := redis.String(Answer(replies[n]))
		if refused != nil {
			return nil, s.denied("TYPE", "+type", refused)
		}
		if kind != "none" && kind != k.Want {
			k.Is = kind
			wrong = append(wrong, k)
		}
	}
	return wrong, nil
}
