package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// What the handler's error says goes before the class's policy.
func TestRetryByError(t *testing.T) {
	t.Parallel()
	const (
		done = iota
		retried
		failed
		discarded
	)
	var nilPointer *nilError
	tests := []struct {
		name   string
		opts   []goworker.RetryOption // nil: the class has no Retry
		err    any                    // returned, or panicked with if it is no error
		panics bool
		want   int
		text   string // of the failure, the error's own if empty
	}{
		{name: "nil", opts: []goworker.RetryOption{goworker.Delays{0}}, want: done},
		{name: "no option", err: daemontest.ErrNoLuck, want: failed},
		{name: "any error", opts: []goworker.RetryOption{goworker.Delays{0}}, err: daemontest.ErrNoLuck, want: retried},
		{name: "panic", opts: []goworker.RetryOption{goworker.Delays{0}}, err: daemontest.ErrNoLuck, panics: true, want: retried},
		{name: "RetryOn, wrapped", opts: []goworker.RetryOption{goworker.Delays{0}, goworker.RetryOn(daemontest.ErrNoLuck)}, err: fmt.Errorf("x: %w", daemontest.ErrNoLuck), want: retried},
		{name: "RetryOn, another", opts: []goworker.RetryOption{goworker.Delays{0}, goworker.RetryOn(daemontest.ErrNoLuck)}, err: errors.New("other"), want: failed, text: "other"},
		{name: "RetryIf", opts: []goworker.RetryOption{goworker.Delays{0}, goworker.RetryOn(context.Canceled), goworker.RetryIf(goworker.ErrorAs[*strconv.NumError])}, err: fmt.Errorf("x: %w", &strconv.NumError{Err: daemontest.ErrNoLuck}), want: retried},
		{name: "NoRetryOn", opts: []goworker.RetryOption{goworker.Delays{0}, goworker.NoRetryOn(daemontest.ErrNoLuck)}, err: fmt.Errorf("x: %w", daemontest.ErrNoLuck), want: failed, text: "x: no luck"},
		{name: "NoRetryOn wins", opts: []goworker.RetryOption{goworker.Delays{0}, goworker.RetryOn(daemontest.ErrNoLuck), goworker.NoRetryIf(goworker.ErrorAs[*goworker.PanicError])}, err: daemontest.ErrNoLuck, panics: true, want: failed, text: "panic: no luck"},
		{name: "RetryIn", err: goworker.RetryIn(0, daemontest.ErrNoLuck), want: retried},
		{name: "RetryIn wins over NoRetryOn", opts: []goworker.RetryOption{goworker.NoRetryOn(daemontest.ErrNoLuck)}, err: goworker.RetryIn(0, daemontest.ErrNoLuck), want: retried},
		{name: "RetryIn wrapped", err: fmt.Errorf("x: %w", goworker.RetryIn(0, nil)), want: retried},
		{name: "RetryIn joined", err: errors.Join(daemontest.ErrNoLuck, goworker.RetryIn(0, nil)), want: retried},
		{name: "RetryIn with Retry(0)", opts: []goworker.RetryOption{}, err: goworker.RetryIn(0, nil), want: failed, text: "the handler asked to run again in 0s"},
		{name: "Discard", opts: []goworker.RetryOption{goworker.Delays{0}}, err: goworker.Discard(daemontest.ErrNoLuck), want: discarded},
		{name: "Discard without Retry", err: fmt.Errorf("x: %w", goworker.Discard(nil)), want: discarded},
		{name: "Discard by panic", err: goworker.Discard(daemontest.ErrNoLuck), panics: true, want: discarded},
		{name: "Fail", opts: []goworker.RetryOption{goworker.Delays{0}}, err: goworker.FailNow(daemontest.ErrNoLuck), want: failed},
		{name: "the outermost counts", err: goworker.Discard(goworker.RetryIn(0, goworker.FailNow(daemontest.ErrNoLuck))), want: discarded},
		{name: "the policy panics", opts: []goworker.RetryOption{goworker.RetryIf(func(error) bool { panic("oops") })}, err: daemontest.ErrNoLuck, want: failed, text: "no luck (deciding about a retry panicked: oops)"},
		{name: "the delay panics", opts: []goworker.RetryOption{goworker.DelayFunc(func(int, error) time.Duration { panic("oops") })}, err: daemontest.ErrNoLuck, want: failed, text: "no luck (deciding about a retry panicked: oops)"},
		{name: "endless", opts: []goworker.RetryOption{goworker.Delays{0}, goworker.RetryOn(daemontest.ErrNoLuck), goworker.RetryIf(goworker.ErrorAs[*strconv.NumError])}, err: endlessError{}, want: failed, text: "unwraps for ever"},
		{name: "nil pointer as error", opts: []goworker.RetryOption{goworker.Delays{0}, goworker.RetryOn(daemontest.ErrNoLuck)}, err: nilPointer, want: failed},
	}
	server := redistest.Start(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := fmt.Sprint("t", i)
			b := daemontest.SetupOn(t, server, func(s *goworker.WorkerSettings) { s.Namespace = ns; s.ExitOnComplete = true; s.Concurrency = 1 })
			opts := []goworker.Option{goworker.Timeout(daemontest.Soon)}
			if tt.opts != nil {
				limit := 1
				if len(tt.opts) == 0 {
					limit = 0
				}
				opts = append(opts, goworker.Retry(limit, tt.opts...))
			}
			var hooks []string
			hook := func(name string) func(context.Context, *goworker.Delivery, error) {
				return func(context.Context, *goworker.Delivery, error) { hooks = append(hooks, name) }
			}
			b.Daemon.AddHooks(goworker.Hooks{
				Failure: hook("failure"), Discard: hook("discard"),
				Success: func(context.Context, *goworker.Delivery) { hooks = append(hooks, "success") },
				Retry:   func(context.Context, *goworker.Delivery, error, time.Time) { hooks = append(hooks, "retry") },
			})
			first := true
			s := daemontest.TryingOn(b, func(*goworker.Delivery) error {
				if !first {
					return nil
				}
				first = false
				err, _ := tt.err.(error)
				if tt.panics {
					panic(tt.err)
				}
				return err
			}, opts...)
			if err := b.Daemon.Enqueue(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Try", Args: []any{"a"}}}); err != nil {
				t.Fatal(err)
			}
			b.Start()
			if err := b.Wait(); err != nil {
				t.Fatal(err)
			}
			runs, want := len(s.Saw), [4]string{done: "success", retried: "retry success", failed: "failure", discarded: "discard"}[tt.want]
			waits := server.Int(t, "ZCARD", ns+":go:schedule")
			if got := strings.Join(hooks, " "); got != want || waits != 0 {
				t.Fatalf("the job ended as %q after %d runs, want %q; %d wait", got, runs, want, waits)
			}
			records := server.List(t, "LRANGE", ns+":failed", 0, -1)
			if (len(records) == 1) != (tt.want == failed) || server.Int(t, "GET", ns+":stat:failed") != len(records) {
				t.Fatalf("failures: %q", records)
			}
			if tt.want == failed {
				f, err := payload.ParseFailure([]byte(records[0]))
				if want := max(tt.text, "no luck"); err != nil || f.Error != want && tt.err != any(nilPointer) || strings.Contains(f.Exception, "wish") {
					t.Errorf("the failure is %s %q, want %q", f.Exception, f.Error, want)
				}
			}
		})
	}
}

// endlessError unwraps for ever.
type endlessError struct{}

func (endlessError) Error() string { return "unwraps for ever" }

func (e endlessError) Unwrap() error { return e }

type nilError struct{ err error }

func (e *nilError) Error() string { return e.err.Error() }

func (e *nilError) Unwrap() error { return e.err }

// A handler that ends its goroutine is retried like any other.
func TestRetryAfterGoexit(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, func(d *goworker.Delivery) error {
		if d.Attempt < 3 {
			runtime.Goexit()
		}
		return nil
	}, goworker.Retry(5, goworker.Delays{0}))
	b.Start()
	b.Push(daemontest.Job("Try", "a"))
	b.Eventually("it is done", func() bool { return b.Stat("processed") == 3 })
	if n := b.Stat("failed"); n != 0 {
		t.Errorf("stat:failed is %d", n)
	}
}

// A function of the program that ends the goroutine in which a job's end is decided costs that job. Its
// worker goes on.
func TestGoexitWhileDeciding(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(*goworker.Delivery) error{
		"after an error": func(*goworker.Delivery) error { return daemontest.ErrNoLuck },
		"after a Goexit": func(*goworker.Delivery) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Trying(t, fails, goworker.Retry(5, goworker.RetryIf(func(error) bool { runtime.Goexit(); return false })))
			b.Start()
			for range 20 { // more than there are workers
				b.Push(daemontest.Job("Try", "a"))
			}
			b.Eventually("all have failed", func() bool { return len(b.Failures()) == 20 })
			if text := b.Failures()[0].Error; text != goworker.ErrGoexit.Error() {
				t.Errorf("the failure is %q", text)
			}
			if n := b.Stat("failed"); n != 20 {
				t.Errorf("stat:failed is %d", n)
			}
		})
	}
}

// RetryIn without Retry has a bound, or a job that never gets ready runs for ever.
func TestRetryInIsBounded(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, func(*goworker.Delivery) error { return goworker.RetryIn(0, daemontest.ErrNoLuck) })
	b.Start()
	b.Push(daemontest.Job("Try", "a"))
	b.Eventually("it is given up", func() bool { return len(b.Failures()) == 1 })
	if n := b.Stat("processed"); n != 1+goworker.DefaultRetries {
		t.Errorf("it ran %d times, want %d", n, 1+goworker.DefaultRetries)
	}
}

func TestRetryForEver(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, func(d *goworker.Delivery) error {
		if d.RetriesLeft != goworker.NoLimit {
			return goworker.FailNow(fmt.Errorf("%d left", d.RetriesLeft))
		}
		if d.Attempt < 100 {
			return daemontest.ErrNoLuck
		}
		return nil
	}, goworker.Retry(goworker.NoLimit, goworker.Delays{0}))
	b.Start()
	b.Push(daemontest.Job("Try", "a"))
	b.Eventually("a hundred runs", func() bool { return b.Stat("processed") == 100 })
	if f := b.Failures(); len(f) > 0 {
		t.Error(f[0].Error)
	}
}
