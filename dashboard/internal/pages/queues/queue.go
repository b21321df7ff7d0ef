package queues

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goworker/goworker/dashboard/internal/brief"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/pages/running"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

// Queue is the page /queues/{queue}.
type Queue struct {
	Row
	Grown    string         `json:"-"`
	Tab      string         `json:"in"` // the tab
	Query    string         `json:"-"`
	Filter   []running.Chip `json:"-"`
	Tabs     []Tab          `json:"tabs"`
	Jobs     []Job          `json:"jobs"`
	Running  []running.Row  `json:"running,omitempty"` // of the tab running
	Limits   []Lane         `json:"limits,omitempty"`  // what the jobs of the tab limits wait for
	Searched *Searched      `json:"searched,omitempty"`
	Past     *Past          `json:"past"`
	From     int64          `json:"-"`   // the place of the first job of this page
	Cut      bool           `json:"cut"` // the page ends before its fiftieth job, because jobs are large
	Lasting  []Lasting      `json:"-"`
	Word     string         `json:"-"` // what confirms that the queue is cleared
	Listed   site.Num       `json:"-"` // jobs in the queue itself, without those in lanes
	Odd      bool           `json:"-"` // its name is not UTF-8, so nothing of it can be undone
	Back     string         `json:"-"` // this page without a form that it asks by
	Ask      string         `json:"-"` // the form that the page shows open, for readers without script
	site.Paged
}

func (q *Queue) PageTitle() string { return "Queue " + shown(q.Name) }

// Tab is a place where the jobs of the queue are.
type Tab struct {
	In   string   `json:"in"`
	Name string   `json:"-"`
	Jobs site.Num `json:"jobs"` // unknown: counting them takes a search
}

// Lane is a lane of jobs that wait for the same limits.
type Lane struct {
	Limits []string  `json:"limits"`
	Key    string    `json:"key,omitempty"`
	Jobs   int64     `json:"jobs"`
	Turn   site.Time `json:"turn"`
}

// Searched says how far a search came.
type Searched struct {
	Fit    int64 `json:"fit"`
	Looked int64 `json:"looked"`
	More   bool  `json:"more"`             // there are jobs that were not looked at
	Whole  bool  `json:"-"`                // as many were looked at as a page may
	Unsure int64 `json:"unsure,omitempty"` // that do not say when they came
}

// Job is a job of the queue.
type Job struct {
	brief.Job
	Ref     string    `json:"ref"`
	Place   int64     `json:"place,omitempty"` // from the head on, the next job has 1; 0: not known
	At      string    `json:"at"`              // queued, lane, delayed, running, leased or failed
	Wait    site.Wait `json:"waits"`
	Due     site.Time `json:"due"`
	Error   string    `json:"last_error,omitempty"`
	Limits  []string  `json:"limits,omitempty"`
	Failure string    `json:"failure,omitempty"` // the id of its record
	Failed  string    `json:"failed_at,omitempty"`
	Key     string    `json:"-"` // names it in a form
	URL     string    `json:"-"`
}

// tabs are the places, with those where the searches and the changes of each look.
var tabs = []struct {
	in, name string
	places   []inspect.Place
}{
	{"queue", "Waiting", []inspect.Place{inspect.Queued}},
	{"limits", "Held by a limit", []inspect.Place{inspect.InLane}},
	{"running", "Running", []inspect.Place{inspect.Running, inspect.Leased}},
	{"delayed", "Retrying and delayed", []inspect.Place{inspect.Delayed}},
	{"failed", "Failed", []inspect.Place{inspect.Failed}},
	{"kept", "Kept", nil},
}

func placesOf(in string) []inspect.Place {
	for _, t := range tabs {
		if t.in == in {
			return t.places
		}
	}
	return nil
}

// find returns a queue as it was seen, or looks for it.
func find(ctx context.Context, a *site.Ask, name string) (q inspect.SampleQueue, err error) {
	if at := slices.IndexFunc(a.Base.Queues, func(q inspect.SampleQueue) bool { return q.Name == name }); at >= 0 {
		return a.Base.Queues[at], nil
	}
	known, err := a.In().KnowsQueue(ctx, name)
	if err != nil {
		return q, err
	}
	if !known {
		return q, site.Missing("there is no queue %s: nothing waits in it, no worker names it, and it is not in the set of queues", shown(name))
	}
	s, err := a.In().Sample(ctx, inspect.SampleQueues(name))
	if err != nil {
		return q, err
	}
	if at := slices.IndexFunc(s.Queues, func(q inspect.SampleQueue) bool { return q.Name == name }); at >= 0 {
		return s.Queues[at], nil
	}
	return inspect.SampleQueue{Name: name, Waiting: inspect.Count{Bound: inspect.Exact}}, nil
}

func loadQueue(ctx context.Context, a *site.Ask) (any, error) {
	name := a.Path("queue")
	seen, err := find(ctx, a, name)
	if err != nil {
		return nil, err
	}
	past := hourOf(ctx, a)
	q := &Queue{
		Row: past.row(a, seen), Tab: a.Choice("in", "queue", "limits", "running", "delayed", "failed", "kept"), Query: running.Filter(a),
		Lasting: lasting, Word: word(name), Odd: !utf8.ValidString(name), Ask: a.Choice("ask", "", "pause", "add", "move", "clear", "remove"),
	}
	q.Grown, q.Back = q.Grows(), below(a, a.With("ask", ""))
	q.Past = past.of(a, name, seen.Waiting)
	if q.State == "nobody" {
		q.Last = lastOf(ctx, a, name)
	}
	if err := q.list(ctx, a); err != nil {
		return nil, err
	}
	q.count(ctx, a)
	return q, nil
}

// list reads the jobs of the tab.
func (q *Queue) list(ctx context.Context, a *site.Ask) error {
	parsed, err := inspect.ParseQuery(q.Query, a.Now())
	if err != nil {
		return err
	}
	q.Filter = running.Chips(parsed.Where, func(text string) string { return a.With("q", text, "after", "", "all", "") })
	switch {
	case q.Tab == "kept":
		return nil
	case q.Tab == "running":
		return q.listRunning(ctx, a)
	case q.Tab == "queue" && q.Query == "" && len(a.Base.Servers) == 1:
		return q.window(ctx, a)
	}
	query, err := narrowed(q.Name, placesOf(q.Tab), parsed)
	if err != nil {
		return err
	}
	if q.Tab == "limits" && q.Query == "" {
		if err := q.lanes(ctx, a); err != nil {
			return err
		}
	}
	found, err := seek(ctx, a, query, a.Param("after"), a.Param("all") != "", q.Query != "" || q.Tab == "delayed" || q.Tab == "failed")
	if err != nil {
		return err
	}
	q.Next, q.Searched = found.next, found.searched
	for _, e := range found.jobs {
		q.Jobs = append(q.Jobs, jobOf(a, e, 0))
	}
	return nil
}

// window reads the jobs from a place on, by their places.
func (q *Queue) window(ctx context.Context, a *site.Ask) error {
	skip := 0
	if text := a.Param("after"); text != "" {
		var err error
		if skip, err = strconv.Atoi(text); err != nil || skip < 0 {
			return site.Bad("after is %q, which no page has ended with", text)
		}
	}
	jobs, cut, err := a.In().Peek(ctx, q.Name, skip, rows, false)
	if err != nil {
		return err
	}
	q.From, q.Cut = int64(skip)+1, cut
	for n, e := range jobs {
		j := jobOf(a, e, int64(skip+n+1))
		if j.Place == 1 && !j.Wait.Known() {
			j.Wait = q.First
		}
		q.Jobs = append(q.Jobs, j)
	}
	if len(jobs) == rows || cut {
		q.Next = strconv.Itoa(skip + len(jobs))
	}
	return nil
}

// mostLanes is how many lanes the page names.
const mostLanes = 20

// lanes reads what the jobs that wait for limits wait for. Each lane takes a command, so of many none is read.
func (q *Queue) lanes(ctx context.Context, a *site.Ask) error {
	if q.InLanes.N == 0 {
		return nil
	}
	all, err := site.Keep(ctx, a.Fleet, "lanes "+q.Name, 5*time.Second, func(ctx context.Context) ([]inspect.WaitingInfo, error) { return a.In().Waiting(ctx, q.Name) })
	if err != nil {
		return err
	}
	for _, l := range all[:min(mostLanes, len(all))] {
		lane := Lane{Key: a.Masks.Text(l.Key), Jobs: l.Jobs, Turn: site.Time{Time: l.Turn}}
		for _, limit := range l.Limits {
			lane.Limits = append(lane.Limits, a.Masks.Text(limit))
		}
		q.Limits = append(q.Limits, lane)
	}
	return nil
}

func (q *Queue) listRunning(ctx context.Context, a *site.Ask) (err error) {
	var more bool
	if q.Running, more, err = running.Of(ctx, a, q.Name); err != nil {
		return err
	}
	if len(q.Running) > rows {
		q.Running, more = q.Running[:rows], true
	}
	q.Cut = more
	return nil
}

// count fills in what the tabs count. What takes a search of its own is not counted.
func (q *Queue) count(ctx context.Context, a *site.Ask) {
	exact := func(n int64) site.Num { return site.Num{Count: inspect.Count{N: n, Bound: inspect.Exact}} }
	for _, t := range tabs {
		tab := Tab{In: t.in, Name: t.name}
		switch t.in {
		case "queue":
			if tab.Jobs = q.Waiting; q.InLanes.Known() {
				tab.Jobs.N = max(0, q.Waiting.N-q.InLanes.N)
			}
			q.Listed = tab.Jobs
		case "limits":
			tab.Jobs = q.InLanes
		case "running":
			if jobs, more, err := running.Of(ctx, a, q.Name); err == nil {
				if tab.Jobs = exact(int64(len(jobs))); more {
					tab.Jobs.Bound = inspect.AtLeast
				}
			}
		case "delayed":
			switch {
			case a.Base.Delayed.Bound == inspect.Exact && a.Base.Delayed.N == 0:
				tab.Jobs = exact(0)
			case q.Tab == "delayed" && q.Query == "" && q.Searched != nil:
				if tab.Jobs = exact(q.Searched.Fit); q.Searched.More {
					tab.Jobs.Bound = inspect.AtLeast
				}
			}
		case "failed":
			if x, p, err := a.Fleet.Groups(ctx); err == nil {
				n := int64(0)
				for _, g := range x.Groups(groups.Filter{Queues: func(name string) bool { return name == q.Name }, Columns: 1}) {
					n += int64(g.Count)
				}
				if tab.Jobs = exact(n); p.Indexed < p.Of {
					tab.Jobs.Bound = inspect.AtLeast
				}
			}
		case "kept":
			if n, err := a.In().KeptSize(ctx, q.Name); err == nil {
				if tab.Jobs = exact(n); n == 0 && q.Tab != "kept" {
					continue
				}
			}
		}
		q.Tabs = append(q.Tabs, tab)
	}
}

// jobOf is a job as a row, masked.
func jobOf(a *site.Ask, e inspect.Entry, place int64) Job {
	j := Job{Job: brief.Of(a.Masks, e.Payload, a.Columns), Ref: e.Ref, Place: place, At: string(e.Place), Due: site.Time{Time: e.At}, Key: e.Ref}
	if e.Invalid != nil && j.Invalid == "" {
		j.Invalid = a.Masks.Text(e.Invalid.Error())
	}
	known := a.Masks.With(e.Payload)
	j.Error = known.Text(e.LastError)
	for _, limit := range e.Limits {
		j.Limits = append(j.Limits, known.Text(limit))
	}
	if !j.Came.IsZero() && (e.Place == inspect.Queued || e.Place == inspect.InLane) {
		j.Wait = site.Wait{Age: inspect.Age{For: max(0, a.Now().Sub(j.Came)), Method: inspect.AgeExact}}
	}
	hint := ""
	if place > 0 {
		hint = strconv.FormatInt(place, 10)
		j.Key += "." + hint
	}
	switch {
	case e.Failure != nil:
		f := a.Masks.Failure(*e.Failure)
		j.Failure, j.Failed, j.Error = f.ID, f.FailedAt, strings.TrimPrefix(f.Exception+": "+f.Error, ": ")
		j.URL = a.URL("failures", f.ID)
	case j.ID != "":
		j.URL = a.URL("jobs", j.ID)
	default:
		j.URL = a.URL("queues", e.Queue, "job", "?ref", e.Ref, "?place", hint)
	}
	return j
}

// Waits is how long a job waits, for a row; known of the others only where they say when they came.
func (j Job) Waits() string {
	if j.Wait.Known() {
		return look.Age(j.Wait.Age)
	}
	return ""
}

// shown is the name of a queue as a text.
func shown(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// word is what must be typed to clear or remove a queue: its name, where that can be typed.
func word(name string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if name == "" || name != strings.TrimSpace(name) || strings.ContainsFunc(shown(name), hidden) {
		return "this queue"
	}
	return name
}

// LastPlace is the place of the last job of the page.
func (q *Queue) LastPlace() int64 { return q.From + int64(len(q.Jobs)) - 1 }

// below is an address of the dashboard without its prefix, as forms send it along.
func below(a *site.Ask, address string) string {
	return strings.TrimPrefix(address, strings.TrimSuffix(a.URL(), "/"))
}
