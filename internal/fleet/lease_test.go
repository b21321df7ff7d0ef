package fleet

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/conn"
)

func TestEnterAndLeave(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if b.Session() != nil {
		t.Error("there is a session before the start")
	}
	b.start()
	s := b.Session()
	if b.Self() != "me:2" || s.Process.ID != "me:2" || !slices.Equal(s.names.Load().workers, []string{"me:2-0:work", "me:2-1:work"}) { // me:1 was for the check
		t.Errorf("entered as %q with workers %q", b.Self(), s.names.Load().workers)
	}
	b.eventually("the lease is renewed", func() bool { return b.called("held me:2") && b.called("answered true") })
	if !b.Leads() || b.Peers() != 1 || b.Silent(time.Now()) || !b.Silent(time.Now().Add(LeasePeriod)) {
		t.Error("it does not know the fleet")
	}
	if n := b.redis.Int(t, "SCARD", "resque:workers"); n != 2 {
		t.Errorf("%d workers are registered", n)
	}
	if err := errors.Join(b.Status.Stop(t.Context()), b.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if context.Cause(s.Context()) != errShutdown || b.calls.count("leaving") != 1 {
		t.Errorf("the session ended with %v, %d calls of the heir", context.Cause(s.Context()), b.calls.count("leaving"))
	}
	if keys := b.redis.Keys(t); slices.ContainsFunc(keys, func(k string) bool { return k != "resque:go:pulse" }) {
		t.Errorf("it left %q", keys)
	}
}

// A process that was found dead goes on under another identity, and both leave.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	old := b.Session()
	c := b.redis.Dial(t)
	b.eventually("it is found dead", func() bool { // between two renewals
		taken, err := b.base.Store.Fence(c, "me:2", b.redis.Text(t, "ZSCORE", "resque:go:processes", "me:2"))
		return taken && err == nil
	})
	b.Wake()
	b.eventually("the owner learns it", func() bool { return b.called("lost me:2") })
	if b.Self() != "me:3" || context.Cause(old.Context()) != errLost || b.Session().Context().Err() != nil {
		t.Errorf("now %q, the old session ended with %v", b.Self(), context.Cause(old.Context()))
	}
	if err := errors.Join(b.Status.Stop(t.Context()), b.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !b.called("died me:2") || b.redis.Int(t, "EXISTS", "resque:go:process:me:2", "resque:go:process:me:3", "resque:workers", "resque:go:processes") > 0 {
		t.Errorf("left are %q", b.redis.Keys(t))
	}
}

func TestRecordGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.eventually("the lease is renewed", func() bool { return b.called("held") })
	b.redis.Do(t, "FLUSHALL")
	b.Wake()
	b.eventually("the owner learns it", func() bool { return b.called("gone me:2") })
	if err := b.base.Store.Reenter(b.redis.Dial(t), b.Session().Process, 2, LeasePeriod); err != nil { // as the poller does
		t.Fatal(err)
	}
	b.RegisterAgain()
	b.eventually("the workers are registered", func() bool { return b.redis.Int(t, "SCARD", "resque:workers") == 2 })
	if b.Self() != "me:2" {
		t.Errorf("now %q", b.Self())
	}
}

// What Redis says of the time holds until it says another.
func TestClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Saw(time.Now().Add(time.Hour))
	if off := time.Until(b.Lease.Now()) - time.Hour; off.Abs() > time.Minute {
		t.Errorf("off by %v", off)
	}
	b.start()
	if off := time.Until(b.Session().Now()); off.Abs() > time.Minute {
		t.Errorf("off by %v after it has asked Redis", off)
	}
	if at := time.Now(); b.At(at).Sub(at).Abs() > time.Minute {
		t.Errorf("%v is %v for Redis", at, b.At(at))
	}
}

func TestStartWithoutRedis(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.redis.Kill()
	if err := b.Start(t.Context()); conn.Classify(err) != conn.KindConn {
		t.Errorf("got %v", err)
	}
	b.redis.Restart(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errShutdown)
	if err := b.Start(ctx); err == nil {
		t.Error("it started although its context had ended")
	}
	if n := b.redis.Int(t, "ZCARD", "resque:go:processes"); n != 0 {
		t.Errorf("%d processes are in the fleet", n)
	}
}

func TestSessionCancelsJobs(t *testing.T) {
	t.Parallel()
	cause := errors.New("cancelled")
	s := newSession(t.Context(), process("p"), nil)
	first := s.Jobs()
	s.CancelJobs(cause)
	second := s.Jobs()
	if context.Cause(first) != cause || second.Err() != nil {
		t.Errorf("after CancelJobs: %v, %v", context.Cause(first), second.Err())
	}
	s.StopJobs(errShutdown)
	s.CancelJobs(cause)
	if context.Cause(second) != errShutdown || context.Cause(s.Jobs()) != errShutdown || s.Context().Err() != nil {
		t.Errorf("after StopJobs: %v, %v", context.Cause(second), context.Cause(s.Jobs()))
	}
	s = newSession(t.Context(), process("p"), nil)
	s.end(errLost)
	s.CancelJobs(cause)
	if context.Cause(s.Jobs()) != errLost {
		t.Errorf("after the end: %v", context.Cause(s.Jobs()))
	}
}
