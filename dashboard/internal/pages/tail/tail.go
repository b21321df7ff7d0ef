// Package tail is the page of events: what happens to jobs and processes while a reader looks.
package tail

import (
	"context"
	"embed"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/events"
)

//go:embed *.html
var files embed.FS

// rows is how many events the page shows.
const rows = 100

// Pages are the page of events.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/events", Tab: "events", Title: "Events", Load: load, Data: (*Tail)(nil), Params: []string{"kind", "queue", "class", "id"}, Template: "events.html", Files: files},
	}
}

// Tail is the page /events.
type Tail struct {
	Events []Row     `json:"events"` // the newest first
	Since  site.Time `json:"since"`  // when this filter began to be watched
	Seen   int64     `json:"seen"`   // events since then, and of the ten minutes before as far as Redis has them
	Away   string    `json:"away,omitempty"`

	Kind  string `json:"-"`
	Queue string `json:"-"`
	Class string `json:"-"`
	ID    string `json:"-"`
	Whole bool   `json:"-"`
}

// Row is an event, or several like it.
type Row struct {
	Kind    string            `json:"kind"`
	At      site.Time         `json:"at"`
	Process string            `json:"process,omitempty"`
	Queue   string            `json:"queue,omitempty"`
	Class   string            `json:"class,omitempty"`
	ID      string            `json:"id,omitempty"`
	Attempt int               `json:"attempt,omitempty"`
	Took    site.Span         `json:"took_ms"`
	P95     site.Span         `json:"p95_ms"` // of several
	Text    string            `json:"text,omitempty"`
	More    map[string]string `json:"more,omitempty"`
	Count   int64             `json:"count"`
	Shard   string            `json:"shard,omitempty"`
}

// State is the state whose look the event has.
func (r Row) State() string {
	switch r.Kind {
	case events.Retried, events.Recovered, events.PartRestarted:
		return "retrying"
	case events.Poison, events.PartFailed:
		return "failed"
	case events.Step:
		return "done"
	case events.Enqueued, events.Returned:
		return "waiting"
	case events.Started:
		return "running"
	case events.Online, events.RuleRestored:
		return "on"
	case events.Offline, events.RuleEnded:
		return "off"
	case events.MaxRSS:
		return "leaving"
	}
	return r.Kind
}

// Words is the kind in words.
func (r Row) Words() string { return strings.ReplaceAll(r.Kind, "-", " ") }

// Of reports whether the event is of a job.
func (r Row) Of() bool { return r.Queue != "" }

// The groups of kinds that the page names.
var (
	bad       = []string{events.Failed, events.Retried, events.Expired, events.Discarded, events.Cancelled, events.Recovered, events.Poison, events.Lost, events.PartFailed, events.MaxRSS}
	processes = []string{events.Online, events.Offline, events.Lost, events.PartRestarted, events.PartFailed, events.MaxRSS, events.RuleEnded, events.RuleRestored}
)

// Groups are the choices of the page.
func (t *Tail) Groups() (all [][2]string) {
	all = append(all, [2]string{"", "All"}, [2]string{"bad", "What went wrong"}, [2]string{events.Done, "Done"})
	if t.Whole {
		all = append(all, [2]string{"processes", "Processes and rules"})
	}
	return all
}

// Single reports whether the kind is none of the page's choices.
func (t *Tail) Single() bool {
	return !slices.ContainsFunc(t.Groups(), func(g [2]string) bool { return g[0] == t.Kind })
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	t := &Tail{
		Kind: strings.TrimSpace(a.Param("kind")), Queue: strings.TrimSpace(a.Param("queue")), Class: strings.TrimSpace(a.Param("class")),
		ID: strings.TrimSpace(a.Param("id")), Whole: a.User.Whole(),
	}
	f, err := t.filter()
	if err != nil {
		return nil, err
	}
	seen, err := Recent(ctx, a, f)
	if err != nil {
		return nil, err
	}
	t.Since, t.Seen, t.Away = site.Time{Time: a.Now().Add(-time.Since(seen.Since))}, seen.Count, seen.Away
	for _, e := range seen.Events[:min(rows, len(seen.Events))] {
		t.Events = append(t.Events, Row{
			Kind: e.Kind, At: site.Time{Time: e.At}, Process: e.Process, Queue: e.Queue, Class: e.Class, ID: e.ID, Attempt: e.Attempt,
			Took: site.Span(e.Took), P95: site.Span(e.P95), Text: e.Text, More: e.More, Count: e.Count, Shard: e.Shard,
		})
	}
	return t, nil
}

// filter is the filter of the page's address.
func (t *Tail) filter() (f events.Filter, err error) {
	switch t.Kind {
	case "":
		f.All = true
	case "bad":
		f.Kinds = bad
	case "processes":
		f.Kinds = processes
	default:
		for kind := range strings.SplitSeq(t.Kind, ",") {
			if kind = strings.TrimSpace(kind); !slices.Contains(events.Kinds(), kind) {
				return f, site.Bad("%q is no kind of event; there are bad, processes, %s", kind, strings.Join(events.Kinds(), ", "))
			}
			f.Kinds = append(f.Kinds, kind)
		}
	}
	for _, pattern := range []string{t.Queue, t.Class} {
		if _, err := path.Match(pattern, ""); err != nil {
			return f, site.Bad("the pattern %q has a bracket that is not closed, or ends with a backslash", pattern)
		}
	}
	if t.Queue != "" {
		f.Queues = []string{t.Queue}
	}
	if t.Class != "" {
		f.Classes = []string{t.Class}
	}
	if t.ID != "" {
		f.IDs = []string{t.ID}
	}
	return f, nil
}
