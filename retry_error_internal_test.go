package goworker

import (
	"errors"
	"fmt"
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
		if wait, retry, _ := p.policy().Again(1, err); !retry || wait != want {
			t.Errorf("%v: %s, %v; want %s", err, wait, retry, want)
		}
	}
}

// busyFor is an error that says how long to wait.
type busyFor time.Duration

func (b busyFor) Error() string             { return "busy" }
func (b busyFor) RetryAfter() time.Duration { return time.Duration(b) }
