package goworker

import (
	"context"
	"errors"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/recurring"
)

// Recurring is a job that is enqueued again and again; see Daemon.Schedule. Either Cron
// or Every says when.
//
// Its JSON form is resque-scheduler's.
type Recurring struct {
	// Cron is read as Ruby's fugit does: five fields, or six with the seconds in front,
	// "30 4 * * mon-fri". A time zone may follow, "0 9 * * * Europe/Berlin". There are
	// also @hourly, @daily, @weekly, @monthly and @yearly.
	//
	// On days when clocks are set, a cron that means every hour follows real time: it
	// misses and doubles no hour. Any other cron has one tick for each time of day it
	// names. If clocks show that time twice, the tick is at the first. If they skip it,
	// the tick is right after the gap.
	Cron string

	// Every is the time from one tick to the next, at least a second and in whole
	// milliseconds. The ticks go on where they were when a new version of a program is
	// deployed.
	Every time.Duration

	// FirstIn is how long after the fleet first has the schedule it begins. Zero means one
	// period later, with Every, and at once, with Cron.
	FirstIn time.Duration

	// Location is the time zone of a Cron that names none. Nil means time.Local, as in
	// Ruby: programs that run the same schedule must then agree on it.
	Location *time.Location

	// Fugit is the version of the gem fugit with which Ruby schedulers read the Cron, as
	// in "1.11". Of several it is the oldest; it must be at least 1.5. It has two effects.
	// Before 1.12 the weeks of sun%2 are other ones, and this schedule follows them. With
	// Persist, a Cron is written only if that version and all later ones read it: fri& is
	// for 1.7 and later. Empty means the weeks of the newest version. With Persist it
	// means that every version since 1.5 must read the Cron, so that Crons with weeks are
	// refused.
	//
	// The weeks are counted by the gem et-orbi: with et-orbi 1.4 or later, an older fugit
	// counts them as 1.12 does.
	Fugit string

	// Class and Queue are those of the job. Without a Class it is the name of the
	// schedule.
	Class, Queue string

	// Args are the job's arguments.
	Args []any

	// TickArg adds the tick's time as the last argument, as in "2026-11-21T03:00:00Z":
	// the moment for which the job was meant, however late it runs.
	TickArg bool

	// Missed decides about ticks older than Grace that were not fired, because no daemon
	// ran or Redis was away. Empty means MissedOnce.
	Missed MissedPolicy

	// Grace is how late a tick may be and still be fired, with any Missed. Zero means
	// DefaultTickGrace.
	Grace time.Duration

	// Description is for people.
	Description string

	// Persist keeps the schedule in Redis in place of this process. There all daemons with
	// DynamicSchedule find it, and Ruby schedulers in dynamic mode. Its Cron is written in
	// a form that they read: "@daily" with a time zone as five fields. A Cron without such
	// a form is refused; see Fugit. A Location must have a name that other programs know,
	// as those of time.LoadLocation have.
	Persist bool

	// Shared marks a schedule that Ruby schedulers have as well, from the same file. While
	// one of them holds the schedulers' lock, only that one fires it. A schedule with
	// Persist is shared.
	Shared bool

	// Environments are those in which a schedule of a file or of Redis counts:
	// resque-scheduler's rails_env. Nil means all, and an empty list that it counts in
	// none. Schedule itself does not look at them.
	Environments []string
}

// MissedPolicy decides about missed ticks; see Recurring.Missed.
type MissedPolicy string

const (
	// MissedOnce fires the last of the missed ticks, unless a tick that is not too late is
	// fired at the same time.
	MissedOnce MissedPolicy = "once"
	// MissedSkip fires none of them, as resque-scheduler does.
	MissedSkip MissedPolicy = "skip"
	// MissedAll fires each of them, but not more than MaxMissedTicks, the last ones.
	MissedAll MissedPolicy = "all"
)

const (
	// DefaultTickGrace is a Recurring's Grace where none is set: a minute. The death of the
	// process that fires the ticks makes them late by a few seconds, no more.
	DefaultTickGrace = recurring.DefaultGrace
	// MaxMissedTicks is how many late ticks of a schedule are fired at once: 1,000.
	MaxMissedTicks = recurring.MaxMissed
)

// Schedule enqueues a job again and again from now on, or replaces the schedule of that
// name. Call it before or while the daemon runs; only a daemon that runs fires ticks.
// Its error says what is wrong with the schedule.
//
// A schedule with Persist is written to Redis at once, and ends one that this process has
// under that name. The daemons with DynamicSchedule fire it. It is refused if Ruby
// schedulers cannot read it: they would crash at it, at each start. A schedule without
// Persist leaves the one of its name in Redis alone, and in this process counts before it.
//
// Every process of the fleet that has the schedule can fire it, and each tick is fired
// once. The process that fired the tick before fires the next one. If it is late, another
// process fires it some seconds later. If two processes have different timings under one
// name, the timing of the process that fires counts until that process ends. The others
// say so in their logs.
//
// Redis holds what the fleet knows of a schedule, so that a new version of a program goes
// on where the one before stopped. A schedule that the fleet never had, or that was
// removed, begins now.
func (d *Daemon) Schedule(name string, r Recurring) error {
	if err := d.usable(); err != nil {
		return err
	}
	return d.recurring.Schedule(name, r.internal(), d.withConn)
}

// Unschedule ends a schedule: one of this process's, and one that is in Redis for all.
// It reports whether there was one. Jobs that were enqueued stay. Other processes that
// have the schedule go on with it. If it is scheduled again, it starts afresh.
func (d *Daemon) Unschedule(name string) (bool, error) {
	if err := d.usable(); err != nil {
		return false, err
	}
	return d.recurring.Unschedule(name, d.withConn)
}

// PauseSchedule makes the ticks of a schedule pass without a job, in the whole fleet and
// until ResumeSchedule. They are not fired later. It need not be a schedule of this
// process. Ruby schedulers do not know of it.
func (d *Daemon) PauseSchedule(name string) error {
	return d.unknownSchedule(name, d.inspect().PauseSchedule(context.Background(), name))
}

// ResumeSchedule ends PauseSchedule, from the next tick on.
func (d *Daemon) ResumeSchedule(name string) error {
	return d.unknownSchedule(name, d.inspect().ResumeSchedule(context.Background(), name))
}

// unknownSchedule is unknown for a schedule, which this process may know before Redis does.
func (d *Daemon) unknownSchedule(name string, err error) error {
	if errors.Is(err, inspect.ErrUnknownSchedule) {
		if _, other := d.recurring.Find(name, d.withConn); other == nil {
			return nil
		}
	}
	return d.unknown(err)
}

// RunScheduleNow enqueues the job of a schedule once, beside its ticks, also while it is
// paused. A TickArg is the time of the call.
func (d *Daemon) RunScheduleNow(name string) error {
	s, err := d.recurring.Find(name, d.withConn)
	if err != nil {
		return err
	}
	return d.Enqueue(&Job{Queue: s.Queue, Payload: Payload{Class: s.Class, Args: s.JobArgs(clock.System.Now())}})
}

// ScheduleInfo is a recurring schedule as it stands.
type ScheduleInfo struct {
	Name      string
	Recurring Recurring

	// Next is its next tick; zero while the fleet does not know the schedule yet.
	Next time.Time
	// LastEnqueued is when a scheduler last enqueued its job for a tick, in whole seconds;
	// zero: never.
	LastEnqueued time.Time
	// Paused is whether its ticks pass without a job.
	Paused bool
	// Broken says why a schedule that is in Redis does not run.
	Broken error
}

// Schedules returns the recurring schedules of this process and those that are in Redis
// for all, sorted by name. Where both have a name, it is this process's.
func (d *Daemon) Schedules() ([]ScheduleInfo, error) {
	found, err := d.recurring.Infos(d.withConn)
	var infos []ScheduleInfo
	for _, i := range found {
		infos = append(infos, ScheduleInfo{
			Name: i.Name, Recurring: publicRecurring(i.Recurring), Next: i.Next, LastEnqueued: i.LastEnqueued,
			Paused: i.Paused, Broken: i.Broken,
		})
	}
	return infos, err
}

// MarshalJSON writes the schedule as resque-scheduler keeps it in Redis. A field that only
// goworker knows is written if it is set.
func (r Recurring) MarshalJSON() ([]byte, error) {
	text, err := r.internal().MarshalJSON()
	return text, prefix.Of(err)
}

// UnmarshalJSON reads an entry as resque-scheduler does. Args that are an object or a
// single value are one argument; null and false are none. Of a cron and an every, the cron
// counts. Names of fields are case-sensitive: "Cron" is ignored.
func (r *Recurring) UnmarshalJSON(entry []byte) error {
	var read recurring.Recurring
	err := prefix.Of(read.UnmarshalJSON(entry))
	if err == nil {
		*r = publicRecurring(read)
	}
	return err
}

func (r Recurring) internal() recurring.Recurring {
	return recurring.Recurring{
		Cron: r.Cron, Every: r.Every, FirstIn: r.FirstIn, Location: r.Location, Fugit: r.Fugit,
		Class: r.Class, Queue: r.Queue, Args: r.Args, TickArg: r.TickArg,
		Missed: string(r.Missed), Grace: r.Grace, Description: r.Description,
		Persist: r.Persist, Shared: r.Shared, Environments: r.Environments,
	}
}

func publicRecurring(r recurring.Recurring) Recurring {
	return Recurring{
		Cron: r.Cron, Every: r.Every, FirstIn: r.FirstIn, Location: r.Location, Fugit: r.Fugit,
		Class: r.Class, Queue: r.Queue, Args: r.Args, TickArg: r.TickArg,
		Missed: MissedPolicy(r.Missed), Grace: r.Grace, Description: r.Description,
		Persist: r.Persist, Shared: r.Shared, Environments: r.Environments,
	}
}
