package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/gateway"
)

const (
	// eventsEvery is how often the counts are looked at while a client listens.
	eventsEvery = time.Second

	// quietFor is how long a stream is silent at most.
	quietFor = 15 * time.Second

	// maxWatched is how many queues one stream has at most.
	maxWatched = 500
)

// events looks at the counts of queues while clients listen: once a second for all listeners of a pool together. Without
// listeners nothing runs.
type events struct {
	clock clock.Clock
	every time.Duration

	mu    sync.Mutex
	looks map[*pool]*look
}

func newEvents() *events {
	return &events{clock: clock.System, every: eventsEvery, looks: make(map[*pool]*look)}
}

// look is what runs for the listeners of one pool. The lock of events guards its fields.
type look struct {
	listeners map[*listener]bool
	end       context.CancelFunc
}

// listener is a client that listens.
type listener struct {
	x      access
	only   []string            // the queues that it asked for, by their names in Resque; in order; nil: all that its token may see
	counts chan map[string]any // the latest, by the queue's name; under "" a problem in their place
}

// enter adds a listener. The first one starts the look.
func (e *events) enter(l *listener) (leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.looks[l.x.Pool]
	if k == nil {
		ctx, cancel := context.WithCancel(context.Background())
		k = &look{listeners: make(map[*listener]bool), end: cancel}
		e.looks[l.x.Pool] = k
		go e.run(ctx, k, l.x.Pool)
	}
	k.listeners[l] = true
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(k.listeners, l)
		if len(k.listeners) == 0 {
			k.end()
			if e.looks[l.x.Pool] == k {
				delete(e.looks, l.x.Pool)
			}
		}
	}
}

// run looks once a second until the last listener has gone.
func (e *events) run(ctx context.Context, k *look, p *pool) {
	timer := e.clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		e.once(ctx, k, p)
		timer.Reset(e.every)
	}
}

// once looks at the counts and gives each listener those of its queues.
func (e *events) once(ctx context.Context, k *look, p *pool) {
	e.mu.Lock()
	all := make([]*listener, 0, len(k.listeners))
	for l := range k.listeners {
		all = append(all, l)
	}
	e.mu.Unlock()
	known, names, sizes, err := read(ctx, p, all)
	now := p.jobs.Now()
	for _, l := range all {
		if err != nil {
			l.give(map[string]any{"": problemOf(err)})
			continue
		}
		counts := make(map[string]any)
		for i, q := range names {
			among := l.only
			if among == nil {
				among = known
			}
			if name, ok := l.x.short(q); ok && contains(among, q) && len(counts) < maxWatched {
				counts[name] = countsOf(sizes[i], now, p.lookout.takenBy(q))
			}
		}
		l.give(counts)
	}
}

// read asks for the counts of all queues that a client listens to. known are all queues, in order, if a client listens to all that
// it may see.
func read(ctx context.Context, p *pool, all []*listener) (known, names []string, sizes []gateway.Sizes, err error) {
	if slices.ContainsFunc(all, func(l *listener) bool { return l.only == nil }) {
		if known, err = p.jobs.Queues(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	wanted := make(map[string]bool)
	for _, l := range all {
		for _, q := range l.only {
			wanted[q] = true
		}
		if l.only != nil {
			continue
		}
		seen := 0
		for _, q := range known {
			if _, ok := l.x.short(q); ok && seen < maxWatched {
				wanted[q] = true
				seen++
			}
		}
	}
	for q := range wanted {
		names = append(names, q)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil, nil, nil, nil
	}
	sizes, err = p.sizes(ctx, names...)
	return known, names, sizes, err
}

// give gives a listener the latest counts, in the place of those that it has not taken.
func (l *listener) give(counts map[string]any) {
	select {
	case <-l.counts:
	default:
	}
	select {
	case l.counts <- counts:
	default:
	}
}

// listen streams the counts of the queues that the token may see.
func (c *v2Call) listen() (response, error) {
	q, err := c.parameters("queues")
	if err != nil {
		return response{}, err
	}
	l := &listener{x: c.x, counts: make(chan map[string]any, 1)}
	if q.Has("queues") {
		names := strings.Split(q.Get("queues"), ",")
		if len(names) > maxWatched {
			return response{}, invalid("queues", fmt.Sprintf("queues names %d queues, and %d are allowed in a stream", len(names), maxWatched))
		}
		for _, name := range names {
			if err := checkQueue(name); err != nil {
				return response{}, err
			}
		}
		if err := c.admit(scopePeek, names); err != nil {
			return response{}, err
		}
		l.x = c.x
		for _, name := range names {
			l.only = append(l.only, c.x.queue(name))
		}
		slices.Sort(l.only)
	}
	header := http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-store"}, "X-Accel-Buffering": {"no"}}
	if c.r.Method == http.MethodHead { // no event follows, and the connection is free for the next request
		return response{status: http.StatusOK, header: header}, nil
	}
	ctx, done, refused := c.x.listen(c.r.Context())
	if refused != nil {
		return response{}, refused.problem()
	}
	defer done()
	defer c.events.enter(l)()
	maps.Copy(c.w.Header(), header)
	return response{}, c.stream(ctx, l)
}

// stream writes events until the client, the token or the server goes: first all counts, then those that changed.
func (c *v2Call) stream(ctx context.Context, l *listener) error {
	if deliver(c.w, http.StatusOK, []byte("retry: 1000\n\n")) != nil {
		return nil
	}
	clk := c.events.clock
	quiet := clk.NewTimer(quietFor)
	defer quiet.Stop()
	last, trouble := make(map[string]any), ""
	for {
		var text []byte
		select {
		case <-ctx.Done():
			return nil
		case <-c.api.drained.Done():
			return nil
		case <-quiet.C():
			text = []byte(":\n\n")
		case counts := <-l.counts:
			p, _ := counts[""].(*problem)
			switch {
			case p == nil:
				text, trouble = c.event(counts, last), ""
			case p.of.name != trouble:
				text, trouble = eventText("problem", p.body(requestID(c.r.Context()))), p.of.name
			}
			if text == nil {
				continue
			}
		}
		if more(c.w, text) != nil {
			return nil
		}
		quiet.Reset(quietFor)
	}
}

// event is the text of an event with what changed since the last one; nil: nothing did. A queue that is gone is null.
func (c *v2Call) event(counts, last map[string]any) []byte {
	changed := make(map[string]any)
	for name, now := range counts {
		if was, known := last[name]; !known || !alike(was, now) {
			changed[name] = now
		}
	}
	for name := range last {
		if _, there := counts[name]; !there {
			changed[name] = nil
			delete(last, name)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	for name, now := range changed {
		if now != nil {
			last[name] = now
		}
	}
	text, err := encode(map[string]any{"queues": changed})
	if err != nil {
		return nil
	}
	return eventText("counts", text)
}

// alike reports whether counts are the same but for what passes by itself: time.
func alike(a, b any) bool {
	x, y := a.(queueCounts), b.(queueCounts)
	x.OldestReadyMs, y.OldestReadyMs, x.NextDueMs, y.NextDueMs, x.AsOf, y.AsOf = nil, nil, nil, nil, "", ""
	return reflect.DeepEqual(x, y)
}

func eventText(name string, data []byte) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
}

// more writes a piece of a stream.
func more(w http.ResponseWriter, text []byte) error {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return control.Flush()
}

// contains reports whether a sorted list has a name.
func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}
