//go:build unix

package goworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/isolate"
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
			r := newRegistry()
			r.register("C", func() {}, tt.opts)
			e := r.lookup("C")
			if e.options.isolation.Hard != tt.limit || e.options.timeout != tt.soft {
				t.Errorf("limits %s and %s, want %s and %s", e.options.timeout, e.options.isolation.Hard, tt.soft, tt.limit)
			}
		})
	}
}

// One value of Isolated serves classes with different limits.
func TestIsolatedIsShared(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	isolated := Isolated()
	r.register("A", func() {}, []Option{isolated, Timeout(time.Minute)})
	r.register("B", func() {}, []Option{isolated})
	if limit := r.lookup("B").options.isolation.Hard; limit != 0 {
		t.Errorf("B has a limit of %s", limit)
	}
}

// What an error of this package was it is on the other side.
func TestErrorsCross(t *testing.T) {
	t.Parallel()
	own := isolate.Errors{Names: exceptionOf, Plain: plainError}
	cross := func(err error) error {
		wire, e := json.Marshal(isolate.NewError(err, own))
		there := new(isolate.Error)
		if e = errors.Join(e, json.Unmarshal(wire, there)); e != nil {
			t.Fatal(e)
		}
		return there
	}
	for _, err := range []error{
		&ArgumentError{Class: "C", Index: 2, Want: "int", Found: "a string", Err: errors.New("secret")},
		&UnknownClassError{Class: "C"},
		newPanicError(io.ErrUnexpectedEOF),
		fmt.Errorf("x: %w", &MemoryLimitError{Class: "C", Limit: 1, Used: 2}),
	} {
		there := cross(err)
		gotException, gotText, gotTrace := failure.Describe(there, exceptionOf)
		wantException, wantText, wantTrace := failure.Describe(err, exceptionOf)
		if gotException != wantException || gotText != wantText || !reflect.DeepEqual(gotTrace, wantTrace) {
			t.Errorf("the record has %s %q %q, want %s %q %q", gotException, gotText, gotTrace, wantException, wantText, wantTrace)
		}
		for _, target := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, ErrShutdown} {
			if failure.Is(there, target) != failure.Is(err, target) {
				t.Errorf("%v: is %v: %v", err, target, failure.Is(there, target))
			}
		}
	}
	var argument *ArgumentError
	if err := cross(&ArgumentError{Class: "C", Index: 2, Err: errors.New("secret")}); !errors.As(err, &argument) || argument.Index != 2 || argument.Err != nil {
		t.Errorf("errors.As gives %+v", argument)
	}
	var panicked *PanicError
	if err := cross(newPanicError(make(chan int))); !errors.As(err, &panicked) || !strings.HasPrefix(fmt.Sprint(panicked.Value), "0x") {
		t.Errorf("errors.As gives %+v", panicked)
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
