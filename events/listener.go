package events

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/resque/events"
	"github.com/goworker/goworker/internal/resque/history"
)

// waitFor is how long a listener waits for events at a time.
const waitFor = time.Second

// listener reads the events of one Redis. Only its goroutine uses it.
type listener struct {
	door    inspect.Door
	number  int
	several bool
	filter  Filter
	place   place
	pairs   chan<- pair
	clock   clock.Clock

	store  events.Store
	notice control.Store
	keys   []resque.Key // of the streams that it reads

	token   string            // its mark in the streams; each mark has another token
	asked   time.Time         // when it last announced itself; zero: never
	renewed bool              // the connection is new: Redis may have lost the announcement
	from    int64             // since when programs have listened without a gap, in ms by Redis's clock
	goesOn  bool              // it has listened before, so it reports what it missed
	cut     bool              // packs were dropped, and no number has said yet of which process
	marked  string            // the last mark that it has seen
	behind  bool              // Redis may have trimmed its place meanwhile
	numbers map[string]uint64 // of the last pack of each process
	broken  bool              // the caller knows that Redis cannot be read
}

// run reads until the context ends.
func (l *listener) run(ctx context.Context) {
	l.goesOn, l.behind = l.place.after[ofEnds] != "" || l.filter.Since > 0, l.place.after[ofEnds] != ""
	l.numbers = make(map[string]uint64)
	var retry part.Backoff
	for ctx.Err() == nil {
		l.renewed = true
		err := l.door.Alone(ctx, func(s resque.Store, c redis.Conn) error {
			l.store, l.notice = events.New(s), control.New(s)
			l.keys = []resque.Key{l.store.EndsKey(), history.New(s).LogKey()}
			if l.filter.All {
				l.keys = append(l.keys, l.store.PacksKey())
			}
			for {
				if err := l.turn(ctx, c); err != nil {
					return err
				}
				if err := l.door.Usable(); err != nil {
					return err
				}
				retry.Reset()
				l.broken = false
			}
		})
		if ctx.Err() != nil {
			return
		}
		if closed := l.door.Usable(); closed != nil {
			l.hand(ctx, nil, Event{}, closed)
			return
		}
		if l.several {
			err = prefix.Errorf("shard %s: %w", l.door.Name(), err)
		}
		if !l.broken && !l.hand(ctx, nil, Event{}, prefix.Of(err)) {
			return
		}
		l.broken, l.behind = true, true
		timer := l.clock.NewTimer(retry.Next())
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// turn announces the listener, if that is due, and yields new events.
func (l *listener) turn(ctx context.Context, c redis.Conn) error {
	if err := l.ask(ctx, c); err != nil {
		return err
	}
	entries, more, err := events.Read(c, l.keys, l.place.after[:len(l.keys)], waitFor)
	if err != nil {
		return err
	}
	if l.behind || more { // a stream that was cut at its bound has more than one reading
		if err := l.trimmed(ctx, c); err != nil {
			return err
		}
	}
	began := l.clock.Now()
	for _, e := range entries {
		if !l.entry(ctx, c, e) {
			return ctx.Err()
		}
	}
	if l.cut {
		l.cut = false
		l.hand(ctx, c, l.missed(0, "", droppedWhy), nil)
	}
	l.behind = clock.Since(l.clock, began) > waitFor
	return ctx.Err()
}

// ask announces the listener to the processes, if that is due, and looks whether the streams began again.
func (l *listener) ask(ctx context.Context, c redis.Conn) error {
	first := l.asked.IsZero()
	if !l.due() {
		return nil
	}
	now, err := l.listen(c)
	if err != nil {
		return err
	}
	if first {
		l.from = now.UnixMilli()
		for i := range l.keys {
			if l.place.after[i] == "" { // nowhere yet; without a number it is no entry
				l.place.after[i] = before(now.Add(-l.filter.Since))
			}
		}
		l.hand(ctx, c, Event{}, nil) // so that the cursors of other Redises' events have this place
	}
	return l.again(ctx, c, now)
}

// before is the place in a stream that lies before a time; it is no entry.
func before(at time.Time) string { return strconv.FormatInt(max(0, at.UnixMilli()-1), 10) }

// due reports whether the listener has to announce itself again.
func (l *listener) due() bool {
	return l.renewed || clock.Since(l.clock, l.asked) >= events.Renewed
}

// listen announces to the processes for thirty seconds that a program listens. If none has listened so far, it marks that in the
// streams: a listener that resumes there learns that it missed the events before the mark. It returns Redis's time.
func (l *listener) listen(c redis.Conn) (now time.Time, err error) {
	ask := control.Listening{For: events.Listened, Kept: events.Kept, Mark: rand.Text(), Streams: []control.Stream{
		{Key: l.store.EndsKey(), Field: events.EndsNotice, Most: events.MostEnds},
	}}
	if l.filter.All {
		ask.Streams = append(ask.Streams, control.Stream{Key: l.store.PacksKey(), Field: events.AllNotice, Most: events.MostPacks})
	}
	now, marked, err := l.notice.Listen(c, ask)
	if err != nil {
		return now, err
	}
	if marked > 0 {
		l.token, l.goesOn = ask.Mark, l.goesOn || !l.asked.IsZero()
	}
	l.asked, l.renewed = l.clock.Now(), false
	return now, nil
}

// again restarts the listener in streams that began again: Redis has lost them, and its clock is behind the entry that the listener read
// last. The ids of new entries would be smaller than that one's.
func (l *listener) again(ctx context.Context, c redis.Conn, now time.Time) error {
	lost := false
	for i, key := range l.keys {
		if id := l.place.after[i]; (events.Entry{ID: id}).At().After(now) {
			has, err := events.HasFrom(c, key, id)
			if err != nil {
				return err
			}
			if !has {
				// Where it had read an entry, all there is now is new. A time says nothing of what was there before.
				if lost = true; strings.Contains(id, "-") {
					l.place.after[i] = "0"
				} else {
					l.place.after[i] = before(now)
				}
				if i == ofPacks {
					l.place.seen = 0
					clear(l.numbers)
				}
			}
		}
	}
	if lost {
		l.from = now.UnixMilli()
		l.hand(ctx, c, l.missed(0, "", "the clock of Redis went back, or Redis lost its events"), nil)
	}
	return ctx.Err()
}

// droppedWhy is the text of a Missed event after a trim.
const droppedWhy = "this listener was away for so long that Redis dropped events before it read them"

// trimmed yields Missed if Redis no longer has the entry at which the listener stopped: it may have trimmed later entries too. For
// packs their numbers say more, unless no process whose packs Redis dropped had sent one before.
func (l *listener) trimmed(ctx context.Context, c redis.Conn) error {
	for i, key := range l.keys {
		id := l.place.after[i]
		if !strings.Contains(id, "-") {
			continue
		}
		has, err := events.Has(c, key, id)
		if err != nil {
			return err
		}
		if !has && i == ofPacks {
			l.place.seen = 0
			l.cut = len(l.numbers) > 0
		}
		if !has && !l.cut && !l.hand(ctx, c, l.missed(0, "", droppedWhy), nil) {
			return ctx.Err()
		}
	}
	return nil
}

func (l *listener) missed(count int64, process, why string) Event {
	return Event{Kind: Missed, At: l.clock.Now(), Process: process, Text: why, Count: count}
}

// entry yields the events of an entry. It reports false if the caller has left the loop.
func (l *listener) entry(ctx context.Context, c redis.Conn, entry events.Entry) bool {
	var all []Event
	mark, marks := entry.Fields["l"]
	switch {
	case entry.Stream == ofLog:
		var e Event
		if e.log(entry); e.Kind == Offline || e.Kind == Lost {
			delete(l.numbers, e.Process)
		}
		all = append(all, e)
	case marks:
		// Of a listener that just began, only a mark behind its own begin says so: Redis has lost that it listens.
		if mark != l.marked && (l.goesOn || mark != l.token && entry.At().UnixMilli() > l.from) {
			e := l.missed(0, "", "no program listened before, so processes sent no events")
			e.At = entry.At()
			all = append(all, e)
		}
		l.marked = mark
	case entry.Stream == ofEnds:
		if one, ok := events.ParseEvent(entry.Fields["e"]); ok {
			var e Event
			e.job(one, "")
			all = append(all, e)
		}
	default:
		process, packs := l.gap(entry)
		l.cut = l.cut && packs == 0
		if packs > 0 && !l.hand(ctx, c, l.missed(packs, process, "packs of events did not arrive"), nil) {
			return false
		}
		all = l.pack(entry)
	}
	seen := 0
	if entry.Stream == ofPacks {
		seen, l.place.seen = min(l.place.seen, len(all)), 0
	}
	for n, e := range all[seen:] {
		if l.filter.wants(&e) {
			if entry.Stream == ofPacks {
				l.place.seen = seen + n + 1
			}
			if seen+n == len(all)-1 {
				l.place.after[entry.Stream], l.place.seen = entry.ID, 0
			}
			if !l.hand(ctx, c, e, nil) {
				return false
			}
		}
	}
	if l.place.after[entry.Stream] != entry.ID {
		l.place.after[entry.Stream] = entry.ID
		if entry.Stream == ofPacks {
			l.place.seen = 0
		}
		return l.hand(ctx, c, Event{}, nil)
	}
	return true
}

// gap returns how many packs of its process are missing before a pack.
func (l *listener) gap(entry events.Entry) (process string, packs int64) {
	process = entry.Fields["p"]
	number, _ := strconv.ParseUint(entry.Fields["n"], 10, 64)
	last := l.numbers[process]
	l.numbers[process] = number
	if last == 0 || number <= last+1 {
		return process, 0
	}
	return process, int64(number - last - 1)
}

// pack returns the events of a pack.
func (l *listener) pack(entry events.Entry) (all []Event) {
	for _, one := range events.ParsePack(entry.Fields["b"]) {
		var e Event
		e.job(one, entry.Fields["p"])
		if one.Count > 0 && l.unknown(&e) {
			why := fmt.Sprintf("%d events %s of %s %s were only counted, so nobody knows whether these jobs are among them", e.Count, e.Kind, e.Queue, e.Class)
			at := e.At
			e = l.missed(0, e.Process, why)
			e.At = at
		}
		all = append(all, e)
	}
	return all
}

// unknown reports whether a summary may contain events that the listener wants, without saying which.
func (l *listener) unknown(e *Event) bool {
	f := l.filter
	named := len(f.IDs) > 0
	f.IDs = nil
	if e.Queue == "" { // of a process that had too many queues and classes to count, or of an older release
		named = named || len(f.Queues) > 0 || e.Class == "" && len(f.Classes) > 0
		f.Queues = nil
		if e.Class == "" {
			f.Classes = nil
		}
	}
	return named && f.wants(e)
}

// hand yields an event, or an error of Redis. An Event without a kind only moves the listener's place. It reports false if the caller
// has left the loop. While the body of the loop runs, it renews the announcement.
func (l *listener) hand(ctx context.Context, c redis.Conn, e Event, err error) bool {
	if l.several && e.Kind != "" {
		e.Shard = l.door.Name()
	}
	timer := l.clock.NewTimer(events.Renewed)
	defer timer.Stop()
	for {
		select {
		case l.pairs <- pair{l.number, e, err, l.place}:
			return true
		case <-ctx.Done():
			return false
		case <-timer.C():
			if c != nil && l.due() {
				if _, err := l.listen(c); err != nil {
					c = nil // the next turn meets the error
				}
			}
			timer.Reset(events.Renewed)
		}
	}
}
