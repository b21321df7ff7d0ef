package logging

import (
	"context"
	"log/slog"
	"runtime"

	"github.com/goworker/goworker/internal/clock"
)

// Records makes records of one place in the program, one after the other, with room for attributes that they have in common. The zero
// value is ready.
//
// A Logger of slog looks for the place in each line, which costs as much as a quarter of the line, and has new room for each.
type Records struct {
	attrs []slog.Attr
	place uintptr // where Log is called; 0: it was not
}

// Room returns the room for the attributes of the next record.
func (r *Records) Room() []slog.Attr { return r.attrs[:0] }

// Log logs a record with attributes, which may be in the room. The level is enabled.
func (r *Records) Log(ctx context.Context, log *slog.Logger, level slog.Level, message string, attrs []slog.Attr) {
	if r.place == 0 {
		var here [1]uintptr
		runtime.Callers(2, here[:])
		r.place = here[0]
	}
	line := slog.NewRecord(clock.System.Now(), level, message, r.place)
	line.AddAttrs(attrs...)
	_ = log.Handler().Handle(ctx, line)
	clear(attrs) // the record has copies
	r.attrs = attrs
}
