// Package search is the page that looks everywhere, and the palette that jumps.
package search

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

//go:embed *.html
var files embed.FS

// The bounds of a search: of its first page, and of those that go on.
const (
	rows    = 50
	budget  = 150 * time.Millisecond
	most    = 3000
	further = 2 * time.Second
	shown   = 200
)

// Pages are the pages of the search.
func Pages() []*site.Page {
	return []*site.Page{{Path: "/search", Title: "Search", Still: true, Load: load, Data: (*Results)(nil), Params: []string{"q", "after"}, Template: "search.html", Files: files}}
}

// Results is the page /search.
type Results struct {
	Query    string   `json:"q"`
	Chips    []Chip   `json:"conditions,omitempty"`
	Wrong    *Wrong   `json:"-"`
	Named    []Named  `json:"named"` // what has this id or a name with this in it
	Jobs     []Row    `json:"jobs"`
	Failures []Row    `json:"failures"`
	Looked   int64    `json:"looked"` // jobs that this page and those before it looked at
	Of       int64    `json:"of"`     // about how many there are, where that was not all; 0: not known
	Unsure   int      `json:"unsure"` // jobs that were left out because nothing says when they came
	Refused  []string `json:"refused,omitempty"`
	Went     bool     `json:"-"` // jobs were sought
	site.Paged
}

// Chip is a condition, and the address of the search without it.
type Chip struct {
	Text    string `json:"text"`
	Without string `json:"-"`
}

// Wrong is a mistake in the text of a search.
type Wrong struct{ Before, At, What string }

// Named is something with a name that fits.
type Named struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Icon string `json:"-"`
	URL  string `json:"url"`
	Says string `json:"says,omitempty"`
}

// Row is a job that was found.
type Row struct {
	Place string    `json:"place"`
	ID    string    `json:"id,omitempty"`
	Ref   string    `json:"ref"`
	Class string    `json:"class"`
	Queue string    `json:"queue"`
	Args  string    `json:"args"` // the beginning of them, masked
	Error string    `json:"error,omitempty"`
	At    site.Time `json:"at"` // it is due
	When  string    `json:"failed_at,omitempty"`
	URL   string    `json:"url"`
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	r := &Results{Query: strings.TrimSpace(a.Param("q")), Named: []Named{}, Jobs: []Row{}, Failures: []Row{}}
	if r.Query == "" {
		return r, nil
	}
	q, err := inspect.ParseQuery(r.Query, a.Now())
	var wrong *inspect.QueryError
	switch {
	case errors.As(err, &wrong) && !a.JSON():
		at := min(max(wrong.At, 0), len(r.Query))
		r.Wrong = &Wrong{Before: r.Query[:at], At: r.Query[at:], What: wrong.What}
		return r, nil
	case err != nil:
		return nil, err
	}
	r.chips(a, q)
	release, ok := a.Limits.Search(a.User)
	if !ok {
		return nil, &site.Problem{Status: http.StatusTooManyRequests, Title: "Two searches run already", Err: errors.New("you have two searches or operations that run; wait until one has ended")}
	}
	defer release()
	after := a.Param("after")
	if word, ok := single(q); ok && after == "" {
		if r.Named, err = named(ctx, a, word); err != nil {
			return nil, err
		}
	}
	return r, r.find(ctx, a, q, after)
}

// single is the one word of a search without conditions.
func single(q inspect.Query) (string, bool) {
	all := conditions(q)
	if len(all) != 1 || all[0].Not || !slices.Contains([]string{"text", "id", "queue", "class"}, all[0].Name) {
		return "", false
	}
	word := strings.Trim(all[0].Value, "*")
	return word, word != ""
}

// conditions are those of a text: ParseQuery makes the one about a queue a field of the query.
func conditions(q inspect.Query) []inspect.Condition {
	if q.Queue == "" {
		return q.Where
	}
	return append([]inspect.Condition{{Name: "queue", Value: q.Queue, Literal: strings.Contains(q.Queue, "*")}}, q.Where...)
}

func (r *Results) chips(a *site.Ask, q inspect.Query) {
	var texts []string
	for _, c := range conditions(q) {
		texts = append(texts, c.String())
	}
	for n := range texts {
		rest := slices.Delete(slices.Clone(texts), n, n+1)
		r.Chips = append(r.Chips, Chip{texts[n], a.URL("search", "?q", strings.Join(rest, " "))})
	}
}

// find looks for jobs wherever they are.
func (r *Results) find(ctx context.Context, a *site.Ask, q inspect.Query, after string) error {
	r.Went = true
	within, options := budget, []inspect.FindOption{inspect.LookAt(most)}
	if after != "" {
		within, options = further, nil
	}
	until := time.Now().Add(within)
	for {
		page, err := a.In().Find(ctx, q, after, rows-len(r.Jobs)-len(r.Failures), append(options, inspect.Budget(max(time.Until(until), time.Millisecond)))...)
		if err != nil {
			return err
		}
		r.Looked, r.Of, r.Unsure = page.Seen, page.Of, r.Unsure+page.Unsure
		for _, refused := range page.Refused {
			if a.User.Whole() {
				r.Refused = append(r.Refused, strings.TrimPrefix(refused.Error(), "goworker: "))
			}
		}
		for _, e := range page.Jobs {
			if !a.Sees(e.Queue) {
				continue
			}
			row := rowOf(a, e)
			if e.Place == inspect.Failed {
				r.Failures = append(r.Failures, row)
			} else {
				r.Jobs = append(r.Jobs, row)
			}
		}
		after, r.Next = page.Next, page.Next
		if after == "" || len(r.Jobs)+len(r.Failures) >= rows || time.Now().After(until) || options != nil && page.Of > 0 {
			break
		}
	}
	if !a.User.Whole() { // these are of other queues too
		r.Looked, r.Of, r.Unsure = 0, 0, 0
	}
	return nil
}

func rowOf(a *site.Ask, e inspect.Entry) Row {
	m := a.Masks.Entry(e)
	row := Row{
		Place: string(e.Place), ID: m.ID, Ref: m.Ref, Class: m.Class, Queue: m.Queue, Args: site.Args(m.Args).Text(shown), At: site.Time{Time: e.At},
		URL: a.URL("jobs", cmp.Or(m.ID, m.Ref), "?queue", m.Queue, "?place", string(e.Place)),
	}
	if m.Invalid != nil {
		row.Error, row.Args = m.Invalid.Error(), ""
	}
	if f := m.Failure; f != nil {
		row.URL, row.When = a.URL("failures", f.ID), f.FailedAt
		if row.Error = f.Error; f.Exception != "" {
			row.Error = f.Exception + ": " + f.Error
		}
		row.Error = short(row.Error, 500)
	}
	return row
}

func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// named finds what has this id, or a name with this in it.
func named(ctx context.Context, a *site.Ask, word string) ([]Named, error) {
	all := []Named{}
	add := func(n Named) { all = append(all, n) }
	switch s, err := a.In().Status(ctx, word); {
	case err == nil && s.OfWorkflow && a.User.Whole():
		add(Named{Kind: "workflow", Name: word, Icon: "flows", URL: a.URL("workflows", word), Says: string(s.State)})
	case err == nil && !s.OfWorkflow && a.Sees(s.Queue):
		add(Named{Kind: "job", Name: word, Icon: "jobs", URL: a.URL("jobs", word), Says: s.Class + " in " + s.Queue + ", " + string(s.State)})
	case err != nil && !errors.Is(err, inspect.ErrNoResult):
		return nil, err
	}
	if isRef(word) {
		switch f, err := a.In().Failures().Get(ctx, word); {
		case err == nil && a.Sees(f.Queue):
			add(Named{Kind: "failure", Name: word, Icon: "failures", URL: a.URL("failures", word), Says: f.Class + " in " + f.Queue})
		case err != nil && !errors.Is(err, inspect.ErrNoFailure):
			return nil, err
		}
	}
	low := strings.ToLower(word)
	few := func(kind, icon string, names []string, path string) {
		n := 0
		for _, name := range names {
			if strings.Contains(strings.ToLower(name), low) {
				if n++; n <= limit {
					add(Named{Kind: kind, Name: name, Icon: icon, URL: a.URL(path, name)})
				}
			}
		}
	}
	few("queue", "queues", queuesOf(a), "queues")
	if !a.User.Whole() {
		return all, nil
	}
	classes, err := classesOf(ctx, a)
	if err != nil {
		return nil, err
	}
	few("class", "classes", classes, "classes")
	few("process", "machines", processesOf(a), "processes")
	page, err := a.In().WorkersPage(ctx, "", limit, word)
	if err != nil {
		return nil, err
	}
	for _, w := range page.Workers {
		add(Named{Kind: "worker", Name: w.ID, Icon: "machines", URL: a.URL("workers", w.ID)})
	}
	return all, nil
}

// limit is how many names of a kind are listed.
const limit = 10

func isRef(text string) bool {
	return len(text) == 28 && strings.Trim(text, "0123456789abcdef") == ""
}

func queuesOf(a *site.Ask) (all []string) {
	for _, q := range a.Queues() {
		all = append(all, q.Name)
	}
	return all
}

func processesOf(a *site.Ask) (all []string) {
	for _, p := range a.Base.Processes {
		all = append(all, p.ID)
	}
	return all
}

// classesOf are the classes whose jobs ended within the last two hours, as far as the fleet records that.
func classesOf(ctx context.Context, a *site.Ask) ([]string, error) {
	return site.Keep(ctx, a.Fleet, "class-names", 30*time.Second, func(ctx context.Context) ([]string, error) {
		h, err := a.In().History(ctx, inspect.HistoryQuery{})
		if err != nil {
			return nil, err
		}
		var all []string
		for name := range h.Total().Classes {
			if name != inspect.UnknownClass && name != inspect.OtherNames {
				all = append(all, name)
			}
		}
		slices.Sort(all)
		return all, nil
	})
}
