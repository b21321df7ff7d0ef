package workflows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// Workflow is the page of a workflow.
type Workflow struct {
	Row
	RunRest bool            `json:"run_rest"`         // after a failure the rest runs
	Unique  string          `json:"unique,omitempty"` // the name under which it is unique
	Limit   site.Span       `json:"deadline_ms"`      // how long it may take; 0: no bound
	Took    site.Span       `json:"took_ms"`          // so far
	Left    site.Span       `json:"done_in_ms"`       // about, at the pace of its steps so far; 0: not known
	Result  json.RawMessage `json:"result,omitempty"`
	Kept    string          `json:"result_left,omitempty"` // why the result was not kept
	Lost    []int           `json:"lost_steps,omitempty"`
	Failed  *Failed         `json:"failure,omitempty"`
	Groups  []Group         `json:"groups"`
	Partial bool            `json:"groups_partial"` // not all of the graph was read
	Steps   []Step          `json:"steps_shown"`
	Filter  string          `json:"-"`
	Of      *Group          `json:"-"` // the steps that are shown are of this group
	Only    string          `json:"-"` // the number of the step that was asked for
	site.Paged
}

// PageTitle is the title of the page.
func (w *Workflow) PageTitle() string { return "Workflow " + w.Title() }

// Failed is why the workflow failed.
type Failed struct {
	Step    int    `json:"step"`
	Name    string `json:"name,omitempty"`
	Class   string `json:"class"`
	Queue   string `json:"queue"`
	Attempt int    `json:"attempt"`
	State   string `json:"state"`
	Text    string `json:"error"`
}

// Group is a box of the graph.
type Group struct {
	Name   string `json:"name,omitempty"`
	Class  string `json:"class"` // "": not kept
	Queue  string `json:"queue"`
	First  int    `json:"first_step"`
	Steps  Counts `json:"steps"`
	After  []int  `json:"after"` // the groups, as indexes, that have to end before
	behind string
}

// Title is what the box is called.
func (g Group) Title() string { return cmp.Or(g.Name, g.Class, "step "+strconv.Itoa(g.First)) }

// State is that of all its steps together.
func (g Group) State() string {
	n := g.Steps
	switch {
	case n.Failed > 0:
		return "failed"
	case n.Done == n.All:
		return "done"
	case n.Outside > 0 && n.Sent == 0:
		return "leased"
	case n.Sent+n.Outside > 0, n.Done > 0 && n.NotRun == 0:
		return "running"
	case n.NotRun > 0:
		return "cancelled"
	}
	return "waiting"
}

// Word is what the state is called; "": as pages call it.
func (g Group) Word() string {
	switch {
	case g.State() == "leased":
		return "waits outside"
	case g.State() == "running" && g.Steps.All == 1:
		return "queued or running"
	case g.State() == "cancelled":
		return "not run"
	}
	return ""
}

// Behind names the groups that it waits for.
func (g Group) Behind() string { return g.behind }

// Step is a step of the table.
type Step struct {
	ID     string          `json:"id"`
	Number int             `json:"number"`
	Name   string          `json:"name,omitempty"`
	Class  string          `json:"class"`
	Queue  string          `json:"queue"`
	Args   site.Args       `json:"args"`
	Cut    bool            `json:"args_cut,omitempty"` // only their beginning
	State  string          `json:"state"`              // waiting, sent, outside, done, failed or not run
	Since  site.Time       `json:"outside_since"`
	Until  site.Time       `json:"outside_until"`
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Lost   bool            `json:"lost"`
}

// Title is what the step is called.
func (s Step) Title() string { return cmp.Or(s.Name, s.Class, "step "+strconv.Itoa(s.Number)) }

// Look is its state as pages draw it, and Word what they call it.
func (s Step) Look() string {
	switch s.State {
	case "sent":
		if s.Lost {
			return "lost"
		}
		return "running"
	case "outside":
		return "leased"
	case "not run":
		return "cancelled"
	}
	return s.State
}

// Word is what the state is called.
func (s Step) Word() string {
	switch {
	case s.Lost:
		return "lost"
	case s.State == "sent":
		return "queued or running"
	case s.State == "outside":
		return "waits outside"
	}
	return s.State
}

// Ends reports whether an operator can mark the step as done.
func (s Step) Ends() bool { return s.State != "waiting" && s.State != "done" }

// ResultText is the result in one line.
func (s Step) ResultText() string { return string(s.Result) }

// ResultText is the result of the workflow.
func (w *Workflow) ResultText() string { return string(w.Result) }

const mostShown = 2 << 10 // bytes of a result

func loadOne(ctx context.Context, a *site.Ask) (any, error) {
	id := a.Path("id")
	if err := found(ctx, a, id); err != nil {
		return nil, err
	}
	info, err := a.In().Workflows().Get(ctx, id)
	if err != nil {
		return nil, gone(err)
	}
	w := &Workflow{
		Row: rowOf(a, info), RunRest: info.RunRest, Unique: a.Masks.Text(info.Unique), Limit: site.Span(info.Deadline), Kept: info.ResultLeft, Lost: info.Lost,
		Filter: a.Choice("state", "", "waiting", "sent", "outside", "failed", "done", "not run"),
	}
	if w.Result = cutJSON(a.Masks.JSON(info.Result)); info.Result == nil {
		w.Result = nil
	}
	if e := info.Err; e != nil {
		w.Failed = &Failed{Step: e.Step, Name: e.StepName, Class: e.Class, Queue: e.Queue, Attempt: e.Attempt, State: string(e.State), Text: cutText(a.Masks.Text(errorText(e)))}
	}
	w.times(a.Now())
	graph, err := graphOf(ctx, a, id)
	if err != nil && !errors.Is(err, inspect.ErrNoWorkflow) {
		return nil, err
	}
	w.draw(graph)
	return w, w.list(ctx, a)
}

// times says how long the workflow has taken, and how long it may take still.
func (w *Workflow) times(now time.Time) {
	if w.Began.IsZero() {
		return
	}
	over := inspect.State(w.State).Over()
	end := now
	if over && !w.Ended.IsZero() {
		end = w.Ended.Time
	}
	w.Took = site.Span(max(0, end.Sub(w.Began.Time)))
	if left := w.Counts.All - w.Counts.Done; !over && w.Counts.Done > 0 && left > 0 && w.Counts.Failed == 0 && !w.Paused && w.Stalled == "" {
		w.Left = site.Span(float64(w.Took) / float64(w.Counts.Done) * float64(left))
	}
}

func (w *Workflow) draw(g inspect.WorkflowGraph) {
	w.Partial = g.Partial
	for _, one := range g.Groups {
		group := Group{Name: one.Name, Class: one.Class, Queue: one.Queue, First: one.First, Steps: countsOf(one.Counts), After: one.After}
		for _, before := range one.After {
			if group.behind != "" {
				group.behind += ", "
			}
			b := g.Groups[before]
			group.behind += Group{Name: b.Name, Class: b.Class, First: b.First}.Title()
		}
		w.Groups = append(w.Groups, group)
	}
}

// mostBoxes is how many boxes the picture has.
const mostBoxes = 150

// Plot is the graph as a picture, and Drawn whether there is one.
func (w *Workflow) Plot(v *site.View) look.Graph {
	g := look.Graph{Label: "The steps of workflow " + w.Title() + "; the table below lists them"}
	for n, one := range w.Groups {
		s := look.Step{Name: one.Title(), State: one.State(), Href: v.With("step", one.First, "after", "", "state", "")}
		if one.Steps.All > 1 {
			s.Count, s.Done, s.Failed = int(one.Steps.All), int(one.Steps.Done), int(one.Steps.Failed)
		} else {
			s.Sub = one.Word()
		}
		g.Steps = append(g.Steps, s)
		for _, before := range one.After {
			g.Edges = append(g.Edges, look.Edge{From: before, To: n})
		}
	}
	return g
}

// Drawn reports whether the graph can be drawn.
func (w *Workflow) Drawn() bool { return len(w.Groups) > 1 && len(w.Groups) <= mostBoxes }

// list reads a page of steps: all that fit the state, or those of a group.
func (w *Workflow) list(ctx context.Context, a *site.Ask) error {
	from, err := number(a.Param("after"), "after")
	if err != nil {
		return err
	}
	step, err := number(a.Param("step"), "step")
	if err != nil {
		return err
	}
	f := inspect.StepFilter{State: inspect.StepState(w.Filter), From: from}
	if a.Param("step") != "" {
		w.Only = strconv.Itoa(step)
		if w.Of = w.groupAt(step); w.Of == nil || w.Of.Steps.All == 1 {
			f.From, f.Limit = step, 1
		} else {
			f.From = max(from, w.Of.First)
		}
	}
	key := fmt.Sprintf("steps %q %+v %s", w.ID, f, w.Only)
	page, err := site.Seldom(ctx, a, key, func(ctx context.Context) (p stepPage, err error) {
		until := time.Now().Add(budget)
		for s, err := range a.In().Workflows().Steps(ctx, w.ID, f) {
			switch {
			case errors.Is(err, inspect.ErrNoWorkflow):
				return p, nil // its hash is gone, and the document of its end is left
			case err != nil:
				return p, err
			case len(p.steps) == rows || s.Number >= f.From+least && time.Now().After(until):
				p.next = strconv.Itoa(s.Number)
				return p, nil
			case f.Limit == 1 && s.Number != step:
				return p, nil
			case f.Limit == 0 && w.Of != nil && w.Of.Class != "" && s.Class != "" && s.Class != w.Of.Class:
				continue
			}
			p.steps = append(p.steps, s)
		}
		return p, nil
	})
	w.Next = page.next
	for _, s := range page.steps {
		w.Steps = append(w.Steps, w.stepOf(a, s))
	}
	return err
}

// stepPage is a page of steps.
type stepPage struct {
	steps []inspect.StepInfo
	next  string
}

func number(text, name string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, site.Bad("%s is %q; give the number of a step", name, text)
	}
	return n, nil
}

// groupAt returns the group that begins with a step.
func (w *Workflow) groupAt(step int) *Group {
	at := slices.IndexFunc(w.Groups, func(g Group) bool { return g.First == step })
	if at < 0 {
		return nil
	}
	return &w.Groups[at]
}

func (w *Workflow) stepOf(a *site.Ask, s inspect.StepInfo) Step {
	one := Step{
		ID: s.ID, Number: s.Number, Name: s.Name, Class: s.Class, Queue: s.Queue, State: string(s.State),
		Since: site.Time{Time: s.Since}, Until: site.Time{Time: s.Until}, Lost: slices.Contains(w.Lost, s.Number) && s.State == inspect.StepSent,
	}
	one.Args, one.Cut = site.Args(a.Masks.Args(s.Class, withoutToken(s))).Cut(mostShown)
	if s.Err != nil || s.Result != nil {
		args, _ := json.Marshal(s.Args)
		class, _ := json.Marshal(s.Class)
		secrets := a.Masks.With([]byte(`{"class":` + string(class) + `,"args":` + string(args) + `}`))
		if s.Err != nil {
			one.Error = cutText(secrets.Text(errorText(s.Err)))
		}
		if s.Result != nil {
			one.Result = cutJSON(secrets.JSON(s.Result))
		}
	}
	return one
}

// withoutToken are the arguments of a step without the token by which another program ends it: who has it can do that.
func withoutToken(s inspect.StepInfo) []json.RawMessage {
	args := slices.Clone(s.Args)
	for n, arg := range args {
		if strings.HasPrefix(string(arg), `"`+s.ID+".") {
			args[n] = json.RawMessage(`"` + mask.Mark + `"`)
		}
	}
	return args
}

// cutJSON cuts a large result: its beginning stands in a text.
func cutJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) <= mostShown {
		return raw
	}
	text, _ := json.Marshal(cutText(string(raw)))
	return text
}

func cutText(text string) string {
	if len(text) <= mostShown {
		return text
	}
	return strings.ToValidUTF8(text[:mostShown], "") + "…"
}
