package recurring

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/cron"
)

// timing is when a schedule fires.
type timing struct {
	cron  *cron.Cron // nil: it fires every period
	every time.Duration
	hash  string // timings with the same hash have the same fire times
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
	t.hash = strconv.FormatUint(h.Sum64(), 36)
	return t, nil
}

// begins returns what counts as the last fired time of a schedule that is new to the fleet now.
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

// next returns the first fire time after a moment. Those of a period count from the anchor, which
// is one of them.
func (t timing) next(anchor, after time.Time) time.Time {
	if t.cron != nil {
		return t.cron.Next(after)
	}
	n := max(after.Sub(anchor)/t.every, 0)
	at := anchor.Add(n * t.every)
	if !at.After(after) {
		at = at.Add(t.every)
	}
	return at
}

// between returns the fire times after one moment and not after another. Of more than most it
// returns the last ones.
func (t timing) between(anchor, after, until time.Time, most int) (last []time.Time) {
	// It looks back in growing steps, since a long absence holds millions of fire times.
	for window := time.Minute; ; window *= 4 {
		from := until.Add(-window)
		whole := !from.After(after)
		if whole {
			from = after
		}
		last = last[:0]
		for at := t.next(anchor, from); !at.IsZero() && !at.After(until); at = t.next(anchor, at) {
			if last = append(last, at); len(last) > most {
				last = last[1:]
			}
		}
		if whole || len(last) == most {
			return last
		}
	}
}
