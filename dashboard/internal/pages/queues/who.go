package queues

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/queues"
)

// workedBy counts the processes that work a queue, and those that take tasks of the library delayed from it or put them into it.
func workedBy(a *site.Ask, queue string) (processes, bridges int) {
	for _, p := range a.Base.Processes {
		if p.Dead {
			continue
		}
		if list, err := queues.Parse([]string{p.Queues}); err == nil && list.Works(queue) {
			processes++
		}
		if slices.ContainsFunc(p.Bridges, func(b inspect.Bridge) bool { return b.To == queue || b.Queue == queue }) {
			bridges++
		}
	}
	return processes, bridges
}

// Last says who worked a queue that nobody works.
type Last struct {
	Worker string    `json:"worker,omitempty"` // a worker that is registered still and sends no sign of life
	Seen   site.Time `json:"seen"`             // its last sign of life; null: it has sent none
	Taken  site.Time `json:"taken"`            // about when a job was taken last; null: nothing has counted that within 14 days
}

// Text is a sentence of it.
func (l *Last) Text(now time.Time) string {
	ago := func(at time.Time) string { return look.Dur(now.Sub(at).Truncate(time.Minute)) + " ago" }
	var parts []string
	if l.Worker != "" {
		text := fmt.Sprintf("worker %s worked it last", l.Worker)
		if !l.Seen.IsZero() {
			text += "; its last sign of life came " + ago(l.Seen.Time)
		}
		parts = append(parts, text)
	}
	if !l.Taken.IsZero() {
		parts = append(parts, "a job was last taken about "+ago(l.Taken.Time))
	}
	if len(parts) == 0 {
		return "nothing in Redis says who worked it last"
	}
	return strings.Join(parts, "; ")
}

// lastFor is how long pages share what is known of workers that have gone.
const lastFor = 30 * time.Second

// lastOf finds out who worked a queue last.
func lastOf(ctx context.Context, a *site.Ask, queue string) *Last {
	l := new(Last)
	workers, err := site.Keep(ctx, a.Fleet, "workers", lastFor, func(ctx context.Context) ([]inspect.WorkerInfo, error) {
		page, err := a.In().WorkersPage(ctx, "", inspect.MaxPage, "")
		return page.Workers, err
	})
	if err == nil && a.User.Whole() { // others do not see workers
		for _, w := range workers {
			if slices.ContainsFunc(w.Queues, func(name string) bool { return name == queue || queues.MatchGlob(name, queue) }) && (l.Worker == "" || w.Heartbeat.After(l.Seen.Time)) {
				l.Worker, l.Seen = w.ID, site.Time{Time: w.Heartbeat}
			}
		}
	}
	taken, err := site.Keep(ctx, a.Fleet, "last taken "+queue, lastFor, func(ctx context.Context) (time.Time, error) {
		h, err := a.In().History(ctx, inspect.HistoryQuery{Queue: queue, Since: a.Now().Add(-14 * 24 * time.Hour), Step: time.Hour})
		for _, row := range slices.Backward(h.Rows) {
			if row.Queues[queue].Taken > 0 || row.Queues[queue].Done > 0 {
				return row.At.Add(h.Step / 2), err
			}
		}
		return time.Time{}, err
	})
	if err == nil {
		l.Taken = site.Time{Time: taken}
		if taken.After(a.Now()) {
			l.Taken = site.Time{Time: a.Now()}
		}
	}
	return l
}
