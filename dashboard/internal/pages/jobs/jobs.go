// Package jobs is the pages of jobs by their ids: those that keep a result, and one job's life, with what is done to it.
package jobs

import (
	"context"
	"embed"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

const (
	rows   = 50
	listed = 10 * time.Second // how long readers share a list: it costs a command for each job that is kept
	budget = 150 * time.Millisecond
)

// States are those by which the list is narrowed.
var States = []string{"pending", "running", "retrying", "snoozed", "done", "failed", "discarded", "expired", "cancelled"}

// Pages are the pages of jobs.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/jobs", Tab: "jobs", Title: "Jobs", Load: load, Data: (*List)(nil), Params: []string{"state", "q", "after"}, Template: "jobs.html", Files: files},
		{Path: "/jobs/{id}", Tab: "jobs", Load: loadJob, Data: (*Job)(nil), Params: []string{"queue", "place", "after"}, Template: "job.html lines.html", Files: files},
	}
}

// Actions are what is done with a job.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "job.run", Path: "/jobs/{id}/run", Role: guard.Operator, Do: run},
		{Name: "job.edit-run", Path: "/jobs/{id}/edit-run", Role: guard.Admin, Do: edit},
		{Name: "job.reschedule", Path: "/jobs/{id}/reschedule", Role: guard.Operator, Do: reschedule},
		{Name: "job.cancel", Path: "/jobs/{id}/cancel", Role: guard.Operator, Do: cancel},
		{Name: "job.lift", Path: "/jobs/{id}/lift", Role: guard.Operator, Do: lift},
		{Name: "job.retry", Path: "/jobs/{id}/retry", Role: guard.Operator, Do: retry},
		{Name: "job.forget", Path: "/jobs/{id}/forget", Role: guard.Admin, Do: forget},
		{Name: "job.again", Path: "/jobs/{id}/again", Role: guard.Admin, Do: again},
		{Name: "job.reveal", Path: "/jobs/{id}/reveal", Role: guard.Admin, Quiet: true, Do: reveal, Template: "reveal.html lines.html", Files: files},
	}
}

// List is the page /jobs.
type List struct {
	State string `json:"state,omitempty"`
	Query string `json:"q,omitempty"`
	Jobs  []Row  `json:"jobs"`
	Read  int    `json:"read"` // jobs that fit of which these are the newest
	All   bool   `json:"all"`  // these are all that fit
	Plain bool   `json:"-"`    // no goworker has been here
	Tail  *Tail  `json:"tail"` // of jobs that end as done, those without a result too; null: the list is of others
	site.Paged
}

// Row is a job that keeps a result.
type Row struct {
	ID     string          `json:"id"`
	State  string          `json:"state"`
	Class  string          `json:"class"`
	Queue  string          `json:"queue"`
	Try    int             `json:"attempt"`
	Result json.RawMessage `json:"result,omitempty"` // its first 2 KiB
	Cut    bool            `json:"result_cut,omitempty"`
	Error  string          `json:"error,omitempty"`
	Took   site.Span       `json:"took_ms"`
	Began  site.Time       `json:"began"`
	Ended  site.Time       `json:"ended"`
	Due    site.Time       `json:"due"`
}

// shown is how many bytes of a result or of arguments a list shows.
const shown = 2048

// Text is the result in one line.
func (r Row) Text() string { return brief(r.Result, 160) }

func brief(text []byte, most int) string {
	if len(text) <= most {
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:most]), "") + "…"
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	l := &List{State: a.Choice("state", append([]string{""}, States...)...), Query: strings.TrimSpace(a.Param("q"))}
	f := inspect.ResultFilter{State: inspect.State(l.State)}
	var words []string
	for _, word := range strings.Fields(l.Query) {
		switch name, value, found := strings.Cut(word, ":"); {
		case found && name == "class" && !strings.Contains(value, "*"):
			f.Class = value
		case found && name == "queue" && !strings.Contains(value, "*"):
			f.Queue = value
		case found && name == "state" && slices.Contains(States, value):
			f.State, l.State = inspect.State(value), value
		default:
			words = append(words, strings.ToLower(strings.ReplaceAll(word, "*", "")))
		}
	}
	f.Fits = func(s inspect.Status) bool {
		if !a.Sees(s.Queue) {
			return false
		}
		text := strings.ToLower(s.ID + "\n" + s.Class + "\n" + s.Queue)
		for _, word := range words {
			if !strings.Contains(text, word) {
				return false
			}
		}
		return true
	}
	ask := func(ctx context.Context) (inspect.ResultsPage, error) {
		return a.In().ResultsPage(ctx, f, a.Param("after"), rows, inspect.Budget(budget))
	}
	page, err := inspect.ResultsPage{}, error(nil)
	if a.User.Whole() {
		page, err = site.Keep(ctx, a.Fleet, "jobs\x00"+l.State+"\x00"+l.Query+"\x00"+a.Param("after"), listed, ask)
	} else {
		page, err = ask(ctx)
	}
	if err != nil {
		return nil, err
	}
	l.Next, l.Read, l.All = page.Next, page.Read, page.Whole
	for _, s := range page.Jobs {
		l.Jobs = append(l.Jobs, rowOf(a, s))
	}
	if l.State == string(inspect.StateDone) {
		l.Tail = tailOf(ctx, a)
	}
	l.Plain = len(l.Jobs) == 0 && len(a.Base.Processes) == 0 && len(a.Base.Servings) == 0
	return l, nil
}

func rowOf(a *site.Ask, s inspect.Status) Row {
	r := Row{
		ID: s.ID, State: string(s.State), Class: s.Class, Queue: s.Queue, Try: s.Attempt,
		Began: site.Time{Time: s.Began}, Ended: site.Time{Time: s.Ended}, Due: site.Time{Time: s.Due},
	}
	if !s.Began.IsZero() && !s.Ended.IsZero() && s.Ended.After(s.Began) {
		r.Took = site.Span(s.Ended.Sub(s.Began))
	}
	known := a.Masks.With(nil)
	switch { // its text may hold what is masked in its arguments, which a list does not read
	case a.Masks.Shows():
		r.Error = brief([]byte(errorText(s.Exception, s.Error)), shown)
	default:
		r.Error = known.Text(s.Exception)
	}
	if len(s.Result) > 0 {
		r.Result, r.Cut = cutJSON(known.JSON(s.Result), shown)
	}
	return r
}

// cutJSON returns JSON, or its beginning as a string of JSON where it is longer.
func cutJSON(raw json.RawMessage, most int) (json.RawMessage, bool) {
	if len(raw) <= most && json.Valid(raw) {
		return raw, false
	}
	text, _ := json.Marshal(brief(raw, most))
	return text, true
}

func errorText(exception, message string) string {
	switch {
	case exception == "":
		return message
	case message == "":
		return exception
	}
	return exception + ": " + message
}
