// Package events shows what happens to the jobs and processes of a fleet while it happens.
//
//	for e, err := range events.Watch(ctx, client, events.Filter{Kinds: []string{events.Failed, events.Lost}}) {
//		…
//	}
//
// Processes send events of jobs only while a program listens, and stop at most 30 seconds after the last listener has ended. A listener
// that was away resumes where it stopped, and learns what it missed. See docs/events.md for what is guaranteed of which event.
package events

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque/events"
)

// Inspects is a *goworker.Client, a *goworker.Daemon or *goworker.Shards.
type Inspects interface{ Inspect() *inspect.Inspector }

// The kinds of events.
const (
	// The bad ends of jobs. Redis takes such an event with the end itself, or not at all.
	Failed    = "failed"    // for good
	Retried   = "retried"   // it runs again
	Expired   = "expired"   // its time was over before it ran
	Discarded = "discarded" // its handler returned Discard
	Cancelled = "cancelled"
	Recovered = "recovered" // its process died, and it is back in its queue
	Poison    = "poison"    // its processes died too often, and it has failed

	// Step says that a step of a workflow is done. Its ID begins with that of the workflow. Redis takes it with the end of the step.
	Step = "step"

	// Frequent events: only with Filter.All, or if Kinds names them. A process that is killed loses those that it has not sent, of at most
	// 200 ms.
	Enqueued = "enqueued" // a program with a daemon, or a client over HTTP, has enqueued or delayed it
	Started  = "started"  // a worker called its handler, or a client got it over HTTP
	Done     = "done"
	Snoozed  = "snoozed"  // it runs again later, as its handler wished
	Returned = "returned" // it is back in its queue and has used up no attempt: its process stops, or its client released it

	// Events of processes and rules, from the log of the fleet.
	Online        = inspect.LogOnline
	Offline       = inspect.LogOffline
	Lost          = inspect.LogLost
	PartRestarted = inspect.LogPartRestarted
	PartFailed    = inspect.LogPartFailed
	MaxRSS        = inspect.LogMaxRSS
	RuleEnded     = inspect.LogRuleEnded
	RuleRestored  = inspect.LogRuleRestored

	// Missed says that this listener missed events. It passes every filter.
	Missed = "missed"
)

// Kinds are all kinds.
func Kinds() []string {
	return []string{
		Failed, Retried, Expired, Discarded, Cancelled, Recovered, Poison, Step, Enqueued, Started, Done, Snoozed, Returned,
		Online, Offline, Lost, PartRestarted, PartFailed, MaxRSS, RuleEnded, RuleRestored, Missed,
	}
}

// wide are the frequent kinds, which processes send only while a listener asks for all.
var wide = []string{Enqueued, Started, Done, Snoozed, Returned}

// Filter says which events a listener wants. The zero Filter means all but Enqueued, Started, Done, Snoozed and
// Returned.
type Filter struct {
	Kinds []string // of these kinds; none: all kinds

	// Queues, Classes and IDs choose jobs. With one of them, events of processes and rules come only if Kinds names them.
	Queues  []string // jobs of these queues, or patterns with * ? [
	Classes []string // jobs of these classes, or patterns
	IDs     []string // jobs with these ids

	// All asks processes for Enqueued, Started, Done, Snoozed and Returned too, if Kinds names none. A process sends 500 events a second
	// singly, and counts further ones by queue and class: such an Event has a Count, and no id. With IDs there is a Missed instead.
	All bool

	// Since is how far to look back. Redis keeps about the last 10,000 bad ends and 256 packs of other events, and none of a time in
	// which no program listened.
	Since time.Duration

	// After is the Cursor of the last event that a listener has seen: it resumes behind it, and ignores Since.
	After string
}

// check returns what is wrong with a filter.
func (f Filter) check() error {
	for _, kind := range f.Kinds {
		if !slices.Contains(Kinds(), kind) {
			return prefix.Errorf("%q is no kind of event; there are %s", kind, strings.Join(Kinds(), ", "))
		}
	}
	for what, names := range map[string][]string{"queue": f.Queues, "class": f.Classes, "id": f.IDs} {
		for _, name := range names {
			if strings.TrimSpace(name) == "" {
				return prefix.Errorf("no event has the %s %q; leave it out, or name one", what, name)
			}
			if _, err := path.Match(name, ""); err != nil && what != "id" {
				return prefix.Errorf("the pattern %q of events has a bracket that is not closed, or ends with a backslash", name)
			}
		}
	}
	if f.Since < 0 {
		return prefix.Errorf("Since is %s: it must be 0 or more, because it looks back", f.Since)
	}
	return nil
}

// asked returns the filter as the listeners use it.
func (f Filter) asked() Filter {
	wideKind := func(kind string) bool { return slices.Contains(wide, kind) }
	f.All = f.All && len(f.Kinds) == 0 || slices.ContainsFunc(f.Kinds, wideKind)
	ids := make([]string, len(f.IDs))
	for i, id := range f.IDs {
		ids[i] = logging.Shorten(id, events.MostName) // as processes write it
	}
	f.IDs = ids
	return f
}

// wants reports whether the filter lets an event pass.
func (f Filter) wants(e *Event) bool {
	switch {
	case e.Kind == Missed:
		return true
	case len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind):
		return false
	case !e.ofJob:
		return len(f.Kinds) > 0 || len(f.Queues)+len(f.Classes)+len(f.IDs) == 0
	}
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, e.ID)) && f.fits(e)
}

// fits reports whether the queue and the class of an event pass the filter.
func (f Filter) fits(e *Event) bool { return matches(f.Queues, e.Queue) && matches(f.Classes, e.Class) }

func matches(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return p == name || queues.MatchGlob(p, name) })
}

// Event is what happened.
type Event struct {
	Kind    string
	At      time.Time // by Redis's clock
	Process string    // that sent it; with Lost, Recovered and Poison the dead process

	Queue, Class, ID string        // of the job
	Attempt          int           // which run it was; the first is 1
	Took             time.Duration // since a worker took it
	Text             string        // the error; with Missed the reason
	Failure          string        // of Failed and Poison: the id of the failure record, as inspect and the log have it; "": an older release sent it
	More             map[string]string

	// Count is how many events this one stands for: 1, or more in a summary of a queue and a class. With Missed it is how many packs of
	// the Process are missing; 0: that is unknown.
	Count int64

	// P95 is the time within which 95 of 100 jobs of a summary ended, exact to a fifth.
	P95 time.Duration

	// Shard is the Redis that the event comes from, if there are several.
	Shard string

	// Cursor is the value of Filter.After with which a listener resumes behind this event.
	Cursor string

	ofJob bool // and not of a process or a rule
}

// Watch yields the events of a fleet as they come, until the context ends or the caller leaves the loop. It announces to all processes
// that a program listens, and renews that every ten seconds, also while the body of the loop does something else.
//
// An error says that a Redis cannot be read now. Watch tries again, so the caller decides whether to go on. If the filter has a mistake,
// its error is the only pair. The end of the context is no error. After Close of the client goworker.ErrClosed is the last pair.
//
// Watch dials a connection of its own to each Redis, beside those of WorkerSettings.Connections, and closes it at its end.
func Watch(ctx context.Context, of Inspects, f Filter) iter.Seq2[Event, error] {
	asked := f.asked()
	return func(yield func(Event, error) bool) {
		doors := of.Inspect().Doors()
		places := make([]place, len(doors))
		err := f.check()
		if err == nil && f.After != "" {
			err = parseCursor(f.After, places)
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		pairs := make(chan pair)
		for i, door := range doors {
			l := &listener{door: door, number: i, several: len(doors) > 1, filter: asked, place: places[i], pairs: pairs, clock: clock.System}
			wg.Go(func() { l.run(ctx) })
		}
		go func() {
			wg.Wait()
			close(pairs)
		}()
		for p := range pairs {
			if ctx.Err() != nil {
				continue
			}
			places[p.number] = p.place
			if p.err == nil {
				if p.event.Kind == "" {
					continue // only the place is new
				}
				p.event.Cursor = cursor(places)
			}
			if !yield(p.event, p.err) {
				cancel()
			}
		}
	}
}

// pair is an event that a listener yields, and its place behind it.
type pair struct {
	number int
	event  Event
	err    error
	place  place
}

// The streams that a listener reads.
const (
	ofEnds = iota
	ofLog
	ofPacks
	streams
)

// place is how far a listener has read one Redis: behind which entry of each stream, and behind how many events of the next pack.
type place struct {
	after [streams]string // "": nowhere yet
	seen  int
}

// cursor writes the places as one word.
func cursor(places []place) string {
	texts := make([]string, len(places))
	for i, p := range places {
		texts[i] = fmt.Sprintf("%s %d", strings.Join(p.after[:], " "), p.seen)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(texts, "|")))
}

// parseCursor reads the places.
func parseCursor(text string, places []place) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	all := strings.Split(string(raw), "|")
	if err != nil || len(all) != len(places) {
		return prefix.Errorf("%q is not the cursor of an event of these Redises", text)
	}
	for i, one := range all {
		words := strings.Split(one, " ")
		if len(words) != streams+1 {
			return prefix.Errorf("%q is not the cursor of an event", text)
		}
		copy(places[i].after[:], words)
		seen, err := strconv.ParseUint(words[streams], 10, 31)
		if err != nil || slices.ContainsFunc(places[i].after[:], func(id string) bool { return !isID(id) }) {
			return prefix.Errorf("%q is not the cursor of an event", text)
		}
		places[i].seen = int(seen)
	}
	return nil
}

// isID reports whether a text is a place in a stream: none yet, a time, or the id of an entry.
func isID(id string) bool {
	if id == "" {
		return true
	}
	ms, number, _ := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	_, worse := strconv.ParseUint(cmp.Or(number, "0"), 10, 64)
	return err == nil && worse == nil
}

// log makes an event of an entry of the fleet's log.
func (e *Event) log(entry events.Entry) {
	e.Kind, e.Process, e.Text, e.At, e.Count = entry.Fields["kind"], entry.Fields["process"], entry.Fields["text"], entry.At(), 1
	for key, value := range entry.Fields {
		if key != "kind" && key != "process" && key != "text" {
			if e.More == nil {
				e.More = make(map[string]string)
			}
			e.More[key] = value
		}
	}
}

// job makes an event of a job's event in a stream.
func (e *Event) job(of events.Event, process string) {
	duration := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	*e = Event{
		Kind: of.Kind, At: time.UnixMilli(of.At), Process: of.Process, Queue: of.Queue, Class: of.Class, ID: of.ID, Attempt: of.Attempt,
		Took: duration(of.Took), Text: of.Text, Count: max(1, of.Count), P95: duration(of.P95), Failure: of.Failure, ofJob: true,
	}
	if e.Process == "" {
		e.Process = process
	}
}
