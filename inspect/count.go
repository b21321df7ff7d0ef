package inspect

import (
	"strconv"
	"time"
)

// Bound says what a Count is.
type Bound string

// The bounds of a Count. The zero Bound is Unknown.
const (
	Unknown Bound = ""        // nothing is known, and the number is 0
	Exact   Bound = "exact"   // it is the number, at the time of the sample
	AtLeast Bound = "atleast" // it is the number or less than it: not all was looked at
	AtMost  Bound = "atmost"  // it is the number or more than it
)

// Count is a number and what is known of it.
type Count struct {
	N     int64
	Bound Bound
}

// String is the number with its bound: "12", "≥12", "≤12" or "?".
func (c Count) String() string {
	n := strconv.FormatInt(c.N, 10)
	switch c.Bound {
	case Exact:
		return n
	case AtLeast:
		return "≥" + n
	case AtMost:
		return "≤" + n
	}
	return "?"
}

// Known reports whether anything is known of the number.
func (c Count) Known() bool { return c.Bound != Unknown }

func exactly(n int64) Count { return Count{n, Exact} }

// plus is the sum of two counts. What is not known is zero at least.
func (c Count) plus(d Count) Count {
	floor := func(bound Bound) bool { return bound == AtLeast || bound == Unknown }
	sum := Count{c.N + d.N, Exact}
	switch {
	case !c.Known() && !d.Known():
		return Count{}
	case floor(c.Bound) && d.Bound == AtMost, c.Bound == AtMost && floor(d.Bound):
		return Count{}
	case floor(c.Bound) || floor(d.Bound):
		sum.Bound = AtLeast
	case c.Bound == AtMost || d.Bound == AtMost:
		sum.Bound = AtMost
	}
	return sum
}

// Method says how an Age is known.
type Method string

// The methods of an Age. The zero Method is that of an age that is not known.
const (
	AgeUnknown Method = ""
	AgeExact   Method = "exact"   // the job says when it was enqueued
	AgeCounted Method = "counted" // from how many jobs were pushed and taken, within some seconds
	AgeSeen    Method = "seen"    // at least: a sample that long ago saw the same job at the head
)

// Age is how long a job has waited.
type Age struct {
	For    time.Duration
	Method Method
}

// Known reports whether anything is known of the age.
func (a Age) Known() bool { return a.Method != AgeUnknown }

// String is the age with a mark of its method: "4m10s", "≈4m10s", ">4m10s" or "?".
func (a Age) String() string {
	text := a.For.Round(100 * time.Millisecond).String()
	if a.For >= 10*time.Second {
		text = a.For.Round(time.Second).String()
	}
	switch a.Method {
	case AgeExact:
		return text
	case AgeCounted:
		return "≈" + text
	case AgeSeen:
		return ">" + text
	}
	return "?"
}

// Rate is how often something happens.
type Rate struct {
	PerSecond float64
	Bound     Bound
}

// Known reports whether anything is known of the rate.
func (r Rate) Known() bool { return r.Bound != Unknown }
