package logging

import (
	"bytes"
	"context"
	"io"
	"log/slog"

	"github.com/cihub/seelog"
)

// timeForm is RFC 3339 in UTC with milliseconds, which sorts as text.
const timeForm = "2006-01-02T15:04:05.000Z"

// New returns a logger that formats records as lines, "text" or "json",
// and writes those of at least the given level to w through seelog. Flush
// returns when all lines logged before it are written. It may be called at
// any time and more than once.
func New(level slog.Level, format string, w io.Writer) (log *slog.Logger, flush func()) {
	// The lines are complete and filtered when seelog gets them.
	sink, err := seelog.LoggerFromWriterWithMinLevelAndFormat(w, seelog.TraceLvl, "%Msg%n")
	if err != nil {
		// Level and format are constants that seelog accepts.
		panic("goworker: seelog refused its configuration: " + err.Error())
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: attr}
	lines := func(write func(line string)) slog.Handler {
		if format == "json" {
			return slog.NewJSONHandler(lineWriter(write), options)
		}
		return slog.NewTextHandler(lineWriter(write), options)
	}
	return slog.New(seelogHandler{
		debug: lines(func(line string) { sink.Debug(line) }),
		info:  lines(func(line string) { sink.Info(line) }),
		warn:  lines(func(line string) { _ = sink.Warn(line) }),
		error: lines(func(line string) { _ = sink.Error(line) }),
	}), sink.Flush
}

// lineWriter receives the lines of slog's handlers, one for each record.
type lineWriter func(line string)

func (w lineWriter) Write(p []byte) (int, error) {
	w(visible(string(bytes.TrimSuffix(p, []byte("\n")))))
	return len(p), nil
}

// seelogHandler passes each record to the slog handler of its seelog level.
// There is one handler for each level, not one with a variable level: a value
// that logs while it is being formatted would wait for itself.
type seelogHandler struct {
	debug, info, warn, error slog.Handler
}

func (h seelogHandler) at(level slog.Level) slog.Handler {
	switch {
	case level >= slog.LevelError:
		return h.error
	case level >= slog.LevelWarn:
		return h.warn
	case level >= slog.LevelInfo:
		return h.info
	}
	return h.debug
}

func (h seelogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.at(level).Enabled(ctx, level)
}

func (h seelogHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.at(r.Level).Handle(ctx, r)
}

func (h seelogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return seelogHandler{h.debug.WithAttrs(attrs), h.info.WithAttrs(attrs), h.warn.WithAttrs(attrs), h.error.WithAttrs(attrs)}
}

func (h seelogHandler) WithGroup(name string) slog.Handler {
	return seelogHandler{h.debug.WithGroup(name), h.info.WithGroup(name), h.warn.WithGroup(name), h.error.WithGroup(name)}
}
