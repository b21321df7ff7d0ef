// Package events knows how events of jobs reach listeners: the keys and the bytes.
//
// There are two streams. The first has the bad ends of jobs, an entry each, which the commit of the job writes. The second has frequent
// events, such as the start of a job: each process writes packs of many events. Each stream has a bound of its own, so frequent events
// never push out bad ends.
package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

const (
	// Listened is for how long a listener asks for events, and Renewed how often it asks again. A process stops sending after this time
	// unless a listener has asked again.
	Listened = 30 * time.Second
	Renewed  = 10 * time.Second

	// Kept is how long the streams stay after the last event.
	Kept = 10 * time.Minute
	// MostEnds is about how many ends the first stream keeps, and MostPacks how many packs the second.
	MostEnds  = 10_000
	MostPacks = 256

	// MostText is how many bytes of an error an event has at most, and MostName how many of a name.
	MostText = 300
	MostName = 200
	// PackBytes is about how many bytes a pack has at most.
	PackBytes = 64 << 10
)

// The fields of the notice with which listeners ask: until when, in ms by Redis's clock.
const (
	EndsNotice = "events"
	AllNotice  = "events-all"
)

// The kinds of events that are not the words for a state of a job.
const (
	Recovered = "recovered"
	Poison    = "poison"
	Step      = "step"
	Started   = "started"
	Returned  = "returned"
	Enqueued  = "enqueued"
)

// Store is resque's Store with the words of events.
type Store struct{ resque.Store }

// New returns the Store of events in a namespace.
func New(s resque.Store) Store { return Store{s} }

// EndsKey is the stream of the bad ends. Its field "e" is an Event.
func (s Store) EndsKey() resque.Key { return s.StreamKey("events") }

// PacksKey is the stream of the packs: the fields "p", the process, "n", the number of its pack, and "b", an Event a line.
func (s Store) PacksKey() resque.Key { return s.StreamKey("events-all") }

// Event is what happened to a job, or to several of a class.
type Event struct {
	Kind    string  `json:"k"`
	At      int64   `json:"t,omitempty"` // ms by Redis's clock
	Process string  `json:"p,omitempty"` // in a pack it is the pack's
	Queue   string  `json:"q,omitempty"`
	Class   string  `json:"c,omitempty"`
	ID      string  `json:"i,omitempty"`
	Attempt int     `json:"a,omitempty"`
	Took    float64 `json:"ms,omitempty"`
	Text    string  `json:"e,omitempty"`
	Count   int64   `json:"x,omitempty"` // of a summary: how many events it stands for
	P95     float64 `json:"p95,omitempty"`
	Failure string  `json:"f,omitempty"` // the id of the failure record
}

// Append appends the event as a line of JSON.
func (e *Event) Append(to []byte) []byte {
	text, err := json.Marshal(e)
	if err != nil {
		return to // its numbers are finite
	}
	return append(append(to, text...), '\n')
}

// End returns what writes an event with the commit of its job. Redis may refuse it, and the job ends all the same.
func (s Store) End(e Event) []resque.Effect {
	return []resque.Effect{
		resque.Command("XADD", s.EndsKey(), "MAXLEN", "~", MostEnds, "*", "e", bytes.TrimSuffix(e.Append(nil), []byte("\n"))).Soft(),
		resque.Command("PEXPIRE", s.EndsKey(), Kept.Milliseconds()).Soft(),
	}
}

// Prove finds out whether Redis lets this user write the streams. It changes nothing but for how long they stay.
func (s Store) Prove(c redis.Conn) error {
	b := resque.Batch{Conn: c}
	for _, key := range []resque.Key{s.EndsKey(), s.PacksKey()} {
		b.Send("PEXPIRE", key.String(), Kept.Milliseconds())
	}
	replies, err := b.Receive()
	for _, reply := range replies {
		if refused, bad := reply.(redis.Error); bad && err == nil {
			err = refused
		}
	}
	if err != nil {
		return fmt.Errorf("trying to write events: %w", resque.Explain(err))
	}
	return nil
}

// Pack writes a pack.
func (s Store) Pack(c redis.Conn, process string, number uint64, body []byte) error {
	key := s.PacksKey()
	b := resque.Batch{Conn: c}
	b.Send("XADD", key.String(), "MAXLEN", "~", MostPacks, "*", "p", process, "n", number, "b", body)
	b.Send("PEXPIRE", key.String(), Kept.Milliseconds())
	replies, err := b.Receive()
	if err == nil {
		_, err = resque.Answer(replies[0])
	}
	if err != nil {
		return fmt.Errorf("writing events, key %s: %w", key, resque.Explain(err))
	}
	return nil
}

// Entry is an entry of one of the streams that a listener reads.
type Entry struct {
	Stream int // which of them
	ID     string
	Fields map[string]string
}

// At is when Redis wrote the entry.
func (e Entry) At() time.Time {
	ms, _, _ := strings.Cut(e.ID, "-")
	n, _ := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(n)
}

// MostRead is how many entries of each stream are read at a time.
const MostRead = 200

// answerWithin is how long Redis may take to answer beside the time that it was to wait.
const answerWithin = 5 * time.Second

// Read reads the entries of streams behind the given ids, in the order in which Redis wrote them. It waits up to the given time for one.
// more says that there may be further entries: then it returns none behind the last one of a stream that has more, so that the order
// also holds from one call to the next.
func Read(c redis.Conn, streams []resque.Key, after []string, wait time.Duration) (entries []Entry, more bool, err error) {
	args := []any{"COUNT", MostRead, "BLOCK", max(1, wait.Milliseconds()), "STREAMS"}
	at := make(map[string]int)
	for i, key := range streams {
		args = append(args, key.String())
		at[key.String()] = i
	}
	for _, id := range after {
		args = append(args, id)
	}
	reply, err := redis.Values(redis.DoWithTimeout(c, wait+answerWithin, "XREAD", args...))
	if errors.Is(err, redis.ErrNil) {
		return nil, false, nil
	}
	end := "" // the last entry of a stream that has more
	for _, one := range reply {
		pair, bad := redis.Values(one, nil)
		if bad != nil || len(pair) != 2 {
			return nil, false, resque.ErrAnswer
		}
		name, bad := redis.String(pair[0], nil)
		rows, worse := redis.Values(pair[1], nil)
		if bad != nil || worse != nil {
			return nil, false, resque.ErrAnswer
		}
		var last string
		for _, row := range rows {
			e := Entry{Stream: at[name]}
			pair, bad := redis.Values(row, nil)
			if bad != nil || len(pair) != 2 {
				return nil, false, resque.ErrAnswer
			}
			if e.ID, bad = redis.String(pair[0], nil); bad != nil {
				return nil, false, resque.ErrAnswer
			}
			if e.Fields, bad = redis.StringMap(pair[1], nil); bad != nil {
				return nil, false, resque.ErrAnswer
			}
			entries, last = append(entries, e), e.ID
		}
		if len(rows) >= MostRead && (end == "" || resque.CompareIDs(last, end) < 0) {
			end = last
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading events: %w", resque.Explain(err))
	}
	if end != "" {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return resque.CompareIDs(e.ID, end) > 0 })
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return resque.CompareIDs(a.ID, b.ID) })
	return entries, end != "", nil
}

// Has reports whether a stream still has an entry. If it does not, Redis may have trimmed later entries too.
func Has(c redis.Conn, stream resque.Key, id string) (bool, error) { return has(c, stream, id, id) }

// HasFrom reports whether a stream has an entry or a later one.
func HasFrom(c redis.Conn, stream resque.Key, id string) (bool, error) {
	return has(c, stream, id, "+")
}

func has(c redis.Conn, stream resque.Key, from, to string) (bool, error) {
	rows, err := redis.Values(c.Do("XRANGE", stream.String(), from, to, "COUNT", 1))
	if err != nil {
		return false, fmt.Errorf("reading events, key %s: %w", stream, resque.Explain(err))
	}
	return len(rows) > 0, nil
}

// ParseEvent reads an event.
func ParseEvent(text string) (e Event, ok bool) {
	return e, json.Unmarshal([]byte(text), &e) == nil && e.Kind != ""
}

// ParsePack reads the events of a pack. It skips events that it cannot read.
func ParsePack(body string) (all []Event) {
	for line := range strings.Lines(body) {
		if e, ok := ParseEvent(line); ok {
			all = append(all, e)
		}
	}
	return all
}
