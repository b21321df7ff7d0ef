package logging

import (
	"bytes"
	"io"
	"log/slog"
	"math"
	"testing"
)

// The writer of seelog is made for a line that is written, and for nothing else.
func TestSinkIsBuiltForTheFirstLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &sink{w: &out}
	log, flush := newLogger(slog.LevelInfo, "text", s)
	log.With("queue", "mail").WithGroup("job").Debug("not shown")
	flush()
	if s.lines != nil {
		t.Error("a writer of seelog was made although nothing was logged")
	}
	log.Info("one")
	first := s.lines
	log.Error("two")
	flush()
	if first == nil || s.lines != first || bytes.Count(out.Bytes(), []byte("\n")) != 2 {
		t.Errorf("one writer should have written two lines, and these are written: %q", out.String())
	}
}

// A line costs its text and what seelog's writer copies of it, and no look at where it was logged.
func TestLineCosts(t *testing.T) {
	log, _ := New(slog.LevelInfo, "text", io.Discard)
	if n := allocations(func() { log.LogAttrs(t.Context(), slog.LevelInfo, "job done", slog.String("class", "C")) }); n > 6 {
		t.Errorf("%v allocations", n)
	}
}

// allocations is the fewest that a call makes: with the race detector a pool forgets what it keeps, one time in four.
func allocations(call func()) float64 {
	fewest := math.Inf(1)
	for range 100 {
		fewest = min(fewest, testing.AllocsPerRun(1, call))
	}
	return fewest
}

// BenchmarkLine is one line of a job, by slog alone and by way of seelog.
func BenchmarkLine(b *testing.B) {
	seelog, _ := New(slog.LevelInfo, "text", io.Discard)
	for _, c := range []struct {
		name string
		log  *slog.Logger
	}{
		{"slog", slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: textAttr}))},
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
