package recurring

import (
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// ErrNoSchedule is returned for a name that no recurring schedule has.
var ErrNoSchedule = prefix.New("there is no such recurring schedule")

// Info is a recurring schedule as it stands. The public type ScheduleInfo says what its fields mean.
type Info struct {
	Name         string
	Recurring    Recurring
	Next         time.Time
	LastEnqueued time.Time
	Paused       bool
	Broken       error

	Schedule *Schedule    // nil where it is broken
	Ticks    resque.Ticks // what Redis knows of its fire times
}

// Infos returns the schedules in Redis and a process's own, sorted by name. Of two with one name it is the process's.
func Infos(store resque.Store, c redis.Conn, own map[string]*Schedule) (infos []Info, err error) {
	now, err := store.Now(c)
	if err != nil {
		return nil, err
	}
	persistent, err := store.PersistentSchedules(c)
	if err != nil {
		return nil, err
	}
	paused, err := store.PausedSchedules(c)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*Schedule, len(own)+len(persistent))
	maps.Copy(all, own)
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
		return nil, nil
	}
	known, err := store.ReadTicks(c, names...)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		info := Info{Name: name, LastEnqueued: known[i].Enqueued, Paused: slices.Contains(paused, name), Broken: broken[name], Ticks: known[i]}
		if s := all[name]; s != nil {
			info.Schedule, info.Recurring, info.Next = s, s.Recurring, s.Next(known[i], now)
		}
		infos = append(infos, info)
	}
	return infos, nil
}
