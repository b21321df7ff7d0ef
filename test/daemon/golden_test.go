package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// playRecording pushes the jobs that the recording's producer pushed and runs a
// daemon until all of them are counted.
func playRecording(t *testing.T, s *redistest.Server, r redistest.Recording, queues string, register func(d *goworker.Daemon)) {
	t.Helper()
	pushed := 0
	for _, c := range r.Commands {
		if c[0] == "SADD" && c[1] == "resque:queues" || c[0] == "RPUSH" && strings.HasPrefix(c[1], "resque:queue:") {
			s.Do(t, c[0], c[1], c[2])
			if c[0] == "RPUSH" {
				pushed++
			}
		}
		if c[0] == "LINDEX" {
			break // from here on the recording retries
		}
	}
	runUntilEmpty(t, s, queues, register)
	if n := s.Int(t, "GET", "resque:stat:processed"); n != pushed {
		t.Errorf("%d jobs counted, %d pushed", n, pushed)
	}
}

func runUntilEmpty(t *testing.T, s *redistest.Server, queues string, register func(d *goworker.Daemon)) {
	t.Helper()
	d := goworker.New(goworker.WorkerSettings{URI: s.URI(), QueuesString: queues, Concurrency: 1, ExitOnComplete: true, Logger: daemontest.Quiet, Hostname: "vm", AllowNoHandlers: true})
	defer d.Close()
	register(d)
	ctx, cancel := context.WithTimeout(t.Context(), daemontest.Soon)
	defer cancel()
	if err := d.Run(ctx); err != nil || ctx.Err() != nil {
		t.Fatalf("run: %v, %v", err, ctx.Err())
	}
}

var (
	logClock = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+`)
	worker   = regexp.MustCompile(`"worker":"vm(\.go)?:\d+(-\d+)?:`)
	trace    = regexp.MustCompile(`"backtrace":\[[^]]*\]`)
)

// alike takes out of the keys what cannot be the same: times, pids, the
// backtrace, and the lock that Ruby leaves to expire and we give back.
func alike(keys map[string]any) map[string]any {
	same := make(map[string]any)
	for k, v := range keys {
		if k == "resque:pruning_dead_workers_in_progress" || daemontest.OfHistory(strings.TrimPrefix(k, "resque:")) {
			continue
		}
		if lines, ok := v.([]string); ok {
			masked := make([]string, len(lines))
			for i, line := range lines {
				line = logClock.ReplaceAllString(line, "TIME")
				line = worker.ReplaceAllString(line, `"worker":"vm:1:`)
				masked[i] = trace.ReplaceAllString(line, `"backtrace":[]`)
			}
			v = masked
		}
		same[k] = v
	}
	return same
}

// oops has the type name and the text that the recording's exception has.
type oops struct{}

func (oops) Error() string { return "it broke: <é&> \"quoted\"" }

func TestGoldenKeysAfterWork(t *testing.T) {
	t.Parallel()
	echo := func(d *goworker.Daemon) {
		d.Register("Echo", func(...any) {})
		d.Register("Slow", func(float64) {})
	}
	boom := func(d *goworker.Daemon) { d.Register("Boom", func(...any) error { return oops{} }) }
	for scenario, tc := range map[string]struct {
		queues   string
		register func(*goworker.Daemon)
	}{
		"work_success": {"high,low", echo},
		"work_running": {"low", echo},
		"work_failure": {"low", boom},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			r := redistest.Golden(t, scenario)
			playRecording(t, s, r, tc.queues, tc.register)
			want, got := alike(redistest.Values(r.KeysAfter)), alike(s.Dump(t, "resque:"))
			if failed, ok := got["resque:failed"].([]string); ok {
				for i := range failed {
					failed[i] = strings.Replace(failed[i], "daemon.oops", "Boom::Oops", 1)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("keys after work, -Ruby +goworker:\n%s", diff)
			}
		})
	}
}

func TestGoldenUnknownClass(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	playRecording(t, s, redistest.Golden(t, "unknown_class"), "low", func(*goworker.Daemon) {})
	var ruby, ours struct {
		Payload                       json.RawMessage
		Exception, Error, Queue, List string
	}
	want := redistest.Values(redistest.Golden(t, "unknown_class").KeysAfter)["resque:failed"].([]string)
	for text, to := range map[string]any{want[0]: &ruby, s.List(t, "LRANGE", "resque:failed", 0, -1)[0]: &ours} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	if string(ours.Payload) != string(ruby.Payload) || ours.Exception != ruby.Exception || ours.Queue != ruby.Queue {
		t.Errorf("failure %+v, Ruby's %+v", ours, ruby)
	}
	first, _, _ := strings.Cut(ruby.Error, "\n")
	if !strings.HasPrefix(ours.Error, first) {
		t.Errorf("error %q does not begin as Ruby's %q", ours.Error, first)
	}
	if s.Text(t, "GET", "resque:stat:failed") != "1" {
		t.Error("not counted as failed")
	}
}

func TestGoldenWildcards(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, q := range []string{"zeta", "alpha", "h1", "hskip"} {
		s.Do(t, "SADD", "resque:queues", q)
		s.Do(t, "RPUSH", "resque:queue:"+q, `{"class":"Echo","args":[]}`)
	}
	var order []string
	echo := func(d *goworker.Daemon) {
		d.Register("Echo", func(queue string, args ...interface{}) error { order = append(order, queue); return nil })
	}
	runUntilEmpty(t, s, "!hskip,h*", echo)
	runUntilEmpty(t, s, "*,!hskip", echo)
	if got := strings.Join(order, " "); got != "h1 alpha zeta" {
		t.Errorf("worked %q, want h1 alpha zeta", got)
	}
	if n := s.Int(t, "LLEN", "resque:queue:hskip"); n != 1 {
		t.Errorf("the excluded queue holds %d jobs", n)
	}
}

func TestGoldenPause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, c := range redistest.Golden(t, "pause").Commands[:3] {
		s.Do(t, c[0], c[1], c[2])
	}
	d := goworker.New(goworker.WorkerSettings{URI: s.URI(), QueuesString: "low", Concurrency: 1, Logger: daemontest.Quiet, PollInterval: 20 * time.Millisecond})
	defer d.Close()
	d.Register("Echo", func(...any) {})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	m := s.Monitor(t)
	looks := func() (n int) {
		for _, c := range m.Inner() {
			if c[0] == "GET" && c[1] == "resque:pause-all-workers" {
				n++
			}
		}
		return n
	}
	redistest.Eventually(t, daemontest.Soon, "the pause key is looked at", func() bool { return looks() >= 3 })
	if n := s.Int(t, "LLEN", "resque:queue:low"); n != 1 {
		t.Fatalf("a paused fleet took a job: %d left", n)
	}
	s.Do(t, "DEL", "resque:pause-all-workers")
	redistest.Eventually(t, daemontest.Soon, "the job runs", func() bool { return s.Text(t, "GET", "resque:stat:processed") == "1" })
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
