package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
)

// HistoryQuery says which part of the history is wanted. The zero value is the last two hours, minute by minute.
type HistoryQuery struct {
	Since time.Time // zero: as long ago as rows of the Step are kept
	Until time.Time // zero: now

	// Step is how much time a row has: a minute, ten minutes, an hour, or 24 hours, which are a day of UTC. Rows of a minute are
	// kept for 2 hours, of ten minutes for 48 hours, of an hour for 14 days, and of a day for 90. 0: the shortest of which all
	// rows since Since are kept still.
	Step time.Duration

	Class string // "": all classes
	Queue string // "": all queues
}

// History is what the fleet did. It is counted by goworker's processes and HTTP servers: what Ruby's workers do is not in it.
type History struct {
	Step time.Duration
	Rows []HistoryRow // the oldest first; a time of which nothing is known has none
}

// HistoryRow is what happened in one span of time.
type HistoryRow struct {
	At      time.Time // its beginning
	Open    bool      // it may grow still: a process hands in what it has counted each 10 s
	Classes map[string]ClassHistory
	Queues  map[string]QueueHistory
	Fleet   FleetHistory
}

// The names in a history that stand for several. A row names 256 classes and 256 queues.
const (
	// UnknownClass is all classes that no process has registered: any producer may invent one.
	UnknownClass = history.Unknown
	// OtherNames is the classes or queues for which a row has no room: those with the fewest jobs.
	OtherNames = history.Other
)

// ClassHistory is how the jobs of a class ended. The states are those of Outcome.
type ClassHistory struct {
	Done, Failed, Retried, Snoozed, Returned, Passed, Discarded, Expired, Cancelled, Gathered int64

	Processed int64     // how much they added to Resque's total of processed jobs
	Runs      Durations // how long they ran
	Waits     Durations // how long they waited, those whose payloads say when they were pushed
}

// QueueHistory is what happened to a queue.
type QueueHistory struct {
	Pushed, Taken, Done, Failed int64

	Depth Level         // the jobs that waited
	Age   DurationLevel // of the oldest one
}

// FleetHistory is what the fleet was.
type FleetHistory struct {
	Present time.Duration // of the workers: each second of each
	Busy    time.Duration // of it, while they had a job
	Dropped int64         // parts of the history that were lost on their way, each of 10 s of a process

	Processes, Stuck, Waiting, Delayed, Failures, Memory Level
}

// Level is a number that was looked at now and then.
type Level struct {
	Looks int64 // 0: it is not known. Those that found nothing count too
	Sum   int64 // of all looks
	Most  int64
}

// Mean returns the mean of all looks; 0 if there were none.
func (l Level) Mean() float64 { return float64(l.Sum) / float64(max(1, l.Looks)) }

// Add returns the looks of both.
func (l Level) Add(o Level) Level {
	return Level{l.Looks + o.Looks, l.Sum + o.Sum, max(l.Most, o.Most)}
}

// DurationLevel is a duration that was looked at now and then.
type DurationLevel struct {
	Looks     int64 // 0: it is not known
	Sum, Most time.Duration
}

// Mean returns the mean of all looks; 0 if there were none.
func (l DurationLevel) Mean() time.Duration { return l.Sum / time.Duration(max(1, l.Looks)) }

// Add returns the looks of both.
func (l DurationLevel) Add(o DurationLevel) DurationLevel {
	return DurationLevel{l.Looks + o.Looks, l.Sum + o.Sum, max(l.Most, o.Most)}
}

// Durations is a distribution of durations.
type Durations struct{ in history.Durations }

// Count returns how many durations there are.
func (d Durations) Count() int64 { return int64(d.in.Count()) }

// Sum returns what they are together.
func (d Durations) Sum() time.Duration { return d.in.Sum }

// Mean returns what they are in the mean; 0 if there are none.
func (d Durations) Mean() time.Duration {
	if n := d.in.Count(); n > 0 {
		return d.in.Sum / time.Duration(n)
	}
	return 0
}

// Quantile returns the duration that a share q of all does not exceed: Quantile(0.95) is the 95th percentile. It is within 19 %
// of the true one. It returns 0 if there are none.
func (d Durations) Quantile(q float64) time.Duration {
	at, _ := d.in.Quantile(q)
	return at
}

// Add returns both distributions as one.
func (d Durations) Add(o Durations) Durations {
	d.in.Add(&o.in)
	return d
}

// Bucket is a part of a distribution.
type Bucket struct {
	From, To time.Duration
	Count    int64
}

// Buckets returns the parts of the distribution that have durations, the shortest first. The last one has no upper bound.
func (d Durations) Buckets() (all []Bucket) {
	for i, n := range d.in.In {
		if n > 0 {
			b := Bucket{From: history.Bound(i), To: history.Bound(i + 1), Count: int64(n)}
			if i == 0 {
				b.From = 0
			}
			all = append(all, b)
		}
	}
	return all
}

// mostRows is how many rows one question reads.
const mostRows = 2000

// History returns what the fleet did in the past. A fleet without goworker has none.
//
// Over shards the rows of the same time are added.
func (i *Inspector) History(ctx context.Context, q HistoryQuery) (History, error) {
	step, span, err := q.span()
	if err != nil {
		return History{}, err
	}
	rows := make(map[int64]*history.Row)
	var now time.Time
	err = i.each(func(one *Inspector) error {
		return one.do(ctx, func(s resque.Store, c redis.Conn) error {
			return q.read(history.New(s), c, step, &now, rows)
		})
	})
	h := History{Step: span.Long}
	for _, n := range slices.Sorted(maps.Keys(rows)) {
		h.Rows = append(h.Rows, q.row(span, n, now, rows[n]))
	}
	return h, err
}

// span returns the index of the span that is asked for.
func (q *HistoryQuery) span() (int, history.Span, error) {
	for n, s := range history.Spans {
		if q.Step == s.Long || q.Step == 0 && (q.Since.IsZero() || clock.Since(clock.System, q.Since) <= s.Kept || n == len(history.Spans)-1) {
			return n, s, nil
		}
	}
	return 0, history.Span{}, fmt.Errorf("goworker: the history has no rows of %s; ask for 1m, 10m, 1h or 24h", q.Step)
}

// read adds the rows of one Redis to rows. It reads as many together as take few bytes.
func (q *HistoryQuery) read(s history.Store, c redis.Conn, step int, now *time.Time, rows map[int64]*history.Row) error {
	at, err := s.Now(c)
	if err != nil {
		return err
	}
	*now = at
	span := history.Spans[step]
	since, until := q.Since, q.Until
	if oldest := at.Add(-span.Kept - span.Long); since.Before(oldest) {
		since = oldest
	}
	if until.IsZero() || until.After(at) {
		until = at
	}
	first, last := span.Number(since), span.Number(until)
	if last-first >= mostRows {
		first = last - mostRows + 1
	}
	var places []history.Place
	for n := first; n <= last; n++ {
		places = append(places, history.Place{Span: step, Number: n})
	}
	const together = 60
	for some := range slices.Chunk(places, together) {
		found, err := s.ReadRows(c, some)
		if err != nil {
			return err
		}
		for n := range found {
			if found[n].Empty() {
				continue
			}
			if rows[some[n].Number] == nil {
				rows[some[n].Number] = new(history.Row)
			}
			rows[some[n].Number].Add(&found[n])
		}
	}
	return nil
}

// row returns what of a row is wanted.
func (q *HistoryQuery) row(span history.Span, number int64, now time.Time, from *history.Row) HistoryRow {
	r := HistoryRow{
		At: span.At(number), Classes: make(map[string]ClassHistory), Queues: make(map[string]QueueHistory), Fleet: fleetHistory(&from.Fleet),
	}
	r.Open = r.At.Add(span.Long + history.ResentFor).After(now)
	for name, c := range from.Classes {
		if q.Class == "" || q.Class == name {
			r.Classes[name] = classHistory(c)
		}
	}
	for name, of := range from.Queues {
		if q.Queue == "" || q.Queue == name {
			r.Queues[name] = queueHistory(of)
		}
	}
	for name, of := range r.Queues { // a look at a queue where nothing waits is written with the fleet's only
		if of.Depth.Looks > 0 && name != history.Other {
			of.Depth.Looks = max(of.Depth.Looks, r.Fleet.Waiting.Looks)
			r.Queues[name] = of
		}
	}
	return r
}

// Total returns all rows as one. It begins with the first of them.
func (h History) Total() HistoryRow {
	total := HistoryRow{Classes: make(map[string]ClassHistory), Queues: make(map[string]QueueHistory)}
	for n, r := range h.Rows {
		if n == 0 {
			total.At = r.At
		}
		total.Open = total.Open || r.Open
		for name, c := range r.Classes {
			total.Classes[name] = total.Classes[name].Add(c)
		}
		for name, of := range r.Queues {
			total.Queues[name] = total.Queues[name].Add(of)
		}
		total.Fleet = total.Fleet.Add(r.Fleet)
	}
	return total
}

// Jobs returns the jobs of all classes of the row together.
func (r HistoryRow) Jobs() (sum ClassHistory) {
	for _, c := range r.Classes {
		sum = sum.Add(c)
	}
	return sum
}

// Add returns the jobs of both.
func (c ClassHistory) Add(o ClassHistory) ClassHistory {
	to, from := c.states(), o.states()
	for n := range to {
		*to[n] += *from[n]
	}
	c.Processed += o.Processed
	c.Runs, c.Waits = c.Runs.Add(o.Runs), c.Waits.Add(o.Waits)
	return c
}

// states are the counts in the order of outcome.State.
func (c *ClassHistory) states() [history.States]*int64 {
	return [...]*int64{&c.Done, &c.Failed, &c.Retried, &c.Snoozed, &c.Returned, &c.Passed, &c.Discarded, &c.Expired, &c.Cancelled, &c.Gathered}
}

// Add returns what happened in both.
func (q QueueHistory) Add(o QueueHistory) QueueHistory {
	q.Pushed += o.Pushed
	q.Taken += o.Taken
	q.Done += o.Done
	q.Failed += o.Failed
	q.Depth, q.Age = q.Depth.Add(o.Depth), q.Age.Add(o.Age)
	return q
}

// Add returns what both were.
func (f FleetHistory) Add(o FleetHistory) FleetHistory {
	f.Present += o.Present
	f.Busy += o.Busy
	f.Dropped += o.Dropped
	f.Processes, f.Stuck, f.Waiting = f.Processes.Add(o.Processes), f.Stuck.Add(o.Stuck), f.Waiting.Add(o.Waiting)
	f.Delayed, f.Failures, f.Memory = f.Delayed.Add(o.Delayed), f.Failures.Add(o.Failures), f.Memory.Add(o.Memory)
	return f
}

func classHistory(from *history.Class) (c ClassHistory) {
	for n, to := range c.states() {
		*to = int64(from.Ends[n])
	}
	c.Processed, c.Runs, c.Waits = int64(from.Processed), Durations{from.Runs}, Durations{from.Waits}
	return c
}

func queueHistory(from *history.Queue) QueueHistory {
	const ms = time.Millisecond
	return QueueHistory{
		Pushed: int64(from.Pushed), Taken: int64(from.Taken), Done: int64(from.Done), Failed: int64(from.Failed),
		Depth: level(from.Depth), Age: DurationLevel{int64(from.Age.Seen), time.Duration(from.Age.Sum) * ms, time.Duration(from.Age.Most) * ms},
	}
}

func fleetHistory(from *history.Fleet) FleetHistory {
	return FleetHistory{
		Present: from.Present, Busy: from.Busy, Dropped: int64(from.Dropped),
		Processes: level(from.Processes), Stuck: level(from.Stuck), Waiting: level(from.Waiting),
		Delayed: level(from.Delayed), Failures: level(from.Failures), Memory: level(from.Memory),
	}
}

func level(from history.Level) Level {
	return Level{int64(from.Seen), int64(from.Sum), int64(from.Most)}
}
