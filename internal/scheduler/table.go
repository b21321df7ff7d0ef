package scheduler

import (
	"maps"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/recurring"
	"github.com/goworker/goworker/internal/resque"
)

// OnConn runs f on a connection to Redis.
type OnConn func(f func(resque.Store, redis.Conn) error) error

// Table holds the schedules that a daemon has of its own, from code and files. The zero value is
// ready. It is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	own     map[string]*recurring.Schedule
	changed func() // of the run, if there is one
	version uint64
}

// Own returns the schedules of this daemon's own, by name, and a number that changes with them.
func (t *Table) Own() (all map[string]*recurring.Schedule, version uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all = make(map[string]*recurring.Schedule, len(t.own))
	maps.Copy(all, t.own)
	return all, t.version
}

// Version is that of Own, without the schedules.
func (t *Table) Version() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}

func (t *Table) set(name string, s *recurring.Schedule) (was *recurring.Schedule) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was = t.own[name]
	t.version++
	if s == nil {
		delete(t.own, name)
	} else {
		if t.own == nil {
			t.own = make(map[string]*recurring.Schedule)
		}
		t.own[name] = s
	}
	if t.changed != nil {
		t.changed()
	}
	return was
}

func (t *Table) get(name string) *recurring.Schedule {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own[name]
}

// all returns a copy of the schedules.
func (t *Table) all() map[string]*recurring.Schedule {
	own, _ := t.Own()
	return own
}

// watch has changed called after each change, in place of the function of the run before. It must
// not block.
func (t *Table) watch(changed func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = changed
}

// Schedule adds a schedule, or replaces the one of that name. One with Persist goes to Redis
// instead, and ends one of this daemon's own with its name.
func (t *Table) Schedule(name string, r recurring.Recurring, on OnConn) error {
	s, err := recurring.Check(name, r)
	if err == nil {
		if wrong := queues.CheckName(r.Queue, resque.New("").KeyOfQueue("")); wrong != nil {
			err = s.About(wrong)
		}
	}
	if err != nil {
		return err
	}
	if !r.Persist {
		t.set(name, s)
		return nil
	}
	text, err := s.Persistent()
	if err != nil {
		return err
	}
	err = on(func(store resque.Store, c redis.Conn) error { return store.SaveSchedule(c, name, text) })
	if err == nil {
		t.set(name, nil) // otherwise it would count before the one in Redis
	}
	return err
}

// Unschedule ends a schedule of this daemon's own and the one in Redis, and reports whether there
// was one.
func (t *Table) Unschedule(name string, on OnConn) (bool, error) {
	own := t.set(name, nil) != nil
	var removed bool
	err := on(func(store resque.Store, c redis.Conn) error {
		_, there, err := store.PersistentSchedule(c, name)
		if there && err == nil {
			removed, err = store.RemoveSchedule(c, name)
		}
		return err
	})
	return own || removed, err
}

// Find returns the schedule of a name: the daemon's own, or the one in Redis.
func (t *Table) Find(name string, on OnConn) (*recurring.Schedule, error) {
	if own := t.get(name); own != nil {
		return own, nil
	}
	var found *recurring.Schedule
	err := on(func(store resque.Store, c redis.Conn) error {
		text, there, err := store.PersistentSchedule(c, name)
		if err != nil {
			return err
		}
		if !there {
			return prefix.Errorf("%w: %s", recurring.ErrNoSchedule, name)
		}
		found, err = recurring.Read(name, text)
		return err
	})
	return found, err
}

// Infos returns the daemon's own schedules and those in Redis, sorted by name.
func (t *Table) Infos(on OnConn) (infos []recurring.Info, err error) {
	err = on(func(store resque.Store, c redis.Conn) (err error) {
		infos, err = recurring.Infos(store, c, t.all())
		return err
	})
	return infos, err
}
