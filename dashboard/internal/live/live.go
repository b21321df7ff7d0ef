// Package live keeps open pages up to date: it renders each page that is looked at once a tick, and sends each reader the
// regions that changed.
package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Region is a part of a page that is replaced as a whole. HTML is one element with the id.
type Region struct {
	ID   string
	HTML []byte
}

// Render returns the regions of a page as they are now.
type Render func(ctx context.Context) ([]Region, error)

// Settings of a Hub. All but Look are optional.
type Settings struct {
	// Look reads what all pages share. It is called once a tick, before pages are rendered. An error says that Redis does not answer:
	// no page is rendered then, and the readers get the error's text.
	Look func(ctx context.Context) error

	// Spent says how many commands the pages of this tick have sent. At Budget no further page is rendered until the next tick.
	Count  func(ctx context.Context) (counting context.Context, spent func() int)
	Budget int // 140 by default

	Every    time.Duration // a tick: 2 s by default
	Streams  int           // at most: 256 by default
	Own      int           // streams of one user: 16 by default
	Lifetime time.Duration // of a stream: 10 minutes by default. The reader connects again, and is let in again or not
	Patience time.Duration // how long a write to a reader may take: 5 s by default
	Silence  time.Duration // after which a comment is sent: 15 s by default

	Log *slog.Logger
}

// slow is how long Look may take before ticks become rarer, and rare is how far apart they are at most.
const (
	slow = 200 * time.Millisecond
	rare = 10 * time.Second
)

// ErrFull is returned by Stream if there are as many streams as there may be.
var ErrFull = errors.New("too many pages are open; this one asks again from time to time")

// ErrClosed is returned by Stream after Close.
var ErrClosed = errors.New("the server stops")

// Hub serves the streams of one fleet. It is safe for concurrent use. Without streams it does nothing.
type Hub struct {
	s    Settings
	seed maphash.Seed

	mu      sync.Mutex
	topics  map[string]*topic
	users   map[string]int
	streams int
	closed  bool
	bye     chan struct{}
	stop    context.CancelFunc // of the loop; nil: it does not run
	loop    sync.WaitGroup
}

// topic is a page as some readers see it.
type topic struct {
	key     string
	render  Render
	readers map[*reader]struct{} // of Hub.mu

	mu      sync.Mutex
	regions []hashed
	away    string    // why there is nothing new
	at      time.Time // when it was rendered last
	moved   int       // counts its changes
}

type hashed struct {
	Region
	sum uint64
}

// reader is one stream.
type reader struct{ wake chan struct{} }

// New returns a Hub.
func New(s Settings) *Hub {
	s.Every = or(s.Every, 2*time.Second)
	s.Lifetime = or(s.Lifetime, 10*time.Minute)
	s.Patience = or(s.Patience, 5*time.Second)
	s.Silence = or(s.Silence, 15*time.Second)
	s.Streams, s.Own, s.Budget = or(s.Streams, 256), or(s.Own, 16), or(s.Budget, 140)
	if s.Count == nil {
		s.Count = func(ctx context.Context) (context.Context, func() int) { return ctx, func() int { return 0 } }
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	return &Hub{s: s, seed: maphash.MakeSeed(), topics: make(map[string]*topic), users: make(map[string]int), bye: make(chan struct{})}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Streams returns how many streams are open.
func (h *Hub) Streams() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams
}

// Close ends all streams and returns once they have ended, or with the context.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.bye)
	}
	h.mu.Unlock()
	over := make(chan struct{})
	go func() {
		h.loop.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter adds a reader of a page. Readers with the same key share what render returns.
func (h *Hub) enter(user, key string, render Render) (*topic, *reader, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, nil, ErrClosed
	case h.streams >= h.s.Streams || h.users[user] >= h.s.Own:
		return nil, nil, ErrFull
	}
	t := h.topics[key]
	if t == nil {
		t = &topic{key: key, render: render, readers: make(map[*reader]struct{})}
		h.topics[key] = t
	}
	r := &reader{wake: make(chan struct{}, 1)}
	t.readers[r] = struct{}{}
	h.streams++
	h.users[user]++
	h.loop.Add(1) // this stream
	if h.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		h.loop.Go(func() { h.run(ctx) })
	}
	return t, r, nil
}

func (h *Hub) leave(user string, t *topic, r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(t.readers, r)
	if len(t.readers) == 0 {
		delete(h.topics, t.key)
	}
	h.streams--
	if h.users[user]--; h.users[user] == 0 {
		delete(h.users, user)
	}
	if h.streams == 0 {
		h.stop()
		h.stop = nil
	}
	h.loop.Done()
}

// run renders what is looked at, tick after tick, until the last stream ends.
func (h *Hub) run(ctx context.Context) {
	every := h.s.Every
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		err := h.s.Look(ctx)
		if ctx.Err() != nil {
			return
		}
		if took := time.Since(began); err == nil && took > slow {
			every = min(2*every, max(rare, h.s.Every))
		} else {
			every = max(every/2, h.s.Every)
		}
		if err != nil {
			h.away(err)
		} else {
			h.renderAll(ctx)
		}
		timer.Reset(max(every-time.Since(began), every/4))
	}
}

// away passes on that Redis does not answer.
func (h *Hub) away(err error) {
	for _, t := range h.oldestFirst() {
		t.set(err.Error(), nil)
		h.wake(t)
	}
}

func (h *Hub) oldestFirst() (all []*topic) {
	h.mu.Lock()
	for _, t := range h.topics {
		all = append(all, t)
	}
	h.mu.Unlock()
	slices.SortFunc(all, func(a, b *topic) int { return a.rendered().Compare(b.rendered()) })
	return all
}

// renderAll renders pages, those first that were rendered longest ago, until the budget is spent.
func (h *Hub) renderAll(ctx context.Context) {
	ctx, spent := h.s.Count(ctx)
	for _, t := range h.oldestFirst() {
		if ctx.Err() != nil {
			return
		}
		if spent() >= h.s.Budget {
			return
		}
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		regions, err := t.render(within)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.set(err.Error(), nil)
		} else {
			all := make([]hashed, len(regions))
			for n, r := range regions {
				all[n] = hashed{r, maphash.Bytes(h.seed, r.HTML)}
			}
			t.set("", all)
		}
		h.wake(t)
	}
}

func (h *Hub) wake(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range t.readers {
		select {
		case r.wake <- struct{}{}:
		default: // it has not yet taken the one before, and will see this one
		}
	}
}

func (t *topic) rendered() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

func (t *topic) set(away string, regions []hashed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at, t.away = time.Now(), away
	if away == "" {
		t.regions = regions
	}
	t.moved++
}

func (t *topic) now() (regions []hashed, away string, moved int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.regions, t.away, t.moved
}

// Stream serves server-sent events of a page to one reader until the reader leaves, the stream is old or the Hub closes. An error
// is returned before anything was written.
func (h *Hub) Stream(w http.ResponseWriter, req *http.Request, user, key string, render Render) error {
	t, r, err := h.enter(user, key, render)
	if err != nil {
		return err
	}
	defer h.leave(user, t, r)
	out := &stream{w: w, control: http.NewResponseController(w), patience: h.s.Patience}
	head := w.Header()
	head.Set("Content-Type", "text/event-stream; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Accel-Buffering", "no")
	if !out.event("hello", "") { // a reader that gets no event for a while asks for the page instead
		return nil
	}
	over := time.NewTimer(h.s.Lifetime)
	defer over.Stop()
	silence := time.NewTicker(h.s.Silence)
	defer silence.Stop()
	sent, seen, wasAway := make(map[string]uint64), 0, false
	for {
		select {
		case <-req.Context().Done():
			return nil
		case <-h.bye:
			out.event("bye", "")
			return nil
		case <-over.C:
			out.event("bye", "")
			return nil
		case <-silence.C:
			if !out.send([]byte(": still here\n\n")) {
				return nil
			}
			continue
		case <-r.wake:
		}
		regions, away, moved := t.now()
		if moved == seen {
			continue
		}
		seen = moved
		var frame bytes.Buffer
		switch {
		case away != "":
			event(&frame, "away", []byte(away))
			wasAway = true
		default:
			if wasAway {
				event(&frame, "back", nil)
				wasAway = false
			}
			for _, region := range regions {
				if sum, known := sent[region.ID]; !known || sum != region.sum {
					event(&frame, "region", append([]byte(region.ID+" "), region.HTML...))
					sent[region.ID] = region.sum
				}
			}
			if frame.Len() == 0 {
				continue
			}
		}
		if !out.send(frame.Bytes()) {
			return nil
		}
	}
}

// stream writes to one reader.
type stream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

func (s *stream) event(kind, text string) bool {
	var b bytes.Buffer
	event(&b, kind, []byte(text))
	return s.send(b.Bytes())
}

// send reports whether the reader is there still.
func (s *stream) send(frame []byte) bool {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return false
	}
	if _, err := s.w.Write(frame); err != nil {
		return false
	}
	return s.control.Flush() == nil
}

// event writes an event; each line of its text is a line of data.
func event(b *bytes.Buffer, kind string, text []byte) {
	fmt.Fprintf(b, "event: %s\n", kind)
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}
