package groups

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Filter chooses failures. A zero field chooses all; a failure must match every field that is set.
type Filter struct {
	Queues func(queue string) bool // the queues of jobs

	// Since and Until bound when a job failed: at Since or later, before Until. A failure without a readable time matches neither.
	Since, Until time.Time

	Class     string // of an ActiveJob its own
	Exception string
	Text      string // a part of the group's pattern, example, class or exception, in any case of its letters

	Unretried bool // only those that were not retried

	// Fits chooses groups. It gets their ID, Class, Exception, Pattern and Example, must not call the Index, and is called once for each group.
	Fits func(g Group) bool

	// Columns of a trend, and how long ago the first begins. 0: 72 columns, 24 hours.
	Columns int
	Span    time.Duration
}

const (
	trendColumns = 72
	trendSpan    = 24 * time.Hour
)

// Group is the failures of one kind.
type Group struct {
	ID        string // 12 hexadecimal digits; see Others
	Class     string // an ActiveJob's own; "" for what is no job
	Exception string
	Pattern   string // the text of the error without its varying parts; see Fingerprint
	Example   string // the text of one of them, of 2 KiB at most

	Count     int
	Unretried int // of them were not retried

	Queues      []QueueCount // the most first
	First, Last time.Time    // when the oldest and the newest of them failed; zero if no time is readable
	Trend       []int        // how many failed in each column; see Filter

	Kills bool // the job ends its process: the exception is Resque::DirtyExit or one like it
	New   bool // the first of them failed within the last hour. It is false until the Index reaches back that far
}

// QueueCount is how many failures of a group came from a queue.
type QueueCount struct {
	Queue string
	Count int
}

// killers are the exceptions of jobs whose process has died.
var killers = []string{"Resque::DirtyExit", "Resque::PruneDeadWorkerDirtyExit"}

// choice is a Filter prepared for many entries.
type choice struct {
	kinds, queues []bool
	since, until  uint32
	times         bool
	unretried     bool
}

// choose prepares a Filter. mu is locked for reading.
func (x *Index) choose(f Filter) *choice {
	c := &choice{unretried: f.Unretried, times: !f.Since.IsZero() || !f.Until.IsZero(), until: maxUnix}
	if !f.Since.IsZero() {
		c.since = seconds(f.Since.Add(time.Second - 1)) // a record has whole seconds
	}
	if !f.Until.IsZero() {
		c.until = seconds(f.Until.Add(time.Second - 1))
	}
	text := strings.ToLower(f.Text)
	for _, k := range x.kinds.all {
		fits := (f.Class == "" || k.class == f.Class) && (f.Exception == "" || k.exception == f.Exception)
		if fits && text != "" {
			fits = slices.ContainsFunc([]string{k.pattern, k.example, k.class, k.exception}, func(in string) bool { return strings.Contains(strings.ToLower(in), text) })
		}
		if fits && f.Fits != nil && k.entries > 0 {
			fits = f.Fits(Group{ID: k.key.String(), Class: k.class, Exception: k.exception, Pattern: k.pattern, Example: k.example})
		}
		c.kinds = append(c.kinds, fits)
	}
	for _, queue := range x.queues.all {
		c.queues = append(c.queues, f.Queues == nil || f.Queues(queue))
	}
	return c
}

// seconds is a time as entries have it.
func seconds(t time.Time) uint32 { return uint32(min(max(t.Unix(), 0), maxUnix)) }

// group returns the group of an entry that is chosen.
func (c *choice) group(e *entry) (uint32, bool) {
	kind, ok := e.group()
	if !ok || !c.kinds[kind] || !c.queues[e.queue] || c.unretried && e.kind&retried != 0 {
		return 0, false
	}
	return kind, !c.times || e.at != 0 && e.at >= c.since && e.at < c.until
}

// each calls f for each entry, the oldest of each list first. mu is locked for reading.
func (x *Index) each(f func(e *entry)) {
	for _, l := range x.all() {
		for n := range l.count() {
			f(l.at(n))
		}
	}
}

// columns counts times in columns.
type columns struct {
	from, span float64
	counts     []int
	closed     bool // the last one has its end in it
}

func newColumns(from, to time.Time, n int) columns {
	return columns{from: float64(from.Unix()), span: to.Sub(from).Seconds(), counts: make([]int, n)}
}

func (c columns) add(at uint32) {
	if past := float64(at) - c.from; at != 0 && past >= 0 && (past < c.span || c.closed && past == c.span) {
		c.counts[min(int(past/c.span*float64(len(c.counts))), len(c.counts)-1)]++
	}
}

// Groups returns the groups of the failures that match, the largest first.
func (x *Index) Groups(f Filter) []Group {
	now := x.o.Now()
	if f.Columns <= 0 {
		f.Columns = trendColumns
	}
	if f.Span <= 0 {
		f.Span = trendSpan
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	c := x.choose(f)
	sums := make([]sum, len(x.kinds.all))
	queues := make(map[uint64]int)
	x.each(func(e *entry) {
		kind, ok := c.group(e)
		if !ok {
			return
		}
		s := &sums[kind]
		if s.count == 0 {
			s.trend = newColumns(now.Add(-f.Span), now, f.Columns)
			s.trend.closed = true
		}
		s.add(e)
		queues[uint64(kind)<<16|uint64(e.queue)]++
	})
	back := x.reaches()
	for key, n := range queues {
		s := &sums[key>>16]
		s.queues = append(s.queues, QueueCount{x.queues.all[key&(1<<16-1)], n})
	}
	var groups []Group
	for n, s := range sums {
		if s.count == 0 {
			continue
		}
		k := x.kinds.all[n]
		slices.SortFunc(s.queues, func(a, b QueueCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Queue, b.Queue)) })
		g := Group{
			ID: k.key.String(), Class: k.class, Exception: k.exception, Pattern: k.pattern, Example: k.example,
			Count: s.count, Unretried: s.unretried, Queues: s.queues, First: timeOf(s.first), Last: timeOf(s.last), Trend: s.trend.counts,
			Kills: slices.Contains(killers, k.exception),
		}
		hourAgo := now.Add(-time.Hour)
		g.New = g.First.After(hourAgo) && back.Before(hourAgo)
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.ID, b.ID))
	})
	return groups
}

// sum is what is counted of a group.
type sum struct {
	count, unretried int
	first, last      uint32
	trend            columns
	queues           []QueueCount
}

func (s *sum) add(e *entry) {
	if s.count++; e.kind&retried == 0 {
		s.unretried++
	}
	if e.at == 0 {
		return
	}
	if s.first == 0 || e.at < s.first {
		s.first = e.at
	}
	s.last = max(s.last, e.at)
	s.trend.add(e.at)
}

// reaches is how far back the Index knows all failures; zero: it knows all. mu is locked for reading.
func (x *Index) reaches() (back time.Time) {
	for _, l := range x.all() {
		if l.base == 0 {
			continue
		}
		var oldest uint32 = maxUnix
		for n := range min(l.count(), mostPage) {
			if at := l.at(n).at; at != 0 {
				oldest = at
				break
			}
		}
		if at := timeOf(oldest); at.After(back) {
			back = at
		}
	}
	return back
}

func timeOf(at uint32) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(int64(at), 0).UTC()
}

// Histogram counts the failures that match in columns of equal length between two times. Those without a readable time are in none.
func (x *Index) Histogram(f Filter, from, to time.Time, n int) []int {
	if n <= 0 || !from.Before(to) {
		return nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	c, h := x.choose(f), newColumns(from, to, n)
	x.each(func(e *entry) {
		if _, ok := c.group(e); ok {
			h.add(e.at)
		}
	})
	return h.counts
}
