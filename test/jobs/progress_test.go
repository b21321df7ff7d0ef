package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// written counts the commands of scripts that write a key.
func written(m *redistest.Monitor, command, key string) (n int) {
	for _, c := range m.Inner() {
		if c[0] == command && len(c) > 1 && c[1] == key {
			n++
		}
	}
	return n
}

// A handler that says its progress in a tight loop causes at most ten writes a second, and never waits. The last one
// that it says is there in the end.
func TestProgressIsCoalesced(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var said, took atomic.Int64
	b.Daemon.Register("Busy", func(ctx context.Context) {
		began := time.Now()
		for n := int64(0); ; n++ {
			if d := time.Since(began); d > 1500*time.Millisecond && n > 1000 {
				said.Store(n)
				took.Store(int64(d))
				return
			}
			goworker.Progress(ctx, n+1, 0, "")
		}
	})
	goworker.Progress(t.Context(), 1, 2, "outside a job it does nothing")
	m := b.Redis.Monitor(t)
	if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", "Busy"), goworker.WithID("b"), goworker.WithResult(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b.Start()
	becomes(b, "b", "done")
	n, most := written(m, "SET", "resque:go:progress:b"), int(time.Duration(took.Load())/(100*time.Millisecond))+1
	if n < 2 || n > most {
		t.Errorf("the progress was written %d times in %s, and at most %d are allowed", n, time.Duration(took.Load()), most)
	}
	want := fmt.Sprintf(`{"done":%d,"total":0,"at":`, said.Load())
	if got := b.Redis.Text(t, "GET", "resque:go:progress:b"); !strings.HasPrefix(got, want) {
		t.Errorf("the last progress is %s, want %s…", got, want)
	}
	for _, key := range []string{"resque:go:result:b", "resque:go:progress:b"} {
		if left := b.Redis.Int(t, "PTTL", key); left <= 0 || left > 60_000 {
			t.Errorf("%s stays %d ms", key, left)
		}
	}
	if said.Load() < 10_000 {
		t.Logf("the handler could say its progress only %d times", said.Load())
	}
}

// What a short job says goes with its end, in the same step.
func TestProgressOfShortJobs(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	note := strings.Repeat("x", goworker.MaxResult/1024-1) + "ßß" // the first letter would end behind the limit
	b.Daemon.Register("Short", func(ctx context.Context) {
		goworker.Progress(ctx, 1, 3, "first")
		goworker.Logger(ctx).Info("one")
		goworker.Progress(ctx, 3, 3, note)
	})
	m := b.Redis.Monitor(t)
	if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", "Short"), goworker.WithID("s"), goworker.WithResult(time.Minute), goworker.CaptureLogs()); err != nil {
		t.Fatal(err)
	}
	b.Start()
	becomes(b, "s", "done")
	var p struct {
		Done, Total, At int64
		Note            string
	}
	if err := json.Unmarshal([]byte(b.Redis.Text(t, "GET", "resque:go:progress:s")), &p); err != nil || p.Done != 3 || p.Total != 3 || p.At == 0 {
		t.Errorf("the progress is %v, %v", p, err)
	}
	if len(p.Note) != 1023 || !utf8.ValidString(p.Note) || !strings.HasPrefix(note, p.Note) {
		t.Errorf("the note is %d bytes: %q", len(p.Note), p.Note[1000:])
	}
	if n := written(m, "SET", "resque:go:progress:s"); n > 2 {
		t.Errorf("the progress was written %d times", n)
	}
	if lines := b.Redis.List(t, "LRANGE", "resque:go:logs:s", 0, -1); len(lines) != 1 || !strings.Contains(lines[0], `"msg":"one"`) {
		t.Errorf("the lines are %q", lines)
	}
	if left := b.Redis.Int(t, "PTTL", "resque:go:logs:s"); left <= 0 || left > 60_000 {
		t.Errorf("the lines stay %d ms", left)
	}
}

// A job that takes a while says so, under its process and worker.
func TestRunningIsWritten(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = time.Millisecond })
	if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", "Hold", "h"), goworker.WithID("h"), goworker.WithResult(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b.Start()
	got := becomes(b, "h", "running")
	if got["process"] != b.Process() || !strings.HasSuffix(got["worker"], ":work") || got["attempt"] != "1" || got["ended"] != "" {
		t.Errorf("the document is %v", got)
	}
	blurred(t, got)
	b.Redis.Do(t, "HSET", "resque:go:result:h", "state", "cancelled", "was", "running")
	if err := b.Stop(); err != nil { // the job is interrupted
		t.Log(err)
	}
	got = document(t, b.Redis, "h")
	if got["state"] != "cancelled" || got["was"] != "pending" || got["tries"] != "1" || !strings.Contains(got["t1"], `"state":"interrupted"`) {
		t.Errorf("after the stop the document is %v", got)
	}
}

// At most 100 lines and 64 KiB are kept, over all runs of a job.
func TestLogLimits(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	log := func(ctx context.Context, n, size int) {
		for i := range n {
			goworker.Logger(ctx).Info(strings.Repeat("x", size), "n", i)
		}
	}
	b.Daemon.Register("Many", func(ctx context.Context) { log(ctx, 150, 1) })
	b.Daemon.Register("Long", func(ctx context.Context) {
		log(ctx, 1, 70_000)
		log(ctx, 50, 4000)
	})
	b.Daemon.Register("Again", func(ctx context.Context, d *goworker.Delivery) error {
		log(ctx, 60, 1)
		if goworker.FromContext(ctx).Attempt == 1 {
			return errors.New("once more")
		}
		return nil
	}, goworker.Retry(1, goworker.Delays{0}))
	b.Daemon.Register("Slow", func(ctx context.Context) {
		for range 4 {
			log(ctx, 30, 1)
			time.Sleep(150 * time.Millisecond)
		}
	})
	b.Start()
	for class, want := range map[string]int{"Many": 100, "Again": 100, "Slow": 100, "Long": 16} {
		if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", class), goworker.WithID(class), goworker.WithResult(time.Minute), goworker.CaptureLogs()); err != nil {
			t.Fatal(err)
		}
		got := becomes(b, class, "done")
		lines := b.Redis.List(t, "LRANGE", "resque:go:logs:"+class, 0, -1)
		size := len(strings.Join(lines, ""))
		if len(lines) != want || size > 64<<10 || got["log_bytes"] != fmt.Sprint(size) {
			t.Errorf("%s: %d lines of %d bytes, want %d; the document says %q", class, len(lines), size, want, got["log_bytes"])
		}
		for i, line := range lines {
			var l struct {
				N   int
				Msg string
			}
			n := i
			if each := map[string]int{"Again": 60, "Slow": 30}[class]; each > 0 {
				n = i % each
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.N != n || l.Msg == "" {
				t.Errorf("%s: line %d is %s, want number %d", class, i, line, n)
				break
			}
		}
	}
}

// Lines of Logger and those of the program's own logger are captured, each once.
func TestCapturedLines(t *testing.T) {
	t.Parallel()
	var own, daemons daemontest.SafeBuffer
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.Logger = slog.New(goworker.LogHandler(slog.NewTextHandler(&daemons, &slog.HandlerOptions{Level: slog.LevelWarn})))
	})
	mine := slog.New(goworker.LogHandler(slog.NewJSONHandler(&own, nil)))
	b.Daemon.Register("Tell", func(ctx context.Context) {
		goworker.Logger(ctx).InfoContext(ctx, "by the logger", "n", 1)
		goworker.Logger(ctx).With("a", 1).WithGroup("g").Warn("in a group", "b", 2)
		goworker.Logger(ctx).Debug("not captured")
		mine.InfoContext(ctx, "by my own")
		mine.Info("without the context")
		goworker.Logger(context.Background()).Debug("outside")
	})
	for _, id := range []string{"captured", "not"} {
		opts := []goworker.EnqueueOption{goworker.WithID(id), goworker.WithResult(time.Minute), goworker.CaptureLogs()}
		if id == "not" {
			opts = opts[:2]
		}
		if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", "Tell"), opts...); err != nil {
			t.Fatal(err)
		}
	}
	b.Start()
	becomes(b, "captured", "done")
	becomes(b, "not", "done")
	var got []string
	for _, line := range b.Redis.List(t, "LRANGE", "resque:go:logs:captured", 0, -1) {
		_, rest, _ := strings.Cut(line, ",")
		got = append(got, rest)
	}
	want := []string{`"level":"INFO","msg":"by the logger","n":1}`, `"level":"WARN","msg":"in a group","a":1,"g":{"b":2}}`, `"level":"INFO","msg":"by my own"}`}
	if !slices.Equal(got, want) {
		t.Errorf("captured\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if b.Redis.Int(t, "EXISTS", "resque:go:logs:not") != 0 {
		t.Error("lines of a job were captured that did not ask")
	}
	if n := strings.Count(own.String(), "by my own"); n != 2 || strings.Count(own.String(), "without") != 2 {
		t.Errorf("the program's log has\n%s", own.String())
	}
	if text := daemons.String(); strings.Count(text, "in a group") != 2 || strings.Contains(text, "by the logger") || !strings.Contains(text, "class=Tell id=captured queue=work") {
		t.Errorf("the daemon's log has\n%s", text)
	}
	if !bytes.Contains([]byte(own.String()), []byte(`"msg":"by my own"`)) {
		t.Error("the program's handler got no JSON")
	}
}
