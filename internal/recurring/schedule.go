// Package recurring describes recurring schedules: when they fire, which jobs they enqueue, and the form in which resque-scheduler keeps
// them in Redis and in files. Package scheduler fires them.
package recurring

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/cron"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// Recurring is a recurring schedule as a program, a file or Redis describes it. The public type of
// the same name says what its fields mean.
type Recurring struct {
	Cron         string
	Every        time.Duration
	FirstIn      time.Duration
	Location     *time.Location
	Fugit        string
	Class, Queue string
	Args         []any
	TickArg      bool
	Missed       string // MissedOnce, MissedSkip or MissedAll
	Grace        time.Duration
	Description  string
	Persist      bool
	Shared       bool
	Environments []string
}

// CountsIn reports whether a schedule that names environments counts in one.
func (r Recurring) CountsIn(environment string) bool {
	return r.Environments == nil || slices.Contains(r.Environments, environment)
}

// The policies for missed fire times.
const (
	MissedOnce = "once" // the last one is fired
	MissedSkip = "skip" // none is fired
	MissedAll  = "all"  // each one is fired
)

const (
	// DefaultGrace is a schedule's Grace unless it has one of its own.
	DefaultGrace = time.Minute

	// MaxMissed is how many late fire times of a schedule are fired at once.
	MaxMissed = 1000
)

// Schedule is a Recurring that was checked. It is immutable.
type Schedule struct {
	Recurring
	Name   string
	timing timing
}

// Check returns the schedule that r describes, with the defaults filled in, or an error that says
// what is wrong with it.
func Check(name string, r Recurring) (*Schedule, error) {
	s := &Schedule{Recurring: r, Name: name}
	if name == "" {
		return nil, errors.New("goworker: a recurring schedule needs a name")
	}
	s.Class = cmp.Or(r.Class, name)
	s.Missed = cmp.Or(r.Missed, MissedOnce)
	s.Grace = cmp.Or(r.Grace, DefaultGrace)
	if s.Location == nil {
		s.Location = time.Local
	}
	if s.Persist {
		s.Shared = true
	}
	s.Args = slices.Clone(r.Args)
	switch {
	case s.Queue == "":
		return nil, s.About(errors.New("it has no queue; name the one its jobs go to"))
	case s.Missed != MissedOnce && s.Missed != MissedSkip && s.Missed != MissedAll:
		return nil, s.About(fmt.Errorf("its Missed is %q: it must be %s, %s or %s", s.Missed, MissedOnce, MissedSkip, MissedAll))
	case s.Grace < 0 || s.FirstIn < 0:
		return nil, s.About(errors.New("its Grace and FirstIn must not be negative"))
	case s.FirstIn > cron.LongestPeriod:
		return nil, s.About(errors.New("its FirstIn is more than 100 years"))
	}
	var err error
	if s.timing, err = newTiming(s.Recurring); err != nil {
		return nil, s.About(err)
	}
	if _, err := s.Payload(payload.Plain, time.Time{}); err != nil {
		return nil, s.About(err)
	}
	return s, nil
}

// Read reads a schedule that is in Redis for all processes.
func Read(name, text string) (*Schedule, error) {
	var r Recurring
	if err := r.UnmarshalJSON([]byte(text)); err != nil {
		return nil, (&Schedule{Name: name}).About(err)
	}
	r.Persist = true
	return Check(name, r)
}

// About names the schedule in an error.
func (s *Schedule) About(err error) error {
	return prefix.Errorf("recurring schedule %s: %w", s.Name, err)
}

// WithoutDefaults returns the schedule without what Check filled in for how it treats missed fire times.
func (s *Schedule) WithoutDefaults() Recurring {
	r := s.Recurring
	if r.Missed == MissedOnce {
		r.Missed = ""
	}
	if r.Grace == DefaultGrace {
		r.Grace = 0
	}
	return r
}

// Persistent returns the schedule's JSON for all processes. It is an error if Ruby schedulers, or
// other daemons, would not read the same schedule from it.
func (s *Schedule) Persistent() ([]byte, error) {
	r := s.WithoutDefaults()
	if s.timing.cron != nil {
		var err error
		if r.Cron, err = s.timing.cron.ForRuby(); err != nil {
			return nil, s.About(fmt.Errorf("with Persist, the cron %q is also for Ruby schedulers, which would end at it: %w", s.Cron, err))
		}
		r.Location = nil // it is in the Cron
	}
	text, err := payload.EncodeValue(r, payload.Plain)
	if err != nil {
		return nil, s.About(err)
	}
	if _, err := Read(s.Name, string(text)); err != nil {
		return nil, prefix.Errorf("%w; others could not read it", err)
	}
	return text, nil
}

// TimingHash returns what Redis holds of the schedule's timing. Schedules with the same hash have
// the same fire times.
func (s *Schedule) TimingHash() string { return s.timing.hash }

// Zone is the time zone in which a Cron counts; nil: the schedule has a period.
func (s *Schedule) Zone() *time.Location {
	if s.timing.cron == nil {
		return nil
	}
	return s.timing.cron.Zone()
}

// JobArgs returns the arguments of the job that a fire time enqueues.
func (s *Schedule) JobArgs(at time.Time) []any {
	args := slices.Clone(s.Args)
	if s.TickArg {
		args = append(args, at.UTC().Format(time.RFC3339Nano))
	}
	return args
}

// Payload returns the job of a fire time.
func (s *Schedule) Payload(style payload.Style, at time.Time) ([]byte, error) {
	return payload.Encode(s.Class, s.JobArgs(at), style)
}

// Next returns the next fire time, going by what Redis knows of the schedule; zero if Redis knows
// nothing of it.
func (s *Schedule) Next(known resque.Ticks, now time.Time) time.Time {
	last := s.LastFired(known, now)
	if last.IsZero() {
		return last
	}
	return s.timing.next(last, Later(last, now))
}

// After returns the first fire time after the last fired one.
func (s *Schedule) After(last time.Time) time.Time { return s.timing.next(last, last) }

// Begins returns what counts as the last fired time of a schedule that is new to the fleet now.
func (s *Schedule) Begins(now time.Time) time.Time { return s.timing.begins(now, s.FirstIn) }

// TooFar reports whether a period cannot have fired at a time so far ahead.
func (s *Schedule) TooFar(last, now time.Time) bool {
	return s.timing.cron == nil && last.After(now.Add(s.timing.every+s.FirstIn))
}

// LastFired returns the time up to which the fleet is done with the schedule: its fire times were
// fired, skipped, or fired by Ruby. The next fire time of a period counts from it.
func (s *Schedule) LastFired(known resque.Ticks, now time.Time) time.Time {
	switch {
	case s.Unclear(known):
		return now
	case s.Shared && known.Foreign && known.Enqueued.After(known.Last) && !s.RubyAhead(known, now):
		return known.Enqueued
	default:
		return known.Last
	}
}

// Unclear reports whether a Ruby scheduler has fired the schedule at a time that cannot be read.
func (s *Schedule) Unclear(known resque.Ticks) bool {
	return s.Shared && known.Foreign && known.Enqueued.IsZero()
}

// rubySlack is how far a Ruby scheduler's clock may be ahead of Redis's.
const rubySlack = time.Minute

// RubyAhead reports whether a Ruby scheduler whose clock is wrong has fired the schedule. If the
// fleet believed that clock, it would fire nothing until that time.
func (s *Schedule) RubyAhead(known resque.Ticks, now time.Time) bool {
	return s.Shared && known.Foreign && known.Enqueued.After(now.Add(rubySlack))
}

// Due returns which fire times after the last fired one to fire now, and what then is the last
// fired time; zero: nothing is due.
func (s *Schedule) Due(lastFired, now time.Time) (fire []time.Time, last time.Time) {
	newest := s.timing.between(lastFired, lastFired, now, 1)
	if len(newest) == 0 {
		return nil, time.Time{}
	}
	last = newest[0]
	late := now.Add(-s.Grace)
	if late.Before(lastFired) || s.Missed == MissedAll {
		late = lastFired
	}
	fire = s.timing.between(lastFired, late, now, MaxMissed)
	if len(fire) == 0 && s.Missed == MissedOnce {
		fire = newest
	}
	return fire, last
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
