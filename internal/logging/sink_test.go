package logging

import (
	"bytes"
	"io"
	"log/slog"
	"testing"
)

// The seelog logger is built for a line that is written, and for nothing else.
func TestSinkIsBuiltForTheFirstLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &sink{w: &out}
	log, flush := newLogger(slog.LevelInfo, "text", s)
	log.With("queue", "mail").WithGroup("job").Debug("not shown")
	flush()
	if s.built.Load() != nil {
		t.Error("a seelog logger was built although nothing was logged")
	}
	log.Info("one")
	first := s.built.Load()
	log.Error("two")
	flush()
	if first == nil || s.built.Load() != first || bytes.Count(out.Bytes(), []byte("\n")) != 2 {
		t.Errorf("one logger should have written two lines, and these are written: %q", out.String())
	}
}

// BenchmarkLine is one line of a job, by slog alone and by way of seelog.
func BenchmarkLine(b *testing.B) {
	seelog, _ := New(slog.LevelInfo, "text", io.Discard)
	for _, c := range []struct {
		name string
		log  *slog.Logger
	}{
		{"slog", slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: attr}))},
		{"seelog", seelog},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.log.Info("job done", "queue", "mail", "duration", 1500, "class", "SendEmail", "worker", "web-1.go:4711-12:mail")
			}
		})
	}
}
