package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// KeyTypeError is the error of a key that holds another type than Resque gives it.
type KeyTypeError struct {
	Key  string
	Want string // the type that Resque gives it
	Is   string // the type that it has, if that was asked
	Err  error  // of Redis
}

func (e *KeyTypeError) Error() string {
	return fmt.Sprintf("the key %s is not a %s as in a Resque; rename or remove it", e.Key, e.Want)
}

func (e *KeyTypeError) Unwrap() error { return e.Err }

// NameKey returns the error of a key that a process needs and that is of the wrong type, in place of
// Redis's own error, which names no key. It returns err if there is none.
func (s Store) NameKey(c redis.Conn, err error) error {
	if !IsWrongType(err) {
		return err
	}
	needed := []struct{ key, reads, kind string }{
		{s.workers(), "SCARD", "set"}, {s.heartbeats(), "HLEN", "hash"}, {s.processes(), "ZCARD", "sorted set"},
		{s.KeyOfQueues(), "SCARD", "set"}, {s.recovered(), "HLEN", "hash"}, {s.failed(), "LLEN", "list"},
		{s.KeyOfSchedule(), "ZCARD", "sorted set"}, {s.KeyOfSeconds(), "ZCARD", "sorted set"}, {s.KeyOfHints(), "ZCARD", "sorted set"},
	}
	b := Batch{Conn: c}
	for _, n := range needed {
		b.Send(n.reads, n.key)
	}
	replies, failed := b.Receive()
	if failed != nil {
		return err
	}
	for i, n := range needed {
		if _, refused := Answer(replies[i]); IsWrongType(refused) {
			return &KeyTypeError{Key: n.key, Want: n.kind, Err: err}
		}
	}
	return err
}
