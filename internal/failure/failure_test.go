package failure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode"
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

// aboveFailure is of the package that gives Names.
type aboveFailure struct{}

func (aboveFailure) Error() string { return "above" }

func above(err error) string {
	if _, ok := err.(aboveFailure); ok {
		return "Above"
	}
	return ""
}

type internalFailure struct{}

func (internalFailure) Error() string     { return "internal" }
func (internalFailure) Exception() string { return "Internal" }

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
		{"own type", plainFailure{}, "failure.plainFailure", "plain", nil},
		{"pointer", &pointerFailure{"x"}, "failure.pointerFailure", "x", nil},
		{"nil pointer", (*pointerFailure)(nil), "failure.pointerFailure", "<nil>", nil},
		{"type parameters", genericFailure[map[string]int]{}, "failure.genericFailure", "generic", nil},
		{"other letters", fälure{}, "failure.flure", "umlaut", nil},
		{"wrapped", fmt.Errorf("a: %w", fmt.Errorf("b: %w", plainFailure{})), "failure.plainFailure", "a: b: plain", nil},
		{"wrapped several", fmt.Errorf("%w, %w", errors.New("x"), plainFailure{}), "failure.plainFailure", "x, plain", nil},
		{"joined", errors.Join(errors.New("x"), plainFailure{}), "failure.plainFailure", "x\nplain", nil},
		{"joined texts", errors.Join(errors.New("x"), errors.New("y")), "Error", "x\ny", nil},
		{"library", &fs.PathError{Op: "open", Path: "p", Err: os.ErrNotExist}, "fs.PathError", "open p: file does not exist", nil},
		{"deadline", context.DeadlineExceeded, "context.deadlineExceededError", "context deadline exceeded", nil},
		{"of the package above", fmt.Errorf("x: %w", aboveFailure{}), "Above", "x: above", nil},
		{"of an internal package", fmt.Errorf("x: %w", internalFailure{}), "Internal", "x: internal", nil},
		{"cancelled", &Cancelled{ErrShutdown, plainFailure{}}, "failure.plainFailure", "goworker: shutting down: plain", nil},
		{"its own cause", &Cancelled{ErrShutdown, ErrShutdown}, "Error", "goworker: shutting down", nil},
		{"wish", &Wish{Kind: WishFail, Err: plainFailure{}}, "failure.plainFailure", "plain", nil},
		{"wish alone", &Wish{Kind: WishDiscard}, "Error", "the handler discarded the job", nil},
		{"goexit", ErrGoexit, "Error", "", nil},
		{"own trace", fmt.Errorf("x: %w", tracedFailure{[]string{"a.go:1 f"}}), "failure.tracedFailure", "x: traced", []string{"a.go:1 f"}},
		{"own trace nil", tracedFailure{}, "failure.tracedFailure", "traced", nil},
		{"loop", loopFailure{}, "failure.loopFailure", "loop", nil},
		{"hostile", hostileFailure{}, "failure.hostileFailure", "%!v(PANIC=Error method: no text)", nil},
		{"nil", nil, "Error", "<nil>", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.trace == nil {
				tt.trace = []string{}
			}
			exception, text, trace := Describe(tt.err, above)
			if exception != tt.exception || tt.text != "" && text != tt.text || !reflect.DeepEqual(trace, tt.trace) {
				t.Errorf("got %q, %q, %#v", exception, text, trace)
			}
		})
	}
}

// oddError is an error that a fuzzer writes.
type oddError struct {
	text  string
	trace []string
}

func (e oddError) Error() string       { return e.text }
func (e oddError) Backtrace() []string { return e.trace }

// Whatever a handler returns or panics with: the exception is a name that no page
// need escape, and neither text nor backtrace is longer than its limit.
func FuzzDescribe(f *testing.F) {
	f.Add("boom", "a.go:1\nb.go:2", uint16(1))
	f.Add(strings.Repeat("x", 100), "<script>", uint16(60000))
	f.Fuzz(func(t *testing.T, text, trace string, times uint16) {
		odd := oddError{strings.Repeat(text, int(times)%512+1), strings.Split(strings.Repeat(trace, int(times)%512+1), "\n")}
		for _, err := range []error{odd, &odd, fmt.Errorf("%w", odd), errors.Join(odd, odd), &Cancelled{ErrShutdown, odd}, &Wish{Kind: WishFail, Err: odd}} {
			exception, said, lines := Describe(err, above)
			if exception == "" || strings.ContainsFunc(exception, func(c rune) bool {
				return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_.:", c)
			}) {
				t.Errorf("exception %q", exception)
			}
			if len(said) > MaxText+50 {
				t.Errorf("a text of %d bytes", len(said))
			}
			size := 0
			for _, l := range lines {
				size += len(l)
			}
			if lines == nil || size > MaxText+50 || len(lines) > MaxFrames+1 {
				t.Errorf("a backtrace of %d lines, %d bytes", len(lines), size)
			}
		}
	})
}

func TestStackLines(t *testing.T) {
	t.Parallel()
	got := stackLines("goroutine 7 [select, 2 minutes]:\nruntime.gopark(0x1)\n\t/go/src/runtime/proc.go:1 +0x1\n" +
		"shop/reports.(*Maker).Wait(0xc000, {0x1, 0x2})\n\t/src/shop/reports/maker.go:40 +0x1d\n" +
		module + ".(*Delivery).perform(0xc0001)\n\t/src/goworker/delivery.go:90 +0x2\n" +
		module + "/internal/args.(*Function).Call(0xc0001)\n\t/src/goworker/internal/args/function.go:90 +0x2\n" +
		"created by shop/reports.Start in goroutine 1\n\t/src/shop/reports/start.go:4 +0x2\n")
	if len(got) != 1 || got[0] != "maker.go:40 reports.(*Maker).Wait" {
		t.Errorf("lines %q", got)
	}
}

// A program's package may have a path that only begins as this module's does.
func TestInternal(t *testing.T) {
	t.Parallel()
	for function, want := range map[string]bool{
		"runtime.gopanic":                      true,
		"reflect.Value.Call":                   true,
		module + ".(*Delivery).perform":        true,
		module + "/internal/args.Compile":      true,
		module + "/example/demo.main":          false,
		module + "/internalized.Work":          false,
		module + "_test.TestWork":              false,
		module + "x.Work":                      false,
		"shop/vendor/goworker/internal/a.Work": false,
		"reflections.Work":                     false,
	} {
		if got := internal(function, "/src/a.go"); got != want {
			t.Errorf("%s: %v", function, got)
		}
	}
	if internal(module+".TestWork", "/src/a_test.go") {
		t.Error("a test's own function is not the program's")
	}
}

type askedFailure struct{ is error }

func (askedFailure) Error() string          { return "asked" }
func (e askedFailure) Is(target error) bool { return target == e.is }

// listFailure cannot be compared.
type listFailure []string

func (listFailure) Error() string { return "list" }

// forkFailure unwraps to two of its own for ever.
type forkFailure struct{}

func (forkFailure) Error() string     { return "fork" }
func (e forkFailure) Unwrap() []error { return []error{e, e} }

// Is is errors.Is where that ends: an error that unwraps for ever must not hold a worker.
func TestIs(t *testing.T) {
	t.Parallel()
	target := errors.New("target")
	deep := target
	for range 50 {
		deep = fmt.Errorf("deeper: %w", deep)
	}
	many := make([]error, 300)
	for i := range many {
		many[i] = errors.New("other")
	}
	for _, tt := range []struct {
		name        string
		err, target error
	}{
		{"itself", target, target},
		{"another", errors.New("target"), target},
		{"nil", nil, target},
		{"both nil", nil, nil},
		{"nothing sought", target, nil},
		{"deep", deep, target},
		{"one of many", errors.Join(append(many, deep)...), target},
		{"none of many", errors.Join(many...), target},
		{"asked", fmt.Errorf("x: %w", askedFailure{is: target}), target},
		{"asked for another", askedFailure{is: plainFailure{}}, target},
		{"equal values", fmt.Errorf("x: %w", plainFailure{}), plainFailure{}},
		{"not comparable", listFailure{"a"}, listFailure{"a"}},
		{"not comparable, wrapped", fmt.Errorf("x: %w", listFailure{"a"}), target},
		{"nil pointer", (*pointerFailure)(nil), target},
		{"the cause", &Cancelled{target, plainFailure{}}, target},
	} {
		if got, want := Is(tt.err, tt.target), errors.Is(tt.err, tt.target); got != want {
			t.Errorf("%s: %v, errors.Is says %v", tt.name, got, want)
		}
	}
	for name, endless := range map[string]error{"loop": loopFailure{}, "fork": forkFailure{}} {
		if Is(endless, target) {
			t.Errorf("%s: a match", name)
		}
		if !Is(&Cancelled{target, endless}, target) {
			t.Errorf("%s: an error beside it is not found", name)
		}
	}
	if Is(hostileFailure{}, target) {
		t.Error("a panic is a match")
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"stopped, and it gave way":          {&Cancelled{ErrShutdown, fmt.Errorf("read: %w", context.Canceled)}, true},
		"stopped, and its deadline passed":  {&Cancelled{ErrShutdown, context.DeadlineExceeded}, true},
		"stopped, and it returned why":      {&Cancelled{ErrShutdown, fmt.Errorf("read: %w", ErrShutdown)}, true},
		"stopped, and it failed":            {&Cancelled{ErrShutdown, plainFailure{}}, false},
		"lost its lease":                    {&Cancelled{ErrLeaseLost, plainFailure{}}, true},
		"lost its lease, endless":           {&Cancelled{ErrLeaseLost, loopFailure{}}, true},
		"cancelled":                         {&Cancelled{ErrCancelled, context.Canceled}, false},
		"its own deadline":                  {context.DeadlineExceeded, false},
		"stopped, endless and never either": {&Cancelled{ErrShutdown, forkFailure{}}, false},
	} {
		if got := Interrupted(tt.err); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
