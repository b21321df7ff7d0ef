package goworker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/payload"
)

type hostileFailure struct{}

func (hostileFailure) Error() string       { panic("no text") }
func (hostileFailure) Backtrace() []string { panic("no trace") }
func (hostileFailure) Unwrap() error       { panic("nothing inside") }

// ownWordFailure has a method that looks like that of an internal error.
type ownWordFailure struct{}

func (ownWordFailure) Error() string     { return "own word" }
func (ownWordFailure) Exception() string { return "<b>" }

func TestExceptionOf(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		&payload.Error{Reason: "bad"}:                     "Resque::Helpers::DecodeException",
		&payload.SizeError{}:                              "Resque::Helpers::DecodeException",
		&ArgumentError{Class: "C", Want: "1", Found: "2"}: "ArgumentError",
		&UnknownClassError{Class: "C"}:                    "NameError",
		&CrashError{}:                                     "Resque::DirtyExit",
		newPanicError("x"):                                "PanicError",
		&MemoryLimitError{}:                               "goworker.MemoryLimitError",
		&TimeLimitError{}:                                 "goworker.TimeLimitError",
		ErrGoexit:                                         "Error",
		ErrShutdown:                                       "Error",
		RetryIn(0, nil):                                   "Error",
		ownWordFailure{}:                                  "goworker.ownWordFailure",
		FailNow(&ArgumentError{}):                         "ArgumentError",
		errors.Join(errors.New("x"), &UnknownClassError{}): "NameError",
	} {
		if got := failure.Exception(fmt.Errorf("x: %w", err), exceptionOf); got != want {
			t.Errorf("%T is a %s, want %s", err, got, want)
		}
		if exception, _, trace := failure.Describe(err, exceptionOf); exception != want || trace == nil && !reflect.DeepEqual(trace, []string{}) {
			t.Errorf("%T is a %s with %#v", err, exception, trace)
		}
	}
}

func explode(v any) { panic(v) }

func TestPanic(t *testing.T) {
	t.Parallel()
	var absent *customer
	boom := errors.New("boom")
	outer := WithMiddleware(func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, d *Delivery) error { return next.Perform(ctx, d) })
	})
	tests := []struct {
		name  string
		fn    any
		text  string
		frame string // the first
	}{
		{"value", func() { explode(5) }, "panic: 5", " goworker.explode"},
		{"error", func(string) { explode(boom) }, "panic: boom", " goworker.explode"},
		{"goworker's form", func(string, ...interface{}) error { explode("x"); return nil }, "panic: x", " goworker.explode"},
		{"runtime error", func() error { absent.Name = "x"; return nil }, "panic: runtime error: invalid memory address or nil pointer dereference", " goworker.TestPanic.func"},
		{"index", func(s []int) { s[len(s)]++ }, "panic: runtime error: index out of range [0] with length 0", " goworker.TestPanic.func"},
		{"nil", func() { explode(nil) }, "panic: panic called with nil argument", " goworker.explode"},
		{"value that cannot be printed", func() { explode(hostileFailure{}) }, "panic: %!v(PANIC=Error method: no text)", " goworker.explode"},
	}
	args := map[string]string{"error": `["x"]`, "index": `[[]]`}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := args[tt.name]
			if a == "" {
				a = `[]`
			}
			_, err := runJob(t, tt.fn, a, outer)
			var p *PanicError
			if !errors.As(err, &p) {
				t.Fatalf("got %v", err)
			}
			exception, text, trace := failure.Describe(err, exceptionOf)
			if exception != "PanicError" || text != tt.text {
				t.Errorf("got %q, %q", exception, text)
			}
			if len(trace) == 0 || !strings.HasPrefix(trace[0], "errors_test.go:") || !strings.Contains(trace[0], tt.frame) {
				t.Fatalf("trace begins %q", trace)
			}
			for _, line := range trace {
				if strings.Contains(line, " runtime.") || strings.Contains(line, " reflect.") || strings.Contains(line, "perform") {
					t.Errorf("trace holds a frame that is not the program's: %s", line)
				}
			}
			if !strings.Contains(string(p.Stack), "worker.go") {
				t.Error("Stack is not whole")
			}
		})
	}
	_, err := runJob(t, func() { explode(boom) }, `[]`)
	if !errors.Is(err, boom) {
		t.Error("a panicked error is not found by errors.Is")
	}
}
