package goworkertest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// late is a context with a deadline that it notices late, as a timer may on a busy machine.
type late struct {
	context.Context
	until time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.until, true }

// A connection that ended at the deadline of a Drain is not what the test says: it says that the time is over.
func TestWhyEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why, timeout := errors.New("the time is over"), errors.New("i/o timeout")
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := whyEnded(ctx, timeout); err != timeout {
			t.Errorf("of a context that goes on: %v", err)
		}
		if err := whyEnded(late{ctx, time.Now().Add(time.Second)}, timeout); err != timeout {
			t.Errorf("before the deadline: %v", err)
		}
		time.AfterFunc(time.Second, func() { cancel(why) })
		if err := whyEnded(late{ctx, time.Now()}, timeout); err != why {
			t.Errorf("at the deadline: %v", err)
		}
		if err := whyEnded(ctx, nil); err != why {
			t.Errorf("afterwards: %v", err)
		}
	})
}
