package logging

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cihub/seelog"
)

// timeForm is RFC 3339 in UTC with milliseconds, which sorts as text.
const timeForm = "2006-01-02T15:04:05.000Z"

// New returns a logger that formats records as lines, "text" or "json",
// and writes those of at least the given level to w through seelog. Flush
// returns when all lines logged before it are written. It may be called at
// any time and more than once.
//
// The seelog logger is built for the first line: a program that only enqueues, or that
// has a logger of its own, never pays for one.
func New(level slog.Leveler, format string, w io.Writer) (log *slog.Logger, flush func()) {
	return newLogger(level, format, &sink{w: w})
}

func newLogger(level slog.Leveler, format string, s *sink) (log *slog.Logger, flush func()) {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: attr}
	lines := func(write func(line string)) slog.Handler {
		if format == "json" {
			return slog.NewJSONHandler(lineWriter(write), options)
		}
		return slog.NewTextHandler(lineWriter(write), options)
	}
	return slog.New(seelogHandler{
		debug: lines(func(line string) { s.logger().Debug(line) }),
		info:  lines(func(line string) { s.logger().Info(line) }),
		warn:  lines(func(line string) { s.logger().Info(line) }), // seelog's Warn and Error format a line twice, for an error that they return
		error: lines(func(line string) { s.logger().Info(line) }),
	}), s.flush
}

// sink is a seelog logger that is built when it is first used.
type sink struct {
	w     io.Writer
	once  sync.Once
	built atomic.Pointer[seelog.LoggerInterface]
}

func (s *sink) logger() seelog.LoggerInterface {
	s.once.Do(func() {
		// The lines are complete and filtered when seelog gets them.
		l, err := seelog.LoggerFromWriterWithMinLevelAndFormat(s.w, seelog.TraceLvl, "%Msg%n")
		if err != nil {
			// Level and format are constants that seelog accepts.
			panic("goworker: seelog refused its configuration: " + err.Error())
		}
		s.built.Store(&l)
	})
	return *s.built.Load()
}

// flush writes what is buffered, if there is a logger.
func (s *sink) flush() {
	if l := s.built.Load(); l != nil {
		(*l).Flush()
	}
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
