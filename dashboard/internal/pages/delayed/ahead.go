package delayed

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// Histogram is how many jobs are due in each of some columns of time.
type Histogram struct {
	From    site.Time  `json:"from"`
	To      site.Time  `json:"to"`
	Step    site.Span  `json:"step_ms"`
	Columns []site.Num `json:"columns"`
	Sum     int64      `json:"-"`
}

// ahead counts what is due between the chosen times, or from now on.
func ahead(ctx context.Context, a *site.Ask, c choice, span string) (*Histogram, error) {
	from, to, columns := c.from, c.to, 0
	for _, s := range spans {
		if s.name != span {
			continue
		}
		columns = s.columns
		step := s.length / time.Duration(s.columns)
		if from.IsZero() {
			from = a.Now().Truncate(step)
			if !to.IsZero() {
				from = to.Add(-s.length)
			}
		}
		if to.IsZero() {
			to = from.Add(s.length)
		}
	}
	seconds := int(to.Sub(from) / time.Second)
	if seconds < 2 { // nothing to draw
		return nil, nil
	}
	columns = min(columns, seconds)
	step := to.Sub(from) / time.Duration(columns)
	counts, err := site.Keep(ctx, a.Fleet, fmt.Sprintf("delayed %d %d %d", from.UnixMilli(), to.UnixMilli(), columns), 2*time.Second, func(ctx context.Context) ([]inspect.Count, error) {
		return a.In().DelayedHistogram(ctx, from, to, columns)
	})
	if err != nil {
		return nil, err
	}
	h := &Histogram{From: site.Time{Time: from}, To: site.Time{Time: to}, Step: site.Span(step)}
	for _, n := range counts {
		h.Columns = append(h.Columns, site.Num{Count: n})
		h.Sum += n.N
	}
	return h, nil
}

// Plot is the histogram as a picture. A click on a column chooses its times.
func (h *Histogram) Plot(v *site.View) look.Columns {
	t, step := v.T, h.Step.D()
	c := look.Columns{
		Label: fmt.Sprintf("%s due from %s to %s, %s a column", look.Plural(h.Sum, "job is", "jobs are"), clock(h.From.Time, t), clock(h.To.Time, t), look.Dur(step)),
		From:  h.From.In(t.Loc), To: h.To.In(t.Loc),
	}
	for n, count := range h.Columns {
		from := h.From.Add(time.Duration(n) * step)
		to := from.Add(step)
		bar := look.Bar{N: float64(count.N), Class: "l", Title: fmt.Sprintf("%s from %s: %s", look.Dur(step), clock(from, t), look.Count(count.Count))}
		if step >= time.Second {
			bar.Href = v.With("from", seconds(from), "to", seconds(to), "after", "")
		}
		c.Bars = append(c.Bars, bar)
	}
	return c
}

func clock(at time.Time, t look.Times) string {
	if at.Sub(t.Now).Abs() > 20*time.Hour {
		return at.In(t.Loc).Format("2 Jan 15:04")
	}
	return at.In(t.Loc).Format("15:04:05")
}

func seconds(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
