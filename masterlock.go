package goworker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// masterLock is this process's share in the lock that all schedulers of a namespace
// have in common, Ruby's included. Several parts of the daemon use it; it is given
// back when none of them needs it any more.
//
// A Ruby scheduler fires its recurring jobs only while it holds the lock, so who
// takes it without need for longer than a moment stops them.
type masterLock struct {
	store  resque.Store
	prefix string
	node   bool
	self   func() string     // this process, as its lease names it
	taken  func(user string) // called when the lock was taken
	until  atomic.Int64      // when it runs out if nobody holds it again, in nanoseconds; 0: it is not ours

	mu    sync.Mutex // held while Redis is asked, too
	users map[string]bool
}

func newMasterLock(c config, store resque.Store, self func() string, taken func(user string)) *masterLock {
	return &masterLock{
		store: store, prefix: c.SchedulerLockPrefix, node: c.NodeScheduler,
		self: self, taken: taken, users: make(map[string]bool),
	}
}

// lock is the lock as this process holds it, for scripts that must be sure of it: the
// holder is Ruby's host:pid and random digits, since two machines may both be localhost.
func (m *masterLock) lock() resque.MasterLock { return m.of(m.self()) }

func (m *masterLock) of(process string) resque.MasterLock {
	return m.store.MasterLock(process, m.prefix, m.node)
}

// inherit gives back the lock of a process that was found dead: else nobody would have
// it until it runs out.
func (m *masterLock) inherit(c redis.Conn, dead string) error {
	return m.store.ReleaseMasterLock(c, m.of(dead))
}

// hold takes the lock for a user, or holds it for longer, and reports whether it is
// ours, or else whose. It must be called again well before resque.MasterLockTTL is over.
// After an error it may be ours, and must be released: what was so stays so until it
// runs out.
func (m *masterLock) hold(c redis.Conn, user string) (held bool, by string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := time.Now()
	held, by, err = m.store.HoldMasterLock(c, m.lock())
	if err != nil {
		m.users[user] = true
		return false, "", err
	}
	if !held {
		m.until.Store(0)
		clear(m.users)
		return false, by, nil
	}
	m.users[user] = true
	if m.until.Swap(asked.Add(resque.MasterLockTTL).UnixNano()) == 0 {
		m.taken(user)
	}
	return true, "", nil
}

// held reports, without asking Redis, whether the lock is ours for some time yet.
func (m *masterLock) held() bool {
	return time.Until(time.Unix(0, m.until.Load())) > resque.MasterLockTTL/6
}

// leave gives the lock back whoever has it still: a part that stopped while Redis was away
// could not, and nobody else would for minutes.
func (m *masterLock) leave(c redis.Conn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.users) == 0 {
		return nil
	}
	return m.store.ReleaseMasterLock(c, m.lock())
}

// release tells that a user does not need the lock any more. After an error it must be
// called again, or nobody else gets the lock until it runs out.
func (m *masterLock) release(c redis.Conn, user string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.users[user] {
		return nil
	}
	if len(m.users) == 1 {
		if err := m.store.ReleaseMasterLock(c, m.lock()); err != nil {
			return err
		}
		m.until.Store(0)
	}
	delete(m.users, user)
	return nil
}
