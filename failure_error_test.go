package goworker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/payload"
)

type plainFailure struct{}

func (plainFailure) Error() string { return "plain" }

type pointerFailure struct{ text string }

func (e *pointerFailure) Error() string { return e.text }

type genericFailure[T any] struct{}

func (genericFailure[T]) Error() string { return "generic" }

type fälure struct{}

func (fälure) Error() string { return "umlaut" }

type tracedFailure struct{ lines []string }

func (tracedFailure) Error() string         { return "traced" }
func (e tracedFailure) Backtrace() []string { return e.lines }

type loopFailure struct{}

func (e loopFailure) Error() string { return "loop" }
func (e loopFailure) Unwrap() error { return fmt.Errorf("again: %w", e) }

type hostileFailure struct{}

func (hostileFailure) Error() string       { panic("no text") }
func (hostileFailure) Backtrace() []string { panic("no trace") }
func (hostileFailure) Unwrap() error       { panic("nothing inside") }

func TestDescribe(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		err             error
		exception, text string
		trace           []string
	}{
		{"errors.New", errors.New("<b>"), "Error", "<b>", nil},
		{"fmt.Errorf", fmt.Errorf("no %d", 1), "Error", "no 1", nil},
		{"own type", plainFailure{}, "goworker.plainFailure", "plain", nil},
		{"pointer", &pointerFailure{"x"}, "goworker.pointerFailure", "x", nil},
		{"nil pointer", (*pointerFailure)(nil), "goworker.pointerFailure", "<nil>", nil},
		{"type parameters", genericFailure[map[string]int]{}, "goworker.genericFailure", "generic", nil},
		{"other letters", fälure{}, "goworker.flure", "umlaut", nil},
		{"wrapped", fmt.Errorf("a: %w", fmt.Errorf("b: %w", plainFailure{})), "goworker.plainFailure", "a: b: plain", nil},
		{"wrapped several", fmt.Errorf("%w, %w", errors.New("x"), plainFailure{}), "goworker.plainFailure", "x, plain", nil},
		{"joined", errors.Join(errors.New("x"), plainFailure{}), "goworker.plainFailure", "x\nplain", nil},
		{"joined texts", errors.Join(errors.New("x"), errors.New("y")), "Error", "x\ny", nil},
		{"library", &fs.PathError{Op: "open", Path: "p", Err: os.ErrNotExist}, "fs.PathError", "open p: file does not exist", nil},
		{"deadline", context.DeadlineExceeded, "context.deadlineExceededError", "context deadline exceeded", nil},
		{"payload", fmt.Errorf("x: %w", &payload.Error{Reason: "bad"}), "Resque::Helpers::DecodeException", "", nil},
		{"arguments", fmt.Errorf("x: %w", &ArgumentError{Class: "C", Want: "1", Found: "2"}), "ArgumentError", "", nil},
		{"class", &UnknownClassError{Class: "C"}, "NameError", "", nil},
		{"goexit", ErrGoexit, "Error", "", nil},
		{"own trace", fmt.Errorf("x: %w", tracedFailure{[]string{"a.go:1 f"}}), "goworker.tracedFailure", "x: traced", []string{"a.go:1 f"}},
		{"own trace nil", tracedFailure{}, "goworker.tracedFailure", "traced", nil},
		{"loop", loopFailure{}, "goworker.loopFailure", "loop", nil},
		{"hostile", hostileFailure{}, "goworker.hostileFailure", "%!v(PANIC=Error method: no text)", nil},
		{"nil", nil, "Error", "<nil>", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.trace == nil {
				tt.trace = []string{}
			}
			exception, text, trace := describe(tt.err)
			if exception != tt.exception || tt.text != "" && text != tt.text || !reflect.DeepEqual(trace, tt.trace) {
				t.Errorf("got %q, %q, %#v", exception, text, trace)
			}
		})
	}
}

func explode(v any) { panic(v) }

func TestPanic(t *testing.T) {
	t.Parallel()
	var nobody *customer
	boom := errors.New("boom")
	outer := With(func(next Handler) Handler {
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
		{"runtime error", func() error { nobody.Name = "x"; return nil }, "panic: runtime error: invalid memory address or nil pointer dereference", " goworker.TestPanic.func"},
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
			exception, text, trace := describe(err)
			if exception != "PanicError" || text != tt.text {
				t.Errorf("got %q, %q", exception, text)
			}
			if len(trace) == 0 || !strings.HasPrefix(trace[0], "failure_error_test.go:") || !strings.Contains(trace[0], tt.frame) {
				t.Fatalf("trace begins %q", trace)
			}
			for _, line := range trace {
				if strings.Contains(line, " runtime.") || strings.Contains(line, " reflect.") || strings.Contains(line, "perform") {
					t.Errorf("trace holds a frame that is not the program's: %s", line)
				}
			}
			if !strings.Contains(string(p.Stack), "delivery.go") {
				t.Error("Stack is not whole")
			}
		})
	}
	_, err := runJob(t, func() { explode(boom) }, `[]`)
	if !errors.Is(err, boom) {
		t.Error("a panicked error is not found by errors.Is")
	}
}
