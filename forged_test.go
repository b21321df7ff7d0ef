package goworker_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// Whoever writes to Redis cannot make a daemon's log lie: what he calls his queues,
// classes, workers and processes never begins a line of its own, and never reaches
// a terminal as a command.
func TestNamesDoNotForgeLogLines(t *testing.T) {
	t.Parallel()
	const forged = "x\n\r\x1b[2J\u009b1A\u202e\u2028time=2026-01-01T00:00:00.000Z level=INFO msg=\"all is well\"\x00\x7f\",\"level\":\"INFO"
	for _, format := range []string{"text", "json"} {
		var out daemontest.SafeBuffer
		log, flush := goworker.NewLogger(slog.LevelDebug, format, &out)
		b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Logger, s.QueuesString = log, "*" })
		quoted, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		b.Daemon.Register("Fail", func(text string) error { return errors.New(text) })
		b.Redis.Do(t, "SADD", "resque:queues", forged, "wrong"+forged)
		b.Redis.Do(t, "SET", "resque:queue:wrong"+forged, "no list")
		b.Redis.Do(t, "RPUSH", "resque:queue:"+forged, `{"class":`+string(quoted)+`,"args":[],"id":`+string(quoted)+`}`, `{"class":"Fail","args":[`+string(quoted)+`]}`, forged)
		b.Redis.Do(t, "HSET", "resque:workers:heartbeat", "worker"+forged, "2020-01-01T00:00:00+00:00", "bad"+forged, forged)
		b.Redis.Do(t, "ZADD", "resque:go:processes", "5", "h:1:"+forged)
		b.Start()
		b.Eventually("the jobs have failed", func() bool { return b.Stat("failed") == 3 })
		redistest.Eventually(t, 2*daemontest.Soon, "the dead are found", func() bool {
			flush()
			return strings.Contains(out.String(), "a process was found dead") && strings.Contains(out.String(), "was removed")
		})
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
		flush()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, line := range lines {
			if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%s: a line holds what cannot be printed: %q", format, line)
			}
			var fields struct{ Time, Level, Msg string }
			if format == "json" && json.Unmarshal([]byte(line), &fields) != nil || format == "text" && !strings.HasPrefix(line, "time=20") {
				t.Errorf("%s: %q is no line of ours", format, line)
			}
			if fields.Msg == "all is well" || strings.HasPrefix(line, "time=2026-01-01T00:00:00.000Z") {
				t.Errorf("%s: %q is forged", format, line)
			}
		}
	}
}
