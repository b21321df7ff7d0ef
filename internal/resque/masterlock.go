package resque

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

var masterLockScript = script("masterlock")

// MasterLockTTL is how long a scheduler may be silent before another takes its
// place. Ruby's and node's schedulers use the same.
const MasterLockTTL = 180 * time.Second

// MasterLock is the lock of resque-scheduler. Of all schedulers of a namespace only
// the holder moves the delayed jobs that Ruby's tools see and fires recurring schedules.
type MasterLock struct {
	Holder string // unique among all schedulers on all machines
	keys   []string
}

// masterLockName is the end of the name of Ruby's lock.
const masterLockName = "resque_scheduler_master_lock"

// MasterLock names the lock. The prefix is Ruby's RESQUE_SCHEDULER_MASTER_LOCK_PREFIX,
// mostly "". With node the lock includes the leader lock of node-resque's scheduler, which
// does not know Ruby's.
func (s Store) MasterLock(holder, prefix string, node bool) MasterLock {
	if prefix != "" {
		prefix += ":"
	}
	// Ruby's key has the namespace twice.
	l := MasterLock{Holder: holder, keys: []string{s.ns + s.ns + prefix + masterLockName}}
	if node {
		l.keys = append(l.keys, s.ns+"resque_scheduler_leader_lock")
	}
	return l
}

// Key is Ruby's key of the lock.
func (l MasterLock) Key() string { return l.keys[0] }

// HoldMasterLock takes the lock, or holds it for another MasterLockTTL. If
// another scheduler has it, by is that holder.
func (s Store) HoldMasterLock(c redis.Conn, l MasterLock) (held bool, by string, err error) {
	var a Call
	for _, key := range l.keys {
		a.Key(key)
	}
	a.Arg(l.Holder, int(MasterLockTTL.Seconds()))
	reply, err := redis.Values(a.Do(c, masterLockScript))
	if err == nil {
		_, err = redis.Scan(reply, &held)
	}
	if err == nil && !held {
		_, err = redis.Scan(reply[1:], &by)
	}
	if err != nil {
		return false, "", fmt.Errorf("taking the schedulers' lock %s: %w", l.keys[0], Explain(err))
	}
	return held, by, nil
}

// ReleaseMasterLock releases the lock if this scheduler still holds it.
func (s Store) ReleaseMasterLock(c redis.Conn, l MasterLock) error {
	for _, key := range l.keys {
		var a Call
		a.Key(key)
		a.Arg(l.Holder)
		if _, err := a.Do(c, unlockScript); err != nil {
			return fmt.Errorf("giving back the schedulers' lock %s: %w", key, Explain(err))
		}
	}
	return nil
}
