package resque

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// HeldKey is a lock that a program holds by writing its name into a key.
type HeldKey struct {
	Key    string
	Holder string        // "": nobody holds it
	Left   time.Duration // until it ends by itself; Never: it does not
}

// PruningLock is the lock under which workers remove dead ones. Ruby's workers take it for a minute.
func (s Store) PruningLock(c redis.Conn) (HeldKey, error) { return heldKey(c, s.pruneLock()) }

// SchedulerLocks are the locks of resque-scheduler and of node-resque's scheduler, and those that fleets have given these prefixes.
func (s Store) SchedulerLocks(c redis.Conn, prefixes ...string) (locks []HeldKey, err error) {
	keys := s.MasterLock("", "", true).keys
	for _, prefix := range prefixes {
		keys = append(keys, s.MasterLock("", prefix, false).Key())
	}
	for _, key := range keys {
		l, err := heldKey(c, key)
		if err != nil {
			return nil, err
		}
		locks = append(locks, l)
	}
	return locks, nil
}

func heldKey(c redis.Conn, key string) (HeldKey, error) {
	l := HeldKey{Key: key}
	b := Batch{Conn: c}
	b.Send("GET", key)
	b.Send("PTTL", key)
	replies, err := b.Receive()
	if err == nil {
		l.Holder, err = redis.String(Answer(replies[0]))
	}
	if errors.Is(err, redis.ErrNil) {
		return l, nil
	}
	var ms int64
	if err == nil {
		ms, err = redis.Int64(Answer(replies[1]))
	}
	if err != nil {
		return l, fmt.Errorf("reading the lock %s: %w", key, Explain(err))
	}
	switch {
	case ms == -1:
		l.Left = Never
	case ms == -2: // it has ended in between
		l.Holder = ""
	default:
		l.Left = time.Duration(ms) * time.Millisecond
	}
	return l, nil
}

// ReleaseHeld removes such a lock if its holder is still the same and it does not end by itself.
func (s Store) ReleaseHeld(c redis.Conn, l HeldKey) (bool, error) {
	now, err := heldKey(c, l.Key)
	if err != nil || now.Holder != l.Holder || l.Left == Never && now.Left != Never {
		return false, err
	}
	var a Call
	a.Key(l.Key)
	a.Arg(l.Holder)
	gone, err := redis.Bool(a.Do(c, unlockScript))
	if err != nil {
		err = fmt.Errorf("removing the lock %s: %w", l.Key, Explain(err))
	}
	return gone, err
}
