package health

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/spread"
)

// Tally counts the ends of the jobs that the workers of this process ran, by queue and by class. It is safe
// for concurrent use. A job costs four additions: no worker waits for another one or for a reader.
type Tally struct {
	Since time.Time // when it began to count

	shards [shards]shard

	mu   sync.Mutex
	past Run        // of the runs that are over
	run  func() Run // of the present run, or of the last one; nil: there was none
}

// Run is what one run has counted beside its jobs.
type Run struct {
	Exchanges int64         // that Redis has answered
	Outages   int64         // of Redis, the present one too
	Away      time.Duration // how long all of them took
}

// Jobs counts jobs by their ends. The public JobStats has the same fields, and documents them.
type Jobs struct {
	Done, Failed, Retried, Snoozed, Discarded, Expired, Cancelled, Gathered, Returned, Passed int64

	Runs    int64
	RunTime time.Duration
	Longest time.Duration
	Bytes   int64
}

// Counts is what several daemons have counted.
type Counts struct {
	Run
	Total           Jobs
	Queues, Classes map[string]Jobs

	took map[string]*spread.Durations // of the runs of a class; "": of all
}

// Pair is what was counted of the jobs of one queue and class.
type Pair struct {
	Queue, Class string                // "" and "": of queues beyond the bound; a Class "": of classes that are not registered
	Ends         [outcome.States]int64 // by what became of them
	Runs, Waits  spread.Durations
}

// Pairs calls f with what was counted of each queue and class, once for each eighth of the workers.
func (t *Tally) Pairs(f func(*Pair)) {
	for i := range t.shards {
		all := t.shards[i].cells.Load()
		if all == nil {
			continue
		}
		for k, c := range *all {
			p := Pair{Queue: k.queue, Class: k.class, Runs: *c.runs.Read()}
			for n := range c.states {
				p.Ends[n] = c.states[n].Load()
			}
			if w := c.waits.Load(); w != nil {
				p.Waits = *w.Read()
			}
			f(&p)
		}
	}
}

// Quantile returns how long a share of the runs of a class took at most, and with "" of all runs; 0: there were none. It is within
// 19 % of the true time, and 0.1 ms or more.
func (c Counts) Quantile(class string, share float64) time.Duration {
	took := c.took[class]
	if took == nil {
		return 0
	}
	d, _ := took.Quantile(share)
	return d
}

const (
	// shards keeps workers on many processors from writing the same memory.
	shards = 8

	// mostCells bounds the memory if a pattern matches more and more queues. Jobs of further queues and
	// classes are in the total only.
	mostCells = 4096
)

// shard has the counters of some workers.
type shard struct {
	last  atomic.Pointer[cell]          // of the latest job: most often the next one has the same
	cells atomic.Pointer[map[key]*cell] // replaced as a whole, so that workers read it without a lock
	write sync.Mutex                    // held while cells is replaced
	_     [40]byte                      // the next shard has another line of the processor's cache
}

// key is a queue and a class; "": of a job that has none or that is counted in the total only.
type key struct{ queue, class string }

// cell counts the jobs of one queue and class.
type cell struct {
	key
	states         [outcome.States]atomic.Int64
	longest, bytes atomic.Int64
	runs           spread.Counter                 // how long they took
	waits          atomic.Pointer[spread.Counter] // how long they had waited, where payloads say it; nil: none does
}

// NewTally returns a Tally that begins to count now.
func NewTally(c clock.Clock) *Tally { return &Tally{Since: c.Now()} }

// Begin adds what the run before has counted to the past, and reads the next one by two functions.
func (t *Tally) Begin(exchanges func() (int64, time.Time), outages func() logging.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.past = t.runs()
	t.run = func() Run {
		n, _ := exchanges()
		o := outages()
		return Run{Exchanges: n, Outages: o.Count, Away: o.Away}
	}
}

// runs returns what all runs have counted. The caller holds the mutex.
func (t *Tally) runs() Run {
	r := t.past
	if t.run != nil {
		r.add(t.run())
	}
	return r
}

func (r *Run) add(o Run) {
	r.Exchanges += o.Exchanges
	r.Outages += o.Outages
	r.Away += o.Away
}

// Ended counts a job. The worker that ended it calls this.
func (t *Tally) Ended(j *outcome.Job, o *outcome.Outcome) {
	c := t.cell(j)
	c.states[o.State].Add(1)
	c.bytes.Add(int64(len(j.Payload)))
	if !o.Started {
		return
	}
	c.runs.Record(o.Ran)
	for longest := c.longest.Load(); int64(o.Ran) > longest && !c.longest.CompareAndSwap(longest, int64(o.Ran)); {
		longest = c.longest.Load()
	}
}

// Waited counts how long a job had waited when it began. The worker that ended it calls this.
func (t *Tally) Waited(j *outcome.Job, d time.Duration) {
	c := t.cell(j)
	w := c.waits.Load()
	if w == nil {
		c.waits.CompareAndSwap(nil, new(spread.Counter))
		w = c.waits.Load()
	}
	w.Record(d)
}

// cell returns the counters of a job's queue and class.
func (t *Tally) cell(j *outcome.Job) *cell {
	class := j.Name
	if j.Class == nil {
		class = "" // producers may push any name: registered classes are few
	}
	s := &t.shards[j.Slot%shards]
	c := s.last.Load()
	if c == nil || c.queue != j.Queue || c.class != class {
		c = s.cell(j.Queue, class)
		s.last.Store(c)
	}
	return c
}

// cell returns the counters of a queue and class.
func (s *shard) cell(queue, class string) *cell {
	if c := s.find(key{queue, class}); c != nil {
		return c
	}
	s.write.Lock()
	defer s.write.Unlock()
	if c := s.find(key{queue, class}); c != nil {
		return c
	}
	c := &cell{key: key{strings.Clone(queue), strings.Clone(class)}} // they may be parts of larger texts
	next := make(map[key]*cell)
	if all := s.cells.Load(); all != nil {
		maps.Copy(next, *all)
	}
	if len(next) == mostCells-1 {
		c.key = key{}
	}
	next[c.key] = c
	s.cells.Store(&next)
	return c
}

// find returns the counters of a queue and class, and nil if there are none yet. When the table is full
// it returns those of all others.
func (s *shard) find(k key) *cell {
	all := s.cells.Load()
	if all == nil {
		return nil
	}
	if c := (*all)[k]; c != nil || len(*all) < mostCells {
		return c
	}
	return (*all)[key{}]
}

// Counts returns what the tally has counted.
func (t *Tally) Counts() Counts { return Sum(t) }

// Sum returns what tallies have counted together.
func Sum(tallies ...*Tally) Counts {
	sum := Counts{Queues: make(map[string]Jobs), Classes: make(map[string]Jobs), took: make(map[string]*spread.Durations)}
	for _, t := range tallies {
		t.mu.Lock()
		sum.Run.add(t.runs())
		t.mu.Unlock()
		for i := range t.shards {
			if all := t.shards[i].cells.Load(); all != nil {
				sum.add(*all)
			}
		}
	}
	return sum
}

func (c *Counts) add(cells map[key]*cell) {
	for k, cell := range cells {
		jobs, took := cell.read()
		c.Total.add(jobs)
		c.tookOf("").Add(took)
		if k.queue != "" {
			of := c.Queues[k.queue]
			of.add(jobs)
			c.Queues[k.queue] = of
		}
		if k.class != "" {
			of := c.Classes[k.class]
			of.add(jobs)
			c.Classes[k.class] = of
			c.tookOf(k.class).Add(took)
		}
	}
}

func (c *Counts) tookOf(class string) *spread.Durations {
	if c.took[class] == nil {
		c.took[class] = new(spread.Durations)
	}
	return c.took[class]
}

func (c *cell) read() (Jobs, *spread.Durations) {
	took := c.runs.Read()
	n := func(s outcome.State) int64 { return c.states[s].Load() }
	return Jobs{
		Done: n(outcome.Done), Failed: n(outcome.Failed), Retried: n(outcome.Retried), Snoozed: n(outcome.Snoozed),
		Discarded: n(outcome.Discarded), Expired: n(outcome.Expired), Cancelled: n(outcome.Cancelled), Gathered: n(outcome.Gathered),
		Returned: n(outcome.Returned), Passed: n(outcome.Passed),
		Runs: int64(took.Count()), RunTime: took.Sum, Longest: time.Duration(c.longest.Load()), Bytes: c.bytes.Load(),
	}, took
}

func (j *Jobs) add(o Jobs) {
	j.Done += o.Done
	j.Failed += o.Failed
	j.Retried += o.Retried
	j.Snoozed += o.Snoozed
	j.Discarded += o.Discarded
	j.Expired += o.Expired
	j.Cancelled += o.Cancelled
	j.Gathered += o.Gathered
	j.Returned += o.Returned
	j.Passed += o.Passed
	j.Runs += o.Runs
	j.RunTime += o.RunTime
	j.Longest = max(j.Longest, o.Longest)
	j.Bytes += o.Bytes
}
