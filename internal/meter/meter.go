// Package meter counts what happens to a process beside its jobs: errors of Redis, exchanges, lost leases, what it enqueues. Package
// metrics reads it. Nothing here asks Redis or waits.
package meter

import (
	"maps"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/spread"
)

// Event is something that is counted.
type Event int

const (
	Recovered      Event = iota // a job of a dead process went back to its queue, or failed for good
	Poisoned                    // a job has failed for good because it was found in too many dead processes
	LeaseLost                   // other processes found this one dead, and took its jobs
	Duplicate                   // a handler ended whose job was no longer this process's: it runs elsewhere too
	Connected                   // the poller has connected
	HistoryDropped              // a pack of the history was given up
	EventsDropped               // a pack of events was given up
	StepDone                    // a step of a workflow is done
	StepFailed                  // a step has failed
	StepNotRun                  // a step was not run, because its workflow had ended
	events
)

// Meter counts from the start of the process on, in all runs of a daemon together. A nil Meter counts nothing. It is safe for
// concurrent use.
type Meter struct {
	counts   [events]atomic.Int64
	errors   [conn.Kinds]atomic.Int64
	tracking atomic.Bool

	exchanges spread.Counter
	jobs      [sizes]atomic.Int64 // of the exchanges, by the bucket of how many jobs one moved
	moved     atomic.Int64

	mu       sync.Mutex
	enqueued map[Enqueue]*int64 // guarded by mu
	last     Enqueue            // of the latest job: most often the next one is alike
	count    *int64             // its counter; nil: there was none
}

// New returns a Meter that has counted nothing.
func New() *Meter { return &Meter{enqueued: make(map[Enqueue]*int64)} }

// Add counts an event n times.
func (m *Meter) Add(e Event, n int) {
	if m != nil && n != 0 {
		m.counts[e].Add(int64(n))
	}
}

// Count returns how often an event was counted.
func (m *Meter) Count(e Event) int64 { return m.counts[e].Load() }

// Failed counts an error of Redis, or of the way to it, by its kind.
func (m *Meter) Failed(err error) {
	if m != nil && err != nil {
		m.errors[conn.Classify(err)].Add(1)
	}
}

// Errors returns how many errors of each kind were counted, by the name of the kind.
func (m *Meter) Errors() map[string]int64 {
	all := make(map[string]int64, len(m.errors))
	for k := range m.errors {
		all[conn.Kind(k).String()] += m.errors[k].Load()
	}
	return all
}

// Track says whether Redis notifies the poller of changed queues.
func (m *Meter) Track(on bool) {
	if m != nil {
		m.tracking.Store(on)
	}
}

// Tracking reports what Track said last.
func (m *Meter) Tracking() bool { return m.tracking.Load() }

// sizes is how many buckets there are for the jobs of an exchange. Bucket n has up to 2ⁿ⁻¹ jobs, the first none, and the last all
// that is more.
const sizes = 12

// Exchanged counts an exchange: how long Redis took to answer it, and how many jobs it committed and reserved.
func (m *Meter) Exchanged(took time.Duration, jobs int) {
	if m == nil {
		return
	}
	m.exchanges.Record(took)
	n := 0
	if jobs > 0 {
		n = min(bits.Len(uint(jobs-1))+1, sizes-1)
	}
	m.jobs[n].Add(1)
	m.moved.Add(int64(jobs))
}

// Sizes is how many jobs exchanges moved.
type Sizes struct {
	Sum int64
	In  [sizes]int64 // see Most
}

// Most returns how many jobs an exchange of a bucket moved at most; false: the bucket has no upper bound.
func (Sizes) Most(bucket int) (most int, ok bool) {
	if bucket == 0 {
		return 0, true
	}
	return 1 << (bucket - 1), bucket < sizes-1
}

// Add adds other sizes.
func (s *Sizes) Add(o *Sizes) {
	s.Sum += o.Sum
	for n := range s.In {
		s.In[n] += o.In[n]
	}
}

// Exchanges returns how long exchanges took, and how many jobs they moved.
func (m *Meter) Exchanges() (*spread.Durations, Sizes) {
	s := Sizes{Sum: m.moved.Load()}
	for n := range m.jobs {
		s.In[n] = m.jobs[n].Load()
	}
	return m.exchanges.Read(), s
}

// Enqueue says what became of a job that this process enqueued.
type Enqueue struct{ Queue, Class, Result string }

// The results of Enqueue.
const (
	Pushed      = "pushed"
	Buffered    = "buffered"    // it waits in memory, because Redis is away
	Held        = "duplicate"   // another job holds its lock
	Refused     = "refused"     // Redis refused this job, or the call
	Unconfirmed = "unconfirmed" // whether it was pushed is unknown
)

// mostEnqueued bounds the memory of a producer that invents names.
const mostEnqueued = 2000

// Other is the queue and the class of jobs beyond that.
const Other = "(other)"

// Enqueued counts a job that was enqueued.
func (m *Meter) Enqueued(queue, class, result string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := (Enqueue{queue, class, result}); m.count == nil || of != m.last {
		m.find(of)
	}
	*m.count++
}

// find finds the counter of a kind of job. The mutex is held.
func (m *Meter) find(of Enqueue) {
	n := m.enqueued[of]
	if n == nil && len(m.enqueued) >= mostEnqueued {
		of.Queue, of.Class = Other, Other
		n = m.enqueued[of]
	}
	of = Enqueue{strings.Clone(of.Queue), strings.Clone(of.Class), of.Result} // they may be parts of larger texts
	if n == nil {
		n = new(int64)
		m.enqueued[of] = n
	}
	m.last, m.count = of, n
}

// Enqueues returns what was enqueued.
func (m *Meter) Enqueues() map[Enqueue]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[Enqueue]int64, len(m.enqueued))
	for of, n := range maps.All(m.enqueued) {
		all[of] = *n
	}
	return all
}
