package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/resque/events"
	"github.com/goworker/goworker/internal/resque/webhook"
)

const (
	// MostBody is how many bytes a body has at most.
	MostBody = 64 << 10

	// mostEntries is how many entries a delivery takes if the next delivery has to wait.
	mostEntries = 1000

	// mostListed is how many of them the body lists. It counts the rest by kind and class.
	mostListed = 100

	// mostSums is how many rows these counts have. The last row is of all other classes.
	mostSums = 50

	// mostListedBytes leaves room for the rest of the body: each sum has at most a kind and a name, escaped.
	mostListedBytes = MostBody - mostSums*850 - 4<<10

	// mostText is how many bytes the text for people has.
	mostText = 500

	// mostCommand is how many bytes the command of a notice has. A longer one is left out, because a part of it does something else.
	mostCommand = 1000

	// shortened is how many bytes more a text has that a process has shortened.
	shortened = 32
)

// The kinds of items that are notices of the checks.
const (
	Begun = "notice-begun" // something is wrong
	Ended = "notice-ended" // it no longer is
)

// Body is the body of a delivery, as JSON.
type Body struct {
	ID        string `json:"id"` // also in DeliveryHeader
	Webhook   string `json:"webhook"`
	Namespace string `json:"namespace"`
	Text      string `json:"text"` // one line for people
	Events    []Item `json:"events"`
	More      []Sum  `json:"more,omitempty"` // what Events has no room for
	Cut       int64  `json:"cut,omitempty"`  // how many events were lost before this delivery
}

// Item is the bad end of a job, or a notice.
type Item struct {
	ID   string    `json:"id"` // the same in each delivery that contains it
	Kind string    `json:"kind"`
	At   time.Time `json:"at"` // by Redis's clock

	// Of jobs.
	Process string          `json:"process,omitempty"`
	Queue   string          `json:"queue,omitempty"`
	Class   string          `json:"class,omitempty"`
	Job     string          `json:"job,omitempty"`     // its id; "": the producer gave none
	Attempt int             `json:"attempt,omitempty"` // which run it was; the first is 1
	TookMS  float64         `json:"took_ms,omitempty"`
	Error   string          `json:"error,omitempty"`
	Failure string          `json:"failure,omitempty"` // the id of the failure record, as inspect and the log have it
	Args    json.RawMessage `json:"args,omitempty"`    // with Settings.Arguments

	// Of notices.
	Check    string `json:"check,omitempty"` // the name of the check
	Severity string `json:"severity,omitempty"`
	Sentence string `json:"sentence,omitempty"`
	Remedy   string `json:"remedy,omitempty"`
	Command  string `json:"command,omitempty"`
}

// Sum counts items of a kind and a class. Class is "" for notices, and "…" for all classes that have no row.
type Sum struct {
	Kind  string `json:"kind"`
	Class string `json:"class,omitempty"`
	Count int64  `json:"count"`
}

// delivery is a body and the state of its attempts.
type delivery struct {
	id    string
	ids   []string // of the entries
	body  []byte
	cut   int64 // how many lost events it reports
	said  int64 // how many lost events are reported in all after it
	items int   // events and notices
	tries int
	due   time.Time // of the next attempt
	error string    // of the last one
	line  []any     // for the log of the fleet; nil: it was delivered
}

// newDelivery makes the delivery of entries.
func newDelivery(name, namespace string, entries []webhook.Entry, cut int64) *delivery {
	d := &delivery{cut: cut}
	digest := sha256.New()
	fmt.Fprintf(digest, "%s %s", namespace, name)
	var items []Item
	for _, e := range entries {
		d.ids = append(d.ids, e.ID)
		fmt.Fprintf(digest, " %s", e.ID)
		if i, ok := itemOf(e); ok {
			items = append(items, i)
		}
	}
	d.items = len(items)
	d.id = hex.EncodeToString(digest.Sum(nil)[:16])
	b := Body{ID: d.id, Webhook: name, Namespace: namespace, Cut: cut, Events: []Item{}}
	room, listed := mostListedBytes, 0
	for _, i := range items {
		size := len(encode(i)) + 1
		if listed == mostListed || size > room {
			break
		}
		room, listed = room-size, listed+1
	}
	b.Events, b.More = append(b.Events, items[:listed]...), sums(items[listed:])
	b.Text = text(items, cut)
	d.body = encode(b)
	return d
}

// itemOf reads an entry. Any program that may write to Redis may have written it, so it has no more than what processes and deliverers
// write; ok says that it is theirs.
func itemOf(entry webhook.Entry) (i Item, ok bool) {
	if entry.Foreign {
		return i, false
	}
	name := func(text string) string { return logging.Shorten(text, events.MostName+shortened) }
	var n Item
	if json.Unmarshal([]byte(entry.Event), &n) == nil && (n.Kind == Begun || n.Kind == Ended) {
		i = Item{
			ID: entry.ID, Kind: n.Kind, At: n.At.UTC(), Check: name(n.Check), Severity: name(n.Severity), Sentence: logging.Shorten(n.Sentence, mostText+shortened),
			Remedy: logging.Shorten(n.Remedy, mostText+shortened),
		}
		if len(n.Command) <= mostCommand {
			i.Command = n.Command
		}
		return i, writable(i.At)
	}
	e, ok := events.ParseEvent(entry.Event)
	if !ok || !slices.Contains(Kinds(), e.Kind) {
		return i, false
	}
	i = Item{
		ID: entry.ID, Kind: e.Kind, At: time.UnixMilli(e.At).UTC(), Process: name(e.Process), Queue: name(e.Queue), Class: name(e.Class), Job: name(e.ID), Attempt: e.Attempt,
		TookMS: e.Took, Error: logging.Shorten(e.Text, events.MostText+shortened), Failure: name(e.Failure),
	}
	if args := bytes.ToValidUTF8([]byte(entry.Args), []byte("\uFFFD")); json.Valid(args) {
		i.Args = args
	}
	return i, writable(i.At)
}

// writable reports whether a time can be written as JSON.
func writable(at time.Time) bool { return at.Year() >= 0 && at.Year() <= 9999 }

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("webhook: %v", err)) // its numbers are finite, its times have four digits of a year, and its raw messages are valid
	}
	return text
}

// sums counts items.
func sums(items []Item) (all []Sum) {
	at := make(map[Sum]int)
	for _, i := range items {
		key := Sum{Kind: i.Kind, Class: i.Class}
		n, ok := at[key]
		if !ok && len(all) >= mostSums-1 {
			key = Sum{Kind: i.Kind, Class: "…"}
			n, ok = at[key]
		}
		if !ok {
			n = len(all)
			at[key], all = n, append(all, key)
		}
		all[n].Count++
	}
	return all
}

// text is the line of a delivery for people: the first item, and how many more there are.
func text(items []Item, cut int64) string {
	var parts []string
	if len(items) > 0 {
		parts = append(parts, items[0].text())
		rest := sums(items[1:])
		slices.SortStableFunc(rest, func(a, b Sum) int { return int(b.Count - a.Count) })
		for n, s := range rest {
			if n == 3 {
				parts = append(parts, "and others")
				break
			}
			parts = append(parts, s.text())
		}
	}
	if cut > 0 {
		parts = append(parts, fmt.Sprintf("%d events were lost before", cut))
	}
	line := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.Join(parts, ", "))
	return logging.Shorten(line, mostText)
}

func (i Item) text() string {
	switch i.Kind {
	case Begun:
		return i.Sentence
	case Ended:
		return "over: " + i.Sentence
	}
	line := fmt.Sprintf("%s %s", i.Class, i.Kind)
	if i.Queue != "" {
		line += " in queue " + i.Queue
	}
	if i.Error != "" {
		line += ": " + i.Error
	}
	return line
}

func (s Sum) text() string {
	if s.Class == "" {
		return fmt.Sprintf("and %d more notices", s.Count)
	}
	return fmt.Sprintf("and %d more of class %s", s.Count, s.Class)
}
