package logging

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLogText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, flush := New(slog.LevelInfo, "text", &out)
	log.Debug("not shown")
	log.With("queue", "high").WithGroup("job").Info("done %d\nnext", "class", "SendEmail", "time", time.UnixMilli(0))
	log.Error("failed", "duration", 1500*time.Microsecond)
	flush()
	want := regexp.MustCompile(`^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=INFO msg="done %d\\nnext" queue=high job\.class=SendEmail job\.time=\S+
time=\S+Z level=ERROR msg=failed duration=1\.5ms
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("logged\n%s", out.String())
	}
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]string{slog.LevelDebug: "DIWE", slog.LevelInfo: "IWE", slog.LevelWarn: "WE", slog.LevelError: "E"} {
		var out bytes.Buffer
		log, _ := New(level, "text", &out)
		log.Debug("D")
		log.Info("I")
		log.Warn("W")
		log.Error("E")
		got := ""
		for _, m := range regexp.MustCompile(`msg=(.)`).FindAllStringSubmatch(out.String(), -1) {
			got += m[1]
		}
		if got != want {
			t.Errorf("level %q logs %s, want %s", level, got, want)
		}
	}
}

// logsItself is a value that logs while it is being formatted.
type logsItself struct{ log *slog.Logger }

func (l logsItself) LogValue() slog.Value {
	l.log.Info("inner")
	return slog.StringValue("outer")
}

func TestLogJSONConcurrently(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer // seelog serializes writes; -race would tell otherwise
	log, flush := New(slog.LevelDebug, "json", &out)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			log := log.With("worker", i)
			for range 50 {
				log.Debug("<&> \xff", "v", logsItself{log})
				log.Warn("w", "err", strings.Repeat("x", 5000))
			}
		})
	}
	wg.Wait()
	flush()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if want := 8 * 50 * 3; len(lines) != want {
		t.Fatalf("%d lines, want %d", len(lines), want)
	}
	for _, line := range lines {
		var record struct {
			Time   time.Time
			Level  string
			Msg    string
			Worker *int
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time.IsZero() || record.Level == "" || record.Msg == "" || record.Worker == nil {
			t.Fatalf("%v in %s", err, line)
		}
	}
}

// A line of a job that is retried costs what any other line does.
func TestWarnCostsWhatInfoDoes(t *testing.T) {
	log, _ := New(slog.LevelInfo, "text", io.Discard)
	cost := func(level slog.Level) float64 {
		return allocations(func() { log.LogAttrs(t.Context(), level, "job", slog.String("class", "C")) })
	}
	info := cost(slog.LevelInfo)
	for _, level := range []slog.Level{slog.LevelWarn, slog.LevelError} {
		if n := cost(level); n > info {
			t.Errorf("%s: %v allocations, where Info has %v", level, n, info)
		}
	}
}
