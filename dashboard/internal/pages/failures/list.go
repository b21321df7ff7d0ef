package failures

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

// List is the page /failures.
type List struct {
	By   string `json:"by"`   // group or each
	Sort string `json:"sort"` // of groups: growing, count or new
	*Asked

	All     site.Num `json:"all"`     // failures that there are, where the user may know that
	Fit     int      `json:"fit"`     // of the known ones, those that fit
	Retried int      `json:"retried"` // of these were retried
	Kinds   int      `json:"groups_fit"`
	Whole   bool     `json:"-"`
	Each    bool     `json:"by_each_only"` // the search has conditions that groups do not know
	Grouped Progress `json:"grouped"`

	Histogram *Histogram `json:"histogram"` // nil: the search has conditions that it does not know
	Groups    []Group    `json:"groups,omitempty"`
	Rows      []Row      `json:"failures,omitempty"`

	Looked int64 `json:"looked,omitempty"` // where a search has ended before its end: how many it has looked at
	Of     int64 `json:"looked_of,omitempty"`
	Unsure int   `json:"unsure,omitempty"` // failures without a readable time, which the search left out

	Operations []Operation `json:"operations,omitempty"`
	site.Paged
}

// Progress is how far the failures are grouped.
type Progress struct {
	Indexed int64 `json:"indexed"`
	Of      int64 `json:"of"`
	Older   int64 `json:"older"` // are left out
	Done    bool  `json:"done"`
}

// Group is the failures of one kind in the list.
type Group struct {
	ID        string    `json:"id"`
	Class     string    `json:"class"`
	Exception string    `json:"exception"`
	Pattern   string    `json:"pattern"` // the text of the error without what varies
	Count     int       `json:"count"`
	Unretried int       `json:"unretried"`
	Recent    int       `json:"last_hour"`
	First     site.Time `json:"first"`
	Last      site.Time `json:"last"`
	Queues    []string  `json:"queues"`
	Trend     []int     `json:"trend"` // of the last day, 20 minutes each
	New       bool      `json:"new"`
	Kills     bool      `json:"kills_its_process"`
	Deploy    string    `json:"since_deploy,omitempty"` // the version whose first process came shortly before the first failure
	Others    bool      `json:"others"`                 // all for which there was no room; nothing is done with it
}

// Retried is how many of them were retried.
func (g Group) Retried() int { return g.Count - g.Unretried }

// Name says what the group is, for buttons and pictures.
func (g Group) Name() string {
	return cmp.Or(g.Class, "no job") + ", " + cmp.Or(g.Exception, "no exception")
}

// Spark is the trend as a plot takes it.
func (g Group) Spark() []float64 { return floats(g.Trend) }

func floats(counts []int) []float64 {
	all := make([]float64, len(counts))
	for n, count := range counts {
		all[n] = float64(count)
	}
	return all
}

func loadList(ctx context.Context, a *site.Ask) (any, error) {
	l := &List{By: a.Choice("by", "group", "each"), Sort: a.Choice("sort", "growing", "count", "new"), Asked: asks(a), Whole: a.User.Whole()}
	if l.Whole {
		l.All = site.Num{Count: a.Base.Failures}
	}
	if l.Fault != nil {
		if a.JSON() {
			return nil, site.Bad("search, at character %d: %s", l.Fault.At, l.Fault.What)
		}
		return l, nil
	}
	x, p, err := index(ctx, a)
	if err != nil {
		return nil, err
	}
	if l.Grouped = (Progress{p.Indexed, p.Of, p.Older, p.Done}); !l.Whole {
		l.Grouped = Progress{Done: p.Done} // the numbers are of all queues
	}
	filter, ok := l.groupFilter(a)
	l.Operations = operations(ctx, a)
	if !ok && l.By == "group" {
		l.By, l.Each = "each", true
	}
	if ok {
		all := x.Groups(filter)
		for _, g := range all {
			l.Fit += g.Count
			l.Retried += g.Count - g.Unretried
		}
		l.Kinds = len(all)
		deploys := deploysOf(ctx, a)
		l.Histogram = histogram(a, x, filter, deploys)
		if l.By == "group" {
			l.page(a, all, deploys)
			return l, nil
		}
	}
	return l, l.each(ctx, a)
}

// page chooses the groups that the page shows.
func (l *List) page(a *site.Ask, all []groups.Group, deploys []inspect.Deploy) {
	slices.SortStableFunc(all, order(l.Sort))
	from := 0
	if after := a.Param("after"); after != "" {
		from = slices.IndexFunc(all, func(g groups.Group) bool { return g.ID == after }) + 1 // 0: it is gone, so begin again
	}
	for n, g := range all[from:] {
		if n == rows {
			l.Next = all[from+n-1].ID
			break
		}
		l.Groups = append(l.Groups, groupOf(g, deploys))
	}
}

// recent is how many columns of a trend are the last hour.
const recent = 3

func lastHour(g groups.Group) (n int) {
	for _, count := range g.Trend[max(0, len(g.Trend)-recent):] {
		n += count
	}
	return n
}

// order sorts groups. Growing are those of which most failed within the last hour.
func order(by string) func(g, h groups.Group) int {
	return func(g, h groups.Group) int {
		first := 0
		switch by {
		case "growing":
			first = cmp.Or(cmp.Compare(lastHour(h), lastHour(g)), h.Last.Compare(g.Last))
		case "new":
			first = h.First.Compare(g.First)
		}
		return cmp.Or(first, cmp.Compare(h.Count, g.Count), h.Last.Compare(g.Last), cmp.Compare(g.ID, h.ID))
	}
}

func groupOf(g groups.Group, deploys []inspect.Deploy) Group {
	return Group{
		ID: g.ID, Class: g.Class, Exception: g.Exception, Pattern: g.Pattern, Count: g.Count, Unretried: g.Unretried, Recent: lastHour(g),
		First: site.Time{Time: g.First}, Last: site.Time{Time: g.Last}, Queues: queuesOf(g), Trend: g.Trend, New: g.New, Kills: g.Kills,
		Deploy: sinceDeploy(g.First, deploys), Others: g.ID == groups.Others,
	}
}

// each reads a page of the failures that fit, the newest first.
func (l *List) each(ctx context.Context, a *site.Ask) error {
	l.Next = a.Param("after")
	until := time.Now().Add(searching)
	for first := true; first || len(l.Rows) < rows && l.Next != ""; first = false {
		left := time.Until(until)
		if !first && left <= 0 {
			break
		}
		page, err := a.In().Find(ctx, l.query, l.Next, rows-len(l.Rows), inspect.Budget(max(left, time.Millisecond)))
		if err != nil {
			return err
		}
		l.Next, l.Looked, l.Of, l.Unsure = page.Next, page.Seen, page.Of, l.Unsure+page.Unsure
		for _, e := range slices.DeleteFunc(page.Jobs, unseen(a)) {
			l.Rows = append(l.Rows, rowOf(a, *e.Failure))
		}
	}
	if !l.Whole {
		l.Looked, l.Of = 0, 0
	}
	return nil
}

// Histogram is how many failed, in columns of time.
type Histogram struct {
	From   site.Time `json:"from"`
	To     site.Time `json:"to"`
	Counts []int     `json:"counts"`
	marks  []look.Mark
	step   time.Duration
	links  []string
}

const (
	day         = 24 * time.Hour
	mostColumns = 97 // a day in quarters of an hour
	mostMarks   = 10 // deploys
)

// steps are how long a column may be.
var steps = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 7 * day, 30 * day,
}

// stepOf is the shortest column of which not too many are needed.
func stepOf(span time.Duration) time.Duration {
	for _, step := range steps {
		if span/step < mostColumns {
			return step
		}
	}
	return 365 * day
}

// histogram counts failures over the last day, or over the time that the page is narrowed to.
func histogram(a *site.Ask, x *groups.Index, f groups.Filter, deploys []inspect.Deploy) *Histogram {
	to := a.Now()
	if !f.Until.IsZero() {
		to = f.Until
	}
	from := to.Add(-day)
	if !f.Since.IsZero() {
		from = f.Since
	}
	if !from.Before(to) {
		return nil
	}
	step := stepOf(to.Sub(from))
	if from = from.Truncate(step); f.Since.IsZero() {
		from = from.Add(step)
	}
	columns := int((to.Sub(from) + step - 1) / step)
	to = from.Add(time.Duration(columns) * step)
	h := &Histogram{From: site.Time{Time: from}, To: site.Time{Time: to}, Counts: x.Histogram(f, from, to, columns), step: step}
	for _, d := range deploys {
		if d.At.After(from) && d.At.Before(to) {
			h.marks = append(h.marks, look.Mark{At: d.At, Text: version(d) + " deployed"})
		}
	}
	h.marks = h.marks[max(0, len(h.marks)-mostMarks):]
	for n := range columns {
		begin := from.Add(time.Duration(n) * h.step)
		h.links = append(h.links, a.With("since", begin.UTC().Format(time.RFC3339), "until", begin.Add(h.step).UTC().Format(time.RFC3339), "after", ""))
	}
	return h
}

// Title says what a column is.
func (h *Histogram) Title() string { return "Failed in " + look.Dur(h.step.Round(time.Second)) }

// Plot draws the columns in the zone of the reader.
func (h *Histogram) Plot(t look.Times) look.Columns {
	loc := t.Loc
	if loc == nil {
		loc = time.UTC
	}
	total, most, at := 0, 0, time.Time{}
	c := look.Columns{From: h.From.In(loc), To: h.To.In(loc), Marks: h.marks}
	for n, count := range h.Counts {
		begin := h.From.Add(time.Duration(n) * h.step).In(loc)
		if total += count; count > most {
			most, at = count, begin
		}
		layout := "15:04"
		if h.step < time.Minute {
			layout = "15:04:05"
		}
		c.Bars = append(c.Bars, look.Bar{N: float64(count), Class: "f", Title: begin.Format("2 Jan "+layout) + ": " + look.Whole(count) + " failed", Href: h.links[n]})
	}
	c.Label = "No failure from " + c.From.Format("2 Jan 15:04") + " to " + c.To.Format("2 Jan 15:04")
	if total > 0 {
		c.Label = fmt.Sprintf("%s failed from %s to %s, most of them, %s, at %s", look.Whole(total), c.From.Format("2 Jan 15:04"), c.To.Format("2 Jan 15:04"), look.Whole(most), at.Format("2 Jan 15:04"))
	}
	return c
}
