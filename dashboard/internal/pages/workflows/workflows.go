// Package workflows is the pages of workflows: how far each is, which step waits for which, and what operators do with them.
package workflows

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

// What a page shows, and how long it looks for it.
const (
	rows   = 50
	budget = 150 * time.Millisecond
	least  = 100 // steps that a page looks at before its budget counts: inspect reads so many at a time
)

// Pages are the pages of workflows.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/workflows", Tab: "flows", Title: "Workflows", Load: load, Data: (*List)(nil), Params: []string{"q", "state", "after"}, Template: "workflows.html parts.html", Files: files},
		{Path: "/workflows/{id}", Tab: "flows", Load: loadOne, Data: (*Workflow)(nil), Params: []string{"step", "state", "after"}, Template: "workflow.html parts.html", Files: files},
	}
}

// Actions are what is done with workflows.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "workflow.retry", Path: "/workflows/{id}/retry", Role: guard.Operator, Do: retry},
		{Name: "workflow.pause", Path: "/workflows/{id}/pause", Role: guard.Operator, Do: pause},
		{Name: "workflow.resume", Path: "/workflows/{id}/resume", Role: guard.Operator, Do: resume},
		{Name: "workflow.cancel", Path: "/workflows/{id}/cancel", Role: guard.Operator, Do: cancel},
		{Name: "workflow.skip", Path: "/workflows/{id}/skip", Role: guard.Admin, Do: skip},
		{Name: "workflow.done", Path: "/workflows/{id}/done", Role: guard.Admin, Do: markDone},
		{Name: "workflow.forget", Path: "/workflows/{id}/forget", Role: guard.Admin, Do: forget},
	}
}

// List is the page /workflows.
type List struct {
	Workflows []Row  `json:"workflows"`
	Query     string `json:"-"`
	State     string `json:"state"` // that was asked for; "": any
	site.Paged
}

// Row is a workflow of the list.
type Row struct {
	ID      string            `json:"id"`
	Name    string            `json:"name,omitempty"`
	State   string            `json:"state"`
	Paused  bool              `json:"paused"`
	Open    bool              `json:"open"`
	Stalled string            `json:"stalled,omitempty"` // why it stands still
	Meta    map[string]string `json:"meta,omitempty"`
	Began   site.Time         `json:"began"`
	Ended   site.Time         `json:"ended"`
	Until   site.Time         `json:"deadline"` // when its deadline passes
	Error   string            `json:"error,omitempty"`
	Counts  Counts            `json:"steps"`
}

// Counts are the steps of a workflow by what has become of them.
type Counts struct {
	All     int64 `json:"all"`
	Waiting int64 `json:"waiting"` // not sent yet
	Sent    int64 `json:"sent"`    // queued, delayed, between two tries, or running
	Outside int64 `json:"outside"` // they end by a reply from outside
	Done    int64 `json:"done"`
	Failed  int64 `json:"failed"`
	NotRun  int64 `json:"not_run"`
}

func countsOf(n inspect.WorkflowCounts) Counts {
	return Counts{All: n.Steps(), Waiting: n.Waiting, Sent: n.Sent, Outside: n.Outside, Done: n.Done, Failed: n.Failed, NotRun: n.NotRun}
}

// Again are the steps that a retry may send.
func (c Counts) Again() int64 { return c.Failed + c.NotRun }

// Going are the steps that were sent and have not ended.
func (c Counts) Going() int64 { return c.Sent + c.Outside }

// Open are the steps that have not ended.
func (c Counts) Open() int64 { return c.Waiting + c.Going() }

// DoneShare is how many of all steps are done, in per cent.
func (c Counts) DoneShare() float64 { return 100 * float64(c.Done) / float64(max(1, c.All)) }

// FailedShare is how many of all steps have failed, in per cent.
func (c Counts) FailedShare() float64 { return 100 * float64(c.Failed) / float64(max(1, c.All)) }

// Title is what the workflow is called.
func (r Row) Title() string { return cmp.Or(r.Name, r.ID) }

// Look is its state as pages draw it: one that stands still or is paused says so first.
func (r Row) Look() string { return lookOf(r.State, r.Paused, r.Stalled) }

func lookOf(state string, paused bool, stalled string) string {
	switch over := inspect.State(state).Over(); {
	case stalled != "" && !over:
		return "stalled"
	case paused && !over:
		return "paused"
	}
	return state
}

// states are those of the filter.
var states = []string{"running", "paused", "stalled", "retrying", "failed", "cancelled", "expired", "done"}

// filterOf reads what is looked for: words that are all meant, "meta.tenant:acme" and a part of the name, or a pattern.
func filterOf(state, query string) (f inspect.WorkflowFilter, err error) {
	switch state {
	case "paused":
		f.Paused = true
	case "stalled":
		f.Stalled = true
	default:
		f.State = inspect.State(state)
	}
	for word := range strings.FieldsSeq(query) {
		if name, ok := strings.CutPrefix(word, "meta."); ok {
			name, value, found := strings.Cut(name, ":")
			if !found || name == "" {
				return f, site.Bad("%q is no metadata to look for; write it as meta.tenant:acme", word)
			}
			if f.Meta == nil {
				f.Meta = make(map[string]string)
			}
			f.Meta[name] = value
			continue
		}
		if f.Name != "" {
			return f, site.Bad("%q and %q are two names; give one, and metadata as meta.tenant:acme", strings.Trim(f.Name, "*"), word)
		}
		if f.Name = strings.TrimPrefix(word, "name:"); !strings.ContainsAny(f.Name, "*?[") {
			f.Name = "*" + f.Name + "*"
		}
	}
	return f, nil
}

// masks returns an error if the filter compares metadata that is masked: the answer would tell it.
func masks(a *site.Ask, f inspect.WorkflowFilter) error {
	for name, value := range a.Masks.Meta(f.Meta) {
		if value != f.Meta[name] {
			return site.Bad("meta.%s is masked, so nothing is sought by it", name)
		}
	}
	return nil
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	l := &List{Query: strings.TrimSpace(a.Param("q")), State: a.Choice("state", append([]string{""}, states...)...)}
	f, err := filterOf(l.State, l.Query)
	if err == nil {
		err = masks(a, f)
	}
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("workflows %q %q %q", l.State, l.Query, a.Param("after"))
	page, err := site.Seldom(ctx, a, key, func(ctx context.Context) (inspect.WorkflowPage, error) {
		return a.In().Workflows().Page(ctx, f, a.Param("after"), rows, inspect.Budget(budget))
	})
	if err != nil {
		return nil, err
	}
	l.Next = page.Next
	for _, w := range page.Workflows {
		if sees(ctx, a, w.ID) {
			l.Workflows = append(l.Workflows, rowOf(a, w))
		}
	}
	slices.SortStableFunc(l.Workflows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), y.Began.Compare(x.Began.Time), cmp.Compare(x.ID, y.ID))
	})
	return l, nil
}

// rank puts what goes on first.
func rank(r Row) int {
	if inspect.State(r.State).Over() {
		return 1
	}
	return 0
}

func rowOf(a *site.Ask, w inspect.WorkflowInfo) Row {
	r := Row{
		ID: w.ID, Name: w.Name, State: string(w.State), Paused: w.Paused, Open: w.Open, Stalled: a.Masks.Text(w.Stalled), Meta: a.Masks.Meta(w.Meta),
		Began: site.Time{Time: w.Began}, Ended: site.Time{Time: w.Ended}, Until: site.Time{Time: w.Until}, Counts: countsOf(w.Counts),
	}
	if w.Err != nil {
		r.Error = cutText(a.Masks.Text(errorText(w.Err)))
	}
	return r
}

func errorText(e *inspect.WorkflowError) string {
	if e.Exception == "" || e.Message == "" {
		return e.Exception + e.Message
	}
	return e.Exception + ": " + e.Message
}

// sees reports whether the user may see a workflow: all of it has to be in queues that the user sees. One that is too large to be read is
// not shown to users who see some queues only.
func sees(ctx context.Context, a *site.Ask, id string) bool {
	if a.User.Whole() {
		return true
	}
	g, err := graphOf(ctx, a, id)
	return err == nil && !g.Partial && !slices.ContainsFunc(g.Queues, func(queue string) bool { return !a.Sees(queue) })
}

// graphAge is how old the graph of a page may be.
const graphAge = 2 * time.Second

func graphOf(ctx context.Context, a *site.Ask, id string) (inspect.WorkflowGraph, error) {
	return site.Keep(ctx, a.Fleet, "workflow graph "+id, graphAge, func(ctx context.Context) (inspect.WorkflowGraph, error) {
		return a.In().Workflows().Graph(ctx, id)
	})
}

// found returns an error if the workflow is not there, or not for this user.
func found(ctx context.Context, a *site.Ask, id string) error {
	if !sees(ctx, a, id) {
		return site.Missing("there is no such workflow, or it is over and its time is up")
	}
	return nil
}

// gone says of a workflow that is not there why that may be.
func gone(err error) error {
	if errors.Is(err, inspect.ErrNoWorkflow) {
		return site.Missing("there is no such workflow, or it is over and its time is up")
	}
	return err
}
