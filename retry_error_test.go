package goworker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/failure"
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
		opts   []RetryOption // nil: the class has no Retry
		err    any           // returned, or panicked with if it is no error
		panics bool
		want   int
		text   string // of the failure, the error's own if empty
	}{
		{name: "nil", opts: []RetryOption{Delays{0}}, want: done},
		{name: "no option", err: errNoLuck, want: failed},
		{name: "any error", opts: []RetryOption{Delays{0}}, err: errNoLuck, want: retried},
		{name: "panic", opts: []RetryOption{Delays{0}}, err: errNoLuck, panics: true, want: retried},
		{name: "RetryOn, wrapped", opts: []RetryOption{Delays{0}, RetryOn(errNoLuck)}, err: fmt.Errorf("x: %w", errNoLuck), want: retried},
		{name: "RetryOn, another", opts: []RetryOption{Delays{0}, RetryOn(errNoLuck)}, err: errors.New("other"), want: failed, text: "other"},
		{name: "RetryIf", opts: []RetryOption{Delays{0}, RetryOn(context.Canceled), RetryIf(ErrorAs[*strconv.NumError])}, err: fmt.Errorf("x: %w", &strconv.NumError{Err: errNoLuck}), want: retried},
		{name: "NoRetryOn", opts: []RetryOption{Delays{0}, NoRetryOn(errNoLuck)}, err: fmt.Errorf("x: %w", errNoLuck), want: failed, text: "x: no luck"},
		{name: "NoRetryOn wins", opts: []RetryOption{Delays{0}, RetryOn(errNoLuck), NoRetryIf(ErrorAs[*PanicError])}, err: errNoLuck, panics: true, want: failed, text: "panic: no luck"},
		{name: "RetryIn", err: RetryIn(0, errNoLuck), want: retried},
		{name: "RetryIn wins over NoRetryOn", opts: []RetryOption{NoRetryOn(errNoLuck)}, err: RetryIn(0, errNoLuck), want: retried},
		{name: "RetryIn wrapped", err: fmt.Errorf("x: %w", RetryIn(0, nil)), want: retried},
		{name: "RetryIn joined", err: errors.Join(errNoLuck, RetryIn(0, nil)), want: retried},
		{name: "RetryIn with Retry(0)", opts: []RetryOption{}, err: RetryIn(0, nil), want: failed, text: "the handler asked to run again in 0s"},
		{name: "Discard", opts: []RetryOption{Delays{0}}, err: Discard(errNoLuck), want: discarded},
		{name: "Discard without Retry", err: fmt.Errorf("x: %w", Discard(nil)), want: discarded},
		{name: "Discard by panic", err: Discard(errNoLuck), panics: true, want: discarded},
		{name: "Fail", opts: []RetryOption{Delays{0}}, err: Fail(errNoLuck), want: failed},
		{name: "the outermost counts", err: Discard(RetryIn(0, Fail(errNoLuck))), want: discarded},
		{name: "the policy panics", opts: []RetryOption{RetryIf(func(error) bool { panic("oops") })}, err: errNoLuck, want: failed, text: "no luck (deciding about a retry panicked: oops)"},
		{name: "the delay panics", opts: []RetryOption{DelayFunc(func(int, error) time.Duration { panic("oops") })}, err: errNoLuck, want: failed, text: "no luck (deciding about a retry panicked: oops)"},
		{name: "nil pointer as error", opts: []RetryOption{Delays{0}, RetryOn(errNoLuck)}, err: nilPointer, want: failed},
	}
	server := redistest.Start(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := fmt.Sprint("t", i)
			b := setupOn(t, server, func(s *WorkerSettings) { s.Namespace = ns; s.ExitOnComplete = true; s.Concurrency = 1 })
			var opts []Option
			if tt.opts != nil {
				limit := 1
				if len(tt.opts) == 0 {
					limit = 0
				}
				opts = append(opts, Retry(limit, tt.opts...))
			}
			var hooks []string
			hook := func(name string) func(context.Context, *Delivery, error) {
				return func(context.Context, *Delivery, error) { hooks = append(hooks, name) }
			}
			b.daemon.AddHooks(Hooks{
				Failure: hook("failure"), Discard: hook("discard"),
				Success: func(context.Context, *Delivery) { hooks = append(hooks, "success") },
				Retry:   func(context.Context, *Delivery, error, time.Time) { hooks = append(hooks, "retry") },
			})
			first := true
			s := tryingOn(b, func(*Delivery) error {
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
			if err := b.daemon.Enqueue(&Job{"work", Payload{"Try", []any{"a"}}}); err != nil {
				t.Fatal(err)
			}
			b.start()
			if err := b.wait(); err != nil {
				t.Fatal(err)
			}
			runs, want := len(s.saw), [4]string{done: "success", retried: "retry success", failed: "failure", discarded: "discard"}[tt.want]
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
				if want := max(tt.text, "no luck"); err != nil || f.Error != want && tt.err != any(nilPointer) || strings.Contains(strings.ToLower(f.Exception), "wish") {
					t.Errorf("the failure is %s %q, want %q", f.Exception, f.Error, want)
				}
			}
		})
	}
}

// busyFor is an error that says when to come again, as servers do.
type busyFor time.Duration

func (busyFor) Error() string               { return "busy" }
func (b busyFor) RetryAfter() time.Duration { return time.Duration(b) }

type nilError struct{ err error }

func (e *nilError) Error() string { return e.err.Error() }
func (e *nilError) Unwrap() error { return e.err }

// An error with a method RetryAfter says how long to wait, if it says anything.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	p := retryPolicy{limit: 1, delay: func(int, error) time.Duration { return time.Hour }}
	for err, want := range map[error]time.Duration{
		fmt.Errorf("x: %w", busyFor(time.Minute)): time.Minute,
		busyFor(-1): time.Hour,
		RetryIn(time.Second, busyFor(time.Minute)):      time.Second,
		RetryIn(-time.Second, errNoLuck):                -time.Second,
		errors.Join(busyFor(0), busyFor(2*time.Minute)): 2 * time.Minute,
	} {
		wish, after := failure.Wished(err)
		if wait, retry, _ := p.decide(1, wish, after, err); !retry || wait != want {
			t.Errorf("%v: %s, %v; want %s", err, wait, retry, want)
		}
	}
}

// A handler that ends its goroutine is retried like any other.
func TestRetryAfterGoexit(t *testing.T) {
	t.Parallel()
	b := trying(t, func(d *Delivery) error {
		if d.Attempt < 3 {
			runtime.Goexit()
		}
		return nil
	}, Retry(5, Delays{0}))
	b.start()
	b.push(job("Try", "a"))
	b.eventually("it is done", func() bool { return b.stat("processed") == 3 })
	if n := b.stat("failed"); n != 0 {
		t.Errorf("stat:failed is %d", n)
	}
}

// RetryIn without Retry has a bound, or a job that never gets ready runs for ever.
func TestRetryInIsBounded(t *testing.T) {
	t.Parallel()
	b := trying(t, func(*Delivery) error { return RetryIn(0, errNoLuck) })
	b.start()
	b.push(job("Try", "a"))
	b.eventually("it is given up", func() bool { return len(b.failures()) == 1 })
	if n := b.stat("processed"); n != 1+DefaultRetries {
		t.Errorf("it ran %d times, want %d", n, 1+DefaultRetries)
	}
}

func TestRetryForEver(t *testing.T) {
	t.Parallel()
	b := trying(t, func(d *Delivery) error {
		if d.RetriesLeft != NoLimit {
			return Fail(fmt.Errorf("%d left", d.RetriesLeft))
		}
		if d.Attempt < 100 {
			return errNoLuck
		}
		return nil
	}, Retry(NoLimit, Delays{0}))
	b.start()
	b.push(job("Try", "a"))
	b.eventually("a hundred runs", func() bool { return b.stat("processed") == 100 })
	if f := b.failures(); len(f) > 0 {
		t.Error(f[0].Error)
	}
}
