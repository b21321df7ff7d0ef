package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// ClassRecord is a class as a process has registered it. Rules of operators are not in it; see Rules.
type ClassRecord struct {
	Name    string
	Options []string // in words, as in "how long a run may take: Timeout(30s)"

	Timeout time.Duration // 0: none
	Retries int           // how often a job is retried at most; -1: as often as needed
	Limits  []string      // the Spec of each limit that its jobs run under; see Limits

	Processes []string // those that have the class, sorted; of Registered
}

// ScheduleRecord is a recurring schedule that a process has in its code or in a file.
type ScheduleRecord struct {
	Name, Class, Queue string

	Args    []json.RawMessage
	TickArg bool          // the time of the tick is one more argument
	Cron    string        // or
	Every   time.Duration // the time from one tick to the next
	Zone    string        // of a Cron that names none; "Local" is that of the process's machine

	Description string

	Processes []string // those that have the schedule, sorted; of Registered

	is resque.RegisteredSchedule
}

// Registration is what the programs of processes have registered.
type Registration struct {
	Classes   []ClassRecord
	Schedules []ScheduleRecord

	// Left is how many classes and schedules are missing: a process writes at most 64 KiB. Silent are the processes that say nothing: they
	// are of older releases, or have just started.
	Left   int
	Silent []string
}

// ProcessMore returns what the program of one process has registered. It is empty, and the process Silent, where the process does not say.
// Over shards it is the first that knows the process.
func (i *Inspector) ProcessMore(ctx context.Context, id string) (Registration, error) {
	if i.several() {
		return over(i, func(a, b Registration) Registration {
			if len(a.Silent) > 0 {
				return b
			}
			return a
		}, func(one *Inspector) (Registration, error) { return one.ProcessMore(ctx, id) })
	}
	return i.registered(ctx, func(s resque.Store, c redis.Conn) (map[string]resque.Registered, []string, error) {
		all, err := s.ReadRegistered(c, id)
		return all, []string{id}, err
	})
}

// Registered returns what the programs of the fleet have registered, by name. It reads at most 250 processes. Where they differ about a
// class or a schedule, it is as the process has it whose program changed last.
func (i *Inspector) Registered(ctx context.Context) (Registration, error) {
	if i.several() {
		return over(i, func(a, b Registration) Registration {
			return Registration{
				Classes:   merge(a.Classes, b.Classes, func(c *ClassRecord) (*string, *[]string) { return &c.Name, &c.Processes }),
				Schedules: merge(a.Schedules, b.Schedules, func(s *ScheduleRecord) (*string, *[]string) { return &s.Name, &s.Processes }),
				Left:      a.Left + b.Left, Silent: union(a.Silent, b.Silent),
			}
		}, func(one *Inspector) (Registration, error) { return one.Registered(ctx) })
	}
	return i.registered(ctx, resque.Store.LiveRegistered)
}

func (i *Inspector) registered(ctx context.Context, read func(resque.Store, redis.Conn) (map[string]resque.Registered, []string, error)) (r Registration, err error) {
	err = i.do(ctx, func(s resque.Store, c redis.Conn) error {
		all, asked, err := read(s, c)
		if err == nil {
			r = registration(all, asked)
		}
		return err
	})
	return r, err
}

// registration merges what processes have registered, the newest first.
func registration(all map[string]resque.Registered, asked []string) (r Registration) {
	classes, schedules := make(map[string]*ClassRecord), make(map[string]*ScheduleRecord)
	byAge := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b].At, all[a].At), cmp.Compare(a, b)) })
	for _, process := range byAge {
		of := all[process]
		r.Left += of.Left
		for _, c := range of.Classes {
			if classes[c.Name] == nil {
				classes[c.Name] = &ClassRecord{Name: c.Name, Options: c.Options, Timeout: time.Duration(c.Timeout) * time.Millisecond, Retries: c.Retries, Limits: c.Limits}
			}
			classes[c.Name].Processes = append(classes[c.Name].Processes, process)
		}
		for _, s := range of.Schedules {
			if schedules[s.Name] == nil {
				schedules[s.Name] = &ScheduleRecord{
					Name: s.Name, Class: s.Class, Queue: s.Queue, Args: s.Args, TickArg: s.TickArg, Cron: s.Cron,
					Every: time.Duration(s.Every) * time.Millisecond, Zone: s.Zone, Description: s.Description, is: s,
				}
			}
			schedules[s.Name].Processes = append(schedules[s.Name].Processes, process)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		slices.Sort(classes[name].Processes)
		r.Classes = append(r.Classes, *classes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(schedules)) {
		slices.Sort(schedules[name].Processes)
		r.Schedules = append(r.Schedules, *schedules[name])
	}
	for _, process := range asked {
		if _, says := all[process]; !says {
			r.Silent = append(r.Silent, process)
		}
	}
	slices.Sort(r.Silent)
	return r
}

// merge merges what two shards say. Each is sorted by name.
func merge[R any](a, b []R, of func(*R) (name *string, processes *[]string)) []R {
	all := slices.Clone(a)
	for n := range b {
		name, processes := of(&b[n])
		at := slices.IndexFunc(all, func(r R) bool { known, _ := of(&r); return *known == *name })
		if at < 0 {
			all = append(all, b[n])
			continue
		}
		_, known := of(&all[at])
		*known = union(*known, *processes)
	}
	slices.SortFunc(all, func(x, y R) int {
		a, _ := of(&x)
		b, _ := of(&y)
		return cmp.Compare(*a, *b)
	})
	return all
}
