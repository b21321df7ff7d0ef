package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/resque/leases"
)

// Bounds of one turn.
const (
	mostAsks   = 512
	mostJobs   = 512
	mostAcks   = leases.MostAcks
	mostBytes  = 4 << 20
	mostQueues = leases.MostQueues
	mostProbe  = 256 // asks of waiters after one change of a queue
)

// desk has the asks and the acknowledgements of all clients. Any goroutine adds to the next turn. The goroutine at the helm
// takes it: the desk's own, run, or, while that rests, the one of a request.
type desk struct {
	ctx      context.Context // of the turns
	clock    clock.Clock
	server   string
	texts    []string
	count    *counts
	saw      func(ms int64)                                     // is called with Redis's time
	dial     func(ctx context.Context) (side, error)            // connects to Redis
	finished func(Ack)                                          // is called for each job that an acknowledgement has ended; nil: nothing hears of it
	took     func(queue string, n int)                          // is called with how many jobs were taken from a queue
	given    func(ttr time.Duration)                            // is called with the shortest lease that was given
	ends     func(...leased.End)                                // commits ends of jobs that no client has, and does not wait
	unseen   func(ctx context.Context, jobs []leases.Job) error // puts jobs back whose answer was lost
	keyOf    func(queue string) string
	now      func() int64 // Redis's time, in ms
	alone    func() bool  // no other request wants anything at this moment
	failed   func(error)  // is called with each reason why Redis does not answer, nil: it does

	signal chan struct{} // there is something to do
	quit   chan struct{} // closed by stop
	done   chan struct{} // closed when run has ended

	// Any goroutine reads and writes these.
	mu      sync.Mutex
	fresh   []*ask     // that were not asked yet, in order of arrival
	acks    []*ackCall // likewise
	again   []*ask     // that are to be asked again
	lines   lines
	flight  *flight // nil: no turn is in flight
	seq     uint64
	drained bool // no ask waits any more, and no job is given
	stopped bool // no acknowledgement is taken any more

	// The goroutine at the helm has these.
	helm     chan struct{} // holds a value while a goroutine is at the helm
	side     side          // nil: there is none now
	number   int64
	lost     int64      // the turn whose answer did not come; 0: none
	lostAcks []*ackCall // that turn's
	losses   int        // how many turns in a row were lost
	probes   probes
	yielding yielding
	blind    bool      // Redis does not notify of queues although it tracks keys
	lookAt   time.Time // when to look at queues that Redis does not notify of
}

// newDesk returns a desk without the functions that it calls.
func newDesk(c clock.Clock) *desk {
	return &desk{
		ctx: context.Background(), clock: c, yielding: yielding{clock: c}, signal: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), helm: make(chan struct{}, 1),
		lines: newLines(c),
		took:  func(string, int) {},
	}
}

// waiters returns how many asks wait.
func (d *desk) waiters() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lines.waiting
}

// silent returns for how long the turn in flight has no answer.
func (d *desk) silent() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flight == nil {
		return 0
	}
	return clock.Since(d.clock, d.flight.began)
}

// mostNamed is how many queues a server says that its clients ask for.
const mostNamed = 1000

// about says how many requests wait, and for which queues.
func (d *desk) about(t *leases.Taker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.Waiting, t.Queues = d.lines.waiting, d.lines.names()
	t.Queues = t.Queues[:min(len(t.Queues), mostNamed)]
}

// ackCall is some acknowledgements that came together.
type ackCall struct {
	acks  []leases.Ack
	whats []What
	heard bool       // Redis has done it in a turn whose answer was lost. The goroutine at the helm has this
	done  chan error // has room for one
}

// flight is a turn that is in flight.
type flight struct {
	turn   leases.Turn
	groups []group // by ask of the turn
	calls  []*ackCall
	probes []probe
	began  time.Time
	count  int            // asks in it
	names  int            // queues in all its groups
	last   map[string]int // by queue: its last group
}

// group is the asks that are one ask of a turn: for the same queues and time, and next to each other in order
// of arrival, as far as that is open.
type group struct {
	line *line
	ttr  time.Duration
	asks []*ask
	jobs []leases.Job
}

// add adds asks, in order of arrival. It is false if the turn has no room for their queues.
func (f *flight) add(a *ask) bool {
	of := a.line
	if at, ok := f.groupOf(of, a.ttr); ok {
		f.groups[at].asks = append(f.groups[at].asks, a)
		f.turn.Asks[at].Count += a.count
	} else {
		if f.names > 0 && f.names+len(of.queues) > mostQueues {
			return false
		}
		f.names += len(of.queues)
		for _, q := range of.queues {
			f.last[q] = len(f.groups)
		}
		f.groups = append(f.groups, group{line: of, ttr: a.ttr, asks: []*ask{a}})
		f.turn.Asks = append(f.turn.Asks, leases.Ask{Queues: of.queues, TTR: a.ttr, Count: a.count})
	}
	f.turn.Arm = f.turn.Arm || a.waits
	f.count++
	a.stage = underway
	return true
}

// groupOf returns the group that an ask may join: no group behind it asks one of its queues.
func (f *flight) groupOf(of *line, ttr time.Duration) (at int, ok bool) {
	for i, q := range of.queues {
		last, there := f.last[q]
		if !there || i > 0 && last != at {
			return 0, false
		}
		at = last
	}
	return at, f.groups[at].line == of && f.groups[at].ttr == ttr
}

// ask adds an ask. The caller has it asked by lead.
func (d *desk) ask(a *Ask) (*ask, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.drained {
		return nil, ErrStopping
	}
	d.seq++
	x := &ask{line: d.lines.join(a.Queues), ttr: a.TTR, count: max(a.Count, 1), waits: a.Wait > 0, seq: d.seq, answer: make(chan reply, 1)}
	d.fresh = append(d.fresh, x)
	return x, nil
}

// end ends an ask. The caller holds mu.
func (d *desk) end(a *ask) {
	a.stage = ended
	d.lines.leave(a)
}

// answer ends an ask with an answer. The caller holds mu.
func (d *desk) answer(a *ask, r reply) {
	if a.stage != ended {
		d.end(a)
		a.answer <- r
	}
}

// withdraw ends an ask whose client has gone. It is false if the ask has its answer.
func (d *desk) withdraw(a *ask) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.stage == ended {
		return false
	}
	d.end(a)
	return true
}

// hurry ends the wait of an ask whose time is over. One that is asked or to be asked gets that answer.
func (d *desk) hurry(a *ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.waits = false; a.stage == waiting {
		d.answer(a, reply{})
	}
}

// drain ends all waits. From then on an ask gets nothing.
func (d *desk) drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drained = true
	d.every(func(a *ask) {
		if a.waits = false; a.stage != underway {
			d.answer(a, reply{})
		}
	})
	d.wake()
}

// every calls f with all asks that are not ended. The caller holds mu.
func (d *desk) every(f func(*ask)) {
	for _, a := range slices.Concat(d.fresh, d.again) {
		f(a)
	}
	if d.flight != nil {
		for _, g := range d.flight.groups {
			for _, a := range g.asks {
				f(a)
			}
		}
	}
	var all []*ask
	for _, of := range d.lines.byKey {
		for a := of.head; a != nil; a = a.next {
			all = append(all, a)
		}
	}
	for _, a := range all {
		f(a)
	}
}

// ack adds acknowledgements, at most mostAcks, and waits for what becomes of them.
func (d *desk) ack(ctx context.Context, acks []leases.Ack) ([]What, error) {
	call := &ackCall{acks: acks, done: make(chan error, 1)}
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return nil, ErrStopping
	}
	d.acks = append(d.acks, call)
	d.mu.Unlock()
	d.lead()
	select {
	case err := <-call.done:
		return call.whats, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *desk) wake() {
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// compose makes the next turn; nil: there is nothing to do.
func (d *desk) compose() *flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &flight{last: make(map[string]int)}
	d.composeAcks(f)
	asks := d.candidates(f)
	left := 0
	for i, a := range asks {
		if a.stage != ended && !f.add(a) {
			left = len(asks) - i
			break
		}
	}
	for _, a := range asks[len(asks)-left:] {
		switch {
		case a.stage == ended: // its client has gone
		case !a.listed:
			a.stage = queued
			d.again = append(d.again, a)
		default:
			a.stage = waiting
			d.probes.add(a.line.queues[0], 1)
		}
	}
	if f.count == 0 && len(f.calls) == 0 {
		return nil
	}
	f.turn.Server, f.turn.Jobs, f.turn.Bytes, f.turn.Texts = d.server, mostJobs, mostBytes, d.texts
	f.turn.Arm = f.turn.Arm && d.tracks()
	f.began = d.clock.Now()
	d.flight = f
	return f
}

// composeAcks takes acknowledgements into a turn. A call is in one turn.
func (d *desk) composeAcks(f *flight) {
	n, sum := 0, 0
	for n < len(d.acks) && sum+len(d.acks[n].acks) <= mostAcks {
		sum += len(d.acks[n].acks)
		n++
	}
	if n == 0 {
		return
	}
	f.calls = slices.Clone(d.acks[:n])
	f.turn.Acks = make([]leases.Ack, 0, sum)
	for _, call := range f.calls {
		f.turn.Acks = append(f.turn.Acks, call.acks...)
	}
	d.acks = drop(d.acks, n)
}

// candidates returns the asks for the next turn in order of arrival: those to be asked again, waiters whose queues
// have changed, and those that have come. With each that has come, the oldest waiter of its line is asked, so that a later
// ask does not get the job that one waits for.
func (d *desk) candidates(f *flight) (asks []*ask) {
	take := func(a *ask) bool {
		a.stage = underway
		asks = append(asks, a)
		return len(asks) < mostAsks
	}
	n := min(len(d.again), mostAsks)
	asks = append(asks, d.again[:n]...)
	d.again = drop(d.again, n)
	for len(asks) < mostAsks {
		p, ok := d.probes.next()
		if !ok {
			break
		}
		most := p.most
		d.lines.oldest(p.queue, func(a *ask) bool {
			p.asks = append(p.asks, a)
			most--
			return take(a) && most > 0
		})
		if len(p.asks) > 0 {
			f.probes = append(f.probes, p)
		}
	}
	came := 0
	for came < len(d.fresh) && len(asks) < mostAsks {
		a := d.fresh[came]
		came++
		if a.stage == ended {
			continue
		}
		if older := a.line.oldest(); older != nil && len(asks)+1 < mostAsks {
			take(older)
		}
		take(a)
	}
	d.fresh = drop(d.fresh, came)
	slices.SortStableFunc(asks, func(a, b *ask) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
	return asks
}

// oldest returns the oldest ask of a line that waits and is not asked now.
func (of *line) oldest() *ask {
	for a := of.head; a != nil; a = a.next {
		if a.stage == waiting {
			return a
		}
	}
	return nil
}

// drop returns a slice without its first elements, and lets them go.
func drop[T any](of []T, n int) []T {
	left := copy(of, of[n:])
	clear(of[left:])
	return of[:left]
}

// probe asks for so many of the oldest waiters of a queue, because it has changed.
type probe struct {
	queue string
	most  int
	woken bool // Redis has notified of the queue
	asks  []*ask
}

// probes are those that are due, in the order in which their queues changed.
type probes struct {
	order []string
	most  map[string]int
	woken map[string]bool
}

// wake adds a probe of a queue of which Redis has notified.
func (p *probes) wake(queue string) {
	p.add(queue, 1)
	if p.woken == nil {
		p.woken = make(map[string]bool)
	}
	p.woken[queue] = true
}

func (p *probes) add(queue string, most int) {
	if p.most == nil {
		p.most = make(map[string]int)
	}
	if before, there := p.most[queue]; !there {
		p.order = append(p.order, queue)
	} else if before >= most {
		return
	}
	p.most[queue] = most
}

func (p *probes) next() (of probe, ok bool) {
	if len(p.order) == 0 {
		return of, false
	}
	of = probe{queue: p.order[0], most: p.most[p.order[0]], woken: p.woken[p.order[0]]}
	p.order = drop(p.order, 1)
	delete(p.most, of.queue)
	delete(p.woken, of.queue)
	return of, true
}
