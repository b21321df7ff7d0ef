package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque/leases"
)

const (
	// lookEvery is how often queues are looked at that have waiters, where Redis does not notify of them.
	lookEvery = 100 * time.Millisecond

	// mostLooks is how many lines are looked at each time; the rest come the next time.
	mostLooks = 256

	// mostLosses is how many answers in a row may be lost before the requests of a turn are refused.
	mostLosses = 3

	// dialWithin bounds an attempt to connect.
	dialWithin = part.ReplyWithin
)

// side is the desk's connection to Redis.
type side interface {
	Turn(t *leases.Turn) (leases.Answer, error)
	Served(server string, number int64) (last int64, jobs []leases.Job, err error)
	Tracks() bool // Redis notifies of queues

	// Heed returns the queues that have changed since the last call, or that any may have. An error says that the
	// connection broke.
	Heed() (queues []string, all bool, err error)

	// Unwanted returns those of some jobs that are not to be given to a client, because they were cancelled.
	Unwanted(ctx context.Context, jobs []leases.Job) []leased.End

	// Broken reports whether an error was the connection's: the answer may be lost.
	Broken() bool
	Close()
}

// run takes turns until stop is called and nothing is left to do.
func (d *desk) run(ctx context.Context) {
	defer close(d.done)
	d.helm <- struct{}{}
	defer d.leaveHelm()
	defer d.hangUp()
	var retry part.Backoff
	timer := d.clock.NewTimer(0)
	defer timer.Stop()
	for {
		if d.side == nil {
			if d.losses > 1 {
				d.backOff(ctx, timer, retry.Next())
			}
			if err := d.connect(ctx); err != nil {
				d.failed(err)
				d.refuse(err)
				if d.over() || ctx.Err() != nil {
					return
				}
				d.backOff(ctx, timer, retry.Next())
				continue
			}
			if d.failed(nil); d.losses == 0 {
				retry.Reset()
			}
		}
		if err := d.heed(); err != nil {
			d.failed(err)
			d.hangUp()
			continue
		}
		if f := d.compose(); f != nil {
			d.take(ctx, f)
			continue
		}
		if d.over() {
			return
		}
		if ctx.Err() != nil {
			return
		}
		wait := d.restFor()
		d.leaveHelm()
		d.rest(ctx, timer, wait)
		d.helm <- struct{}{}
	}
}

func (d *desk) leaveHelm() { <-d.helm }

// lead takes the next turn in the goroutine of a request that has just come, if that is alone and run rests: then it costs
// no change of goroutines. Else, and for what is left to do, it wakes run.
func (d *desk) lead() {
	if !d.alone() {
		d.wake()
		return
	}
	select {
	case d.helm <- struct{}{}:
		defer d.leaveHelm() // also after a panic, from which net/http goes on
		if d.turn() {
			return
		}
	default:
	}
	d.wake()
}

// turn takes one turn, and reports whether nothing is left to do. run connects and deals with what went wrong. The caller is
// at the helm.
func (d *desk) turn() (done bool) {
	if d.side == nil {
		return false
	}
	if err := d.heed(); err != nil {
		d.failed(err)
		d.hangUp()
		return false
	}
	f := d.compose()
	if f == nil {
		return false
	}
	d.take(d.ctx, f)
	if d.side == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.again) == 0 && len(d.probes.order) == 0 && d.yielding.left() < 0 && (d.tracks() || d.lines.waiting == 0)
}

// rest waits until there is something to do, at most for a time; less than zero: for ever.
func (d *desk) rest(ctx context.Context, timer clock.Timer, most time.Duration) {
	var over <-chan time.Time
	if most >= 0 {
		timer.Reset(most)
		over = timer.C()
	}
	select {
	case <-d.signal:
	case <-over:
	case <-ctx.Done():
	}
}

// backOff waits before the next attempt to connect. Requests that come do not shorten it.
func (d *desk) backOff(ctx context.Context, timer clock.Timer, wait time.Duration) {
	timer.Reset(wait)
	select {
	case <-timer.C():
	case <-d.quit:
	case <-ctx.Done():
	}
}

// restFor returns how long there is nothing to do unless there is a signal.
func (d *desk) restFor() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tracks() || d.lines.waiting == 0 {
		return d.yielding.left()
	}
	return max(0, clock.Until(d.clock, d.lookAt))
}

// connect dials, and learns what became of the turn before.
func (d *desk) connect(ctx context.Context) error {
	s, err := d.dial(ctx)
	if err != nil {
		return err
	}
	d.side = s
	if err := d.ascertain(ctx); err != nil {
		d.hangUp()
		return err
	}
	d.blind = false
	d.all()
	return nil
}

// tracks reports whether Redis notifies of queues.
func (d *desk) tracks() bool { return d.side.Tracks() && !d.blind }

// ascertain opens the server's record in Redis. If the answer to a turn was lost, it makes that turn void, or puts
// back what it has reserved.
func (d *desk) ascertain(ctx context.Context) error {
	d.number++
	last, jobs, err := d.side.Served(d.server, d.number)
	if err != nil {
		return err
	}
	d.number = max(d.number, last)
	if lost := d.lost; lost != 0 {
		heard := last == lost
		if heard && len(jobs) > 0 {
			if err := d.unseen(ctx, jobs); err != nil {
				return err
			}
			for _, j := range jobs { // which went back, and was counted as that
				d.took(j.Queue, 1)
			}
			d.count.released.Add(int64(len(jobs)))
		}
		for _, call := range d.lostAcks {
			call.heard = call.heard || heard
		}
		d.lost, d.lostAcks = 0, nil
	}
	return nil
}

func (d *desk) hangUp() {
	if d.side != nil {
		d.side.Close()
		d.side = nil
	}
}

// all has all queues with waiters asked.
func (d *desk) all() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for q := range d.lines.byQueue {
		d.probes.add(q, 1)
	}
}

// heed takes what Redis has notified of.
func (d *desk) heed() error {
	queues, all, err := d.side.Heed()
	if err != nil {
		return err
	}
	if all {
		d.all()
	}
	d.yielding.heard(queues)
	d.mu.Lock()
	defer d.mu.Unlock()
	for q := range d.yielding.due() {
		if d.lines.byQueue[q] != nil {
			d.probes.wake(q)
		}
	}
	if !d.tracks() && d.lines.waiting > 0 && !d.clock.Now().Before(d.lookAt) {
		d.lookAt = d.clock.Now().Add(lookEvery)
		looks := mostLooks
		for _, of := range d.lines.byKey { // in another order each time
			if looks--; looks < 0 {
				break
			}
			if of.head != nil {
				d.probes.add(of.queues[0], 1)
			}
		}
	}
	return nil
}

// take takes a turn.
func (d *desk) take(ctx context.Context, f *flight) {
	d.number++
	f.turn.Number, f.turn.Seed = d.number, seed(d.now())
	answer, err := d.side.Turn(&f.turn)
	if err == nil {
		d.count.turn(d.clock.Now(), clock.Since(d.clock, f.began))
		d.losses = 0
		d.saw(answer.Now)
		d.blind = d.blind || f.turn.Arm && !answer.Armed
		d.give(ctx, f, &answer)
		return
	}
	switch {
	case errors.Is(err, leases.ErrGone), errors.Is(err, leases.ErrStale):
		// Redis has done nothing. It was emptied, or this server was silent for a day.
		err = d.ascertain(ctx)
		if err == nil {
			d.repeat(f)
			return
		}
	case !d.side.Broken() && !conn.Elsewhere(err):
		d.refused(f, err)
		return
	}
	d.count.lost.Add(1)
	d.lost = f.turn.Number
	d.lostAcks = f.calls
	d.losses++
	d.hangUp()
	d.failed(err)
	d.repeat(f)
	if d.losses >= mostLosses {
		d.refuse(err)
	}
}

// repeat has the requests of a turn asked again.
func (d *desk) repeat(f *flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flight = nil
	var again []*ask
	for _, g := range f.groups {
		for _, a := range g.asks {
			switch {
			case a.stage == ended:
			case a.listed:
				a.stage = waiting
			default:
				a.stage = queued
				again = append(again, a)
			}
		}
	}
	d.again = append(again, d.again...)
	d.acks = append(f.calls, d.acks...)
	for _, p := range f.probes {
		d.probes.add(p.queue, p.most)
	}
}

// refused answers the requests of a turn that Redis refused.
func (d *desk) refused(f *flight, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flight = nil
	for _, g := range f.groups {
		for _, a := range g.asks {
			d.answer(a, reply{err: why})
		}
	}
	for _, call := range f.calls {
		call.done <- why
	}
}

// refuse answers those requests that do not wait for jobs, because Redis is away.
func (d *desk) refuse(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, call := range d.acks {
		call.done <- why
	}
	d.acks = nil
	for _, list := range []*[]*ask{&d.fresh, &d.again} {
		left := (*list)[:0]
		for _, a := range *list {
			switch {
			case a.stage == ended:
			case a.waits:
				left = append(left, a)
			default:
				d.answer(a, reply{err: why})
			}
		}
		clear((*list)[len(left):])
		*list = left
	}
}

// over reports whether the desk has stopped and nothing is left to do.
func (d *desk) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopped && len(d.acks) == 0
}

// stop has run end when the acknowledgements that have come are answered.
func (d *desk) stop() {
	d.drain()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.stopped = true
		close(d.quit)
		d.wake()
	}
}
