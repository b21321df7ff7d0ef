//go:build unix

package goworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
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
			if e.instead.Hard != tt.limit || e.timeout != tt.soft {
				t.Errorf("limits %s and %s, want %s and %s", e.timeout, e.instead.Hard, tt.soft, tt.limit)
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
	if limit := r.lookup("B").instead.Hard; limit != 0 {
		t.Errorf("B has a limit of %s", limit)
	}
}

// The hard limit of a job with a Timeout of its own follows from that, unless the class has one.
func TestIsolatedJobWithItsOwnTimeout(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts                []Option
		field               string
		hard, stuck, inside time.Duration
	}{
		"of the class":     {[]Option{Timeout(time.Minute), Isolated()}, ``, 70 * time.Second, 74 * time.Second, time.Minute},
		"of the job":       {[]Option{Timeout(time.Minute), Isolated()}, `,"timeout_ms":3600000`, time.Hour + 10*time.Second, time.Hour + 14*time.Second, time.Hour},
		"of the job alone": {[]Option{Isolated(KillGrace(0))}, `,"timeout_ms":1000`, 11 * time.Second, 11 * time.Second, time.Second},
		"none":             {[]Option{Timeout(time.Minute), Isolated()}, `,"timeout_ms":0`, 0, 0, 0},
		"fixed":            {[]Option{Isolated(HardTimeout(time.Minute))}, `,"timeout_ms":3600000`, time.Minute, 64 * time.Second, time.Hour},
	} {
		r := newRegistry()
		r.register("C", func() {}, tt.opts)
		raw := []byte(`{"class":"C","args":[]` + tt.field + `}`)
		d := r.delivery(r.Read("q", raw), nil)
		if i := d.handler.(*isolation); i.Hard != tt.hard || d.timeout != 0 || d.limit != tt.stuck {
			t.Errorf("%s: limits %s and %s, stuck after %s", name, i.Hard, d.timeout, d.limit)
		}
		if d, _, err := r.isolated(isolate.Request{Queue: "q", Payload: raw}); err != nil || d.timeout != tt.inside || d.limit != 0 {
			t.Errorf("%s: in the child the limits are %s and %s: %v", name, d.timeout, d.limit, err)
		}
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

// limited performs a job of a class with a time limit of a minute, in a goroutine of
// its own, and returns the registry and a channel for the end.
func limited(t *testing.T, book *safeBuffer, handler any) (*registry, <-chan error) {
	r := newRegistry()
	r.register("C", handler, []Option{Timeout(time.Minute)})
	d, err := prepared(t, r, `{"class":"C","args":[],"id":"a7"}`)
	if err != nil {
		t.Fatal(err)
	}
	d.Worker, d.logger = "host:1-3:mail", slog.New(slog.NewTextHandler(book, nil))
	ended := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			if !returned {
				ended <- ErrGoexit
			}
		}()
		err := d.perform(context.Background())
		returned = true
		ended <- err
	}()
	return r, ended
}

func TestStuck(t *testing.T) {
	for name, end := range map[string]func() error{
		"done":     func() error { return nil },
		"failed":   func() error { return errors.New("no luck") },
		"panicked": func() error { panic("boom") },
		"goexit":   func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate, book, began := make(chan bool), new(safeBuffer), time.Now()
				r, ended := limited(t, book, func() error {
					<-gate // it never looks at its context
					return end()
				})
				time.Sleep(time.Minute + StuckAfter - 1)
				synctest.Wait()
				if got := r.stuckJobs(); len(got) != 0 {
					t.Errorf("stuck before its time: %+v", got)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				want := StuckJob{Queue: "mail", Class: "C", ID: "a7", Worker: "host:1-3:mail", Started: began, Limit: time.Minute}
				if got := r.stuckJobs(); len(got) != 1 || got[0] != want {
					t.Errorf("stuck are %+v, want %+v", got, want)
				}
				time.Sleep(time.Hour)
				if n := book.count("job is stuck"); n != 1 || book.count("isolated_test.go:") != 1 {
					t.Errorf("it is logged %d times, without the handler's place perhaps:\n%s", n, book.String())
				}
				close(gate)
				<-ended
				if got := r.stuckJobs(); len(got) != 0 {
					t.Errorf("ended but stuck: %+v", got)
				}
				if book.count("stuck job ended") != 1 {
					t.Errorf("its end is not logged:\n%s", book.String())
				}
			})
		})
	}
}

func TestNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := new(safeBuffer)
		r, ended := limited(t, book, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		time.Sleep(time.Hour)
		if book.String() != "" || len(r.stuckJobs()) != 0 {
			t.Errorf("stuck %+v, logged:\n%s", r.stuckJobs(), book.String())
		}
	})
}
