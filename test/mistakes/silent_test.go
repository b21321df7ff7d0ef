package mistakes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/schedule"
)

// mistake is something that users write and that once was accepted in silence. do makes it and returns what
// it is told: an error, the text of a panic, or what the log says.
type mistake struct {
	name string
	do   func(t *testing.T, s *redistest.Server) string
	says []string // parts of what it is told
}

// TestNothingIsAcceptedInSilence makes every mistake that once passed without a word, and expects one.
func TestNothingIsAcceptedInSilence(t *testing.T) {
	t.Parallel()
	var all []mistake
	all = append(all, commandLines(t)...)
	all = append(all, wrongCalls()...)
	all = append(all, logged()...)
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			said := m.do(t, redistest.Start(t))
			for _, want := range m.says {
				if !strings.Contains(said, want) {
					t.Errorf("it says %q, without %q", said, want)
				}
			}
		})
	}
}

// commandLines are mistakes on the command line of a program without flags of its own. Each ends it.
func commandLines(t *testing.T) (all []mistake) {
	t.Helper()
	plain := filepath.Join(t.TempDir(), "plain")
	if out, err := exec.Command("go", "build", "-ldflags=-s", "-o", plain, "../programs/plain").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, l := range []struct {
		args string
		says []string
	}{
		{"-queues=a, b -concurrency=3", []string{`what is "b"?`, "-queues=a,b"}},
		{"-queues=a b", []string{`what is "b"?`}},
		{"-queues=a -use-number false -concurrency=3", []string{`what is "false"?`, "-use-number=false"}},
		{"-queues=[a", []string{`-queues as "[a"`, "its bracket is not closed"}},
		{"-queues=a,![]", []string{"-queues", "nothing in its brackets"}},
		{"-queues=a -order=foo", []string{`-order as "foo"`, "strict, weighted or round-robin"}},
		{"-queues=a -log-level=loud", []string{`-log-level as "loud"`}},
		{"-queues=a -failure-backend=x", []string{`-failure-backend as "x"`}},
		{"-queues=a -hostname=a:b", []string{"-hostname as", "colon"}},
		{"-queues=a -recover-limit=-3", []string{`-recover-limit as "-3"`}},
		{"-queues=a -failed-max-size=-3", []string{`-failed-max-size as "-3"`}},
		{"-queues=a -failed-max-age=-1d", []string{`-failed-max-age as "-1d"`, "30d"}},
		{"-queues=a -max-payload=1GB", []string{`-max-payload as "1GB"`, "at most 511MiB"}},
		{"-queues=a -max-payload=many", []string{`-max-payload as "many"`, "64MiB"}},
	} {
		all = append(all, mistake{l.args, func(t *testing.T, s *redistest.Server) string {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, plain, strings.Fields(l.args)...)
			cmd.Env = append(os.Environ(), "REDIS_PROVIDER=", "FAILURE_BACKEND=", "REDIS_URL="+s.URI())
			out, err := cmd.CombinedOutput()
			if status := cmd.ProcessState.ExitCode(); err == nil || status != 1 {
				t.Errorf("the program ended with %d, %v", status, err)
			}
			if !strings.Contains(string(out), "goworker: ") {
				t.Errorf("the error has no prefix: %s", out)
			}
			return string(out)
		}, l.says})
	}
	return all
}

// wrongCalls are mistakes in calls, each of which returns an error or panics.
func wrongCalls() []mistake {
	client := func(do func(context.Context, *goworker.Client) error) func(*testing.T, *redistest.Server) string {
		return func(t *testing.T, s *redistest.Server) string {
			c, err := goworker.NewClient(goworker.WorkerSettings{URI: s.URI(), Logger: daemontest.Quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err = do(t.Context(), c); err == nil {
				t.Fatal("there is no error")
			}
			if keys := s.Dump(t, ""); len(keys) > 0 {
				t.Errorf("it left %v", keys)
			}
			return err.Error()
		}
	}
	daemon := func(change func(*goworker.WorkerSettings), do func(context.Context, *goworker.Daemon) error) func(*testing.T, *redistest.Server) string {
		return func(t *testing.T, s *redistest.Server) string {
			settings := goworker.WorkerSettings{URI: s.URI(), QueuesString: "work", Logger: daemontest.Quiet}
			if change != nil {
				change(&settings)
			}
			d := goworker.New(settings)
			defer d.Close()
			ctx, cancel := context.WithTimeout(t.Context(), daemontest.Soon)
			defer cancel()
			err := do(ctx, d)
			if err == nil {
				t.Fatal("there is no error")
			}
			return err.Error()
		}
	}
	register := func(handler any, opts ...goworker.Option) func(*testing.T, *redistest.Server) string {
		return func(t *testing.T, _ *redistest.Server) (said string) {
			defer func() { said = fmt.Sprint(recover()) }()
			goworker.New(goworker.WorkerSettings{}).Register("C", handler, opts...)
			return ""
		}
	}
	run := func(ctx context.Context, d *goworker.Daemon) error { return d.Run(ctx) }
	initialize := func(_ context.Context, d *goworker.Daemon) error { return d.Init() }
	all := []mistake{
		{"no handler", daemon(nil, run), []string{"no handler is registered", "Register", "AllowNoHandlers"}},
		{"a class that is only defined", func(t *testing.T, s *redistest.Server) string {
			c, err := goworker.NewClient(goworker.WorkerSettings{URI: s.URI()}, goworker.Classes(goworker.Define[int, goworker.None]("Only")))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			return daemon(nil, run)(t, s)
		}, []string{"no handler is registered"}},
		{"Work without a handler", daemon(nil, func(_ context.Context, d *goworker.Daemon) error { return d.Work() }), []string{"no handler is registered"}},
		{"Shards without a handler", func(t *testing.T, server *redistest.Server) string {
			s := goworker.NewShards(goworker.WorkerSettings{Logger: daemontest.Quiet}, goworker.Shard{URI: server.URI(), Queues: []string{"work"}})
			defer s.Close()
			return fmt.Sprint(s.Run(t.Context()))
		}, []string{"no handler is registered"}},
		{"RecoverLimit", daemon(func(s *goworker.WorkerSettings) { s.RecoverLimit = -3 }, initialize), []string{"RecoverLimit is -3", "NoLimit"}},
		{"FailedMaxSize", daemon(func(s *goworker.WorkerSettings) { s.FailedMaxSize = -3 }, initialize), []string{"FailedMaxSize is -3"}},
		{"Order", daemon(func(s *goworker.WorkerSettings) { s.Order = "foo" }, initialize), []string{`Order is "foo"`, "strict, weighted or round-robin"}},
		{"a pattern that is not closed", daemon(func(s *goworker.WorkerSettings) { s.QueuesString = "[a" }, initialize), []string{"its bracket is not closed"}},
		{"a schedule for a list", daemon(nil, func(_ context.Context, d *goworker.Daemon) error {
			return d.Schedule("s", goworker.Recurring{Every: time.Hour, Queue: "a,b"})
		}), []string{"schedule s", `"a,b"`, "comma"}},
		{"a cron that is a word", daemon(nil, func(_ context.Context, d *goworker.Daemon) error {
			return d.Schedule("s", goworker.Recurring{Cron: "daily", Queue: "a"})
		}), []string{"it has 1 field;", "did you mean @daily?"}},
		{"an unknown time zone", daemon(nil, func(_ context.Context, d *goworker.Daemon) error {
			err := d.Schedule("s", goworker.Recurring{Cron: "0 3 * * * Europe/Belrin", Queue: "a"})
			if err != nil && strings.Contains(err.Error(), "tzdata") {
				err = errors.New("it suggests tzdata, though the system has it")
			}
			return err
		}), []string{"Europe/Belrin"}},
		{"Enqueue after Close", daemon(nil, func(_ context.Context, d *goworker.Daemon) error {
			d.Close()
			return d.Enqueue(goworker.NewJob("q", "C"))
		}), []string{"closed"}},
		{"EnqueueAt a time that was never set", daemon(nil, func(_ context.Context, d *goworker.Daemon) error {
			return d.EnqueueAt(time.Time{}, goworker.NewJob("q", "C"))
		}), []string{"zero time"}},
		{"ProcessAt a time that was never set", client(func(ctx context.Context, c *goworker.Client) error {
			_, err := c.Enqueue(ctx, goworker.NewJob("q", "C"), goworker.ProcessAt(time.Time{}))
			return err
		}), []string{"zero time"}},
		{"two times", client(func(ctx context.Context, c *goworker.Client) error {
			_, err := c.Enqueue(ctx, goworker.NewJob("q", "C"), goworker.ProcessAt(time.Now()), goworker.ProcessIn(time.Hour))
			return err
		}), []string{"ProcessAt", "ProcessIn"}},
		{"a filter that nothing fits", daemon(nil, func(_ context.Context, d *goworker.Daemon) error {
			_, _, err := d.Failures().Search(goworker.FailureFilter{Retried: true, Unretried: true}, "", 1)
			return err
		}), []string{"Retried", "Unretried"}},
		{"no dots", register(func(string, []interface{}) error { return nil }), []string{"no dots", "args ...interface{}"}},
		{"Retry", register(func() {}, goworker.Retry(-7)), []string{"Retry(-7)"}},
		{"Timeout", register(func() {}, goworker.Timeout(-1)), []string{"Timeout(-1ns)"}},
		{"Burst", register(func() {}, goworker.MaxRunning(2, goworker.Burst(3))), []string{"Burst(3)"}},
		{"Retry twice", register(func() {}, goworker.Retry(1), goworker.Retry(2)), []string{"Retry(1) and Retry(2)"}},
		{"Isolated twice", register(func() {}, goworker.Isolated(), goworker.Isolated()), []string{"Isolated is given twice"}},
		{"a limit for a list", func(t *testing.T, _ *redistest.Server) (said string) {
			defer func() { said = fmt.Sprint(recover()) }()
			goworker.New(goworker.WorkerSettings{}).LimitQueue("a=2", goworker.MaxRunning(1))
			return ""
		}, []string{`LimitQueue("a=2")`, "equals sign"}},
	}
	for queue, says := range map[string]string{
		"a,b": "comma", "a=2": "equals sign", " lead": "blank", "tail\t": "blank", "!a": "exclamation mark", "resque:queue:q": "whole key",
	} {
		all = append(all, mistake{fmt.Sprintf("Enqueue to %q", queue), client(func(ctx context.Context, c *goworker.Client) error {
			_, err := c.Enqueue(ctx, goworker.NewJob(queue, "C"))
			_, many := c.EnqueueMany(ctx, goworker.Item{Job: goworker.NewJob("q", "C")}, goworker.Item{Job: goworker.NewJob(queue, "C")})
			if err == nil || many == nil {
				return nil
			}
			return err
		}), []string{fmt.Sprintf("%q", queue), says, "nothing was enqueued"}})
	}
	return append(all, mistake{"a whole key of another namespace", func(t *testing.T, s *redistest.Server) string {
		c, err := goworker.NewClient(goworker.WorkerSettings{URI: s.URI(), Namespace: "app"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err = c.Enqueue(t.Context(), goworker.NewJob("resque:queue:q", "C")); err != nil {
			t.Error(err) // there it is a name like others
		}
		_, err = c.Enqueue(t.Context(), goworker.NewJob("app:queue:q", "C"))
		return fmt.Sprint(err)
	}, []string{"whole key", "app:queue:"}})
}

// logged are mistakes of which the log warns once, since a program that makes them has always run.
func logged() []mistake {
	// started returns what a daemon logs that runs a job of a class without a handler, and one with it.
	started := func(change func(*goworker.WorkerSettings), do func(*goworker.Daemon)) func(*testing.T, *redistest.Server) string {
		return func(t *testing.T, s *redistest.Server) string {
			var out daemontest.SafeBuffer
			settings := goworker.WorkerSettings{
				URI: s.URI(), QueuesString: "work=2", ExitOnComplete: true, PollInterval: 20 * time.Millisecond,
				Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})),
			}
			if change != nil {
				change(&settings)
			}
			d := goworker.New(settings)
			defer d.Close()
			d.Register("Known", func() {})
			if do != nil {
				do(d)
			}
			if err := d.Enqueue(goworker.NewJob("work", "Known")); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if err := d.Enqueue(goworker.NewJob("work", "Nobody")); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Run(t.Context()); err != nil {
				t.Error(err)
			}
			return out.String()
		}
	}
	return []mistake{
		{"the start", started(nil, nil), []string{"msg=started", " process=", " version=", " workers=25", " queues=work", " classes=Known", " namespace=resque:", " redis=redis://"}},
		{"an unknown class, once", func(t *testing.T, s *redistest.Server) string {
			said := started(nil, nil)(t, s)
			if n := strings.Count(said, "no handler is registered for a class"); n != 1 {
				t.Errorf("the log warns %d times", n)
			}
			return said
		}, []string{"level=WARN", `msg="no handler is registered for a class, its jobs fail" class=Nobody jobs=1`}},
		{"weights under another order", started(func(s *goworker.WorkerSettings) { s.Order = goworker.OrderStrict }, nil), []string{"level=WARN", "the weights of the queues have no effect", "-order"}},
		{"TLS settings without TLS", started(func(s *goworker.WorkerSettings) { s.TLSCertPath = "/nope" }, nil), []string{"level=WARN", "TLSCertPath (-tls-cert) has no effect", "rediss://"}},
		{"Register twice", started(nil, func(d *goworker.Daemon) { d.Register("Known", func() {}) }), []string{"level=DEBUG", "a class was registered again", "class=Known"}},
	}
}

// A password in the URI is not in the line of the start.
func TestStartLineHasNoPassword(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	s := redistest.Start(t, "--requirepass", "s3cret")
	var out daemontest.SafeBuffer
	d := goworker.New(goworker.WorkerSettings{
		URI: "redis://:s3cret@" + s.Addr, QueuesString: "work", ExitOnComplete: true, PollInterval: 20 * time.Millisecond,
		AllowNoHandlers: true, Logger: slog.New(slog.NewTextHandler(&out, nil)),
	})
	defer d.Close()
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := out.String(); !strings.Contains(said, "msg=started") || strings.Contains(said, "s3cret") {
		t.Errorf("the log says %s", said)
	}
}

// A key of schedule.yml that no scheduler reads is warned of. The test sets the default logger, so it does
// not run beside others.
func TestScheduleKeysAreWarnedOf(t *testing.T) {
	var out daemontest.SafeBuffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	path := filepath.Join(t.TempDir(), "schedule.yml")
	if err := os.WriteFile(path, []byte("daily:\n  cron: '@daily'\n  queue: q\n  quue: low\nnever:\n  Cron: '@daily'\n  queue: q\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := schedule.LoadFile(goworker.New(goworker.WorkerSettings{}), path); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"schedule=daily key=quue", "schedule=never key=Cron", "level=WARN"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log says %s, without %s", out.String(), want)
		}
	}
}
