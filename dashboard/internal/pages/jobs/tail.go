package jobs

import (
	"cmp"
	"context"

	"github.com/goworker/goworker/dashboard/internal/pages/tail"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/events"
)

// tailRows is how many ends the page of done jobs shows.
const tailRows = 20

// Tail is the jobs that were done while a reader looks, the newest first. Plain jobs are among them, of which Redis keeps nothing.
type Tail struct {
	Ends []End  `json:"ends"`
	Why  string `json:"why_not,omitempty"` // why there are none to show
}

// End is a job that was done, or several of a class at once.
type End struct {
	At    site.Time `json:"at"`
	ID    string    `json:"id,omitempty"`
	Class string    `json:"class"`
	Queue string    `json:"queue"`
	Took  site.Span `json:"took_ms"` // of several what 95 of 100 did not exceed
	Count int64     `json:"count"`
}

// tailOf reads the newest ends. A Redis that refuses them leaves the list above as it is.
func tailOf(ctx context.Context, a *site.Ask) *Tail {
	t := &Tail{Ends: []End{}}
	seen, err := tail.Recent(ctx, a, events.Filter{Kinds: []string{events.Done}})
	if err != nil {
		t.Why = cmp.Or(site.Refusal(err), a.Masks.Text(err.Error()))
		return t
	}
	t.Why = seen.Away
	for _, e := range seen.Events {
		if e.Kind != events.Done || len(t.Ends) == tailRows {
			continue
		}
		took := e.Took
		if e.Count > 1 {
			took = e.P95
		}
		t.Ends = append(t.Ends, End{At: site.Time{Time: e.At}, ID: e.ID, Class: e.Class, Queue: e.Queue, Took: site.Span(took), Count: e.Count})
	}
	return t
}
