package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// LockConfig says which lock the schedulers of a namespace share.
type LockConfig struct {
	Prefix string // RESQUE_SCHEDULER_MASTER_LOCK_PREFIX
	Node   bool   // node-resque's leader lock is a part of it
}

// Lock is this process's share in the lock that all schedulers of a namespace have in common,
// Ruby's included. Several parts of the daemon use it. The last user that releases it gives it
// back to Redis. It is safe for concurrent use.
//
// A Ruby scheduler fires its recurring jobs only while it holds the lock. A process that takes the
// lock without need for longer than a moment stops them.
type Lock struct {
	store  resque.Store
	clock  clock.Clock
	config LockConfig
	fleet  Fleet
	taken  func(user string) // called when a user has taken the lock; set before any use
	until  atomic.Int64      // when it expires unless it is held again, in nanoseconds; 0: this process does not have it

	mu    sync.Mutex // held while Redis is asked, too
	users map[string]bool
}

// NewLock returns the lock. It takes it for the process that fleet names.
func NewLock(b part.Base, c LockConfig, fleet Fleet) *Lock {
	return &Lock{
		store: b.Store, clock: b.Clock, config: c, fleet: fleet,
		taken: func(string) {}, users: make(map[string]bool),
	}
}

// own is the lock as this process holds it, for scripts that must be sure of it. The holder is
// Ruby's host:pid and random digits, since two machines may both be localhost.
func (l *Lock) own() resque.MasterLock { return l.of(l.fleet.Self()) }

func (l *Lock) of(process string) resque.MasterLock {
	return l.store.MasterLock(process, l.config.Prefix, l.config.Node)
}

// Hold takes the lock for a user, or extends it, and reports whether this process has it; if not,
// by is its holder. It must be called again well before resque.MasterLockTTL is over.
//
// After an error this process may hold the lock: call Release, or it stays taken until its TTL ends.
func (l *Lock) Hold(c redis.Conn, user string) (held bool, by string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.clock.Now()
	held, by, err = l.store.HoldMasterLock(c, l.own())
	if err != nil {
		l.users[user] = true
		return false, "", err
	}
	if !held {
		l.until.Store(0)
		clear(l.users)
		return false, by, nil
	}
	l.users[user] = true
	if l.until.Swap(asked.Add(resque.MasterLockTTL).UnixNano()) == 0 {
		l.taken(user)
	}
	return true, "", nil
}

// Held reports, without asking Redis, whether this process keeps the lock for some time yet.
func (l *Lock) Held() bool {
	return clock.Until(l.clock, time.Unix(0, l.until.Load())) > resque.MasterLockTTL/6
}

// Release is called when a user does not need the lock any more. After an error it must be called
// again, or no other scheduler gets the lock until its TTL ends.
func (l *Lock) Release(c redis.Conn, user string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.users[user] {
		return nil
	}
	if len(l.users) == 1 {
		if err := l.store.ReleaseMasterLock(c, l.own()); err != nil {
			return err
		}
		l.until.Store(0)
	}
	delete(l.users, user)
	return nil
}

// Leaving gives the lock back when this process leaves the fleet. A part that stopped while Redis
// was away could not, and the lock would stay taken for minutes.
func (l *Lock) Leaving(c redis.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.users) == 0 {
		return nil
	}
	return l.store.ReleaseMasterLock(c, l.own())
}

// Died gives back the lock of a process that was found dead. Otherwise it would stay taken until
// its TTL ends.
func (l *Lock) Died(c redis.Conn, process string) error {
	return l.store.ReleaseMasterLock(c, l.of(process))
}
