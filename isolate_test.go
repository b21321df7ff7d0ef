//go:build unix

package goworker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestIsolatedOptions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts        []Option
		panics      string
		limit, soft time.Duration
	}{
		"none":             {opts: []Option{Isolated()}},
		"both":             {opts: []Option{Timeout(time.Minute), Isolated(HardTimeout(2 * time.Minute))}, limit: 2 * time.Minute, soft: time.Minute},
		"equal":            {opts: []Option{Isolated(HardTimeout(time.Minute)), Timeout(time.Minute)}, limit: time.Minute, soft: time.Minute},
		"soft alone":       {opts: []Option{Isolated(), Timeout(time.Minute)}, limit: time.Minute + HardTimeoutMargin, soft: time.Minute},
		"soft beyond hard": {opts: []Option{Isolated(HardTimeout(time.Minute)), Timeout(time.Hour)}, panics: "its Timeout of 1h0m0s is longer than its HardTimeout of 1m0s"},
		"negative limit":   {opts: []Option{Isolated(HardTimeout(-1))}, panics: "HardTimeout(-1ns): it cannot be negative"},
		"negative grace":   {opts: []Option{Isolated(KillGrace(-1))}, panics: "KillGrace(-1ns): it cannot be negative"},
		"negative memory":  {opts: []Option{Isolated(MaxMemory(-1))}, panics: "MaxMemory(-1): it cannot be negative"},
		"not a variable":   {opts: []Option{Isolated(ChildEnv("A=b", "C"))}, panics: `"C" is not NAME=value`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if v := recover(); tt.panics == "" && v != nil || !strings.Contains(fmt.Sprint(v), tt.panics) && tt.panics != "" {
					t.Errorf("Register panicked with %v, want %q", v, tt.panics)
				}
			}()
			var r registry
			r.register("C", func() {}, tt.opts)
			e := r.lookup("C")
			if e.options.isolation.limit != tt.limit || e.options.timeout != tt.soft {
				t.Errorf("limits %s and %s, want %s and %s", e.options.timeout, e.options.isolation.limit, tt.soft, tt.limit)
			}
		})
	}
}

// One value of Isolated serves classes with different limits.
func TestIsolatedIsShared(t *testing.T) {
	t.Parallel()
	var r registry
	isolated := Isolated()
	r.register("A", func() {}, []Option{isolated, Timeout(time.Minute)})
	r.register("B", func() {}, []Option{isolated})
	if limit := r.lookup("B").options.isolation.limit; limit != 0 {
		t.Errorf("B has a limit of %s", limit)
	}
}

type codeError struct {
	Code  int
	inner error
}

func (e codeError) Error() string { return fmt.Sprintf("code %d", e.Code) }
func (e codeError) Unwrap() error { return e.inner }

type brokenError struct{ text *string }

func (e *brokenError) Error() string                { return *e.text }
func (e *brokenError) MarshalJSON() ([]byte, error) { panic("no") }

// What an error was it is on the other side.
func TestErrorsCross(t *testing.T) {
	t.Parallel()
	cross := func(err error) error {
		data, e := frame(answer{Outcome: &childOutcome{Err: newWireError(err)}})
		if e != nil {
			t.Fatal(e)
		}
		var a answer
		if e := receive(strings.NewReader(string(data)), maxAnswer, &a); e != nil {
			t.Fatal(e)
		}
		return &childError{wire: a.Outcome.Err}
	}
	sentinel := errors.New("sentinel")
	for name, err := range map[string]error{
		"wrapped":    fmt.Errorf("reading: %w", codeError{Code: 5, inner: io.ErrUnexpectedEOF}),
		"joined":     errors.Join(sentinel, context.DeadlineExceeded),
		"arguments":  &ArgumentError{Class: "C", Index: 2, Want: "int", Found: "a string", Err: errors.New("secret")},
		"unknown":    &UnknownClassError{Class: "C"},
		"panicked":   newPanicError(sentinel),
		"path":       &os.PathError{Op: "open", Path: "/x", Err: os.ErrNotExist},
		"nil inside": (*brokenError)(nil),
		"unreadable": &brokenError{},
	} {
		there := cross(err)
		gotException, gotText, gotTrace := describe(there)
		wantException, wantText, wantTrace := describe(err)
		if gotException != wantException || gotText != wantText || !reflect.DeepEqual(gotTrace, wantTrace) {
			t.Errorf("%s: the record has %s %q %q, want %s %q %q", name, gotException, gotText, gotTrace, wantException, wantText, wantTrace)
		}
		for _, target := range []error{sentinel, io.ErrUnexpectedEOF, context.DeadlineExceeded, context.Canceled, ErrShutdown, os.ErrNotExist, errors.New("sentinel 2")} {
			if name != "nil inside" && name != "unreadable" && is(there, target) != is(err, target) {
				t.Errorf("%s: is %v: %v, want %v", name, target, is(there, target), is(err, target))
			}
		}
	}
	var code codeError
	if err := cross(fmt.Errorf("x: %w", codeError{Code: 5})); !errors.As(err, &code) || code.Code != 5 {
		t.Errorf("errors.As gives %+v", code)
	}
	var argument *ArgumentError
	if err := cross(&ArgumentError{Class: "C", Index: 2, Err: errors.New("secret")}); !errors.As(err, &argument) || argument.Index != 2 || argument.Err != nil {
		t.Errorf("errors.As gives %+v", argument)
	}
	var path *os.PathError
	if errors.As(cross(errors.New("other")), &path) {
		t.Error("errors.As found what is not there")
	}
}

func TestChildParts(t *testing.T) {
	t.Parallel()
	parts, err := childParts([]Part{
		{Name: "cache", Requires: []string{"database", "workers"}, Isolated: true},
		{Name: "server", Requires: []string{"cache"}},
		{Name: "database", Requires: []string{"lease", "server"}, Isolated: true},
	})
	var names []string
	for _, p := range parts {
		names = append(names, p.Name)
	}
	if err != nil || !reflect.DeepEqual(names, []string{"database", "cache"}) {
		t.Errorf("%q, %v", names, err)
	}
}
