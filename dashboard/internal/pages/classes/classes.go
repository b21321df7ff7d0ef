// Package classes is the pages of classes: how long their jobs run, how often they fail, and the rules that operators set for them.
package classes

import (
	"cmp"
	"context"
	"embed"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

//go:embed *.html
var files embed.FS

// rows is how many classes a page lists.
const rows = 50

// Pages are the pages of classes.
func Pages() []*site.Page {
	return []*site.Page{
		{Path: "/classes", Tab: "classes", Title: "Classes", Whole: true, Load: load, Data: (*List)(nil), Params: []string{"span", "sort", "q", "after"}, Template: "classes.html parts.html", Files: files},
		{Path: "/classes/{class}", Tab: "classes", Whole: true, Load: loadOne, Data: (*Class)(nil), Params: []string{"span"}, Template: "class.html parts.html", Files: files},
	}
}

// Actions are the rules of classes.
func Actions() []*site.Action {
	return []*site.Action{
		{Name: "class.pause", Path: "/classes/{class}/pause", Role: guard.Operator, Whole: true, Do: pause},
		{Name: "class.resume", Path: "/classes/{class}/resume", Role: guard.Operator, Whole: true, Do: resume},
		{Name: "class.limit", Path: "/classes/{class}/limit", Role: guard.Admin, Whole: true, Do: limit},
		{Name: "class.timeout", Path: "/classes/{class}/timeout", Role: guard.Admin, Whole: true, Do: timeout},
		{Name: "class.retries", Path: "/classes/{class}/retries", Role: guard.Admin, Whole: true, Do: retries},
		{Name: "class.reset", Path: "/classes/{class}/reset", Role: guard.Admin, Whole: true, Do: reset},
	}
}

// List is the page /classes.
type List struct {
	Span    string `json:"span"`
	Sort    string `json:"sort"`
	Query   string `json:"-"`
	Of      int    `json:"of"`  // classes that fit
	Ran     int    `json:"ran"` // classes that ran within the span
	Classes []Row  `json:"classes"`
	site.Paged
}

// Row is a class and what it did within the span.
type Row struct {
	Name     string      `json:"class"`
	Runs     int64       `json:"runs"`
	Failed   int64       `json:"failed"`
	Retried  int64       `json:"retried"`
	Time     site.Span   `json:"time_ms"` // of the workers, together
	Share    float64     `json:"share"`   // of all that time, in per cent
	FailRate float64     `json:"fail"`    // of its runs, in per cent
	P50      site.Span   `json:"p50_ms"`
	P95      site.Span   `json:"p95_ms"`
	P99      site.Span   `json:"p99_ms"`
	Longest  site.Span   `json:"longest_ms"` // at most: the upper edge of the last bucket
	Waits    site.Span   `json:"waits_p95_ms"`
	WaitsOf  int64       `json:"waits_of"` // jobs of which the wait is known
	Trend    site.Values `json:"p95_trend"`
	Here     bool        `json:"registered"` // a goworker process knows it
	Paused   bool        `json:"paused"`
	Rules    int         `json:"rules"`
	Failures int         `json:"failures"` // records in the lists of failures
}

// spans are how far the pages look back, in steps of the history.
var spans = map[string]struct{ span, step time.Duration }{
	"1h": {time.Hour, time.Minute}, "24h": {24 * time.Hour, 10 * time.Minute}, "7d": {7 * 24 * time.Hour, time.Hour}, "90d": {90 * 24 * time.Hour, 24 * time.Hour},
}

// historyAge is how old the history of a page may be.
const historyAge = 30 * time.Second

func historyOf(ctx context.Context, a *site.Ask, span string) (inspect.History, error) {
	s := spans[span]
	h, err := site.Keep(ctx, a.Fleet, "classes "+span, historyAge, func(ctx context.Context) (inspect.History, error) {
		return a.In().History(ctx, inspect.HistoryQuery{Since: a.Now().Add(-s.span), Step: s.step})
	})
	return h, err
}

// registeredAge is how old what processes have registered may be on a page, and rulesAge the rules.
const (
	registeredAge = 30 * time.Second
	rulesAge      = 2 * time.Second
)

func registeredOf(ctx context.Context, a *site.Ask) (inspect.Registration, error) {
	return site.Keep(ctx, a.Fleet, "registered", registeredAge, func(ctx context.Context) (inspect.Registration, error) { return a.In().Registered(ctx) })
}

const keyRules = "rules"

func rulesOf(ctx context.Context, a *site.Ask) ([]inspect.Rule, error) {
	return site.Keep(ctx, a.Fleet, keyRules, rulesAge, func(ctx context.Context) ([]inspect.Rule, error) { return a.In().Rules(ctx) })
}

// classOf is the class that a rule is about; "": it is about none.
func classOf(r inspect.Rule) string {
	switch r.Kind {
	case "class", "timeout", "retries":
		return r.About
	case "limit":
		return r.Class
	}
	return ""
}

func load(ctx context.Context, a *site.Ask) (any, error) {
	l := &List{Span: a.Choice("span", "1h", "24h", "7d", "90d"), Sort: a.Choice("sort", "time", "runs", "fail", "p95", "name"), Query: strings.TrimSpace(a.Param("q"))}
	all, err := rowsOf(ctx, a, l.Span)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Runs > 0 {
			l.Ran++
		}
	}
	if q := strings.ToLower(l.Query); q != "" {
		all = slices.DeleteFunc(all, func(r Row) bool { return !strings.Contains(strings.ToLower(r.Name), q) })
	}
	l.Of = len(all)
	slices.SortFunc(all, order(l.Sort))
	from, err := offset(a.Param("after"))
	if err != nil {
		return nil, err
	}
	from = min(from, len(all))
	if l.Classes = all[from:]; len(l.Classes) > rows {
		l.Classes, l.Next = l.Classes[:rows], strconv.Itoa(from+rows)
	}
	return l, nil
}

func offset(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, site.Bad("after is %q, which no page ended with", text)
	}
	return n, nil
}

func order(by string) func(x, y Row) int {
	key := func(r Row) float64 {
		switch by {
		case "time":
			return float64(r.Time)
		case "runs":
			return float64(r.Runs)
		case "fail":
			return r.FailRate
		case "p95":
			return float64(r.P95)
		}
		return 0
	}
	return func(x, y Row) int {
		if by == "name" {
			return cmp.Compare(x.Name, y.Name)
		}
		return cmp.Or(cmp.Compare(key(y), key(x)), cmp.Compare(y.Failures, x.Failures), cmp.Compare(x.Name, y.Name))
	}
}

// rowsOf are all classes that ran within a span, are registered, have rules or have failed.
func rowsOf(ctx context.Context, a *site.Ask, span string) ([]Row, error) {
	h, err := historyOf(ctx, a, span)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*Row)
	of := func(class string) *Row {
		if all[class] == nil {
			all[class] = &Row{Name: class}
		}
		return all[class]
	}
	total := h.Total()
	var sum time.Duration
	for _, c := range total.Classes {
		sum += c.Runs.Sum()
	}
	for class, c := range total.Classes {
		of(class).add(c, sum)
	}
	for _, r := range all {
		r.trend(a, h, span)
	}
	if registered, err := registeredOf(ctx, a); err == nil { // a Redis user who may not read it sees the rest
		for _, c := range registered.Classes {
			of(c.Name).Here = true
		}
	}
	if rules, err := rulesOf(ctx, a); err == nil {
		for _, r := range rules {
			if class := classOf(r); class != "" {
				one := of(class)
				one.Rules++
				one.Paused = one.Paused || r.Kind == "class"
			}
		}
	}
	if x, _, err := a.Fleet.Groups(ctx); err == nil {
		for _, g := range x.Groups(groups.Filter{}) {
			of(g.Class).Failures += g.Count
		}
	}
	out := make([]Row, 0, len(all))
	for _, r := range all {
		out = append(out, *r)
	}
	return out, nil
}

func (r *Row) add(c inspect.ClassHistory, sum time.Duration) {
	r.Runs, r.Failed, r.Retried = c.Runs.Count(), c.Failed, c.Retried
	r.Time = site.Span(c.Runs.Sum())
	if sum > 0 {
		r.Share = 100 * float64(c.Runs.Sum()) / float64(sum)
	}
	if ends := c.Done + c.Failed + c.Retried + c.Discarded; ends > 0 {
		r.FailRate = 100 * float64(c.Failed+c.Retried) / float64(ends)
	}
	r.P50, r.P95, r.P99 = site.Span(c.Runs.Quantile(.5)), site.Span(c.Runs.Quantile(.95)), site.Span(c.Runs.Quantile(.99))
	if buckets := c.Runs.Buckets(); len(buckets) > 0 {
		r.Longest = site.Span(buckets[len(buckets)-1].To)
	}
	r.Waits, r.WaitsOf = site.Span(c.Waits.Quantile(.95)), c.Waits.Count()
}

// trend is the 95th percentile of the runs, in 24 parts of the span.
func (r *Row) trend(a *site.Ask, h inspect.History, span string) {
	const parts = 24
	from := a.Now().Add(-spans[span].span)
	var runs [parts]inspect.Durations
	for _, row := range h.Rows {
		at := int(row.At.Sub(from) * parts / spans[span].span)
		runs[max(0, min(at, parts-1))] = runs[max(0, min(at, parts-1))].Add(row.Classes[r.Name].Runs)
	}
	for _, d := range runs {
		r.Trend = append(r.Trend, d.Quantile(.95).Seconds())
	}
}
