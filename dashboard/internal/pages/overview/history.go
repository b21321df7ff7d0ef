package overview

import (
	"context"
	"strconv"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// History is the page /history: what goworker's processes have counted, step by step.
type History struct {
	Step  site.Span    `json:"step_ms"`
	Rows  []HistoryRow `json:"rows"`
	Class string       `json:"class,omitempty"`
	Queue string       `json:"queue,omitempty"`
}

// HistoryRow is one step.
type HistoryRow struct {
	At      site.Time `json:"at"`
	Open    bool      `json:"open"` // it may grow still
	Done    int64     `json:"done"`
	Failed  int64     `json:"failed"`
	Retried int64     `json:"retried"`
	Other   int64     `json:"other"`  // discarded, expired, cancelled
	P50     site.Span `json:"p50_ms"` // of the run times
	P95     site.Span `json:"p95_ms"`
	Waiting int64     `json:"waiting_most"`
}

// loadHistory reads the history from ?from= on, a time as RFC 3339 or seconds since 1970, in steps of ?step=.
func loadHistory(ctx context.Context, a *site.Ask) (any, error) {
	q := inspect.HistoryQuery{Class: a.Param("class"), Queue: a.Param("queue"), Since: a.Now().Add(-2 * time.Hour)}
	if text := a.Param("from"); text != "" {
		if s, err := strconv.ParseInt(text, 10, 64); err == nil {
			q.Since = time.Unix(s, 0)
		} else if q.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, site.Bad("from is %q; give a time such as 2026-11-22T08:00:00Z, or seconds since 1970", text)
		}
	}
	if text := a.Param("step"); text != "" {
		step, err := time.ParseDuration(text)
		if err != nil {
			return nil, site.Bad("step is %q; give 1m, 10m, 1h or 24h", text)
		}
		q.Step = step
	}
	got, err := a.In().History(ctx, q)
	if err != nil {
		return nil, err
	}
	h := &History{Step: site.Span(got.Step), Class: q.Class, Queue: q.Queue}
	for _, row := range got.Rows {
		jobs := row.Jobs()
		h.Rows = append(h.Rows, HistoryRow{
			At: site.Time{Time: row.At}, Open: row.Open, Done: jobs.Done, Failed: jobs.Failed, Retried: jobs.Retried,
			Other: jobs.Discarded + jobs.Expired + jobs.Cancelled, P50: site.Span(jobs.Runs.Quantile(0.5)), P95: site.Span(jobs.Runs.Quantile(0.95)), Waiting: row.Fleet.Waiting.Most,
		})
	}
	return h, nil
}
