package logging

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/cihub/seelog"
)

// timeForm is RFC 3339 in UTC with milliseconds, which sorts as text.
const timeForm = "2006-01-02T15:04:05.000Z"

// New returns a logger that formats records as lines, "text" or "json",
// and writes those of at least the given level to w through seelog. Flush
// returns when all lines logged before it are written. It may be called at
// any time and more than once.
//
// The writer of seelog is made for the first line: a program that only enqueues, or that
// has a logger of its own, never pays for one.
func New(level slog.Leveler, format string, w io.Writer) (log *slog.Logger, flush func()) {
	return newLogger(level, format, &sink{w: w})
}

func newLogger(level slog.Leveler, format string, s *sink) (log *slog.Logger, flush func()) {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(s, &slog.HandlerOptions{Level: level, ReplaceAttr: jsonAttr})), s.flush
	}
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: level, ReplaceAttr: textAttr})), s.flush
}

// lines is what writes to a sink: seelog's formatted writer, whose type has no name here. A logger of seelog would also find out
// where each line comes from, which the form of lines does not say, and would copy the line twice more.
type lines interface {
	Write(line string, level seelog.LogLevel, context seelog.LogContextInterface) error
}

// sink receives the lines of slog's handlers, one for each record, and writes them by seelog.
type sink struct {
	w     io.Writer
	mu    sync.Mutex // held while a line is written; guards lines
	lines lines      // nil: no line was written yet
}

// Write writes a line, which is complete and filtered. As with a logger of seelog, standard error learns why it could not be written.
func (s *sink) Write(line []byte) (int, error) {
	text := visible(string(line))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines = seelogLines(s.w)
	}
	if err := s.lines.Write(text, seelog.InfoLvl, nil); err != nil {
		fmt.Fprintf(os.Stderr, "goworker: a line of the log cannot be written: %v\n", err)
	}
	return len(line), nil
}

func seelogLines(w io.Writer) lines {
	form, err := seelog.NewFormatter("%Msg")
	if err == nil {
		var out lines
		if out, err = seelog.NewFormattedWriter(w, form); err == nil {
			return out
		}
	}
	panic("goworker: seelog refused its configuration: " + err.Error()) // of constants that it accepts
}

// flush waits for the line that is being written.
func (s *sink) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
}
