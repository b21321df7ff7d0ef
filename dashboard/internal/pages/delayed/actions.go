package delayed

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// bulk changes the jobs that a form names, or all that fit its fields kind, due_from, due_to and filter.
func bulk(ctx context.Context, a *site.Ask, b site.Bulk) (site.Outcome, error) {
	c, err := choose(a, func(name string) string {
		switch name {
		case "q": // Bulk reads the field filter
			return ""
		case "from", "to":
			return a.Value("due_" + name)
		}
		return a.Value(name)
	})
	if err != nil {
		return site.Outcome{}, err
	}
	b.Query.Places = []inspect.Place{inspect.Delayed}
	switch c.kind {
	case "retry":
		b.Query.Where = append(b.Query.Where, inspect.Condition{Name: "state", Value: "retrying"})
	case "delayed":
		if a.Flag("all") {
			return site.Outcome{}, site.Bad("which delayed jobs of Ruby are retries only resque-retry's keys say; choose all kinds, or tick the jobs")
		}
	}
	if !c.from.IsZero() {
		b.Query.Where = append(b.Query.Where, inspect.Condition{Name: "due", Value: ">", Time: c.from.Add(-time.Millisecond)})
	}
	if !c.to.IsZero() {
		b.Query.Where = append(b.Query.Where, inspect.Condition{Name: "due", Value: "<", Time: c.to})
	}
	b.Find = func(ctx context.Context, ids []string) ([]inspect.Entry, error) { return named(ctx, a, ids) }
	return a.Bulk(ctx, b)
}

func run(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	b := site.Bulk{Verb: inspect.Run, Doing: "Run now", Done: "put into their queues", To: inspect.Tail}
	switch a.Value("to") {
	case "", string(inspect.Tail):
	case string(inspect.Head):
		b.To, b.Done = inspect.Head, "put in front of their queues"
	default:
		return site.Outcome{}, site.Bad("to is %q; give head or tail", a.Value("to"))
	}
	return bulk(ctx, a, b)
}

func reschedule(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	in, err := a.Duration("in")
	if err != nil {
		return site.Outcome{}, err
	}
	at, err := moment(a, "at", a.Value("at"))
	switch {
	case err != nil:
		return site.Outcome{}, err
	case at.IsZero() && a.Value("in") == "":
		return site.Outcome{}, site.Bad("say when: at a time, or in a duration")
	case !at.IsZero() && a.Value("in") != "":
		return site.Outcome{}, site.Bad("at and in both say when; give one of them")
	case at.IsZero():
		at = a.Now().Add(in)
	}
	return bulk(ctx, a, site.Bulk{Verb: inspect.Delay, Doing: "Reschedule", Done: "delayed to " + at.In(a.Loc).Format("2 Jan 15:04:05"), At: at})
}

func cancel(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	return bulk(ctx, a, site.Bulk{Verb: inspect.Drop, Doing: "Cancel", Done: "cancelled"})
}

// clear cancels all delayed jobs, as an operation.
func clear(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	if !a.Flag("all") {
		return site.Outcome{}, site.Bad("all delayed jobs are meant: set all")
	}
	for _, name := range []string{"kind", "due_from", "due_to", "filter"} {
		if a.Value(name) != "" {
			return site.Outcome{}, site.Bad("all delayed jobs are meant, and %s chooses some; use cancel", name)
		}
	}
	return bulk(ctx, a, site.Bulk{Verb: inspect.Drop, Doing: "Clear delayed jobs", Done: "cancelled"})
}

// wanted are jobs that a form names, of one id.
type wanted struct {
	at  time.Time
	ids int // how many equal jobs are meant
}

// named finds the jobs with these ids. It reads on from the time of the first one that it has not found yet, so jobs of one page cost one
// question.
func named(ctx context.Context, a *site.Ask, ids []string) (found []inspect.Entry, err error) {
	left := make(map[string]*wanted, len(ids))
	for _, id := range ids {
		ms, ref, ok := strings.Cut(id, "-")
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil || !ok || ref == "" {
			return nil, site.Bad("%.80q names no delayed job", id)
		}
		if left[id] == nil {
			left[id] = &wanted{at: time.UnixMilli(n)}
		}
		left[id].ids++
	}
	for len(left) > 0 {
		first, last := ends(left)
		for after := ""; ; {
			p, err := a.In().FindDelayed(ctx, inspect.Query{}, first, last.Add(time.Millisecond), after, inspect.MaxPage)
			if err != nil {
				return nil, err
			}
			read := first // all jobs before it were read
			for _, e := range p.Jobs {
				read = e.At
				if w := left[idOf(e)]; w != nil && w.ids > 0 {
					w.ids--
					found = append(found, e)
				}
			}
			if after = p.Next; after == "" {
				read = last.Add(time.Millisecond)
			}
			for id, w := range left {
				if w.ids == 0 || w.at.Before(read) {
					delete(left, id)
				}
			}
			if after == "" || left[idAt(left, first)] == nil {
				break // what is left is due later: it is looked for from there
			}
		}
	}
	slices.SortStableFunc(found, func(x, y inspect.Entry) int { return x.At.Compare(y.At) })
	return found, nil
}

// ends are the first and the last time of jobs that are wanted.
func ends(left map[string]*wanted) (first, last time.Time) {
	for _, w := range left {
		if first.IsZero() || w.at.Before(first) {
			first = w.at
		}
		if w.at.After(last) {
			last = w.at
		}
	}
	return first, last
}

// idAt is the id of a wanted job of a time; "": there is none.
func idAt(left map[string]*wanted, at time.Time) string {
	for id, w := range left {
		if w.at.Equal(at) {
			return id
		}
	}
	return ""
}
