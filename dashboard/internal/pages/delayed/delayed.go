// Package delayed is the page of the jobs that wait for their time: in goworker's schedule, and in resque-scheduler's.
package delayed

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

const (
	rows   = 50                     // of a page
	budget = 150 * time.Millisecond // of a page's own part
	looked = 3000                   // jobs that a page looks at
	page   = 100                    // jobs that are read at a time where not all of them are shown
)

// Pages are the pages of delayed jobs.
func Pages() []*site.Page {
	return []*site.Page{{
		Path: "/delayed", Tab: "delayed", Title: "Delayed and retries", Load: load, Template: "delayed.html", Files: files,
		Data: (*List)(nil), Params: []string{"kind", "q", "from", "to", "span", "after"},
	}}
}

// Actions are what is done with delayed jobs.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "delayed.run", Path: "/delayed/run", Role: guard.Operator, Do: run},
		{Name: "delayed.reschedule", Path: "/delayed/reschedule", Role: guard.Operator, Do: reschedule},
		{Name: "delayed.cancel", Path: "/delayed/cancel", Role: guard.Operator, Do: cancel},
		{Name: "delayed.clear", Path: "/delayed/clear", Role: guard.Admin, Whole: true, Do: clear},
	}
}

// List is the page /delayed.
type List struct {
	Kind     string     `json:"kind"` // "", delayed or retry
	Query    string     `json:"query"`
	From     site.Time  `json:"from"`
	To       site.Time  `json:"to"`
	Jobs     []Row      `json:"jobs"`
	All      site.Num   `json:"all"`      // delayed jobs of the fleet
	Retrying site.Num   `json:"retrying"` // of goworker's
	Late     site.Wait  `json:"late"`     // how late the first one is
	Ahead    *Histogram `json:"ahead"`
	Looked   int        `json:"looked"` // jobs that were looked at
	Unsure   int        `json:"unsure"` // jobs of which nothing says whether they fit
	Refused  []string   `json:"refused,omitempty"`
	Chips    []Chip     `json:"-"`
	Wrong    *Wrong     `json:"-"`
	Spans    []string   `json:"-"`
	Span     string     `json:"-"`
	BulkAll  bool       `json:"-"` // all that fit can be changed
	site.Paged
}

// Chip is a condition of the search, and the address without it.
type Chip struct{ Text, Without string }

// Wrong is a search that cannot be read: what stands before the mistake, what behind it, and what is wrong.
type Wrong struct{ Before, Behind, What string }

// Row is a delayed job.
type Row struct {
	ID      string    `json:"id"` // as the actions take it
	Ref     string    `json:"ref"`
	JobID   string    `json:"job_id,omitempty"`
	At      site.Time `json:"due"`
	Late    bool      `json:"late"`
	Kind    string    `json:"kind"`              // delayed or retrying
	Attempt int       `json:"attempt,omitempty"` // which run it waits for
	Error   string    `json:"error,omitempty"`   // why the run before failed
	Class   string    `json:"class"`
	Queue   string    `json:"queue"`
	Args    site.Args `json:"args"`  // nil if they have more than 2 KiB
	Text    string    `json:"text"`  // the arguments in a line, cut
	Home    string    `json:"home"`  // goworker or resque-scheduler: whose schedule holds it
	Plain   bool      `json:"plain"` // Ruby's tools see it
	Invalid string    `json:"invalid,omitempty"`
	Shard   string    `json:"shard,omitempty"`
	To      string    `json:"-"`
	Like    string    `json:"-"` // a search that finds all schedules of the job
}

// spans are how far the histogram looks ahead, with the number of its columns.
var spans = []struct {
	name    string
	length  time.Duration
	columns int
}{
	{"6h", 6 * time.Hour, 72}, {"1h", time.Hour, 60}, {"24h", 24 * time.Hour, 72}, {"7d", 7 * 24 * time.Hour, 84}, {"30d", 30 * 24 * time.Hour, 60},
}

// choice is which jobs the parameters of the page, or the fields of its forms, mean.
type choice struct {
	kind     string
	text     string
	query    inspect.Query
	from, to time.Time
}

// choose reads the choice.
func choose(a *site.Ask, get func(name string) string) (c choice, err error) {
	if c.kind = get("kind"); c.kind != "delayed" && c.kind != "retry" {
		c.kind = ""
	}
	if c.from, err = moment(a, "from", get("from")); err != nil {
		return c, err
	}
	if c.to, err = moment(a, "to", get("to")); err != nil {
		return c, err
	}
	if !c.to.IsZero() && c.to.Equal(c.from) { // a timestamp of resque-scheduler
		c.to = c.from.Add(time.Second)
	}
	c.text = strings.TrimSpace(get("q"))
	c.query, err = inspect.ParseQuery(c.text, a.Now())
	if err == nil && len(c.query.Places) > 0 && !slices.Contains(c.query.Places, inspect.Delayed) {
		err = &inspect.QueryError{Query: c.text, What: "here are delayed jobs only; leave the state away"}
	}
	return c, err
}

// moment reads a time: seconds since 1970, RFC 3339, or what a browser's field has, in the zone of the reader.
func moment(a *site.Ask, name, text string) (time.Time, error) {
	if text = strings.TrimSpace(text); text == "" {
		return time.Time{}, nil
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e12 {
		return time.UnixMilli(int64(n * 1000)), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, a.Loc); err == nil {
			return at, nil
		}
	}
	return time.Time{}, site.Bad("%s %q is no time; write it as 2026-11-22T08:00, or in seconds since 1970", name, text)
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	l := &List{Query: a.Param("q"), All: site.Num{Count: a.Base.Delayed}, Retrying: site.Num{Count: a.Base.Retrying}, Late: site.Wait{Age: a.Base.Late}}
	if !a.User.Whole() {
		l.All, l.Retrying, l.Late = site.Num{}, site.Num{}, site.Wait{}
	}
	for _, s := range spans {
		l.Spans = append(l.Spans, s.name)
	}
	l.Span = a.Choice("span", l.Spans...)
	slices.SortFunc(l.Spans, func(x, y string) int { return int(lengthOf(x) - lengthOf(y)) })
	c, err := choose(a, a.Param)
	l.Kind, l.From, l.To = c.kind, site.Time{Time: c.from}, site.Time{Time: c.to}
	if a.User.Whole() {
		var refused error
		if l.Ahead, refused = ahead(ctx, a, c, l.Span); refused != nil {
			l.Refused = append(l.Refused, plain(refused))
		}
	}
	var wrong *inspect.QueryError
	if errors.As(err, &wrong) && !a.JSON() {
		l.Wrong = &Wrong{Before: wrong.Query[:wrong.At], Behind: wrong.Query[wrong.At:], What: wrong.What}
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	l.Chips = chips(a, c.query)
	l.BulkAll = c.kind != "delayed" && c.narrow()
	return l, find(ctx, a, c, l)
}

func lengthOf(span string) time.Duration {
	for _, s := range spans {
		if s.name == span {
			return s.length
		}
	}
	return 0
}

// narrow reports whether something is chosen, so that "all that fit" is not the same as all.
func (c choice) narrow() bool {
	return c.text != "" || c.kind != "" || !c.from.IsZero() || !c.to.IsZero()
}

// chips are the conditions of a search, each with the address that leaves it out.
func chips(a *site.Ask, q inspect.Query) (all []Chip) {
	conditions := slices.Clone(q.Where)
	if q.Queue != "" {
		conditions = append(conditions, inspect.Condition{Name: "queue", Value: q.Queue, Literal: strings.Contains(q.Queue, "*")})
	}
	for n, c := range conditions {
		rest := inspect.Query{Where: append(slices.Clone(conditions[:n]), conditions[n+1:]...)}
		all = append(all, Chip{c.String(), a.With("q", rest.String(), "after", "")})
	}
	return all
}

// find fills in the rows.
func find(ctx context.Context, a *site.Ask, c choice, l *List) error {
	after, began, some := a.Param("after"), time.Now(), c.kind != "" || !a.User.Whole()
	for {
		most := rows - len(l.Jobs)
		if some {
			most = page
		}
		p, err := a.In().FindDelayed(ctx, c.query, c.from, c.to, after, most, inspect.Budget(budget))
		if err != nil {
			return err
		}
		all, err := rowsOf(ctx, a, p.Jobs)
		if err != nil {
			return err
		}
		cut := len(all)
		for n, r := range all {
			if !c.shows(a, r) {
				continue
			}
			if l.Jobs = append(l.Jobs, r); len(l.Jobs) == rows {
				cut = n + 1
				break
			}
		}
		if cut < len(all) { // where the next page begins
			if p, err = a.In().FindDelayed(ctx, c.query, c.from, c.to, after, cut, inspect.Budget(budget)); err != nil {
				return err
			}
		}
		l.Looked += p.Looked
		l.Unsure += p.Unsure
		for _, refused := range p.Refused {
			l.Refused = append(l.Refused, plain(refused))
		}
		l.Next, after = p.Next, p.Next
		if after == "" || len(l.Jobs) == rows || l.Looked >= looked || time.Since(began) > budget {
			return nil
		}
	}
}

// shows reports whether a job that matches the search is of the kind that is chosen, and of a queue that the user sees.
func (c choice) shows(a *site.Ask, r Row) bool {
	return a.Sees(r.Queue) && (c.kind == "" || c.kind == "retry" == (r.Kind == "retrying"))
}

func plain(err error) string { return strings.TrimPrefix(err.Error(), "goworker: ") }

// mostArgs is how many bytes of arguments a row has as JSON.
const mostArgs = 2048

// rowsOf are jobs as the page shows them.
func rowsOf(ctx context.Context, a *site.Ask, jobs []inspect.Entry) ([]Row, error) {
	var tries []inspect.RubyRetry
	if slices.ContainsFunc(jobs, func(e inspect.Entry) bool { return e.Plain }) {
		var err error
		if tries, err = a.In().RubyRetries(ctx, jobs); err != nil {
			tries = nil // Redis may refuse these keys; the jobs are shown all the same
		}
	}
	out := make([]Row, 0, len(jobs))
	for n, e := range jobs {
		secrets := a.Masks.With(e.Payload)
		r := Row{
			ID: idOf(e), Ref: e.Ref, JobID: e.ID, At: site.Time{Time: e.At}, Late: e.At.Before(a.Now()), Kind: "delayed", Class: e.Class, Queue: e.Queue,
			Home: "goworker", Plain: e.Plain, Shard: e.Shard, Error: secrets.Text(e.LastError),
		}
		if e.Plain {
			r.Home = "resque-scheduler"
		}
		if e.Attempt > 1 {
			r.Kind, r.Attempt = "retrying", e.Attempt
		}
		if tries != nil && tries[n].Attempt > 0 {
			r.Kind, r.Attempt = "retrying", tries[n].Attempt
			if t := tries[n]; t.Exception != "" || t.Error != "" {
				r.Error = secrets.Text(strings.TrimPrefix(t.Exception+": "+t.Error, ": "))
			}
		}
		if len(r.Error) > 300 {
			r.Error = strings.ToValidUTF8(r.Error[:300], "") + "…"
		}
		if e.Invalid != nil {
			r.Invalid = plain(a.Masks.Entry(e).Invalid)
		} else {
			r.args(a, e)
		}
		if r.To = a.URL("jobs", e.ID); e.ID == "" {
			r.To = a.URL("queues", e.Queue, "job", "?digest", e.Ref, "?place", string(inspect.Delayed), "?at", strconv.FormatInt(e.At.Unix(), 10))
		}
		out = append(out, r)
	}
	return out, nil
}

// args fills in the arguments, and the search for jobs like this one.
func (r *Row) args(a *site.Ask, e inspect.Entry) {
	size := 0
	for _, arg := range e.Args {
		size += len(arg)
	}
	if size > mostArgs {
		r.Text = a.Masks.Brief(e.Payload, 200)
		r.Like = "ref:" + e.Ref
		return
	}
	r.Args = a.Masks.Entry(e).Args
	r.Text = r.Args.Text(200)
	masked := slices.EqualFunc(r.Args, e.Args, func(x, y json.RawMessage) bool { return string(x) == string(y) })
	if size > 500 || !masked {
		r.Like = "ref:" + e.Ref
		return
	}
	var compact []string
	for _, arg := range e.Args {
		compact = append(compact, string(arg))
	}
	class := inspect.Condition{Name: "class", Value: e.Class, Literal: true}
	args := inspect.Condition{Name: "args", Value: "[" + strings.Join(compact, ",") + "]", Literal: true}
	r.Like = class.String() + " " + args.String()
}

// idOf names a job among the delayed ones: by when it is due, in milliseconds, and by its content.
func idOf(e inspect.Entry) string { return fmt.Sprintf("%d-%s", e.At.UnixMilli(), e.Ref) }
