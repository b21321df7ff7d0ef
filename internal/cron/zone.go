package cron

import "time"

// Next is the first tick strictly after a moment; zero if there is none.
//
// A cron that names every hour flows: it ticks whenever the wall clock shows a matching
// time. In an hour that the clock shows twice it ticks twice, because it is two
// hours; in one that the clock skips it does not.
//
// Any other cron names times of the day, and each of them comes once a day. In an hour that
// the clock shows twice it comes the first time. A time that the clock skips comes at the
// first moment after the gap, once for all times in the gap.
func (c *Cron) Next(after time.Time) time.Time {
	if c.flows {
		return c.nextFlowing(after)
	}
	face := c.face(after)
	for {
		face = c.nextOnClock(face)
		if face.IsZero() {
			return face
		}
		if tick := c.moment(face); tick.After(after) {
			return tick
		}
	}
}

// face is what the wall clock shows at a moment, as a time in UTC.
func (c *Cron) face(at time.Time) time.Time {
	_, offset := at.In(c.zone).Zone()
	return at.UTC().Add(seconds(offset))
}

// moment is when the wall clock first shows a face or, if the clock skips it,
// the end of the gap.
func (c *Cron) moment(face time.Time) time.Time {
	// No clock is set by more than a day, so the search begins before any moment with that
	// face. It goes from one period of constant offset to the next.
	var begin time.Time
	for at := face.Add(-26 * time.Hour); ; at = begin {
		_, offset := at.In(c.zone).Zone()
		end := periodEnd(at, c.zone)
		tick := face.Add(-seconds(offset))
		switch {
		case tick.Before(begin): // the clock has skipped it
			return begin.In(c.zone)
		case end.IsZero(), tick.Before(end):
			return tick.In(c.zone)
		}
		begin = end
	}
}

// nextFlowing looks at one period of constant offset after the other.
func (c *Cron) nextFlowing(after time.Time) time.Time {
	from := c.face(after)
	for last := after.AddDate(searchYears, 0, 0); after.Before(last); {
		_, offset := after.In(c.zone).Zone()
		end := periodEnd(after, c.zone)
		face := c.nextOnClock(from)
		if face.IsZero() {
			return face
		}
		tick := face.Add(-seconds(offset))
		if end.IsZero() || tick.Before(end) {
			return tick.In(c.zone)
		}
		after, from = end, c.face(end).Add(-time.Nanosecond) // the end itself may be a tick
	}
	return time.Time{}
}

// periodEnd is a moment after the given one up to which the offset does not change; zero:
// forever.
//
// On the last day of a leap year, time.ZoneBounds says that the period ended at the
// beginning of that day, if the zone's rule applies in place of its table.
func periodEnd(at time.Time, zone *time.Location) time.Time {
	_, end := at.In(zone).ZoneBounds()
	if !end.IsZero() && !end.After(at) {
		return time.Date(at.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return end
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
