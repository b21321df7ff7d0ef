//go:build unix

package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/failure"
)

type codeError struct {
	Code  int
	inner error
}

func (e codeError) Error() string { return fmt.Sprintf("code %d", e.Code) }
func (e codeError) Unwrap() error { return e.inner }

type brokenError struct{ text *string }

func (e *brokenError) Error() string                { return *e.text }
func (e *brokenError) MarshalJSON() ([]byte, error) { panic("no") }

// secretError may have a field without a form in JSON, which Plain leaves out.
type secretError struct {
	Secret any
	Code   int
}

func (e *secretError) Error() string { return "secret" }

var own = Errors{
	Names: func(err error) string {
		if _, ok := err.(*secretError); ok {
			return "Secret"
		}
		return ""
	},
	Plain: func(err error) error {
		if e, ok := err.(*secretError); ok {
			return &secretError{Code: e.Code}
		}
		return err
	},
}

// What an error was it is on the other side.
func TestErrorsCross(t *testing.T) {
	t.Parallel()
	cross := func(err error) error {
		data, e := frame(answer{Outcome: &childOutcome{Err: NewError(err, own)}})
		if e != nil {
			t.Fatal(e)
		}
		var a answer
		if e := receive(strings.NewReader(string(data)), maxAnswer, &a); e != nil {
			t.Fatal(e)
		}
		return a.Outcome.Err
	}
	sentinel := errors.New("sentinel")
	for name, err := range map[string]error{
		"wrapped":    fmt.Errorf("reading: %w", codeError{Code: 5, inner: io.ErrUnexpectedEOF}),
		"joined":     errors.Join(sentinel, context.DeadlineExceeded),
		"named":      fmt.Errorf("x: %w", &secretError{Secret: make(chan int), Code: 7}),
		"path":       &os.PathError{Op: "open", Path: "/x", Err: os.ErrNotExist},
		"nil inside": (*brokenError)(nil),
		"unreadable": &brokenError{},
	} {
		there := cross(err)
		gotException, gotText, gotTrace := failure.Describe(there, own.Names)
		wantException, wantText, wantTrace := failure.Describe(err, own.Names)
		if gotException != wantException || gotText != wantText || !reflect.DeepEqual(gotTrace, wantTrace) {
			t.Errorf("%s: the record has %s %q %q, want %s %q %q", name, gotException, gotText, gotTrace, wantException, wantText, wantTrace)
		}
		for _, target := range []error{sentinel, io.ErrUnexpectedEOF, context.DeadlineExceeded, context.Canceled, failure.ErrShutdown, os.ErrNotExist, errors.New("sentinel 2")} {
			if name != "nil inside" && name != "unreadable" && failure.Is(there, target) != failure.Is(err, target) {
				t.Errorf("%s: is %v: %v, want %v", name, target, failure.Is(there, target), failure.Is(err, target))
			}
		}
	}
	var code codeError
	if err := cross(fmt.Errorf("x: %w", codeError{Code: 5})); !errors.As(err, &code) || code.Code != 5 {
		t.Errorf("errors.As gives %+v", code)
	}
	var secret *secretError
	if err := cross(&secretError{Secret: make(chan int), Code: 7}); !errors.As(err, &secret) || secret.Code != 7 || secret.Secret != nil {
		t.Errorf("errors.As gives %+v", secret)
	}
	var path *os.PathError
	if errors.As(cross(errors.New("other")), &path) {
		t.Error("errors.As found what is not there")
	}
}

// busyFor is an error that says when to come again, as servers do.
type busyFor time.Duration

func (busyFor) Error() string               { return "busy" }
func (b busyFor) RetryAfter() time.Duration { return time.Duration(b) }

// What an isolated handler says crosses to the daemon.
func TestWishesCross(t *testing.T) {
	t.Parallel()
	noLuck := errors.New("no luck")
	for _, err := range []error{
		fmt.Errorf("x: %w", &failure.Wish{Kind: failure.WishRetry, Wait: time.Minute, Err: noLuck}), &failure.Wish{Kind: failure.WishDiscard},
		errors.Join(noLuck, &failure.Wish{Kind: failure.WishFail, Err: noLuck}), fmt.Errorf("x: %w", busyFor(time.Minute)), noLuck,
		&failure.Wish{Kind: failure.WishRetry, Err: &failure.Wish{Kind: failure.WishDiscard}},
	} {
		wire, _ := json.Marshal(NewError(err, own))
		child := new(Error)
		if err := json.Unmarshal(wire, child); err != nil {
			t.Fatal(err)
		}
		want, after := failure.Wished(err)
		got, gotAfter := failure.Wished(fmt.Errorf("daemon: %w", child))
		if got.Kind != want.Kind || got.Wait != want.Wait || gotAfter != after {
			t.Errorf("%v: %+v, %s; want %+v, %s", err, got, gotAfter, want, after)
		}
		if name := child.Name; strings.Contains(strings.ToLower(name), "wish") {
			t.Errorf("%v is a %s", err, name)
		}
	}
}
