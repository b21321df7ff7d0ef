package running

import (
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// Chip is a condition of a filter, and the page without it.
type Chip struct{ Text, Without string }

// Filter is the filter of a page: each parameter q adds to it, as the form of a page sends what it has and what is typed.
func Filter(a *site.Ask) string { return strings.TrimSpace(strings.Join(a.Params("q"), " ")) }

// filter is what the page shows of the running jobs. It compares masked text.
type filter struct {
	all []inspect.Condition
	now time.Time
}

// known are the conditions that a running job can be asked about.
var known = []string{"class", "queue", "id", "worker", "since", "until", "text"}

func parse(text string, now time.Time) (filter, error) {
	q, err := inspect.ParseQuery(text, now)
	if err != nil {
		return filter{}, err
	}
	for _, c := range q.Where {
		if !slices.Contains(known, c.Name) {
			return filter{}, site.Bad("running jobs are filtered by class, queue, id, worker, for, since, until and a text, not by %s", c)
		}
	}
	return filter{q.Where, now}, nil
}

// Chips are the conditions of a text, each with the text of the others.
func Chips(all []inspect.Condition, with func(q string) string) (chips []Chip) {
	for n, c := range all {
		var rest []string
		for other, o := range all {
			if other != n {
				rest = append(rest, o.String())
			}
		}
		chips = append(chips, Chip{c.String(), with(strings.Join(rest, " "))})
	}
	return chips
}

func (f filter) chips(a *site.Ask) []Chip {
	return Chips(f.all, func(q string) string { return a.With("q", q, "after", "") })
}

// fits reports whether a job fulfils all conditions. Of a time that is not known nobody knows whether it does.
func (f filter) fits(r Row, masked []byte) bool {
	for _, c := range f.all {
		var is bool
		switch c.Name {
		case "class":
			is = equal(c, r.Class)
		case "queue":
			is = equal(c, r.Queue)
		case "id":
			is = equal(c, r.ID)
		case "worker":
			is = slices.ContainsFunc([]string{r.Process, r.Worker, r.Host}, func(at string) bool { return begins(c, at) })
		case "since", "until":
			if r.Began.IsZero() {
				return false
			}
			is = r.Began.Before(c.Time) == (c.Name == "until")
		case "text":
			is = contains(c, string(masked)) || contains(c, r.Note)
		}
		if is == c.Not {
			return false
		}
	}
	return true
}

// parts are the texts between the stars of a value.
func parts(c inspect.Condition) []string {
	if c.Literal {
		return []string{c.Value}
	}
	return strings.Split(c.Value, "*")
}

func equal(c inspect.Condition, text string) bool {
	p := parts(c)
	if len(p) == 1 {
		return text == p[0]
	}
	rest, ok := strings.CutPrefix(text, p[0])
	last := p[len(p)-1]
	return ok && strings.HasSuffix(rest, last) && inOrder(rest[:max(0, len(rest)-len(last))], p[1:len(p)-1])
}

func begins(c inspect.Condition, id string) bool {
	if id == "" {
		return false
	}
	for at := range len(id) {
		if id[at] == ':' && equal(c, id[:at]) {
			return true
		}
	}
	return equal(c, id)
}

func contains(c inspect.Condition, text string) bool {
	if c.Literal {
		return strings.Contains(text, c.Value)
	}
	return inOrder(strings.ToLower(text), strings.Split(strings.ToLower(c.Value), "*"))
}

func inOrder(text string, all []string) bool {
	for _, part := range all {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}
