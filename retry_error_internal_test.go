package goworker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

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
		wish, after := wished(err)
		if wait, retry, _ := p.decide(1, wish, after, err); !retry || wait != want {
			t.Errorf("%v: %s, %v; want %s", err, wait, retry, want)
		}
	}
}

// What an isolated handler says crosses to the daemon.
func TestRetryErrorsCross(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		fmt.Errorf("x: %w", RetryIn(time.Minute, errNoLuck)), Discard(nil), errors.Join(errNoLuck, Fail(errNoLuck)),
		fmt.Errorf("x: %w", busyFor(time.Minute)), errNoLuck, RetryIn(0, Discard(nil)),
	} {
		wire, _ := json.Marshal(newWireError(err))
		child := &childError{new(wireError)}
		if err := json.Unmarshal(wire, child.wire); err != nil {
			t.Fatal(err)
		}
		want, after := wished(err)
		got, gotAfter := wished(fmt.Errorf("daemon: %w", child))
		if got.kind != want.kind || got.wait != want.wait || gotAfter != after {
			t.Errorf("%v: %+v, %s; want %+v, %s", err, got, gotAfter, want, after)
		}
		if name := child.wire.Exception; strings.Contains(name, "wish") {
			t.Errorf("%v is a %s", err, name)
		}
	}
}

// busyFor is an error that says when to come again, as servers do.
type busyFor time.Duration

func (busyFor) Error() string { return "busy" }

func (b busyFor) RetryAfter() time.Duration { return time.Duration(b) }
