package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/recurring"
	"github.com/goworker/goworker/internal/resque"
)

// ErrScheduleElsewhere is returned for a recurring schedule that Redis does not hold: a process has it in its code or in its
// file, and Redis knows its ticks only.
var ErrScheduleElsewhere = prefix.New("the schedule is not in Redis; a process has it in its code or its file, change it there")

// Where a recurring schedule is: the values of ScheduleInfo.Source.
const (
	SourceRedis = "redis" // in Redis, for all schedulers
	SourceCode  = "code"  // in the code or in a file of processes that are there
)

// ScheduleInfo is a recurring schedule as Redis knows it.
type ScheduleInfo struct {
	Name string

	// Source is SourceRedis or SourceCode; "": nobody says. Of the last Redis knows the ticks, and all fields from Config to Next are zero.
	// A schedule that is in both is as in Redis.
	Source    string
	Processes []string // those that have it in their code or in a file, sorted

	// Kept is whether the schedule itself is in Redis, for all schedulers. Only then it has a Config, and may be Broken or have Environments.
	Kept   bool
	Config json.RawMessage // as it is kept: an entry of resque-scheduler
	Broken error           // why it does not run

	Class, Queue string
	Args         []json.RawMessage
	Cron         string        // or
	Every        time.Duration // the time from one tick to the next
	Zone         string        // of a Cron: the time zone in which it counts; "Local" is that of the process that fires it
	Description  string
	Environments []string  // those in which it counts; nil: all
	Next         time.Time // its next tick; zero while nothing has begun it, and where only the machine of the process knows the time zone

	LastTick     time.Time // up to here the fleet is done with its ticks; zero: a goworker process never had it
	LastEnqueued time.Time // when a scheduler last enqueued its job, in whole seconds; zero: never
	Owner        string    // the process that fires it; "": none at present
	Paused       bool

	Shard string // of several Redises, the one where it is

	is    *recurring.Schedule
	ticks resque.Ticks
	shard int
}

// Schedules returns the recurring schedules that Redis knows, sorted by name: those that are kept there, those that have fired
// or are paused, and those that processes have in their code or in a file, as in Registered. Of a process of an older release it knows
// only those that have had a tick.
func (i *Inspector) Schedules(ctx context.Context) ([]ScheduleInfo, error) {
	if i.several() {
		all, err := over(i, func(a, b []ScheduleInfo) []ScheduleInfo { return append(a, b...) }, func(one *Inspector) ([]ScheduleInfo, error) {
			infos, err := one.Schedules(ctx)
			for n := range infos {
				infos[n].Shard, infos[n].shard = one.name(), one.number
			}
			return infos, err
		})
		slices.SortStableFunc(all, func(a, b ScheduleInfo) int { return cmp.Compare(a.Name, b.Name) })
		return all, err
	}
	return query(ctx, i, schedulesOf)
}

func schedulesOf(s resque.Store, c redis.Conn) ([]ScheduleInfo, error) {
	kept, err := s.PersistentSchedules(c)
	if err != nil {
		return nil, err
	}
	paused, err := s.PausedSchedules(c)
	if err != nil {
		return nil, err
	}
	names, err := s.KnownSchedules(c)
	if err != nil {
		return nil, err
	}
	own := registrationOf(s, c).Schedules
	inCode := make(map[string]*ScheduleRecord, len(own))
	for n := range own {
		inCode[own[n].Name] = &own[n]
	}
	names = union(union(slices.Sorted(maps.Keys(kept)), paused), union(names, slices.Sorted(maps.Keys(inCode))))
	if len(names) == 0 {
		return nil, nil
	}
	now, err := s.Now(c)
	if err != nil {
		return nil, err
	}
	ticks, err := s.ReadTicks(c, names...)
	if err != nil {
		return nil, err
	}
	infos := make([]ScheduleInfo, len(names))
	for n, name := range names {
		info := ScheduleInfo{
			Name: name, LastTick: ticks[n].Last, LastEnqueued: ticks[n].Enqueued, Paused: slices.Contains(paused, name), ticks: ticks[n],
		}
		if info.Owner = ticks[n].Owner; ticks[n].Owner == resque.NoOwner || !ticks[n].Removed().IsZero() {
			info.Owner = ""
		}
		if r := inCode[name]; r != nil {
			info.has(r, now)
		}
		if text, there := kept[name]; there {
			info.keep(text, now)
		}
		infos[n] = info
	}
	return infos, nil
}

// registrationOf is Registered where its lack hides nothing else: one that may not be read.
func registrationOf(s resque.Store, c redis.Conn) Registration {
	all, asked, err := s.LiveRegistered(c)
	if err != nil {
		return Registration{}
	}
	return registration(all, asked)
}

// has fills in what processes say of a schedule that they have.
func (s *ScheduleInfo) has(r *ScheduleRecord, now time.Time) {
	s.Source, s.Processes = SourceCode, r.Processes
	s.Class, s.Queue, s.Args, s.Cron, s.Every, s.Description = r.Class, r.Queue, r.Args, r.Cron, r.Every, r.Description
	if is, err := recurring.FromRecord(r.is); err == nil {
		s.is, s.Next = is, is.Next(s.ticks, now)
		s.zone()
	}
}

// zone fills in the time zone of a Cron.
func (s *ScheduleInfo) zone() {
	if zone := s.is.Zone(); zone != nil {
		s.Zone = zone.String()
	}
}

// keep fills in what a schedule that is kept in Redis says.
func (s *ScheduleInfo) keep(text string, now time.Time) {
	*s = ScheduleInfo{
		Name: s.Name, Source: SourceRedis, Processes: s.Processes,
		LastTick: s.LastTick, LastEnqueued: s.LastEnqueued, Owner: s.Owner, Paused: s.Paused, ticks: s.ticks,
	}
	if s.Kept, s.Config = true, json.RawMessage(text); !json.Valid(s.Config) {
		s.Config, _ = json.Marshal(text)
	}
	if s.is, s.Broken = recurring.Read(s.Name, text); s.Broken != nil {
		return
	}
	s.Class, s.Queue, s.Cron, s.Every = s.is.Class, s.is.Queue, s.is.Cron, s.is.Every
	s.zone()
	s.Description, s.Environments, s.Next = s.is.Description, s.is.Environments, s.is.Next(s.ticks, now)
	for _, arg := range s.is.Args {
		raw, _ := arg.(json.RawMessage) // as it was read
		s.Args = append(s.Args, raw)
	}
}

// Schedule returns the recurring schedule of a name. The error is ErrUnknownSchedule if Redis does not know it.
func (i *Inspector) Schedule(ctx context.Context, name string) (ScheduleInfo, error) {
	if err := i.usable(); err != nil {
		return ScheduleInfo{}, err
	}
	all, err := i.Schedules(ctx)
	at := slices.IndexFunc(all, func(s ScheduleInfo) bool { return s.Name == name && s.Kept })
	if at < 0 {
		at = slices.IndexFunc(all, func(s ScheduleInfo) bool { return s.Name == name })
	}
	switch {
	case at >= 0:
		return all[at], nil
	case err != nil:
		return ScheduleInfo{}, err
	}
	return ScheduleInfo{}, prefix.Errorf("schedule %s: %w", name, ErrUnknownSchedule)
}

// NextTicks returns the next ticks of a recurring schedule that is kept in Redis: at most count. The error is ErrScheduleElsewhere for one
// that is not.
func (i *Inspector) NextTicks(ctx context.Context, name string, count int) (ticks []time.Time, err error) {
	s, err := i.kept(ctx, name)
	if err != nil || s.Next.IsZero() {
		return nil, err
	}
	for at := s.Next; len(ticks) < count && !at.IsZero(); at = s.is.After(at) {
		ticks = append(ticks, at)
	}
	return ticks, nil
}

// Upcoming returns the next ticks of a schedule as it was read: those before a time, and at most so many. There are none where Next is zero. It asks
// Redis nothing.
func (s ScheduleInfo) Upcoming(before time.Time, most int) (ticks []time.Time) {
	if s.is == nil {
		return nil
	}
	for at := s.Next; len(ticks) < most && !at.IsZero() && at.Before(before); at = s.is.After(at) {
		ticks = append(ticks, at)
	}
	return ticks
}

// kept is Schedule for one that is kept in Redis and can be read.
func (i *Inspector) kept(ctx context.Context, name string) (ScheduleInfo, error) {
	s, err := i.Schedule(ctx, name)
	switch {
	case err != nil:
		return s, err
	case !s.Kept:
		return s, prefix.Errorf("schedule %s: %w", name, ErrScheduleElsewhere)
	}
	return s, s.Broken
}

// RunSchedule enqueues the job of a recurring schedule that is kept in Redis once, beside its ticks, also while it is paused. An argument that
// is to be the time of the tick is the present time.
func (i *Inspector) RunSchedule(ctx context.Context, name string) error {
	return i.runSchedule(ctx, name, nil)
}

// RunScheduleWith is RunSchedule with these arguments in place of the schedule's own. The schedule keeps its own.
func (i *Inspector) RunScheduleWith(ctx context.Context, name string, args []json.RawMessage) error {
	if args == nil {
		args = []json.RawMessage{}
	}
	return i.runSchedule(ctx, name, args)
}

func (i *Inspector) runSchedule(ctx context.Context, name string, args []json.RawMessage) error {
	s, err := i.kept(ctx, name)
	if err != nil {
		return err
	}
	one := i.at(s.shard)
	settings, err := one.redis.Settings()
	if err != nil {
		return err
	}
	is := *s.is
	if args != nil {
		is.Args = nil
		for _, arg := range args {
			is.Args = append(is.Args, arg)
		}
	}
	job, err := is.Payload(settings.Style, clock.System.Now())
	if err == nil {
		err = payload.CheckSize(job, settings.MaxPayload)
	}
	if err != nil {
		return is.About(err)
	}
	err = one.do(ctx, func(store resque.Store, c redis.Conn) error { return store.Push(c, s.Queue, job) })
	return one.record(ctx, "RunSchedule", "schedule "+name, once(err == nil), err)
}

// RemoveSchedule removes a recurring schedule that is kept in Redis, from all shards that have it. Ruby's schedulers and those daemons that
// read schedules there drop it within seconds. Jobs that were enqueued stay. Scheduled again, it starts afresh.
func (i *Inspector) RemoveSchedule(ctx context.Context, name string) error {
	s, err := i.Schedule(ctx, name)
	if err == nil && !s.Kept {
		err = prefix.Errorf("schedule %s: %w", name, ErrScheduleElsewhere)
	}
	if err != nil {
		return err
	}
	return i.each(func(one *Inspector) error {
		removed, err := query(ctx, one, func(store resque.Store, c redis.Conn) (bool, error) { return store.RemoveSchedule(c, name) })
		return one.recordOld(ctx, "RemoveSchedule", "schedule "+name, string(s.Config), once(removed), err)
	})
}

// ScheduleDiff is a difference between a file of schedules and Redis.
type ScheduleDiff struct {
	Name string

	// What says which: "only in the file", "only in Redis", "differs", or "other times": Redis knows the ticks of a schedule that a process
	// has in its code or file, and these come at other times than the entry's.
	What string

	File, Redis json.RawMessage // of an entry that differs, in one form; nil where it is not there
	Fields      []string        // of an entry that differs, those in which it does
}

// What a ScheduleDiff says.
const (
	OnlyInFile  = "only in the file"
	OnlyInRedis = "only in Redis"
	Differs     = "differs"
	OtherTimes  = "other times"
)

// DiffSchedules compares the entries of a schedule.yml, as JSON, with the recurring schedules that Redis knows. Equal ones are left out. An entry
// that has fired with the times of the file is equal, since a process has it. The error names the entries that cannot be read; the others are
// compared.
func (i *Inspector) DiffSchedules(ctx context.Context, file map[string]json.RawMessage) ([]ScheduleDiff, error) {
	known, err := i.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	there := make(map[string]ScheduleInfo, len(known))
	for _, s := range known {
		if old, twice := there[s.Name]; !twice || !old.Kept {
			there[s.Name] = s
		}
	}
	var diffs []ScheduleDiff
	var errs []error
	for _, name := range union(slices.Sorted(maps.Keys(file)), slices.Sorted(maps.Keys(there))) {
		text, inFile := file[name]
		s, known := there[name]
		switch {
		case !inFile:
			diffs = append(diffs, ScheduleDiff{Name: name, What: OnlyInRedis, Redis: s.Config})
			continue
		case !known:
			diffs = append(diffs, ScheduleDiff{Name: name, What: OnlyInFile, File: text})
			continue
		}
		entry, err := recurring.Read(name, string(text))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		d, err := s.differs(entry)
		if err != nil {
			errs = append(errs, err)
		}
		if d.What != "" {
			diffs = append(diffs, d)
		}
	}
	return diffs, errors.Join(errs...)
}

// differs compares a schedule with an entry of a file.
func (s ScheduleInfo) differs(entry *recurring.Schedule) (d ScheduleDiff, err error) {
	d.Name = s.Name
	if !s.Kept {
		if s.ticks.Timing != "" && s.ticks.Timing != entry.TimingHash() {
			d.What = OtherTimes
		}
		return d, nil
	}
	if d.File, err = json.Marshal(entry.WithoutDefaults()); err != nil {
		return d, err
	}
	if d.Redis = s.Config; s.Broken == nil {
		if d.Redis, err = json.Marshal(s.is.WithoutDefaults()); err != nil {
			return d, err
		}
	}
	var a, b map[string]json.RawMessage
	_ = json.Unmarshal(d.File, &a)
	_ = json.Unmarshal(d.Redis, &b)
	for _, field := range union(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))) {
		if !bytes.Equal(a[field], b[field]) {
			d.Fields = append(d.Fields, field)
		}
	}
	if len(d.Fields) > 0 {
		d.What = Differs
		return d, nil
	}
	return ScheduleDiff{Name: s.Name}, nil
}
