package goworker

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/redistest"
)

// Whoever writes to Redis cannot make a daemon's log lie: what he calls his queues,
// classes, workers and processes never begins a line of its own, and never reaches
// a terminal as a command.
func TestNamesDoNotForgeLogLines(t *testing.T) {
	t.Parallel()
	const forged = "x\n\r\x1b[2J\u009b1A\u202e\u2028time=2026-01-01T00:00:00.000Z level=INFO msg=\"all is well\"\x00\x7f\",\"level\":\"INFO"
	for _, format := range []string{"text", "json"} {
		var out safeBuffer
		log, flush := logging.New(slog.LevelDebug, format, &out)
		b := setup(t, func(s *WorkerSettings) { s.Logger, s.QueuesString = log, "*" })
		quoted, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		b.daemon.Register("Fail", func(text string) error { return oddError{text: text} })
		b.redis.Do(t, "SADD", "resque:queues", forged, "wrong"+forged)
		b.redis.Do(t, "SET", "resque:queue:wrong"+forged, "no list")
		b.redis.Do(t, "RPUSH", "resque:queue:"+forged, `{"class":`+string(quoted)+`,"args":[],"id":`+string(quoted)+`}`, `{"class":"Fail","args":[`+string(quoted)+`]}`, forged)
		b.redis.Do(t, "HSET", "resque:workers:heartbeat", "worker"+forged, "2020-01-01T00:00:00+00:00", "bad"+forged, forged)
		b.redis.Do(t, "ZADD", "resque:go:processes", "5", "h:1:"+forged)
		b.start()
		b.eventually("the jobs have failed", func() bool { return b.stat("failed") == 3 })
		redistest.Eventually(t, 2*soon, "the dead are found", func() bool {
			flush()
			return strings.Contains(out.String(), "a process was found dead") && strings.Contains(out.String(), "was removed")
		})
		if err := b.stop(); err != nil {
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
