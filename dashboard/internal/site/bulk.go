package site

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/inspect"
)

// Bulk is a change of several jobs: of those that the form names in its field ids, or of all that fit if its field all is set.
type Bulk struct {
	Verb  inspect.Verb
	Doing string // "Retry", as the button says it
	Done  string // "retried", of the jobs afterwards

	// Query are the jobs that all means: the place and the queue of the page. The form's field filter adds conditions to it.
	Query inspect.Query

	// Find returns the jobs with these ids that are still there: as they stand in the form.
	Find func(ctx context.Context, ids []string) ([]inspect.Entry, error)

	// All means all that fit Query, whatever the form says.
	All bool

	Queue string    // of MoveTo: where to
	At    time.Time // of Delay: until when
	To    inspect.End
}

// mostChosen is how many jobs a form may name: as many as an operation changes in one step.
const mostChosen = 250

// sure is above how many jobs a removal wants the number typed.
const sure = 100

// Paces are the speeds that an operation of all jobs may have, in jobs a second; 0: as fast as they go.
var Paces = []float64{10, 50, 500, 0}

// Bulk makes a change of several jobs, as an operation that can be taken back for a day. Jobs that the form names are changed at
// once. For all that fit it first shows what it would do, unless the field go is set; then it goes on in the background.
func (a *Ask) Bulk(ctx context.Context, b Bulk) (Outcome, error) {
	if b.All || a.Flag("all") {
		return a.bulkAll(ctx, b)
	}
	ids := a.Values("ids")
	switch {
	case len(ids) == 0:
		return Outcome{}, Bad("nothing was selected")
	case len(ids) > mostChosen:
		return Outcome{}, Bad("%d jobs were selected; select at most %d, or all that fit", len(ids), mostChosen)
	}
	jobs, err := b.Find(ctx, ids)
	if err != nil {
		return Outcome{}, err
	}
	jobs = slices.DeleteFunc(jobs, func(e inspect.Entry) bool { return !a.Sees(e.Queue) })
	missing := int64(len(ids) - len(jobs))
	if len(jobs) == 0 {
		return Outcome{Said: fmt.Sprintf("Nothing was %s: %s.", b.Done, missingText(missing)), Missing: missing}, nil
	}
	if a.Flag("dry_run") {
		return Outcome{Said: fmt.Sprintf("%s would be %s.", look.Plural(len(jobs), "job", "jobs"), b.Done), Missing: missing}, nil
	}
	op, err := a.By().Operations().Start(ctx, inspect.Plan{Verb: b.Verb, Jobs: jobs, Queue: b.Queue, At: b.At, To: b.To})
	if err != nil {
		return Outcome{}, err
	}
	missing += op.Refused
	out := Outcome{
		Said: fmt.Sprintf("%s %s.", look.Plural(op.Done, "job was", "jobs were"), b.Done), Done: op.Done, Missing: missing,
		Operation: op.ID, Undo: op.Done > 0,
	}
	if missing > 0 {
		out.Refused = append(out.Refused, missingText(missing)+".")
	}
	return out, nil
}

func missingText(n int64) string {
	return look.Plural(n, "job is no longer there", "jobs are no longer there") + ", or cannot be changed"
}

// Planned is what a bulk change would do: the page that asks for it, and the answer to dry_run.
type Planned struct {
	Doing   string   `json:"doing"`
	Jobs    int64    `json:"jobs"`
	More    bool     `json:"more"`    // there may be more of them
	Ended   int64    `json:"ends"`    // of them jobs that end for good: undo does not bring these back
	Samples []string `json:"samples"` // the first three
	Filter  string   `json:"filter"`  // which jobs
	Typed   string   `json:"-"`       // what has to be typed; "": nothing
	Action  string   `json:"-"`       // where the form goes
	Fields  values   `json:"-"`       // what it carries along
	Brake   bool     `json:"has_brake"`
}

func (p *Planned) PageTitle() string { return p.Doing + "?" }

// bulkAll plans a change of all jobs that fit, and starts it.
func (a *Ask) bulkAll(ctx context.Context, b Bulk) (Outcome, error) {
	q := b.Query
	if text := a.Value("filter"); text != "" {
		parsed, err := inspect.ParseQuery(text, a.Now())
		if err != nil {
			return Outcome{}, err
		}
		if q, err = narrowed(q, parsed); err != nil {
			return Outcome{}, err
		}
	}
	if err := a.confine(&q); err != nil {
		return Outcome{}, err
	}
	plan := inspect.Plan{Verb: b.Verb, Query: q, Queue: b.Queue, At: b.At, To: b.To}
	if a.Value("pace") != "" {
		pace, err := strconv.ParseFloat(a.Value("pace"), 64)
		if err != nil || pace < 0 || pace > 1e6 {
			return Outcome{}, Bad("%s is no pace; give a number of jobs a second, or 0 for as fast as they go", quoted("pace", a.Value("pace")))
		}
		plan.Pace = pace
	}
	again := b.Verb == inspect.Retry || b.Verb == inspect.Run
	if again && a.Value("brake") != "0" {
		plan.Brake.Failed = 0.2
	}
	n, err := a.By().Operations().Count(ctx, plan)
	if err != nil {
		return Outcome{}, err
	}
	planned := &Planned{
		Doing: b.Doing, Jobs: n.Jobs, More: n.More, Ended: n.Ended, Filter: q.String(), Action: a.prefix + a.path, Fields: a.form.without("go", "confirm", "expect"), Brake: again,
	}
	for _, e := range n.Samples {
		planned.Samples = append(planned.Samples, a.Masks.Brief(e.Payload, 200))
	}
	if removes(b.Verb) && n.Jobs > sure {
		planned.Typed = strconv.FormatInt(n.Jobs, 10)
	}
	planned.Fields["expect"] = []string{strconv.FormatInt(n.Jobs, 10)}
	switch {
	case n.Jobs == 0:
		return Outcome{Said: "No job fits any more, so nothing was changed."}, nil
	case a.Flag("dry_run"), !a.Flag("go") && !a.json:
		return Outcome{Said: fmt.Sprintf("%s would be %s.", look.Plural(n.Jobs, "job", "jobs"), b.Done), Data: planned}, nil
	}
	if expect := a.Value("expect"); expect != "" {
		seen, err := a.Number("expect")
		if err != nil {
			return Outcome{}, err
		}
		if off := seen - n.Jobs; off > max(seen, n.Jobs)/10 || -off > max(seen, n.Jobs)/10 {
			return Outcome{}, Changed(n.Jobs, "%d jobs fit now, not %d; look again", n.Jobs, seen)
		}
	}
	if planned.Typed != "" && !a.json && a.Value("confirm") != planned.Typed && a.Value("confirm") != a.Value("expect") {
		return Outcome{Said: "Type the number to go on.", Data: planned}, nil
	}
	plan.Expected = n.Jobs
	op, err := a.By().Operations().Start(ctx, plan)
	if err != nil {
		return Outcome{}, err
	}
	a.Fleet.RunOn(a.User.Name, op.ID)
	return Outcome{
		Said: fmt.Sprintf("%s: %s. It goes on in the background.", b.Doing, look.Plural(n.Jobs, "job", "jobs")), Operation: op.ID, Undo: true,
		Status: http.StatusAccepted, Data: op,
	}, nil
}

// narrowed are the jobs of a page that fit a filter.
func narrowed(page, filter inspect.Query) (inspect.Query, error) {
	page.Where = append(slices.Clone(page.Where), filter.Where...)
	if filter.Queue != "" {
		page.Where = append(page.Where, inspect.Condition{Name: "queue", Value: filter.Queue, Literal: true})
	}
	switch {
	case filter.Places == nil:
	case page.Places == nil:
		page.Places = filter.Places
	default:
		page.Places = slices.DeleteFunc(slices.Clone(page.Places), func(p inspect.Place) bool { return !slices.Contains(filter.Places, p) })
		if len(page.Places) == 0 {
			return page, Bad("the filter means no job of this page: leave out state:")
		}
	}
	return page, nil
}

func removes(v inspect.Verb) bool {
	return v == inspect.Drop || v == inspect.ClearQueue || v == inspect.ForgetQueue
}

// confine keeps a search within the queues that the user sees.
func (a *Ask) confine(q *inspect.Query) error {
	if a.User.Whole() {
		return nil
	}
	queue := q.Queue
	for _, c := range q.Where {
		if c.Name == "queue" && !c.Not && (c.Literal || !strings.Contains(c.Value, "*")) {
			queue = c.Value
		}
	}
	if queue == "" || !a.Sees(queue) {
		return Denied("you see some queues only; name one of them in the filter: queue:%s", first(a.User.Queues))
	}
	return nil
}

func first(names []string) string {
	if len(names) == 0 {
		return "…"
	}
	return names[0]
}

// without is the fields but for some.
func (v values) without(names ...string) values {
	out := values{}
	for name, all := range v {
		if !slices.Contains(names, name) {
			out[name] = all
		}
	}
	return out
}
