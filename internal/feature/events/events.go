// Package events has a process say what happens to its jobs, while a listener asks for it. While none does, no job has a policy of
// this feature, and nothing is encoded or sent.
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
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque/events"
)

// packEvery is how often a process sends a pack at most.
const packEvery = 200 * time.Millisecond

// lastWithin is how long the last pack may take.
const lastWithin = 300 * time.Millisecond

// Config is what Events is given of its process.
type Config struct {
	Now     func() time.Time // Redis's time
	Process func() string    // as whom it is in the fleet
}

// What listeners ask for: nothing, the bad ends, or all.
const (
	off uint32 = iota
	ends
	all
)

// Events says what happens to the jobs of a process. All methods are safe for concurrent use.
type Events struct {
	base   part.Base
	config Config
	store  events.Store
	loop   *part.Loop
	seat   Seat          // its own, which it holds
	width  atomic.Uint32 // what is sent now. Written with the mutex held

	mu    sync.Mutex
	until [all + 1]time.Time // by width: how long listeners ask for it, by our clock
	pack  pack

	// of the loop's goroutine, and of Close after it
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

// Feature makes the feature. It is the last of the list: so it is the innermost around the handler, and what it says of an end is
// what all features made of it.
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

// Start starts to send.
func (e *Events) Start(ctx context.Context) error {
	e.loop.Start(ctx)
	return nil
}

// Stop stops to send packs. What the last jobs do leaves with Close.
func (e *Events) Stop(ctx context.Context) error {
	e.loop.Stop(ctx)
	return nil
}

// Ends hears until when a listener asks for bad ends: the field events of the notice.
func (e *Events) Ends(value string) { e.heard(ends, value) }

// All hears until when a listener asks for all events.
func (e *Events) All(value string) { e.heard(all, value) }

// heard notes until when a listener asks. That is by Redis's clock, of which this process knows about what it is: so it obeys for no
// longer than listeners ask at a time.
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

// turn begins and ends to send, and sends a pack.
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

// send sends what is packed. A pack that Redis refuses, or of which nobody knows whether it has it, is not sent again: its number is
// missing then, which listeners see.
func (e *Events) send(ctx context.Context) error {
	e.mu.Lock()
	body := e.pack.take(e.config.Now())
	e.mu.Unlock()
	if len(body) == 0 {
		return nil
	}
	e.number++
	err := e.line.Once(ctx, func(c redis.Conn) error { return e.store.Pack(c, e.config.Process(), e.number, body) })
	if err != nil && conn.Refused(err) {
		e.unwritten(err)
		return nil
	}
	return err
}

// unwritten logs why Redis refuses events, the same reason once.
func (e *Events) unwritten(err error) {
	if e.said.News("events", err.Error()) {
		e.base.Log.Warn("Redis refuses events, so listeners miss those of this process; the jobs run all the same", "error", err)
	}
}

// Close sends the last pack. The loop has ended, and so have the jobs.
func (e *Events) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWithin)
	defer cancel()
	if err := e.send(ctx); err != nil {
		e.unwritten(err)
	}
	e.set(off)
	e.line.Close()
}

// Ended says that a job is done. The worker that ended it calls this: Set.Watch. Servers call it for jobs that clients had. How a job
// ends badly stands with its commit.
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

// Enqueued says that a program of this process has put a job into its queue, or delayed it.
func (e *Events) Enqueued(queue, class, id string) { e.say(events.Enqueued, queue, class, id, 0) }

// Given says that a client of this server has got a job.
func (e *Events) Given(queue, class, id string, attempt int) {
	e.say(events.Started, queue, class, id, attempt)
}

// Done says that a client of this server has done a job. Its class may be "": no program has read the job again.
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

// event is what an event says of the job.
func (j of) event(kind string, now time.Time) events.Event {
	return events.Event{
		Kind: kind, At: now.UnixMilli(), Queue: name(j.queue), Class: name(j.class), ID: name(j.id),
		Attempt: j.attempt, Took: float64(j.took.Microseconds()) / 1000,
	}
}

func name(text string) string { return logging.Shorten(text, events.MostName) }
