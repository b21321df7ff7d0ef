package results

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
)

// Capture returns a handler that passes records on, and gives those of a job whose log lines are captured to its
// run: r, or if r is nil that of the record's context. A job's lines of level Info and above are captured even if
// next drops them, the others only if next takes them.
func Capture(next slog.Handler, r *Run) slog.Handler { return &capture{next: next, run: r} }

type capture struct {
	next slog.Handler
	run  *Run
	with []func(slog.Handler) slog.Handler // the attributes and groups that were added
}

// capturedKey is in the context of records that a Capture has passed on: one inside it lets them pass.
type capturedKey struct{}

// of returns the run that takes a record, nil if none does.
func (c *capture) of(ctx context.Context) *Run {
	r := c.run
	if r == nil {
		r = Of(ctx)
	}
	if r == nil || !r.captures || ctx.Value(capturedKey{}) == r {
		return nil
	}
	return r
}

func (c *capture) Enabled(ctx context.Context, level slog.Level) bool {
	return c.next.Enabled(ctx, level) || level >= slog.LevelInfo && c.of(ctx) != nil
}

func (c *capture) Handle(ctx context.Context, record slog.Record) error {
	if r := c.of(ctx); r != nil {
		ctx = context.WithValue(ctx, capturedKey{}, r)
		if r.takes() {
			r.Line(c.line(record))
		}
	}
	if !c.next.Enabled(ctx, record.Level) {
		return nil
	}
	return c.next.Handle(ctx, record)
}

// line encodes a record. A job has so few captured lines that each gets an encoder of its own.
func (c *capture) line(record slog.Record) []byte {
	var text bytes.Buffer
	var h slog.Handler = slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: slog.Level(-1 << 31)})
	for _, with := range c.with {
		h = with(h)
	}
	_ = h.Handle(context.Background(), record) // a buffer takes everything
	return bytes.TrimRight(text.Bytes(), "\n")
}

func (c *capture) WithAttrs(attrs []slog.Attr) slog.Handler {
	return c.and(c.next.WithAttrs(attrs), func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

func (c *capture) WithGroup(name string) slog.Handler {
	return c.and(c.next.WithGroup(name), func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (c *capture) and(next slog.Handler, with func(slog.Handler) slog.Handler) slog.Handler {
	return &capture{next: next, run: c.run, with: append(slices.Clip(c.with), with)}
}
