package overview

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/goworker/goworker/dashboard/internal/brief"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/pages/schedule"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

// More are the lists below the plot.
type More struct {
	Groups   []Group   `json:"groups"`
	Kinds    int       `json:"groups_in_all"`
	Grouped  int64     `json:"grouped"` // failures that are grouped already
	GroupOf  int64     `json:"grouped_of"`
	Running  []Running `json:"running"`
	Schedule []Tick    `json:"schedule"`
}

// Group is a group of failures.
type Group struct {
	ID      string      `json:"id"`
	Class   string      `json:"class"`
	Pattern string      `json:"pattern"`
	Count   int64       `json:"count"`
	New     bool        `json:"new"`
	Kills   bool        `json:"kills_its_process"`
	Trend   site.Values `json:"trend"`
}

// Running is a job that runs.
type Running struct {
	Class string    `json:"class"`
	ID    string    `json:"id,omitempty"`
	Args  string    `json:"args"`
	Where string    `json:"where"`
	For   site.Span `json:"for_ms"`
	Limit site.Span `json:"limit_ms"`
	Stuck bool      `json:"stuck"`
	To    string    `json:"-"`
}

// Tick is a schedule that fires next.
type Tick struct {
	Name string    `json:"name"`
	When string    `json:"when"`
	Next site.Time `json:"next"`
}

func moreOf(ctx context.Context, a *site.Ask) (m More) {
	if x, p, err := a.Fleet.Groups(ctx); err == nil {
		m.Grouped, m.GroupOf = p.Indexed, p.Of
		all := x.Groups(groups.Filter{Queues: queuesOf(a)})
		m.Kinds = len(all)
		for _, g := range all[:min(short, len(all))] {
			one := Group{ID: g.ID, Class: g.Class, Pattern: a.Masks.Text(g.Pattern), Count: int64(g.Count), New: g.New, Kills: g.Kills}
			for _, n := range g.Trend {
				one.Trend = append(one.Trend, float64(n))
			}
			m.Groups = append(m.Groups, one)
		}
	}
	if page, err := a.In().Running(ctx, "", 20, inspect.RunningFilter{Queue: queuesOf(a)}); err == nil {
		for _, j := range page.Jobs[:min(4, len(page.Jobs))] {
			one := Running{Class: j.Class, ID: j.ID, Args: brief.Of(a.Masks, j.Payload, nil).Line, Where: j.Host, Limit: site.Span(j.Limit), Stuck: j.Stuck}
			if !j.Began.IsZero() {
				one.For = site.Span(max(0, a.Now().Sub(j.Began)))
			}
			if one.To = a.URL("running", "?q", "class:"+j.Class); j.ID != "" {
				one.To = a.URL("jobs", j.ID)
			}
			m.Running = append(m.Running, one)
		}
	}
	schedules, err := site.Keep(ctx, a.Fleet, "schedules", 10*time.Second, func(ctx context.Context) ([]inspect.ScheduleInfo, error) { return a.In().Schedules(ctx) })
	if err != nil {
		return m
	}
	for _, s := range schedules {
		if s.Next.IsZero() || s.Paused || !a.Sees(s.Queue) {
			continue
		}
		when := cmp.Or(schedule.Words(s.Cron), s.Cron)
		if s.Every > 0 {
			when = "every " + look.Dur(s.Every)
		}
		m.Schedule = append(m.Schedule, Tick{Name: s.Name, When: when, Next: site.Time{Time: s.Next}})
	}
	slices.SortFunc(m.Schedule, func(x, y Tick) int { return x.Next.Compare(y.Next.Time) })
	m.Schedule = m.Schedule[:min(5, len(m.Schedule))]
	return m
}

// queuesOf are the queues that the user sees; nil: all.
func queuesOf(a *site.Ask) func(queue string) bool {
	if a.User.Whole() {
		return nil
	}
	return a.Sees
}

// kinds are the groups as the check of new failures takes them.
func kinds(x *groups.Index) (all []inspect.FailureGroup) {
	for _, g := range x.Groups(groups.Filter{}) {
		all = append(all, inspect.FailureGroup{Class: g.Class, Exception: g.Exception, Count: int64(g.Count), First: g.First, Last: g.Last})
	}
	return all
}
