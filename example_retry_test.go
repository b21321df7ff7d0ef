package goworker_test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/goworker/goworker"
)

var errDeclined = errors.New("the card was declined")

func charge(ctx context.Context, card string) error { return nil }

// A job that fails waits 10 s, 20 s, 40 s, … and is filed as failed after its sixth run.
func ExampleRetry() {
	goworker.Register("Charge", charge, goworker.Retry(5))
}

// How long to wait, and which errors to retry.
func ExampleRetry_policy() {
	goworker.Register("Charge", charge, goworker.Retry(5,
		goworker.Exponential{Base: time.Second, Factor: 3, Max: 10 * time.Minute},
		goworker.NoRetryOn(errDeclined),
	))
	goworker.Register("Fetch", charge, goworker.Retry(3,
		goworker.Delays{0, time.Minute},               // at once, then each minute
		goworker.RetryIf(goworker.ErrorAs[net.Error]), // only what the network did
		goworker.RetryOn(context.DeadlineExceeded),    // or what took too long
	))
	goworker.Register("Poll", charge, goworker.Retry(goworker.NoLimit, goworker.DelayFunc(
		func(attempt int, err error) time.Duration { return time.Duration(attempt) * time.Second },
	)))
}

// The handler knows best: it says what is to become of the job.
func ExampleRetryIn() {
	goworker.Register("Import", func(ctx context.Context, id int) error {
		switch ready, err := look(id); {
		case errors.Is(err, errDeclined):
			return goworker.FailNow(err) // filed as failed, now
		case err != nil:
			return goworker.Discard(err) // dropped, and only logged
		case !ready:
			return goworker.RetryIn(30*time.Second, nil)
		}
		return nil
	})
}

func look(int) (bool, error) { return true, nil }

// A job that has to wait for something has not failed. It looks again later.
func ExampleSnooze() {
	goworker.Register("Import", func(ctx context.Context, id int) error {
		if ready, err := look(id); err != nil || !ready {
			return cmp.Or(err, goworker.Snooze(time.Minute))
		}
		return nil
	})
}

// Ruby's workers and Go's count the retries of a class together.
func ExampleResqueRetry() {
	goworker.Register("Charge", charge,
		goworker.Retry(6, goworker.ResqueDelays(), goworker.ResqueRetry{Ruby34: true}))
}
