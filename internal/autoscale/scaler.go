package autoscale

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/usage"
)

// Config is what a Scaler needs of its process. The functions are safe for concurrent use.
type Config struct {
	// Bounds are the bounds of the settings. With a Max of 0 the Scaler does nothing until an operator sets bounds.
	Bounds Bounds

	// Shared says that several daemons share the workers: then nothing can set bounds.
	Shared bool

	Lease   Lease
	Present func() int                          // how many workers there are
	Jobs    func(yield func(*outcome.Job) bool) // that run now
	Counts  func() health.Counts                // of what has run

	// Ask makes the poller's goroutine call a function, which may call Takes and Backlog. Takes reports whether the process takes jobs.
	Ask     func(func())
	Takes   func() bool
	Backlog Backlog
}

// Lease is the lease of the process. Its methods are safe for concurrent use.
type Lease interface {
	// Wanted returns which workers there are to be, and Change changes that.
	Wanted() fleet.Wanted
	Change(ctx context.Context, change func(*fleet.Wanted)) error

	// Peers returns how many processes the fleet has.
	Peers() int
}

// Backlog returns queues in which jobs may wait that the process could take, at most so many and beginning with the one of a number,
// and the number for the next call. due is since when the first job waits in a lane, by Redis's clock; zero: there is none.
type Backlog func(now time.Time, from, most int) (queues []string, next int, due time.Time)

// mostQueues is how many queues one look asks for.
const mostQueues = 100

// fresh is how old the keeper's figures may be.
const fresh = 30 * time.Second

// older is the weight of the jobs that ended before the last look.
const older = 0.9

// recently is how old the figures of the poller and of a renewal may be: a renewal comes every two seconds.
const recently = 5 * time.Second

// Scaler changes how many jobs a process runs at a time. It is a part and a rider of the lease: while all workers are busy, renewals
// read how long jobs wait. It sends no command of its own. All methods are safe for concurrent use.
type Scaler struct {
	base   part.Base
	config Config
	loop   *part.Loop
	memory func() float64 // how much of its memory is used, as in Seen

	setting sync.Mutex // held by one Set at a time
	lapse   *control.Lapse[Bounds]

	mu      sync.Mutex
	ctx     context.Context // of the part; nil: it does not run
	looping bool
	bounds  Bounds // Max 0: the number is left alone
	said    Decision
	asks    bool // renewals read how long jobs wait
	poller  glimpse
	waits   waits

	// of the goroutine of the lease
	heard []waits

	// of the loop's goroutine
	state State
	last  past
	ended float64 // jobs, and over how many seconds: those of the last looks
	over  float64
}

// glimpse is an answer of the poller.
type glimpse struct {
	at     time.Time // zero: it has not answered
	takes  bool
	queues []string
	next   int // for Backlog
	due    time.Time
}

// waits is what a renewal has read of queues.
type waits struct {
	at      time.Time // by the machine's clock
	waiting int64
	age     time.Duration // negative: not known
	unknown int64         // jobs in queues of which it is not known how long they wait
	oldest  time.Time     // by Redis's clock; zero: not known
}

// past is what was counted at the last look.
type past struct {
	at    time.Time
	work  map[string]Work
	all   Work
	spent time.Duration // by all workers on jobs: also on those that have not ended
	cpu   time.Duration
}

// New returns a Scaler that is not started.
func New(b part.Base, c Config) *Scaler {
	s := &Scaler{base: b, config: c, bounds: c.Bounds, memory: memoryUsed, lapse: control.NewLapse[Bounds](b.Clock)}
	s.loop = part.NewLoop(b, "autoscale", s.turn)
	return s
}

// Start starts the loop, if there are bounds.
func (s *Scaler) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
	s.begin()
	return nil
}

// begin starts the goroutine where it is wanted and not there. The mutex is held.
func (s *Scaler) begin() {
	if s.ctx != nil && !s.looping && s.bounds.Max > 0 {
		s.looping = true
		s.loop.Start(s.ctx)
	}
}

// Stop stops the loop.
func (s *Scaler) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = nil
	s.mu.Unlock()
	s.lapse.Stop()
	s.loop.Stop(ctx)
	return nil
}

// errStopped is returned if the process stops.
var errStopped = errors.New("the process stops")

// Set keeps the number within bounds from now on; with a Max of 0 it stays as it is. After lasts, unless that is 0, the former bounds
// return.
func (s *Scaler) Set(b Bounds, lasts time.Duration) error {
	s.setting.Lock()
	defer s.setting.Unlock()
	before, _ := s.Now()
	if !s.set(b) {
		return errStopped
	}
	if lasts == 0 {
		s.lapse.Stop()
		return nil
	}
	s.lapse.Changed(before, b, lasts, func(before, made Bounds) {
		if now, _ := s.Now(); now == made {
			s.set(before)
		}
	})
	return nil
}

// set sets the bounds. It reports false if the process stops.
func (s *Scaler) set(b Bounds) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		return false
	}
	s.bounds, s.said = b, Decision{}
	s.begin()
	s.loop.Wake()
	return true
}

// On reports whether the number changes by itself.
func (s *Scaler) On() bool {
	b, _ := s.Now()
	return b.Max > 0
}

// Fix sets both bounds to n if the number changes by itself. Otherwise the next look would change the n that an operator or the program
// has set. It reports whether it did.
func (s *Scaler) Fix(n int, lasts time.Duration) bool {
	b, _ := s.Now()
	if b.Max == 0 {
		return false
	}
	b.Min, b.Max = n, n
	return s.Set(b, lasts) == nil
}

// Now returns the bounds and the last decision; with a Max of 0 the Scaler is off.
func (s *Scaler) Now() (Bounds, Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.said
	if d.Reason == "" {
		d.Reason = "nothing is decided yet"
	}
	return s.bounds, d
}

// Info is the Info of the part.
func (s *Scaler) Info() any {
	b, d := s.Now()
	if b.Max == 0 {
		return nil
	}
	return fmt.Sprintf("%s: %s", b, d.Reason)
}

// String is the bounds as the settings have them.
func (b Bounds) String() string {
	if b.Max == 0 {
		return "off"
	}
	return fmt.Sprintf("%d..%d", b.Min, b.Max)
}

// turn looks and decides.
func (s *Scaler) turn(ctx context.Context) (time.Duration, error) {
	s.mu.Lock()
	b := s.bounds
	s.mu.Unlock()
	if b.Max == 0 {
		s.state, s.last = State{}, past{}
		s.ask(false)
		return part.Never, nil
	}
	now := s.base.Clock.Now()
	rests := b.Every() - now.Sub(s.last.at)
	n := s.config.Lease.Wanted().Workers
	outside := n < b.Min || n > b.Max
	if rests > 0 && !outside && now.After(s.last.at) { // woken for other bounds
		return rests, nil
	}
	o := s.look(now, b, n)
	if s.config.Present() != n {
		return b.Every(), nil // the last change waits for Redis
	}
	if o.For > 0 || outside {
		var d Decision
		s.state, d = s.state.Next(b, o)
		s.say(b, d)
		if d.Workers != o.Workers {
			if err := s.resize(ctx, b, d); err != nil {
				return b.Every(), err
			}
		}
	}
	s.ask(s.state.trial != nil || o.Busy >= full*float64(o.Workers))
	return b.Every(), nil
}

// say notes a decision.
func (s *Scaler) say(b Bounds, d Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bounds == b {
		s.said = d
	}
}

// resize changes the number. What Redis does not allow now is changed once it does.
func (s *Scaler) resize(ctx context.Context, b Bounds, d Decision) error {
	limited, cancel := context.WithTimeout(ctx, max(b.Every(), part.ReplyWithin))
	defer cancel()
	err := s.config.Lease.Change(limited, func(w *fleet.Wanted) { w.Workers, w.Why = d.Workers, d.Reason })
	if limited.Err() != nil {
		return nil
	}
	return err
}

// ask makes renewals read how long jobs wait, and asks the poller in which queues.
func (s *Scaler) ask(asks bool) {
	s.mu.Lock()
	s.asks = asks
	from := s.poller.next
	s.mu.Unlock()
	s.config.Ask(func() {
		g := glimpse{at: s.base.Clock.Now(), takes: s.config.Takes()}
		g.queues, g.next, g.due = s.config.Backlog(g.at, from, mostQueues)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.poller = g
	})
}

// look returns what was seen since the look before; For is 0 if there was none.
func (s *Scaler) look(now time.Time, b Bounds, workers int) Seen {
	is := past{at: now, work: make(map[string]Work)}
	var since time.Duration // of the jobs that run
	running := 0
	for j := range s.config.Jobs {
		since += max(0, now.Sub(j.StartedAt))
		running++
	}
	counts := s.config.Counts()
	for class, c := range counts.Classes {
		is.work[class] = Work{Runs: c.Runs, Time: c.RunTime}
	}
	is.all = Work{Runs: counts.Total.Runs, Time: counts.Total.RunTime}
	is.spent = is.all.Time + since
	is.cpu = usage.Processor()
	was := s.last
	s.last = is
	o := Seen{At: now, Workers: workers, Waiting: -1, Age: -1}
	if was.at.IsZero() || !now.After(was.at) {
		return o
	}
	o.For = now.Sub(was.at)
	o.Busy = min(float64(o.Workers), max(0, float64(is.spent-was.spent)/float64(o.For)))
	o.Work = make(map[string]Work)
	for class, w := range is.work {
		if runs := w.Runs - was.work[class].Runs; runs > 0 {
			o.Work[class] = Work{Runs: runs, Time: w.Time - was.work[class].Time}
		}
	}
	o.Memory = s.memory()
	if is.cpu > was.cpu {
		o.CPU = float64(is.cpu-was.cpu) / float64(o.For) / float64(runtime.GOMAXPROCS(0))
	}
	s.ended = older*s.ended + float64(is.all.Runs-was.all.Runs)
	s.over = older*s.over + o.For.Seconds()
	rate := s.ended / s.over
	if s.ended < 1 && since > 0 { // a job that runs is half over, on average
		rate = float64(running) * float64(running) / (2 * since.Seconds())
	}
	s.waiting(&o, b, rate)
	return o
}

// waiting adds the number and the age of the jobs that wait, as far as they are known. rate is how many jobs a second the process ends.
func (s *Scaler) waiting(o *Seen, b Bounds, rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	recent := func(at time.Time) bool { return !at.IsZero() && o.At.Sub(at) <= max(2*b.Every(), recently) }
	g, w := s.poller, s.waits
	if !recent(g.at) {
		return // the poller hangs, or waits for Redis
	}
	o.Takes = g.takes
	switch {
	case len(g.queues) == 0:
		o.Waiting, o.Age = 0, 0
	case s.asks && recent(w.at):
		o.Waiting, o.Age = w.waiting, w.age
		if peers := max(1, s.config.Lease.Peers()); w.unknown > 0 && rate > 0 {
			o.Age = max(o.Age, min(24*time.Hour, time.Duration(float64(w.unknown)/rate/float64(peers)*float64(time.Second))))
		}
	}
	if !g.due.IsZero() {
		o.Waiting, o.Age = max(o.Waiting, 0)+1, max(o.Age, o.At.Sub(g.due))
	}
}

// Load adds the reads of queues to a renewal, if ask has asked for them.
func (s *Scaler) Load(c *resque.Cargo) {
	s.mu.Lock()
	asks, queues := s.asks && !c.Last && s.bounds.Max > 0, s.poller.queues
	s.mu.Unlock()
	s.heard = nil
	if !asks || len(queues) == 0 {
		return
	}
	s.base.Store.ReadWaiting(c, queues, func(length int64, d resque.Depth) {
		w := waits{waiting: length}
		switch {
		case length == 0:
		case d.Method == resque.AgeCounted || d.Method == resque.AgeSeen:
			if w.oldest = d.Oldest; d.Method == resque.AgeSeen {
				w.unknown = length // it waits longer
			}
			w.at = d.At
		default:
			w.unknown = length
		}
		s.heard = append(s.heard, w)
	})
}

// Answered notes when Redis answered the reads.
func (s *Scaler) Answered(_ bool, due resque.Due) {
	if len(s.heard) == 0 {
		return
	}
	sum := waits{at: s.base.Clock.Now(), age: -1}
	for _, w := range s.heard {
		sum.waiting += w.waiting
		switch {
		case w.waiting == 0:
		case w.at.IsZero() || due.Now.Sub(w.at) > fresh:
			sum.unknown += w.waiting
			continue
		case !w.oldest.IsZero():
			sum.age = max(sum.age, due.Now.Sub(w.oldest))
		default:
			sum.age = max(sum.age, 0) // the queue was empty a moment ago
		}
		sum.unknown += w.unknown
	}
	s.heard = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = sum
}
