// Package events sends events of a process's jobs while a listener asks for them. While none does, no job has a policy of this feature,
// and the process encodes and sends nothing.
package events

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque/events"
)

// packEvery is the least time between two packs of a process.
const packEvery = 200 * time.Millisecond

// lastWithin is how long the last pack may take.
const lastWithin = 300 * time.Millisecond

// Config is what Events needs of its process.
type Config struct {
	Now     func() time.Time // Redis's time
	Process func() string    // its id in the fleet
}

// What listeners ask for: nothing, the bad ends, or all.
const (
	off uint32 = iota
	ends
	all
)

// Events sends the events of the jobs of a process. All methods are safe for concurrent use.
type Events struct {
	base   part.Base
	config Config
	store  events.Store
	loop   *part.Loop
	seat   Seat          // its own, which it holds
	width  atomic.Uint32 // which events the process sends now. Written with the mutex held

	mu    sync.Mutex
	until [all + 1]time.Time // by width: until when listeners ask for it, by this machine's clock
	pack  pack

	// used by the loop's goroutine, and after it by Close
	line   conn.Line
	number uint64 // of the last pack
	proven bool   // Redis lets this process write the streams
	said   logging.Once
}

// New returns Events that is not started.
func New(b part.Base, c Config) *Events {
	e := &Events{base: b, config: c, store: events.New(b.Store), line: b.Line(part.ReplyWithin)}
	e.loop = part.NewLoop(b, "events", e.turn)
	e.loop.Quiet = packEvery
	e.loop.End = e.line.Close
	e.seat.Take(e)
	return e
}

// Feature makes the feature. It must be the last of the list: then it is the innermost around the handler, and sees an end as all
// other features have decided it.
func (e *Events) Feature(outcome.Deps) outcome.Feature {
	return outcome.Feature{
		Name: "events",
		Live: func() uint64 { return uint64(e.width.Load() / all) }, // bad ends need no policy of their own: see Bind
		Bind: func(c *outcome.Class) outcome.Policy {
			switch {
			case c == nil:
				return policy{seat: &e.seat}
			case e.width.Load() == all:
				return wide{policy{seat: &e.seat}, e}
			}
			return nil
		},
		Close: e.Close,
	}
}

// Start starts the loop that sends packs.
func (e *Events) Start(ctx context.Context) error {
	e.loop.Start(ctx)
	return nil
}

// Stop stops sending packs. Close sends the events of the last jobs.
func (e *Events) Stop(ctx context.Context) error {
	e.loop.Stop(ctx)
	return nil
}

// Ends takes the field events of the notice: until when a listener asks for bad ends.
func (e *Events) Ends(value string) { e.heard(ends, value) }

// All takes the field of the notice that says until when a listener asks for all events.
func (e *Events) All(value string) { e.heard(all, value) }

// heard notes until when a listener asks. That time is by Redis's clock, which this process only estimates. So it obeys for no longer
// than a listener asks at a time.
func (e *Events) heard(width uint32, value string) {
	var asked time.Duration
	if ms, err := strconv.ParseInt(value, 10, 64); err == nil {
		asked = min(time.UnixMilli(ms).Sub(e.config.Now()), events.Listened)
	}
	e.mu.Lock()
	e.until[width] = e.base.Clock.Now().Add(asked)
	e.mu.Unlock()
	e.loop.Wake()
}

// turn switches sending on or off as listeners ask, and sends a pack.
func (e *Events) turn(ctx context.Context) (time.Duration, error) {
	asked, left := e.asked()
	if asked > off && !e.proven {
		err := e.line.Do(ctx, e.store.Prove)
		if err != nil && !conn.Refused(err) {
			return 0, err
		}
		if err != nil {
			e.unwritten(err)
			e.line.Close()
			return left, nil
		}
		e.proven = true
	}
	e.set(asked)
	err := e.send(ctx)
	if asked == off {
		e.proven = false
		e.line.Close()
		return part.Never, nil
	}
	return left, err
}

// asked returns what listeners ask for now, and for how long at least.
func (e *Events) asked() (width uint32, left time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	left = part.Never
	for w := ends; w <= all; w++ {
		if l := clock.Until(e.base.Clock, e.until[w]); l > 0 {
			width, left = w, min(left, l)
		}
	}
	return width, left
}

func (e *Events) set(width uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.width.Store(width)
}

// send sends the pack. It does not send again a pack that Redis refused, or whose answer was lost: listeners see that its number is
// missing.
func (e *Events) send(ctx context.Context) error {
	e.mu.Lock()
	body := e.pack.take(e.config.Now())
	e.mu.Unlock()
	if len(body) == 0 {
		return nil
	}
	e.number++
	err := e.line.Once(ctx, func(c redis.Conn) error { return e.store.Pack(c, e.config.Process(), e.number, body) })
	if err != nil {
		e.base.Meter.Add(meter.EventsDropped, 1)
	}
	if err != nil && conn.Refused(err) {
		e.unwritten(err)
		return nil
	}
	return err
}

// unwritten logs why Redis refuses events, the same reason once in a row.
func (e *Events) unwritten(err error) {
	if e.said.News("events", err.Error()) {
		e.base.Log.Warn("Redis refuses events: listeners miss the events of this process; its jobs run all the same", "error", err)
	}
}

// Close sends the last pack. The caller has stopped the loop and the jobs before.
func (e *Events) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWithin)
	defer cancel()
	if err := e.send(ctx); err != nil {
		e.unwritten(err)
	}
	e.set(off)
	e.line.Close()
}

// Ended adds the event of a job that is done. The worker that ended the job calls this: Set.Watch. Servers call it for jobs of clients.
// The event of a bad end goes with the commit instead.
func (e *Events) Ended(j *outcome.Job, o *outcome.Outcome) {
	if !e.Wants() {
		return
	}
	kind := o.State.String()
	switch {
	case o.State == outcome.Done, o.State == outcome.Snoozed:
	case o.State == outcome.Returned && j.Started && j.Place != "": // for those of workers see wide
		kind = events.Returned
	default:
		return
	}
	e.add(kind, of{queue: j.Queue, class: j.Name, id: j.ID, attempt: j.Attempt, took: o.Ran})
}

// Wants reports whether a listener asks for all events.
func (e *Events) Wants() bool { return e.width.Load() == all }

// Enqueued adds the event of a job that a program of this process has enqueued or delayed.
func (e *Events) Enqueued(queue, class, id string) { e.say(events.Enqueued, queue, class, id, 0) }

// Given adds the event of a job that a client of this server has got.
func (e *Events) Given(queue, class, id string, attempt int) {
	e.say(events.Started, queue, class, id, attempt)
}

// Done adds the event of a job that a client of this server has done. Its class may be "", because the server does not read the job
// again.
func (e *Events) Done(queue, class, id string) { e.say(outcome.Done.String(), queue, class, id, 0) }

func (e *Events) say(kind, queue, class, id string, attempt int) {
	if e.Wants() {
		e.add(kind, of{queue: queue, class: class, id: id, attempt: attempt})
	}
}

// of is the job that an event is about.
type of struct {
	queue, class, id string
	attempt          int
	took             time.Duration
}

// add packs an event.
func (e *Events) add(kind string, job of) {
	e.mu.Lock()
	if e.width.Load() != all { // the loop has just seen that no listener asks, and would send this with the next one's events
		e.mu.Unlock()
		return
	}
	first := e.pack.empty()
	if e.pack.singly() {
		event := job.event(kind, e.config.Now())
		e.pack.add(&event)
	} else {
		e.pack.sum(summed{kind, job.queue, job.class}, job.took)
	}
	e.mu.Unlock()
	if first {
		e.loop.Wake()
	}
}

// event makes the event of a job.
func (j of) event(kind string, now time.Time) events.Event {
	return events.Event{
		Kind: kind, At: now.UnixMilli(), Queue: name(j.queue), Class: name(j.class), ID: name(j.id),
		Attempt: j.attempt, Took: float64(j.took.Microseconds()) / 1000,
	}
}

func name(text string) string { return logging.Shorten(text, events.MostName) }
