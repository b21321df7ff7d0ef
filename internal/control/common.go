package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Common is what the Controls of one program share. A program that works on several Redises has a Control for each, and a command may
// arrive over all of them. One Control does a command that concerns the program as a whole, and each Control answers with the result.
// Common is safe for concurrent use.
type Common struct {
	clock    clock.Clock
	level    *slog.LevelVar // of the log; nil: the program has its own logger
	lapse    *Lapse[slog.Level]
	controls int

	mu      sync.Mutex
	calls   map[wholeKey]*wholeCall
	stacked time.Time // when the program last wrote down its stacks
}

// NewCommon returns the Common of this many Controls. level is the level of the program's log; nil: the program has its own logger.
func NewCommon(c clock.Clock, level *slog.LevelVar, controls int) *Common {
	return &Common{clock: c, level: level, lapse: NewLapse[slog.Level](c), controls: controls, calls: make(map[wholeKey]*wholeCall)}
}

// wholeKey identifies a command across Redises. A program that can write to one of the Redises can read the id of a command there. So a
// forgery with the same id must not count as the command on another Redis.
type wholeKey struct {
	id, verb, args string
	fully          bool
}

// wholeCall is a command that one Control does for all.
type wholeCall struct {
	over chan struct{} // closed once body and err are set
	body json.RawMessage
	err  error

	left   int // how many Controls have not answered; guarded by Common.mu
	after  func()
	forget clock.Timer
}

// answersWithin is how long the function that follows an answer, such as a shutdown, waits for the answers of the other Controls.
const answersWithin = time.Second

// do does a verb, or waits for the result if another Control does it.
func (m *Common) do(ctx context.Context, v Verb, c *Call, lives time.Duration) (json.RawMessage, error) {
	if !v.Whole || m.controls < 2 {
		return do(ctx, v, c)
	}
	key := wholeKey{c.ID, c.Verb, string(c.Args), c.full == nil}
	m.mu.Lock()
	w, begun := m.calls[key]
	if !begun {
		w = &wholeCall{over: make(chan struct{}), left: m.controls}
		w.forget = m.clock.AfterFunc(lives, func() { m.drop(key) })
		m.calls[key] = w
	}
	m.mu.Unlock()
	if begun {
		select {
		case <-w.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	} else {
		w.body, w.err = do(ctx, v, c)
		after := c.after
		w.after, c.after = sync.OnceFunc(func() { runAll(after) }), nil
		close(w.over)
	}
	c.After(func() { m.answered(key, w) })
	return w.body, w.err
}

// answered is called when a Control has answered. After the last answer, or at the end of the time, it calls the function that follows.
func (m *Common) answered(key wholeKey, w *wholeCall) {
	m.mu.Lock()
	w.left--
	first, last := w.left == m.controls-1, w.left == 0
	m.mu.Unlock()
	if last {
		w.forget.Stop()
		m.drop(key)
		w.after()
	} else if first {
		m.clock.AfterFunc(answersWithin, w.after)
	}
}

func (m *Common) drop(key wholeKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.calls, key)
}
