package failures

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

// Asked is what a list was asked for.
type Asked struct {
	Query  string `json:"query"`  // the whole search, as the command takes it
	Text   string `json:"-"`      // what the user wrote, if it has a mistake
	Kept   string `json:"-"`      // of q: what the field adds to
	Chips  []Chip `json:"-"`      // the conditions, each with a link that takes it away
	Fault  *Fault `json:"fault"`  // of the search; nil: it has none
	Filter string `json:"filter"` // the conditions as the actions take them; "": all failures

	query inspect.Query
	since time.Time
	until time.Time
}

// Chip is a condition of a search.
type Chip struct {
	Text    string
	Without string // the page without it
}

// Fault says what is wrong with a search, and where.
type Fault struct {
	What   string `json:"what"`
	Before string `json:"before"` // the text up to the mistake
	From   string `json:"from"`   // the text from there on
	At     int    `json:"at"`     // the character where it begins, counted from 1
}

// asks reads q, since and until. q may be there several times: the field adds to the conditions that stand before it.
func asks(a *site.Ask) (k *Asked) {
	text := strings.TrimSpace(strings.Join(a.Params("q"), " "))
	k = &Asked{}
	parse := func(text string) (q inspect.Query, ok bool) {
		q, err := inspect.ParseQuery(text, a.Now())
		var wrong *inspect.QueryError
		if errors.As(err, &wrong) {
			at := min(wrong.At, len(wrong.Query))
			k.Fault = &Fault{What: wrong.What, Before: strings.ToValidUTF8(wrong.Query[:at], "?"), From: strings.ToValidUTF8(wrong.Query[at:], "?"), At: utf8.RuneCountInString(wrong.Query[:at]) + 1}
		}
		return q, err == nil
	}
	q, ok := parse(text)
	if !ok {
		k.Text = strings.ToValidUTF8(text, "?")
		k.Query = k.Text
		return k
	}
	conditions := conditionsOf(q)
	k.Kept = inspect.Query{Where: conditions}.String()
	for n, c := range conditions {
		rest := slices.Delete(slices.Clone(conditions), n, n+1)
		k.Chips = append(k.Chips, Chip{chipText(a, c), a.With("q", inspect.Query{Where: rest}.String(), "after", "")})
	}
	for _, name := range []string{"since", "until"} {
		v := a.Param(name)
		if v == "" {
			continue
		}
		one, ok := parse(name + ":" + v)
		if !ok || len(one.Where) != 1 {
			k.Text = text
			return k
		}
		conditions = append(conditions, one.Where[0])
		k.Chips = append(k.Chips, Chip{chipText(a, one.Where[0]), a.With(name, "", "after", "")})
	}
	for _, c := range conditions {
		switch {
		case c.Not:
		case c.Name == "since":
			k.since = c.Time
		case c.Name == "until":
			k.until = c.Time
		}
	}
	k.query = inspect.Query{Places: []inspect.Place{inspect.Failed}, Where: conditions}
	k.Filter = inspect.Query{Where: conditions}.String()
	k.Query = k.Filter
	return k
}

// conditionsOf are all conditions of a search. Its state is left out: the page is of failures.
func conditionsOf(q inspect.Query) []inspect.Condition {
	all := slices.Clone(q.Where)
	if q.Queue != "" {
		all = append([]inspect.Condition{{Name: "queue", Value: q.Queue, Literal: strings.Contains(q.Queue, "*")}}, all...)
	}
	return all
}

func chipText(a *site.Ask, c inspect.Condition) string {
	if (c.Name == "since" || c.Name == "until") && !c.Not {
		layout, at := "15:04:05", c.Time.In(a.Loc)
		if at.Format(time.DateOnly) != a.Now().In(a.Loc).Format(time.DateOnly) {
			layout = "2 Jan 15:04:05"
		}
		return c.Name + " " + strings.TrimSuffix(at.Format(layout), ":00")
	}
	return c.String()
}

// groupFilter is the search as the index of groups knows it. ok is false if it has a condition that only a look at each failure answers.
func (k *Asked) groupFilter(a *site.Ask) (f groups.Filter, ok bool) {
	f = seen(a)
	var fits []func(g groups.Group) bool
	var queues []inspect.Condition
	for _, c := range k.query.Where {
		has := func(all ...string) bool {
			if c.Literal {
				return slices.ContainsFunc(all, func(in string) bool { return strings.Contains(in, c.Value) })
			}
			return slices.ContainsFunc(all, func(in string) bool { return wild("*"+strings.ToLower(c.Value)+"*", strings.ToLower(in)) })
		}
		switch c.Name {
		case "class":
			fits = append(fits, func(g groups.Group) bool { return equal(c, g.Class) != c.Not })
		case "exception":
			fits = append(fits, func(g groups.Group) bool { return equal(c, g.Exception) != c.Not })
		case "group":
			fits = append(fits, func(g groups.Group) bool { return (g.ID == c.Value) != c.Not })
		case "error":
			fits = append(fits, func(g groups.Group) bool { return has(g.Exception, g.Pattern, g.Example) != c.Not })
		case "text":
			fits = append(fits, func(g groups.Group) bool { return has(g.Class, g.Exception, g.Pattern, g.Example) != c.Not })
		case "queue":
			queues = append(queues, c)
		case "since", "until":
			if c.Not {
				return f, false
			}
		case "retried":
			if !c.Not {
				return f, false
			}
			f.Unretried = true
		default:
			return f, false
		}
	}
	f.Since, f.Until = k.since, k.until
	if len(fits) > 0 {
		f.Fits = func(g groups.Group) bool {
			return !slices.ContainsFunc(fits, func(fit func(groups.Group) bool) bool { return !fit(g) })
		}
	}
	if sees := f.Queues; len(queues) > 0 {
		f.Queues = func(queue string) bool {
			return (sees == nil || sees(queue)) && !slices.ContainsFunc(queues, func(c inspect.Condition) bool { return equal(c, queue) == c.Not })
		}
	}
	return f, true
}

// equal compares a name with a condition, in which a * stands for any text.
func equal(c inspect.Condition, name string) bool {
	if c.Literal {
		return c.Value == name
	}
	return wild(c.Value, name)
}

func wild(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	text, found := strings.CutPrefix(text, parts[0])
	if !found {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		if _, text, found = strings.Cut(text, part); !found {
			return false
		}
	}
	return strings.HasSuffix(text, last)
}
