package goworker

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/cron"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Recurring is a job that is enqueued again and again; see Daemon.Schedule. Either Cron
// or Every says when.
//
// Its JSON form is resque-scheduler's.
type Recurring struct {
	// Cron says when as Ruby's fugit reads it: five fields, or six with the seconds in
	// front, "30 4 * * mon-fri"; a time zone may follow, "0 9 * * * Europe/Berlin".
	// @hourly, @daily, @weekly, @monthly and @yearly are crons too.
	//
	// On days when clocks are set, a cron that means every hour follows real time: it
	// misses and doubles no hour. Any other comes once for each time of day it names: the
	// first time, where clocks show it twice, and right after the gap, where they leave
	// it out.
	Cron string

	// Every is the time from one tick to the next, at least a second and in whole
	// milliseconds. The ticks go on where they were when a program is deployed anew.
	Every time.Duration

	// FirstIn is how long after the fleet first hears of the schedule it begins. Zero
	// means one period later, with Every, and at once, with Cron.
	FirstIn time.Duration

	// Location is the time zone of a Cron that names none. Nil means time.Local, as in
	// Ruby: programs that run the same schedule must then agree on it.
	Location *time.Location

	// Fugit is the version of the gem fugit with which Ruby schedulers read the Cron, as
	// in "1.11"; of several the oldest, and at least 1.5. It says two things. Before 1.12
	// the weeks of sun%2 are other ones, and this schedule follows them. And with Persist,
	// a Cron is written only if that version and all later ones read it: fri& is for 1.7
	// and later. Empty means, of the weeks, those of the newest version; and with Persist,
	// what every version since 1.5 reads, so that Crons with weeks are refused.
	//
	// The weeks are counted by the gem et-orbi: with et-orbi 1.4 or later, an older fugit
	// counts them as 1.12 does.
	Fugit string

	// Class and Queue say what is enqueued and where. Without a Class it is the name of
	// the schedule.
	Class, Queue string

	// Args are the job's arguments.
	Args []any

	// TickArg adds the tick's time as the last argument, as in "2026-11-21T03:00:00Z":
	// the moment for which the job was meant, however late it runs.
	TickArg bool

	// Missed says what becomes of ticks older than Grace that nobody fired, since no
	// daemon ran or Redis was away. Empty means MissedOnce.
	Missed MissedPolicy

	// Grace is how late a tick may be and still be fired for its own sake, whatever
	// Missed says. Zero means DefaultTickGrace.
	Grace time.Duration

	// Description is for people.
	Description string

	// Persist keeps the schedule in Redis, where all daemons with DynamicSchedule and
	// Ruby schedulers in dynamic mode find it, in place of this process. Its Cron is
	// written in words that they read: "@daily" with a time zone as five fields. One for
	// which there are none is refused; see Fugit. A Location must have a name that others
	// know, as those of time.LoadLocation have.
	Persist bool

	// Shared marks a schedule that Ruby schedulers have as well, from the same file: it
	// is left to them while one of them holds their lock. Those with Persist are.
	Shared bool

	// Environments are those in which a schedule of a file or of Redis counts:
	// resque-scheduler's rails_env. Nil means all, and an empty list that it counts in
	// none. Schedule itself does not look at them.
	Environments []string
}

// MissedPolicy says what becomes of missed ticks; see Recurring.Missed.
type MissedPolicy string

const (
	// MissedOnce fires the last of the missed ticks, unless one that is not too late is
	// fired at the same time anyway.
	MissedOnce MissedPolicy = "once"
	// MissedSkip fires none of them, as resque-scheduler does.
	MissedSkip MissedPolicy = "skip"
	// MissedAll fires each of them, but not more than MaxMissedTicks, the last ones.
	MissedAll MissedPolicy = "all"
)

const (
	// DefaultTickGrace is a Recurring's Grace when nobody sets it. The death of the
	// process that fires the ticks makes them late by a few seconds, no more.
	DefaultTickGrace = time.Minute
	// MaxMissedTicks is how many late ticks of a schedule are fired at once.
	MaxMissedTicks = 1000
)

// recurring is a Recurring that was checked. It is immutable.
type recurring struct {
	Recurring
	name   string
	timing timing
}

func newRecurring(name string, r Recurring) (*recurring, error) {
	d := &recurring{Recurring: r, name: name}
	if name == "" {
		return nil, errors.New("goworker: a recurring schedule needs a name")
	}
	d.Class = cmp.Or(r.Class, name)
	d.Missed = cmp.Or(r.Missed, MissedOnce)
	d.Grace = cmp.Or(r.Grace, DefaultTickGrace)
	if d.Location == nil {
		d.Location = time.Local
	}
	if d.Persist {
		d.Shared = true
	}
	d.Args = slices.Clone(r.Args)
	switch {
	case d.Queue == "":
		return nil, d.about(errors.New("it has no queue; name the one its jobs go to"))
	case d.Missed != MissedOnce && d.Missed != MissedSkip && d.Missed != MissedAll:
		return nil, d.about(fmt.Errorf("its Missed is %q: it must be %s, %s or %s", d.Missed, MissedOnce, MissedSkip, MissedAll))
	case d.Grace < 0 || d.FirstIn < 0:
		return nil, d.about(errors.New("its Grace and FirstIn must not be negative"))
	case d.FirstIn > cron.LongestPeriod:
		return nil, d.about(errors.New("its FirstIn is more than 100 years"))
	}
	var err error
	if d.timing, err = newTiming(d.Recurring); err != nil {
		return nil, d.about(err)
	}
	if _, err := d.payload(payload.Plain, time.Time{}); err != nil {
		return nil, d.about(err)
	}
	return d, nil
}

func (d *recurring) about(err error) error {
	return fmt.Errorf("goworker: recurring schedule %s: %w", d.name, err)
}

// job is what a tick enqueues.
func (d *recurring) job(tick time.Time) *Job {
	args := slices.Clone(d.Args)
	if d.TickArg {
		args = append(args, tick.UTC().Format(time.RFC3339Nano))
	}
	return &Job{Queue: d.Queue, Payload: Payload{Class: d.Class, Args: args}}
}

func (d *recurring) payload(style payload.Style, tick time.Time) ([]byte, error) {
	job := d.job(tick)
	return payload.Encode(job.Payload.Class, job.Payload.Args, style)
}

// timing is when a schedule's ticks are.
type timing struct {
	cron  *cron.Cron
	every time.Duration
	mark  string // two timings with the same mark are the same
}

func newTiming(r Recurring) (timing, error) {
	t := timing{every: r.Every}
	gem, err := cron.ParseGem(r.Fugit)
	switch {
	case err != nil:
		return t, fmt.Errorf("its Fugit is wrong: %w", err)
	case r.Cron != "" && r.Every != 0:
		return t, errors.New("it has a Cron and an Every; one of them says when")
	case r.Cron != "":
		if t.cron, err = cron.Parse(r.Cron, r.Location, gem); err != nil {
			return t, err
		}
	case r.Every == 0:
		return t, errors.New("it has neither a Cron nor an Every to say when")
	case r.Every < time.Second || r.Every > cron.LongestPeriod || r.Every%time.Millisecond != 0:
		return t, fmt.Errorf("its Every is %v: it must be at least a second, at most 100 years, and in whole milliseconds", r.Every)
	}
	h := fnv.New64a()
	if t.cron == nil {
		fmt.Fprint(h, r.Every)
	} else {
		zone := t.cron.Zone()
		fmt.Fprint(h, r.Cron, zone)
		for _, month := range []time.Month{time.January, time.July} { // "Local" is not the same everywhere
			_, offset := time.Date(2026, month, 1, 0, 0, 0, 0, zone).Zone()
			fmt.Fprint(h, " ", offset)
		}
		fmt.Fprint(h, t.cron.Weeks())
	}
	t.mark = strconv.FormatUint(h.Sum64(), 36)
	return t, nil
}

// begins is what stands for the last tick of a schedule that the fleet hears of now.
func (t timing) begins(now time.Time, firstIn time.Duration) time.Time {
	switch {
	case firstIn == 0:
		return now
	case t.cron != nil:
		return now.Add(firstIn - time.Millisecond)
	default:
		return now.Add(firstIn - t.every)
	}
}

// next is the first tick after a moment. Those of a period count from the anchor, which
// is one of them.
func (t timing) next(anchor, after time.Time) time.Time {
	if t.cron != nil {
		return t.cron.Next(after)
	}
	n := max(after.Sub(anchor)/t.every, 0)
	tick := anchor.Add(n * t.every)
	if !tick.After(after) {
		tick = tick.Add(t.every)
	}
	return tick
}

// ticks are those after one moment and not after another; if they are more than most, the
// last ones, and whether there are others before.
func (t timing) ticks(anchor, after, until time.Time, most int) (last []time.Time, more bool) {
	// Looking back in growing steps, since a long absence holds millions of ticks.
	for window := time.Minute; ; window *= 4 {
		from := until.Add(-window)
		whole := !from.After(after)
		if whole {
			from = after
		}
		last = last[:0]
		for tick := t.next(anchor, from); !tick.IsZero() && !tick.After(until); tick = t.next(anchor, tick) {
			if last = append(last, tick); len(last) > most {
				last, more = last[1:], true
			}
		}
		if whole {
			return last, more
		}
		if len(last) == most {
			return last, true // or perhaps not
		}
	}
}

// done is up to when ticks are done with; the next of a period counts from then.
func (d *recurring) done(ticks resque.Ticks, now time.Time) time.Time {
	switch {
	case d.unclear(ticks):
		return now
	case d.Shared && ticks.Foreign && ticks.Enqueued.After(ticks.Last) && !d.rubyAhead(ticks, now):
		return ticks.Enqueued
	default:
		return ticks.Last
	}
}

// unclear reports whether a Ruby scheduler has fired ticks and nobody knows which.
func (d *recurring) unclear(ticks resque.Ticks) bool {
	return d.Shared && ticks.Foreign && ticks.Enqueued.IsZero()
}

// rubySlack is how far ahead of Redis's clock that of a Ruby scheduler is believed.
const rubySlack = time.Minute

// rubyAhead reports whether a Ruby scheduler whose clock is wrong has fired ticks. Were
// it believed, there would be none until that time comes.
func (d *recurring) rubyAhead(ticks resque.Ticks, now time.Time) bool {
	return d.Shared && ticks.Foreign && ticks.Enqueued.After(now.Add(rubySlack))
}

// due are the ticks to be fired now, of those after the one that was last done with, and
// the last one that is done with then; zero: none is.
func (d *recurring) due(done, now time.Time) (fire []time.Time, last time.Time) {
	newest, _ := d.timing.ticks(done, done, now, 1)
	if len(newest) == 0 {
		return nil, time.Time{}
	}
	last = newest[0]
	late := now.Add(-d.Grace)
	if late.Before(done) || d.Missed == MissedAll {
		late = done
	}
	fire, _ = d.timing.ticks(done, late, now, MaxMissedTicks)
	if len(fire) == 0 && d.Missed == MissedOnce {
		fire = newest
	}
	return fire, last
}
