package depth

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

const (
	// mostPairs is how many moments an odometer remembers.
	mostPairs = 256

	// passedPairs is how many of them may be of jobs that have left the queue: jobs come back to the head.
	passedPairs = 8

	// mostTrail is how many it leaves to the next keeper.
	mostTrail = 8

	// settle is how long fewer jobs than expected must be there before they count as removed. Before that they are in
	// processes that have not yet said what they took.
	settle = 10 * time.Second

	// rateOver is over how long rates are taken, and rateEvery how often a moment is kept for that.
	rateOver  = time.Minute
	rateEvery = 10 * time.Second
)

// odometer finds out since when the job at the head of a queue waits, by how many jobs were pushed: those that were taken and
// those that are there. The job at the head is the one behind all that were taken. It was pushed when the number of the pushed
// passed its own.
//
// It does not see who removes a job from the middle, and takes it for one that left at the head.
type odometer struct {
	pairs   []resque.Passed // ascending; what was pushed between two looks was pushed between their times
	looked  time.Time       // the last look; zero: there was none
	top     int64           // how many were pushed
	length  int64           // jobs that are there
	removed int64           // how many left without being counted as taken

	missing time.Time // since when fewer are there than pushed says; zero: they are all there
	least   int64     // how few of them were missing since then

	marks []mark // for rates, oldest first
}

// mark is a moment for rates.
type mark struct {
	at     time.Time
	pushed int64
	gone   int64
}

// resume goes on with what the keeper before has left.
func (o *odometer) resume(d resque.Depth) {
	o.pairs, o.looked, o.top, o.removed = slices.Clone(d.Trail), d.At, d.Pushed, d.Removed
	if len(o.pairs) == 0 || o.pairs[len(o.pairs)-1].Pushed < o.top {
		o.pairs = append(o.pairs, resque.Passed{From: d.At, To: d.At, Pushed: o.top})
	}
}

// look takes how many jobs were taken and how many are there, both of one moment.
func (o *odometer) look(at time.Time, taken, length int64) {
	pushed := taken + o.removed + length
	o.length = length
	switch {
	case o.looked.IsZero():
		o.pairs, o.top = []resque.Passed{{From: at, To: at, Pushed: pushed}}, pushed
	case pushed > o.top:
		o.pairs, o.top = append(o.pairs, resque.Passed{From: o.looked, To: at, Pushed: pushed}), pushed
	}
	o.looked = at
	o.notice(at, o.top-pushed)
	o.thin()
	o.mark(at)
}

// notice takes jobs for removed that were missing for a while.
func (o *odometer) notice(at time.Time, missing int64) {
	switch {
	case missing <= 0:
		o.missing = time.Time{}
	case o.missing.IsZero():
		o.missing, o.least = at, missing
	default:
		o.least = min(o.least, missing)
		if at.Sub(o.missing) >= settle {
			o.removed += o.least
			o.missing = time.Time{}
		}
	}
}

// thin forgets moments that have passed. Where there are too many, it makes one of the two next to each other that are
// closest together for their age.
func (o *odometer) thin() {
	if passed := o.find(o.head()) - passedPairs; passed > 0 {
		o.pairs = slices.Delete(o.pairs, 0, passed)
	}
	for len(o.pairs) > mostPairs {
		closest, best := 0, math.Inf(1)
		for i := 1; i+1 < len(o.pairs); i++ { // the first one says from where on the others are known
			next := &o.pairs[i+1]
			width := float64(next.To.Sub(o.pairs[i].From)) / float64(o.looked.Sub(next.To)+time.Second)
			if width < best {
				closest, best = i, width
			}
		}
		o.pairs[closest+1].From = o.pairs[closest].From
		o.pairs = slices.Delete(o.pairs, closest, closest+1)
	}
}

// head is the number of the job at the head.
func (o *odometer) head() int64 { return o.top - o.length + 1 }

// find returns which pair is the first that reaches a number.
func (o *odometer) find(number int64) int {
	return sort.Search(len(o.pairs), func(i int) bool { return o.pairs[i].Pushed >= number })
}

// oldest returns since when the job at the head waits, and whether that is counted. If not, it waits longer.
func (o *odometer) oldest() (since time.Time, counted bool) {
	if o.length <= 0 || len(o.pairs) == 0 {
		return time.Time{}, true
	}
	number := o.head()
	i := o.find(number)
	if i == 0 {
		return o.pairs[0].To, false
	}
	i = min(i, len(o.pairs)-1)
	before, p := o.pairs[i-1], o.pairs[i]
	part := float64(number-before.Pushed) / float64(p.Pushed-before.Pushed)
	return p.From.Add(time.Duration(min(part, 1) * float64(p.To.Sub(p.From)))), true
}

// trail returns a few moments for the next keeper: the ones between which jobs came most evenly.
func (o *odometer) trail() []resque.Passed {
	if o.length <= 0 {
		return nil
	}
	waiting := o.pairs[max(0, min(o.find(o.head()), len(o.pairs)-1)-1):]
	chosen := []int{0, len(waiting) - 1}
	for len(chosen) < min(mostTrail, len(waiting)) {
		worst, far := 0, -1.0
		for i := 1; i < len(chosen); i++ {
			from, to := waiting[chosen[i-1]], waiting[chosen[i]]
			for at := chosen[i-1] + 1; at < chosen[i]; at++ {
				part := float64(waiting[at].Pushed-from.Pushed) / float64(to.Pushed-from.Pushed)
				even := from.To.Add(time.Duration(part * float64(to.To.Sub(from.To))))
				if off := math.Abs(float64(waiting[at].To.Sub(even))); off > far {
					worst, far = at, off
				}
			}
		}
		chosen = append(chosen, worst)
		slices.Sort(chosen)
	}
	trail := []resque.Passed{waiting[0]}
	for i := 1; i < len(chosen) && chosen[i] > 0; i++ {
		trail = append(trail, resque.Passed{From: waiting[chosen[i-1]+1].From, To: waiting[chosen[i]].To, Pushed: waiting[chosen[i]].Pushed})
	}
	return trail
}

// mark keeps moments for rates.
func (o *odometer) mark(at time.Time) {
	if len(o.marks) == 0 || at.Sub(o.marks[len(o.marks)-1].at) >= rateEvery {
		o.marks = append(o.marks, mark{at: at, pushed: o.top, gone: o.top - o.length})
	}
	for len(o.marks) > 1 && at.Sub(o.marks[1].at) >= rateOver {
		o.marks = o.marks[1:]
	}
}

// rates returns how many jobs a second came and went; negative: that is not known yet.
func (o *odometer) rates() (in, out float64) {
	if len(o.marks) == 0 {
		return -1, -1
	}
	first := o.marks[0]
	over := o.looked.Sub(first.at).Seconds()
	if over < rateEvery.Seconds() {
		return -1, -1
	}
	return float64(o.top-first.pushed) / over, max(0, float64(o.top-o.length-first.gone)/over)
}
