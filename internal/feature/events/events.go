// Package events has a process say what happens to its jobs, while a listener asks for it. While none does, no job has a policy of
// this feature, and nothing is encoded or sent.
package events

import (
	"context"
	"errors"
	"fmt"
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
				return policy{e: e}
			case e.width.Load() == all:
				return wide{policy{e: e}}
			}
			return nil
		},
		Close: e.close,
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
		if err != nil && !refused(err) {
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
	if err != nil && refused(err) {
		e.unwritten(err)
		return nil
	}
	return err
}

// refused reports whether Redis itself refuses the command: then the connection is whole.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && conn.Classify(err) != conn.KindWait
}

// unwritten logs why Redis refuses events, the same reason once.
func (e *Events) unwritten(err error) {
	if e.said.News("events", err.Error()) {
		e.base.Log.Warn("Redis refuses events, so listeners miss those of this process; the jobs run all the same", "error", err)
	}
}

// close sends the last pack. The loop has ended, and so have the jobs.
func (e *Events) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWithin)
	defer cancel()
	if err := e.send(ctx); err != nil {
		e.unwritten(err)
	}
	e.set(off)
	e.line.Close()
}

// Ended says that a job is done. The worker that ended it calls this: Set.Watch. How a job ends badly stands with its commit.
func (e *Events) Ended(j *outcome.Job, o *outcome.Outcome) {
	if e.width.Load() < all || o.State != outcome.Done && o.State != outcome.Snoozed {
		return
	}
	e.add(o.State.String(), j, o.Ran)
}

// add packs an event.
func (e *Events) add(kind string, j *outcome.Job, took time.Duration) {
	e.mu.Lock()
	first := e.pack.empty()
	if e.pack.singly() {
		event := eventOf(kind, j, took, e.config.Now())
		event.Process = ""
		e.pack.add(&event)
	} else {
		e.pack.sum(kind, j.Name, took)
	}
	e.mu.Unlock()
	if first {
		e.loop.Wake()
	}
}

// eventOf is what an event says of a job.
func eventOf(kind string, j *outcome.Job, took time.Duration, now time.Time) events.Event {
	name := func(text string) string { return logging.Shorten(text, events.MostName) }
	return events.Event{
		Kind: kind, At: now.UnixMilli(), Process: name(j.Process), Queue: name(j.Queue), Class: name(j.Name), ID: name(j.ID),
		Attempt: j.Attempt, Took: float64(took.Microseconds()) / 1000,
	}
}

// policy says how a job ended badly.
type policy struct {
	outcome.None
	e *Events
}

// wide also says that a job begins. It is the policy of each class while a listener asks for all events.
type wide struct{ policy }

// Wrap says that the job begins.
func (p wide) Wrap(next outcome.Handler) outcome.Handler {
	return func(ctx context.Context, j *outcome.Job) error {
		if p.e.width.Load() == all {
			p.e.add("started", j, 0)
		}
		return next(ctx, j)
	}
}

// Settle adds the event to the commit, so that it stands there with the end or not at all.
func (p policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	if p.e.width.Load() == off {
		return
	}
	kind := badEnd(j, o)
	if kind == "" {
		return
	}
	var took time.Duration
	if j.Started && !j.Dead {
		took = clock.Since(p.e.base.Clock, j.StartedAt)
	}
	event := eventOf(kind, j, took, p.e.config.Now())
	if o.Err != nil {
		event.Text = logging.Shorten(fmt.Sprint(o.Err), events.MostText)
	}
	o.Effects = append(o.Effects, p.e.store.End(event)...)
}

// badEnd names the end of a job, if it is one that operators want to know of.
func badEnd(j *outcome.Job, o *outcome.Outcome) string {
	var poison *outcome.Poison
	switch o.State {
	case outcome.Failed:
		if errors.As(o.Err, &poison) {
			return "poison"
		}
		return "failed"
	case outcome.Retried, outcome.Expired, outcome.Discarded, outcome.Cancelled:
		return o.State.String()
	case outcome.Returned:
		if j.Dead {
			return "recovered"
		}
	}
	return ""
}
