package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// TestMinimalACL runs everything the daemon does as the user that the page on Redis
// names, and then without the permission for tracking.
func TestMinimalACL(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		without []any
		warns   string
	}{
		"as documented": {nil, ""},
		"without the channel": {[]any{"resetchannels"},
			"add &__redis__:invalidate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do(t, "ACL", redis.Args{"SETUSER"}.AddFlat(redistest.MinimalACL(t))...)
			if tc.without != nil {
				s.Do(t, "ACL", append([]any{"SETUSER", "worker"}, tc.without...)...)
			}
			// A process that died long ago, a Ruby worker that did, and a job of each.
			s.Do(t, "ZADD", "resque:go:processes", "5", "h:1:dead")
			s.Do(t, "HSET", "resque:go:inflight:h:1:dead", "1", `1:q{"class":"Good","args":[]}`)
			s.Do(t, "HSET", "resque:workers:heartbeat", "ruby:1:q", "2020-01-01T00:00:00+00:00")
			s.Do(t, "SET", "resque:worker:ruby:1:q", `{"queue":"q","run_at":"2020-01-01T00:00:00Z","payload":{"class":"R","args":[]}}`)

			var log daemontest.SafeBuffer
			d := goworker.New(goworker.WorkerSettings{
				URI: "redis://worker:secret@" + s.Addr + "/0", QueuesString: "*", PollInterval: 100 * time.Millisecond, Concurrency: 2,
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			defer d.Close()
			d.Register("Good", func() {})
			d.Register("Slow", func() { time.Sleep(300 * time.Millisecond) })
			d.Register("Bad", func() error { return os.ErrInvalid })
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- d.Run(ctx) }()
			for _, class := range []string{"Good", "Slow", "Bad"} {
				if err := d.Enqueue(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: class, Args: nil}}); err != nil {
					t.Error(err)
				}
			}
			redistest.Eventually(t, 2*daemontest.Soon, "all jobs done and the dead cleared away", func() bool {
				return s.Text(t, "GET", "resque:stat:processed") == "4" &&
					s.Int(t, "LLEN", "resque:failed") == 2 &&
					s.Int(t, "EXISTS", "resque:go:inflight:h:1:dead") == 0
			})
			if _, err := d.Workers(); err != nil {
				t.Error(err)
			}
			if _, err := d.StatsText(); err != nil {
				t.Error(err)
			}
			if n, err := d.Failures().RetryAll(); n != 2 || err != nil {
				t.Errorf("retried %d failures: %v", n, err)
			}
			if _, err := d.Dequeue(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "Nobody", Args: nil}}); err != nil {
				t.Error(err)
			}
			if err := d.RemoveQueue("gone"); err != nil {
				t.Error(err)
			}
			delayedAs(t, d, s)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			text := log.String()
			if tc.warns == "" && strings.Contains(text, "NOPERM") || tc.warns != "" && !strings.Contains(text, tc.warns) {
				t.Errorf("log, wanting %q:\n%s", tc.warns, text)
			}
			if strings.Contains(text, "secret") {
				t.Error("the log holds the password")
			}
		})
	}
}

// delayedAs does all there is to do with delayed jobs.
func delayedAs(t *testing.T, d *goworker.Daemon, s *redistest.Server) {
	t.Helper()
	job := &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "Good", Args: []any{}}}
	_, err := d.EnqueueWith(job, goworker.ProcessIn(20*time.Millisecond), goworker.WithID("x"))
	for _, err := range []error{err, d.EnqueueIn(20*time.Millisecond, job), d.EnqueueAt(time.Now().Add(time.Second).Truncate(time.Second), job)} {
		if err != nil {
			t.Error(err)
		}
	}
	redistest.Eventually(t, daemontest.Soon, "the delayed jobs have run", func() bool {
		n, err := d.Delayed().Count()
		return n == 0 && err == nil && s.Text(t, "GET", "resque:stat:processed") == "9"
	})
	list := d.Delayed()
	for _, do := range []func() error{
		func() error { return d.EnqueueIn(time.Hour, job) },
		func() error { _, err := d.EnqueueWith(job, goworker.ProcessIn(time.Hour)); return err },
		func() error {
			jobs, err := list.Like(job)
			if len(jobs) != 2 {
				t.Errorf("found %d", len(jobs))
			}
			_, again := list.Reschedule(time.Now().Add(2*time.Hour), jobs...)
			return errors.Join(err, again)
		},
		func() error { _, err := list.Find("x", time.Time{}); return err },
		func() error { _, err := d.RemoveDelayed(job); return err },
		list.Clear,
	} {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
}
