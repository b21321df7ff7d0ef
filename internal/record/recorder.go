// Package record counts what becomes of the jobs of a process, and keeps the history of the fleet. A Recorder counts; what it has
// counted since its last pack leaves with the renewal of the process's lease. One process of the fleet, the keeper, adds the
// packs to the rows of the history.
package record

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
	"github.com/goworker/goworker/internal/stamp"
)

const (
	packEvery = 10 * time.Second // how often a pack is made
	idleEvery = 5 * time.Minute  // and how often while nothing happens: an idle fleet is not to pay for its history

	// mostShards bounds the memory of a process with many workers: some of them share their counters.
	mostShards = 32

	// mostQueues is how many queues a process names. Those that it has known longest keep their names.
	mostQueues = history.MostNames

	// forgottenAfter is after how long without a job a queue's name is free for another.
	forgottenAfter = 24 * time.Hour
)

// A State has its place in what is packed: both lists are of the same length and in the same order.
var _ = [1]struct{}{}[history.States-outcome.States]

// Recorder counts the ends of jobs. It is safe for concurrent use.
type Recorder struct {
	part.Base
	store  history.Store
	said   logging.Once // of the goroutine that renews
	config Config
	id     string
	shards []shard

	// names are the queues that have names. A worker that meets another one looks here; the map is replaced as a whole.
	names atomic.Pointer[map[string]struct{}]

	mu      sync.Mutex
	pending history.Row          // what was counted and is in no pack yet
	used    map[string]time.Time // when a queue had a job last
	looked  time.Time            // when Look was called last; zero: never
	packed  time.Time            // when the last pack was made
	number  uint64               // of the last pack
	packs   []pack               // whose arrival is not certain, the oldest first
	full    bool                 // the tally takes no more
}

// pack is a pack on its way.
type pack struct {
	raw []byte
	at  time.Time
}

// shard has the counters of some workers. Its mutex is uncontended most of the time.
type shard struct {
	mu      sync.Mutex
	class   *classCount // of the latest job: most often the next one has the same
	queue   *queueCount
	classes map[string]*classCount
	queues  map[string]*queueCount
	_       [40]byte // the next shard has another line of the processor's cache
}

type classCount struct {
	name      string
	idle      bool // nothing was counted since the last pack
	ends      [outcome.States]uint32
	processed uint32
	sum       time.Duration
	runs      [history.Buckets]uint32
	waits     *history.Durations // nil: there are none
}

type queueCount struct {
	name         string
	idle         bool
	taken        uint32
	done, failed uint32
}

func newRecorder(b part.Base, config Config) *Recorder {
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails
	r := &Recorder{
		Base: b, store: history.New(b.Store), config: config, id: hex.EncodeToString(random),
		shards: make([]shard, min(max(1, config.Workers), mostShards)), used: make(map[string]time.Time),
	}
	r.names.Store(new(map[string]struct{}))
	for i := range r.shards {
		r.shards[i].classes, r.shards[i].queues = make(map[string]*classCount), make(map[string]*queueCount)
	}
	return r
}

// Ended counts a job. The worker that ended it calls this, as Set.Watch has it; or the goroutine that ended a leased one.
func (r *Recorder) Ended(j *outcome.Job, o *outcome.Outcome) {
	class := "" // any producer may push any name
	if j.Class != nil {
		class = j.Class.Name
	}
	r.EndedOf(class, j, o)
}

// EndedOf is Ended where the caller knows under which name the job counts; "": under none.
func (r *Recorder) EndedOf(class string, j *outcome.Job, o *outcome.Outcome) {
	e := end{state: o.State, processed: o.Counts != resque.CountsNothing}
	if o.Started && j.Place == "" { // how long a client had a leased job says little
		e.ran, e.started = o.Ran, true
		var at time.Time
		if at, e.waits = stamp.EnqueuedAt(&j.Parsed); e.waits {
			e.waited = max(0, j.StartedAt.Sub(at)) // the producer's clock may be ahead
		}
	}
	if e.waits && r.config.Waited != nil {
		r.config.Waited(j, e.waited)
	}
	r.count(&r.shards[j.Slot%len(r.shards)], nameOf(class), j.Queue, &e)
}

// Done counts a leased job that its client has done, and whose payload nobody has read.
func (r *Recorder) Done(queue, class string) {
	r.count(&r.shards[0], nameOf(class), queue, &end{state: outcome.Done, processed: true})
}

// nameOf is the name under which a class counts.
func nameOf(class string) string {
	if class == "" {
		return history.Unknown
	}
	return class
}

// end is one end of a job.
type end struct {
	state                     outcome.State
	processed, started, waits bool
	ran, waited               time.Duration
}

func (r *Recorder) count(s *shard, class, queue string, e *end) {
	s.mu.Lock()
	c := s.class
	if c == nil || c.name != class {
		c = s.classOf(class)
	}
	q := s.queue
	if q == nil || q.name != queue {
		q = r.queueOf(s, queue)
	}
	c.idle, q.idle = false, false
	c.ends[e.state]++
	q.taken++
	if e.processed {
		c.processed++
	}
	switch e.state {
	case outcome.Done:
		q.done++
	case outcome.Failed:
		q.failed++
	}
	if e.started {
		c.sum += e.ran
		c.runs[history.Bucket(e.ran)]++
	}
	if e.waits {
		if c.waits == nil {
			c.waits = new(history.Durations)
		}
		c.waits.Record(e.waited)
	}
	s.mu.Unlock()
}

// classOf returns the counters of a class. The shard's mutex is held.
func (s *shard) classOf(name string) *classCount {
	c := s.classes[name]
	if c == nil {
		name = strings.Clone(name)
		c = &classCount{name: name}
		s.classes[name] = c
	}
	s.class = c
	return c
}

// queueOf returns the counters of a queue, and those of all that have no name where there are too many. The shard's mutex is held.
func (r *Recorder) queueOf(s *shard, name string) *queueCount {
	if q := s.queues[name]; q != nil {
		s.queue = q
		return q
	}
	if name != history.Other && !r.named(name) {
		return r.queueOf(s, history.Other)
	}
	name = strings.Clone(name)
	s.queues[name] = &queueCount{name: name}
	s.queue = s.queues[name]
	return s.queue
}

// named reports whether a queue has a name, and gives it one if there is room.
func (r *Recorder) named(name string) bool {
	for {
		all := r.names.Load()
		if _, known := (*all)[name]; known || len(*all) >= mostQueues {
			return known
		}
		more := maps.Clone(*all)
		if more == nil {
			more = make(map[string]struct{})
		}
		more[strings.Clone(name)] = struct{}{}
		if r.names.CompareAndSwap(all, &more) {
			return true
		}
	}
}

// queue returns what is pending of a queue. The mutex is held.
func (r *Recorder) queue(name string, now time.Time) *history.Queue {
	if name != history.Other && !r.named(name) {
		name = history.Other
	}
	r.used[name] = now
	return r.pending.Queue(history.Name(name))
}

// gather takes what the shards have counted. The mutex is held.
func (r *Recorder) gather(now time.Time) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for name, c := range s.classes {
			if c.idle {
				delete(s.classes, name)
				if s.class == c {
					s.class = nil
				}
				continue
			}
			c.into(r.pending.Class(history.Name(name)))
		}
		for name, q := range s.queues {
			if q.idle {
				delete(s.queues, name)
				if s.queue == q {
					s.queue = nil
				}
				continue
			}
			to := r.queue(name, now)
			to.Taken += uint64(q.taken)
			to.Done += uint64(q.done)
			to.Failed += uint64(q.failed)
			*q = queueCount{name: name, idle: true}
		}
		s.mu.Unlock()
	}
	r.forget(now)
}

// into adds the counters to a class, and sets them to zero.
func (c *classCount) into(to *history.Class) {
	for i, n := range c.ends {
		to.Ends[i] += uint64(n)
	}
	to.Processed += uint64(c.processed)
	to.Runs.Sum += c.sum
	for i, n := range c.runs {
		to.Runs.In[i] += uint64(n)
	}
	if c.waits != nil {
		to.Waits.Add(c.waits)
	}
	*c = classCount{name: c.name, idle: true}
}

// forget frees the names of queues that have had no job for long. The mutex is held.
func (r *Recorder) forget(now time.Time) {
	var gone []string
	for name, at := range r.used {
		if now.Sub(at) > forgottenAfter {
			gone = append(gone, name)
			delete(r.used, name)
		}
	}
	if gone == nil {
		return
	}
	for {
		all := r.names.Load()
		fewer := maps.Clone(*all)
		for _, name := range gone {
			delete(fewer, name)
		}
		if r.names.CompareAndSwap(all, &fewer) {
			return
		}
	}
}

// Look notes how many workers are busy now. It is called with each renewal: what lies between is reckoned alike.
func (r *Recorder) Look() {
	now := r.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.looked.IsZero() {
		if since := min(now.Sub(r.looked), packEvery); since > 0 { // a process that stood still was not busy
			r.pending.Fleet.Present += since * time.Duration(r.config.present())
			r.pending.Fleet.Busy += since * time.Duration(r.busy())
		}
	}
	r.looked = now
}

// Pack makes a pack of what was counted, when it is time or always if last is set. at is Redis's time.
func (r *Recorder) Pack(at time.Time, last bool) {
	now := r.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.packed.IsZero() {
		r.packed = now
	}
	since := now.Sub(r.packed)
	if since < packEvery && !last {
		return
	}
	r.gather(now)
	if stuck := r.stuck(); stuck > 0 {
		r.pending.Fleet.Stuck.See(stuck)
	}
	f := &r.pending.Fleet
	idle := len(r.pending.Classes)+len(r.pending.Queues) == 0 && f.Busy+time.Duration(f.Dropped) == 0 && f.Stuck.Seen == 0
	if idle && (since < idleEvery && !last || r.pending.Empty()) {
		return
	}
	r.packed = now
	r.give(now)
	if r.full {
		r.full = false // the next one is tried again
		f.Dropped++
		r.Meter.Add(meter.HistoryDropped, 1)
		r.pending = history.Row{Fleet: history.Fleet{Dropped: f.Dropped}}
		return
	}
	for n := 0; n == 0 || n < mostPacks && len(r.pending.Classes)+len(r.pending.Queues) > 0; n++ {
		r.number++
		p := history.Pack{Recorder: r.id, Number: r.number, At: at, Span: since}
		p.Row.Fleet, r.pending.Fleet = r.pending.Fleet, history.Fleet{}
		raw := p.Begin(make([]byte, 0, 256))
		raw = take(raw, r.pending.Classes, (*history.Class).Append)
		raw = take(raw, r.pending.Queues, (*history.Queue).Append)
		r.packs = append(r.packs, pack{raw, now})
	}
}

func (r *Recorder) busy() int {
	if r.config.Busy == nil {
		return 0
	}
	return r.config.Busy()
}

func (r *Recorder) stuck() uint64 {
	if r.config.Stuck == nil {
		return 0
	}
	return uint64(len(r.config.Stuck()))
}

// take moves entries into a pack, as many as it has room for. The rest goes into the next one.
func take[T any](raw []byte, from map[string]*T, add func(*T, []byte, string) []byte) []byte {
	for n, name := range slices.Sorted(maps.Keys(from)) {
		with := add(from[name], raw, name)
		if len(with) > history.MostPack || n == history.MostNames {
			return raw
		}
		raw = with
		delete(from, name)
	}
	return raw
}

// give gives up packs that are too old to be sent again: Redis may have forgotten whether it has them. The mutex is held.
func (r *Recorder) give(now time.Time) {
	for len(r.packs) > 0 && now.Sub(r.packs[0].at) > history.ResentFor {
		r.packs = r.packs[1:]
		r.pending.Fleet.Dropped++
		r.Meter.Add(meter.HistoryDropped, 1)
	}
}

const (
	mostPacks  = 8 // that are made at a time; what is left goes into the next ones
	mostPushed = 8 // that one renewal carries
)

// Load has a renewal carry what was counted, when it is time. It is called before each one.
func (r *Recorder) Load(c *resque.Cargo) {
	r.Look()
	r.Pack(r.config.Now(), c.Last)
	packs := r.Packs()
	if len(packs) == 0 {
		return
	}
	r.store.Push(c, packs, func(err error) {
		if err == nil {
			r.Pushed(len(packs))
		} else if r.said.News("history", err.Error()) {
			r.Log.Warn("the history of the fleet lacks what this process counts; the jobs run all the same", "error", err)
		}
	}, r.Full)
}

// Packs returns the packs whose arrival is not certain, as many as one renewal carries.
func (r *Recorder) Packs() (raw [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.packs[:min(len(r.packs), mostPushed)] {
		raw = append(raw, p.raw)
	}
	return raw
}

// Pushed says that so many packs, the oldest ones, have arrived.
func (r *Recorder) Pushed(packs int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packs = slices.Clone(r.packs[min(packs, len(r.packs)):])
}

// Full says that the tally takes no more now.
func (r *Recorder) Full(full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = full
}
