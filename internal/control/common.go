package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Common is what the Controls of one program have in common. A program that works on several Redises has a Control for each, and a
// command may come over all of them. What concerns the program as a whole is done once, and each Control answers what came of it. It is
// safe for concurrent use.
type Common struct {
	clock    clock.Clock
	level    *slog.LevelVar // of the log; nil: the program has its own logger
	lapse    *Lapse[slog.Level]
	controls int

	mu      sync.Mutex
	calls   map[wholeKey]*wholeCall
	stacked time.Time // when stacks were shown last
}

// NewCommon returns what so many Controls have in common. level is that of the program's log; nil: the program has its own logger.
func NewCommon(c clock.Clock, level *slog.LevelVar, controls int) *Common {
	return &Common{clock: c, level: level, lapse: NewLapse[slog.Level](c), controls: controls, calls: make(map[wholeKey]*wholeCall)}
}

// wholeKey is what makes two commands one. A program that can write to one of the Redises reads the id of a command there. So the id alone
// must not let its forgery take the place of the command on another Redis.
type wholeKey struct {
	id, verb, args string
	fully          bool
}

// wholeCall is a command that is done once for all Controls.
type wholeCall struct {
	over chan struct{} // closed when body and err are there
	body json.RawMessage
	err  error

	left   int // how many Controls have not answered; guarded by Common.mu
	after  func()
	forget clock.Timer
}

// answersWithin is how long what a command does after its answer waits for the answers of the other Controls.
const answersWithin = time.Second

// do does a verb, or waits for what comes of it where another Control does it.
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

// answered is called when a Control has answered. The last one to answer has what is to follow done, or the end of the time.
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
