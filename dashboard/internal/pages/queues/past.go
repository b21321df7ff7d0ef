package queues

import (
	"context"
	"math"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

const (
	hour = time.Hour
	// lately is over what time the share of failed jobs is counted.
	lately = 10 * time.Minute
)

// past is what happened to the queues in the last hour: as goworker's processes counted it, else as this dashboard saw it.
type past struct {
	rows  []inspect.HistoryRow
	trail []site.Point
	since time.Time
}

// hourOf reads the last hour. A Redis user who may not read the history sees what the dashboard saw.
func hourOf(ctx context.Context, a *site.Ask) past {
	p := past{trail: a.Fleet.Trail()}
	h, err := site.Keep(ctx, a.Fleet, "queues of the last hour", 15*time.Second, func(ctx context.Context) (inspect.History, error) {
		return a.In().History(ctx, inspect.HistoryQuery{Since: a.Now().Add(-hour), Step: time.Minute})
	})
	if err == nil {
		p.rows = h.Rows
	}
	if len(p.trail) > 0 {
		p.since = p.trail[0].At
	}
	if len(p.rows) > 0 {
		p.since = p.rows[0].At
	}
	return p
}

// row is a queue as the list shows it.
func (p past) row(a *site.Ask, q inspect.SampleQueue) Row {
	r := RowOf(a, q, p.trail)
	if depth, known := p.depths(a.Now(), q.Name); known {
		depth[len(depth)-1] = float64(q.Waiting.N)
		r.Trend = depth
	}
	r.Failing = p.failing(a.Now(), q.Name)
	return r
}

// columns are the minutes of the last hour, the newest last.
const columns = int(hour/time.Minute) + 1

func column(now, at time.Time) int {
	n := int(at.Sub(now.Truncate(time.Minute).Add(-hour)) / time.Minute)
	if n < 0 || n >= columns {
		return -1
	}
	return n
}

// depths are how many jobs waited in a queue, a minute each; known says whether a process has looked.
func (p past) depths(now time.Time, queue string) (depth site.Values, known bool) {
	depth = unknownValues()
	for _, row := range p.rows {
		q, there := row.Queues[queue]
		if n := column(now, row.At); there && n >= 0 && q.Depth.Looks > 0 {
			depth[n], known = float64(q.Depth.Most), true
		}
	}
	return depth, known
}

func unknownValues() site.Values {
	v := make(site.Values, columns)
	for n := range v {
		v[n] = math.NaN()
	}
	return v
}

// failing is the share of the jobs of a queue that failed lately, in per cent; nil: nothing has counted them.
func (p past) failing(now time.Time, queue string) *float64 {
	var done, failed int64
	for _, row := range p.rows {
		if now.Sub(row.At) < lately+time.Minute {
			done, failed = done+row.Queues[queue].Done, failed+row.Queues[queue].Failed
		}
	}
	if done+failed == 0 {
		return nil
	}
	share := 100 * float64(failed) / float64(done+failed)
	return &share
}

// Past is what happened to one queue.
type Past struct {
	Since  site.Time   `json:"since"`
	Step   site.Span   `json:"step_ms"`
	Depth  site.Values `json:"waiting"`
	Pushed site.Values `json:"pushed_rate"` // a second
	Taken  site.Values `json:"taken_rate"`
	Seen   bool        `json:"seen_only"` // nobody records it: these are what this dashboard saw
}

// of is the past of one queue.
func (p past) of(a *site.Ask, queue string, waiting inspect.Count) *Past {
	out := &Past{Step: site.Span(time.Minute), Since: site.Time{Time: a.Now().Truncate(time.Minute).Add(-hour)}}
	known := false
	if out.Depth, known = p.depths(a.Now(), queue); known && waiting.Known() {
		out.Depth[columns-1] = float64(waiting.N)
	}
	out.Pushed, out.Taken = unknownValues(), unknownValues()
	for _, row := range p.rows {
		n := column(a.Now(), row.At)
		q, there := row.Queues[queue]
		if n < 0 || !there {
			continue
		}
		over := time.Minute
		if row.Open {
			over = max(10*time.Second, min(over, a.Now().Sub(row.At)))
		}
		out.Pushed[n], out.Taken[n] = float64(q.Pushed)/over.Seconds(), float64(q.Taken)/over.Seconds()
		known = true
	}
	if known {
		return out
	}
	out.Seen, out.Depth, out.Pushed, out.Taken = true, nil, nil, nil
	for n, at := range p.trail {
		if n == 0 {
			out.Since = site.Time{Time: at.At}
		}
		out.Depth = append(out.Depth, float64(at.Queues[queue]))
	}
	return out
}

// Waiting is the plot of the jobs that waited.
func (p *Past) Waiting(t look.Times) look.Series {
	return look.Series{Start: p.Since.In(t.Loc), Step: p.Step.D(), Values: p.Depth, Name: "waiting", Label: "Jobs that waited", Height: 160}
}

// Rates is the plot of the jobs that came and went.
func (p *Past) Rates(t look.Times) look.Series {
	return look.Series{
		Start: p.Since.In(t.Loc), Step: p.Step.D(), Values: p.Pushed, Second: p.Taken, Name: "pushed", SecondName: "taken", Unit: "/s", SecondUnit: "/s",
		Label: "Jobs pushed and taken a second", Height: 160,
	}
}
