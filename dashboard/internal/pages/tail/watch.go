package tail

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/events"
)

const (
	// Rows is how many events a watcher keeps.
	Rows = 200
	// mostWatchers is how many filters are watched at a time in a fleet. Each costs a connection to each Redis.
	mostWatchers = 16
	// rest is how long a watcher goes on after the last look at it.
	rest = 30 * time.Second
	// inUse is how long ago a look at a watcher may be that takes its place from no other filter. A page looks each two seconds, and each ten
	// where it has no stream.
	inUse = 12 * time.Second
	// settling is how long the first look waits for what Redis still has: until nothing came for pausing, or the first event of now.
	settling, pausing = 1500 * time.Millisecond, 150 * time.Millisecond
	// back is how far a new watcher looks back.
	back = 10 * time.Minute
	// beginning is how long what is missing is what nobody watched, which the page says anyway.
	beginning = 2 * time.Second
	// alone is how many events of one kind, queue and class have a row each within a second. Further ones share one.
	alone = 10
)

// Seen is what a watcher has seen.
type Seen struct {
	Events []events.Event // the newest first, 200 at most. Their texts are masked
	Since  time.Time      // when it began to watch, by the clock of this machine
	Count  int64          // events since then
	Away   string         // why Redis cannot be read now; "": it can
}

// Recent returns the newest events that pass a filter and that the user may see. They are of the last ten minutes, as far as Redis has
// them, and of the time since a reader looks: it begins to watch at the first call, and ends half a minute after the last one. Readers with
// the same filter and the same queues share a watcher. f.Since and f.After are not for the caller.
func Recent(ctx context.Context, a *site.Ask, f events.Filter) (Seen, error) {
	f.Since, f.After = back, ""
	all := site.Held(a.Fleet, func() *watchers { return &watchers{all: make(map[string]*watcher)} })
	w, err := all.of(a, f)
	if err != nil {
		return Seen{}, err
	}
	select {
	case <-w.settled:
	case <-ctx.Done():
		return Seen{}, context.Cause(ctx)
	}
	return w.seen()
}

// watchers are those of a fleet.
type watchers struct {
	mu  sync.Mutex
	all map[string]*watcher
}

// of returns the watcher of a filter, and starts it if there is none.
func (all *watchers) of(a *site.Ask, f events.Filter) (*watcher, error) {
	sees := slices.Clone(a.User.Queues)
	slices.Sort(sees)
	key := fmt.Sprintf("%q %q %q %q %v %v %q", f.Kinds, f.Queues, f.Classes, f.IDs, f.All, a.User.Queues != nil, sees)
	all.mu.Lock()
	defer all.mu.Unlock()
	now := time.Now()
	if w := all.all[key]; w != nil {
		w.used = now
		return w, nil
	}
	if len(all.all) >= mostWatchers && !all.drop(now) {
		return nil, &site.Problem{
			Status: http.StatusServiceUnavailable, Title: "Too many filters",
			Err: fmt.Errorf("%d different filters of events are looked at already; take one of them, or wait until one is closed", mostWatchers),
		}
	}
	w := &watcher{whole: a.User.Whole(), sees: a.User.Sees, text: a.Masks.Text, ids: len(f.IDs) > 0, settled: make(chan struct{}), began: now, used: now}
	w.quit, w.cancel = context.WithCancel(context.Background())
	fleet, at := a.Fleet, a.Now()
	running := fleet.Go(func(ctx context.Context) {
		defer all.forget(key, w)
		w.run(ctx, fleet, f, at)
	})
	if !running {
		return nil, &site.Problem{Status: http.StatusServiceUnavailable, Title: "The dashboard stops", Err: errors.New("the dashboard stops")}
	}
	w.idle = time.AfterFunc(rest, func() { all.rests(w) })
	all.all[key] = w
	return w, nil
}

// drop ends the watcher that was looked at longest ago, if that is long enough.
func (all *watchers) drop(now time.Time) bool {
	oldest := ""
	for key, w := range all.all {
		if now.Sub(w.used) > inUse && (oldest == "" || w.used.Before(all.all[oldest].used)) {
			oldest = key
		}
	}
	if oldest == "" {
		return false
	}
	all.all[oldest].cancel()
	delete(all.all, oldest)
	return true
}

// rests ends a watcher that nobody looks at.
func (all *watchers) rests(w *watcher) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if left := rest - time.Since(w.used); left > 0 {
		w.idle.Reset(left)
		return
	}
	w.cancel()
}

// forget drops a watcher that has ended.
func (all *watchers) forget(key string, w *watcher) {
	all.mu.Lock()
	defer all.mu.Unlock()
	w.cancel()
	w.idle.Stop()
	if all.all[key] == w {
		delete(all.all, key)
	}
}

// watcher keeps the newest events of a filter.
type watcher struct {
	quit    context.Context
	cancel  context.CancelFunc
	idle    *time.Timer // of watchers.mu, as used
	used    time.Time
	began   time.Time
	settled chan struct{} // closed once the first look may be answered

	whole bool // the reader sees all queues
	sees  func(queue string) bool
	text  func(string) string // masks
	ids   bool                // the filter names ids

	mu     sync.Mutex
	rows   []*events.Event // the oldest first
	count  int64
	away   string
	fault  error           // of the filter
	second int64           // of the newest event
	bursts map[burst]*many // in that second
}

// burst is what events have in common that share a row.
type burst struct{ kind, queue, class string }

// many is how many events of a burst there are, and the row of those that are too many.
type many struct {
	n   int
	row *events.Event
}

// run watches until nobody looks, or the dashboard stops. now is Redis's time.
func (w *watcher) run(ctx context.Context, of events.Inspects, f events.Filter, now time.Time) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.quit, cancel)()
	var once sync.Once
	settle := func() { once.Do(func() { close(w.settled) }) }
	defer settle()
	pause := time.AfterFunc(2*pausing, settle)
	defer pause.Stop()
	for e, err := range events.Watch(ctx, of, f) {
		w.add(e, err)
		switch {
		case err != nil, !e.At.Before(now), time.Since(w.began) > settling:
			settle()
		default:
			pause.Reset(pausing)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil && w.away != "" { // a mistake in the filter, or the client is closed
		w.fault = errors.New(w.away)
	}
}

// add keeps an event.
func (w *watcher) add(e events.Event, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.away = strings.TrimPrefix(err.Error(), "goworker: ")
		return
	}
	w.away = ""
	switch {
	case e.Kind == events.Missed && time.Since(w.began) < beginning:
		return
	case w.whole:
	case e.Kind == events.Missed:
		e = events.Event{Kind: e.Kind, At: e.At, Count: e.Count}
	case e.Queue == "" || !w.sees(e.Queue):
		return
	default:
		e.Process, e.Shard = "", ""
	}
	if w.count += max(1, e.Count); e.At.IsZero() {
		e.At = time.Now()
	}
	e.Text, e.Cursor = w.text(e.Text), ""
	for key, value := range e.More {
		e.More[key] = w.text(value)
	}
	if w.joins(&e) {
		return
	}
	if w.rows = append(w.rows, &e); len(w.rows) >= 2*Rows {
		w.rows = slices.Clone(w.rows[Rows:])
	}
}

// joins adds an event to the row of those like it, if there are too many of them within a second. Else the event has a row of its own.
func (w *watcher) joins(e *events.Event) bool {
	if w.ids || e.Queue == "" {
		return false
	}
	if at := e.At.Unix(); at > w.second || w.bursts == nil {
		w.second, w.bursts = at, make(map[burst]*many)
	}
	key := burst{e.Kind, e.Queue, e.Class}
	b := w.bursts[key]
	if b == nil {
		b = new(many)
		w.bursts[key] = b
	}
	if b.n++; b.n <= alone && e.Count <= 1 {
		return false
	}
	if b.row == nil {
		b.row = e
		e.ID, e.Attempt, e.Took, e.Text = "", 0, 0, ""
		return false
	}
	b.row.Count += e.Count
	b.row.P95 = max(b.row.P95, e.P95)
	b.row.Process = ""
	return true
}

// seen returns what the watcher has.
func (w *watcher) seen() (Seen, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		return Seen{}, site.Bad("%w", w.fault)
	}
	s := Seen{Since: w.began, Count: w.count, Away: w.away}
	for _, e := range slices.Backward(w.rows) {
		if len(s.Events) == Rows {
			break
		}
		s.Events = append(s.Events, *e)
	}
	// Watch reads the log and the events of jobs one after the other.
	slices.SortStableFunc(s.Events, func(x, y events.Event) int { return y.At.Compare(x.At) })
	return s, nil
}
