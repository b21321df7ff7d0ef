// Package running is the page of the jobs that run now: where, for how long beside what is usual, and how they are stopped.
package running

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/brief"
	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

const (
	rows = 50
	// stretch is how many jobs are read and sorted together.
	stretch = 500
	// beginning is how exactly workers say when a job began: in whole seconds.
	beginning = time.Second
	// seenFor is how long pages share what was read.
	seenFor = 2 * time.Second
)

// Pages are the pages of running jobs.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/running", Tab: "running", Title: "Running", Load: load, Data: (*List)(nil), Params: []string{"q", "sort", "after"}, Template: "running.html", Files: files},
		{Path: "/running/stack", Tab: "running", Title: "Stacks", Whole: true, Role: guard.Operator, Still: true, Load: loadStack, Data: (*Stacks)(nil), Params: []string{"process"}, Template: "stack.html", Files: files},
	}
}

// Actions are what is done with running jobs.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "running.cancel", Path: "/running/cancel", Role: guard.Operator, On: onForm, Do: cancel},
		{Name: "running.stack", Path: "/running/stack", Role: guard.Operator, Whole: true, Quiet: true, On: onForm, Do: askStack},
		{Name: "lease.release", Path: "/running/release", Role: guard.Operator, On: onForm, Do: release},
	}
}

// List is the page /running.
type List struct {
	Jobs     []Row    `json:"jobs"`
	Sort     string   `json:"sort"`
	Query    string   `json:"-"`
	Filter   []Chip   `json:"-"`
	Fit      int      `json:"fit"`      // of the jobs that were read
	Seen     int64    `json:"seen"`     // processes, workers and leases that were looked at
	Of       int64    `json:"seen_of"`  // that there are
	Busy     site.Num `json:"busy"`     // workers that have a job
	Slots    site.Num `json:"workers"`  // all
	Leased   site.Num `json:"leased"`   // jobs that clients hold
	Past     int      `json:"past"`     // of the jobs that were read, past their limit
	Longer   int      `json:"longer"`   // longer than their class usually runs
	Recorded bool     `json:"recorded"` // usual times are known: goworker's processes count them
	Refused  []string `json:"refused,omitempty"`
	site.Paged
}

// Row is a job that runs.
type Row struct {
	brief.Job
	Queue    string    `json:"queue"`
	Source   string    `json:"source"` // goworker, other or http
	Host     string    `json:"host"`
	Process  string    `json:"process,omitempty"`
	Worker   string    `json:"worker,omitempty"`
	Ticket   int64     `json:"ticket,omitempty"`
	Shard    string    `json:"shard,omitempty"`
	Began    site.Time `json:"began"`
	For      site.Span `json:"for_ms"`
	Usual    site.Span `json:"usual_ms"`     // the median of its class within a day; 0: not known
	UsualMax site.Span `json:"usual_p95_ms"` // the 95th percentile
	Limit    site.Span `json:"limit_ms"`     // known of a job that is past it
	Stuck    bool      `json:"past_limit"`
	Longer   bool      `json:"longer"` // than nineteen of twenty
	Done     int64     `json:"progress,omitempty"`
	Total    int64     `json:"progress_of,omitempty"`
	Note     string    `json:"note,omitempty"`
	Lease    site.Time `json:"lease_ends"`
	URL      string    `json:"-"`
}

// Run is the row as a bar draws it.
func (r Row) Run() look.Run {
	return look.Run{For: r.For.D(), Usual: r.Usual.D(), Limit: r.Limit.D()}
}

// Age is for how long the job runs, as exactly as its worker says when it began.
func (r Row) Age() string {
	if r.For.D() < beginning {
		return "< 1 s"
	}
	return look.Dur(r.For.D().Truncate(beginning))
}

// Times says the usual time and the limit.
func (r Row) Times() string {
	var parts []string
	if r.Usual > 0 {
		parts = append(parts, "usually "+look.Dur(r.Usual.D())+", p95 "+look.Dur(r.UsualMax.D()))
	}
	if r.Limit > 0 {
		parts = append(parts, "limit "+look.Dur(r.Limit.D()))
	}
	return strings.Join(parts, ", ")
}

// Percent is how far the job says that it is; -1: it does not.
func (r Row) Percent() int {
	if r.Total <= 0 {
		return -1
	}
	return int(100 * min(max(r.Done, 0), r.Total) / r.Total)
}

// Where is where the job runs.
func (r Row) Where() string {
	switch r.Source {
	case string(inspect.SourceHTTP):
		return "a client over HTTP"
	case string(inspect.SourceGo):
		return cmp.Or(r.Process, r.Worker)
	}
	return cmp.Or(r.Worker, r.Host)
}

// Kind is what runs it, in a word.
func (r Row) Kind() string {
	switch r.Source {
	case string(inspect.SourceHTTP):
		return "HTTP"
	case string(inspect.SourceGo):
		return "goworker"
	}
	return "Ruby or another"
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	l := &List{Sort: a.Choice("sort", "over", "for", "new"), Query: Filter(a)}
	f, err := parse(l.Query, a.Now())
	if err != nil {
		return nil, err
	}
	l.Filter = f.chips(a)
	skip, after, err := placeOf(a.Param("after"))
	if err != nil {
		return nil, err
	}
	page, err := read(ctx, a, after)
	if err != nil {
		return nil, err
	}
	l.Seen, l.Of = page.Seen, page.Of
	if a.User.Whole() {
		l.Busy, l.Slots, l.Leased = site.Num{Count: a.Base.Workers.Busy}, site.Num{Count: a.Base.Workers.All}, site.Num{Count: a.Base.Leased}
	}
	for _, err := range page.Refused {
		l.Refused = append(l.Refused, err.Error())
	}
	usual := usualTimes(ctx, a)
	l.Recorded = len(usual) > 0
	var fit []Row
	for _, j := range page.Jobs {
		if !a.Sees(j.Queue) {
			continue
		}
		if r := rowOf(a, j, usual); f.fits(r, a.Masks.Payload(j.Payload)) {
			fit = append(fit, r)
		}
	}
	for _, r := range fit {
		if r.Stuck {
			l.Past++
		} else if r.Longer {
			l.Longer++
		}
	}
	l.Fit = len(fit)
	slices.SortStableFunc(fit, order(l.Sort))
	fit = fit[min(skip, len(fit)):]
	switch {
	case len(fit) > rows:
		fit = fit[:rows]
		l.Next = strconv.Itoa(skip+rows) + "." + after
	case page.Next != "":
		l.Next = "0." + page.Next
	}
	l.Jobs = fit
	return l, nil
}

// placeOf reads a cursor: how many jobs of which stretch are passed over.
func placeOf(text string) (skip int, after string, err error) {
	if text == "" {
		return 0, "", nil
	}
	number, after, ok := strings.Cut(text, ".")
	if skip, err = strconv.Atoi(number); !ok || err != nil || skip < 0 {
		return 0, "", site.Bad("after is %q, which no page has ended with", text)
	}
	return skip, after, nil
}

// read reads a stretch of the running jobs. All pages share it.
func read(ctx context.Context, a *site.Ask, after string) (inspect.RunningPage, error) {
	return site.Keep(ctx, a.Fleet, "running "+after, seenFor, func(ctx context.Context) (inspect.RunningPage, error) {
		return a.In().Running(ctx, after, stretch, inspect.RunningFilter{})
	})
}

// Of are the running jobs of a queue among those that are read first. more: there are jobs that were not read.
func Of(ctx context.Context, a *site.Ask, queue string) (jobs []Row, more bool, err error) {
	page, err := read(ctx, a, "")
	if err != nil {
		return nil, false, err
	}
	usual := usualTimes(ctx, a)
	for _, j := range page.Jobs {
		if j.Queue == queue {
			jobs = append(jobs, rowOf(a, j, usual))
		}
	}
	return jobs, page.Next != "", nil
}

// usualTimes are the run times of each class within a day; nil: nothing has counted them.
func usualTimes(ctx context.Context, a *site.Ask) map[string]inspect.ClassHistory {
	all, err := site.Keep(ctx, a.Fleet, "usual times", time.Minute, func(ctx context.Context) (map[string]inspect.ClassHistory, error) {
		h, err := a.In().History(ctx, inspect.HistoryQuery{Since: a.Now().Add(-24 * time.Hour), Step: time.Hour})
		return h.Total().Classes, err
	})
	if err != nil {
		return nil
	}
	return all
}

// rowOf is a job, masked.
func rowOf(a *site.Ask, j inspect.RunningJob, usual map[string]inspect.ClassHistory) Row {
	r := Row{
		Job: brief.Of(a.Masks, j.Payload, a.Columns), Queue: j.Queue, Source: string(j.Source), Host: j.Host, Process: j.Process, Worker: j.Worker,
		Ticket: j.Ticket, Shard: j.Shard, Began: site.Time{Time: j.Began}, Limit: site.Span(j.Limit), Stuck: j.Stuck, Lease: site.Time{Time: j.LeaseEnds},
	}
	r.Size = j.Size
	if j.Cut { // its beginning is no JSON
		r.Invalid, r.Args, r.Class = "", nil, j.Class
	}
	r.Class, r.ID, r.Attempt = cmp.Or(r.Class, j.Class), cmp.Or(r.ID, j.ID), max(r.Attempt, j.Attempt)
	if !j.Began.IsZero() {
		r.For = site.Span(max(0, a.Now().Sub(j.Began)))
	}
	if p := j.Progress; p != nil {
		r.Done, r.Total, r.Note = p.Done, p.Total, a.Masks.With(j.Payload).Text(p.Note)
	}
	if c, known := usual[j.Class]; known && c.Runs.Count() > 0 {
		r.Usual, r.UsualMax = site.Span(c.Runs.Quantile(.5)), site.Span(c.Runs.Quantile(.95))
		r.Longer = r.For > r.UsualMax+site.Span(beginning)
	}
	if j.ID != "" {
		r.URL = a.URL("jobs", j.ID)
	}
	return r
}

// order sorts jobs: those first that are most over their time, that run longest, or that began last.
func order(by string) func(x, y Row) int {
	over := func(r Row) float64 {
		switch {
		case r.Stuck && r.Limit > 0:
			return 1e6 * float64(r.For) / float64(r.Limit)
		case r.Stuck:
			return 1e6
		case r.UsualMax > 0:
			return float64(r.For) / float64(r.UsualMax)
		}
		return 0
	}
	return func(x, y Row) int {
		switch by {
		case "over":
			return cmp.Or(cmp.Compare(over(y), over(x)), cmp.Compare(y.For, x.For))
		case "new":
			if x.Began.IsZero() != y.Began.IsZero() { // it is about to run, or a client holds it
				if x.Began.IsZero() {
					return -1
				}
				return 1
			}
			return cmp.Compare(x.For, y.For)
		}
		return cmp.Compare(y.For, x.For)
	}
}

// Summary is the head of the page.
func (l *List) Summary() string {
	var parts []string
	if l.Busy.Known() {
		parts = append(parts, fmt.Sprintf("%s of %s have a job", look.Count(l.Busy.Count), look.Plural(l.Slots.N, "worker", "workers")))
	}
	if l.Leased.N > 0 {
		parts = append(parts, look.Plural(l.Leased.N, "job is", "jobs are")+" held over HTTP")
	}
	text := strings.Join(parts, ", ")
	if text != "" {
		text += ". "
	}
	switch {
	case l.Past > 0 && l.Longer > 0:
		text += fmt.Sprintf("%s past the limit, %d longer than usual.", look.Plural(l.Past, "job runs", "jobs run"), l.Longer)
	case l.Past > 0:
		text += look.Plural(l.Past, "job runs past its limit.", "jobs run past their limit.")
	case l.Longer > 0:
		text += look.Plural(l.Longer, "job runs", "jobs run") + " longer than its class usually does."
	}
	return text
}
