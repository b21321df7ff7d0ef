package scheduler

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// ErrNoSchedule is returned for a name that no recurring schedule has.
var ErrNoSchedule = prefix.New("there is no such recurring schedule")

// OnConn runs f on a connection to Redis.
type OnConn func(f func(resque.Store, redis.Conn) error) error

// Table holds the schedules that a daemon has of its own, from code and files. The zero value is
// ready. It is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	own     map[string]*Schedule
	changed func() // of the run, if there is one
}

func (t *Table) set(name string, s *Schedule) (was *Schedule) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was = t.own[name]
	if s == nil {
		delete(t.own, name)
	} else {
		if t.own == nil {
			t.own = make(map[string]*Schedule)
		}
		t.own[name] = s
	}
	if t.changed != nil {
		t.changed()
	}
	return was
}

func (t *Table) get(name string) *Schedule {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own[name]
}

// all returns a copy.
func (t *Table) all() map[string]*Schedule {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]*Schedule, len(t.own))
	maps.Copy(all, t.own)
	return all
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
func (t *Table) Schedule(name string, r Recurring, on OnConn) error {
	s, err := Check(name, r)
	if err == nil {
		if wrong := queues.CheckName(r.Queue, resque.New("").KeyOfQueue("")); wrong != nil {
			err = s.about(wrong)
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
func (t *Table) Find(name string, on OnConn) (*Schedule, error) {
	if own := t.get(name); own != nil {
		return own, nil
	}
	var found *Schedule
	err := on(func(store resque.Store, c redis.Conn) error {
		text, there, err := store.PersistentSchedule(c, name)
		if err != nil {
			return err
		}
		if !there {
			return prefix.Errorf("%w: %s", ErrNoSchedule, name)
		}
		found, err = Read(name, text)
		return err
	})
	return found, err
}

// Info is a recurring schedule as it stands. The public type ScheduleInfo says what its fields mean.
type Info struct {
	Name         string
	Recurring    Recurring
	Next         time.Time
	LastEnqueued time.Time
	Paused       bool
	Broken       error
}

// Infos returns the daemon's own schedules and those in Redis, sorted by name.
func (t *Table) Infos(on OnConn) ([]Info, error) {
	var infos []Info
	err := on(func(store resque.Store, c redis.Conn) error {
		now, err := store.Now(c)
		if err != nil {
			return err
		}
		persistent, err := store.PersistentSchedules(c)
		if err != nil {
			return err
		}
		paused, err := store.PausedSchedules(c)
		if err != nil {
			return err
		}
		all := t.all()
		broken := make(map[string]error)
		for name, text := range persistent {
			if all[name] == nil {
				if all[name], err = Read(name, text); err != nil {
					broken[name] = err
				}
			}
		}
		names := slices.Sorted(maps.Keys(all))
		if len(names) == 0 {
			return nil
		}
		known, err := store.ReadTicks(c, names...)
		if err != nil {
			return err
		}
		for i, name := range names {
			info := Info{Name: name, LastEnqueued: known[i].Enqueued, Paused: slices.Contains(paused, name), Broken: broken[name]}
			if s := all[name]; s != nil {
				info.Recurring, info.Next = s.Recurring, s.Next(known[i], now)
			}
			infos = append(infos, info)
		}
		return nil
	})
	return infos, err
}
