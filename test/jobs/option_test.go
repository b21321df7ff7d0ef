package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// What Register refuses, for each option: out of its range, given twice, contradicting
// another. The sentence names the class, the option, its value and what is allowed.
func TestRegisterRefusesOptions(t *testing.T) {
	t.Parallel()
	key, expired := goworker.ByArg(0), func(context.Context, *goworker.Delivery) error { return nil }
	for _, tt := range []struct {
		opts []goworker.Option
		want string
	}{
		{[]goworker.Option{goworker.Timeout(-1)}, "Timeout(-1ns): it must be positive, or 0 for no limit"},
		{[]goworker.Option{goworker.Timeout(1), goworker.Timeout(2)}, "Timeout(1ns) and Timeout(2ns) both say how long a run may take; give one of them"},
		{[]goworker.Option{goworker.Timeout(1), goworker.Timeout(1)}, "Timeout(1ns) is given twice; give it once"},
		{[]goworker.Option{goworker.UseNumber(), goworker.UseNumber()}, "UseNumber is given twice"},
		{[]goworker.Option{goworker.OnExpired(expired), goworker.OnExpired(expired)}, "OnExpired is given twice"},

		{[]goworker.Option{goworker.Retry(-7)}, "Retry(-7): it must be a number of retries, or NoLimit (-1)"},
		{[]goworker.Option{goworker.Retry(3), goworker.Retry(5)}, "Retry(3) and Retry(5) both say how often"},
		{[]goworker.Option{goworker.Retry(3), goworker.Retry(3)}, "Retry(3) is given twice"},
		{[]goworker.Option{goworker.Retry(3, goworker.Delays{1}, goworker.Delays{1})}, "Retry: Delays is given twice"},
		{[]goworker.Option{goworker.Retry(3, goworker.Delays{1}, goworker.Exponential{})}, "Retry: Delays and Exponential both say how long to wait"},
		{[]goworker.Option{goworker.Retry(3, goworker.Delays{1, -1})}, "Retry: the wait -1ns in Delays[1ns -1ns] is negative; 0 does not wait"},
		{[]goworker.Option{goworker.Retry(3, goworker.Exponential{Jitter: -0.5})}, "Retry: Exponential{Jitter: -0.5}: it must be at most 1 and not negative, or NoJitter"},
		{[]goworker.Option{goworker.Retry(3, goworker.Fibonacci{Unit: time.Minute, Max: 1})}, "Retry: Fibonacci{Unit: 1m0s, Max: 1ns}: Max is shorter"},
		{[]goworker.Option{goworker.Retry(3, goworker.ResqueRetry{}, goworker.ResqueRetry{})}, "Retry: ResqueRetry is given twice"},

		{[]goworker.Option{goworker.RateLimit(1, time.Second, goworker.Burst(0))}, "Burst(0): it must be at least 1"},
		{[]goworker.Option{goworker.RateLimit(1, time.Second, goworker.Burst(2), goworker.Burst(3))}, "Burst(2) and Burst(3) both say"},
		{[]goworker.Option{goworker.MaxRunning(1, goworker.Burst(2))}, "Burst(2): MaxRunning starts as many as may run"},
		{[]goworker.Option{goworker.MaxRunning(1, goworker.PerProcess(), goworker.Burst(2))}, "Burst(2): MaxRunning"},
		{[]goworker.Option{goworker.MaxRunning(1, goworker.PerProcess(), goworker.PerProcess())}, "PerProcess is given twice"},
		{[]goworker.Option{goworker.MaxRunning(1, goworker.PerKey(key), goworker.PerKey(key))}, "PerKey is given twice"},
		{[]goworker.Option{goworker.MaxRunning(1, goworker.SharedAs(""))}, `SharedAs(""): the name is empty`},
		{[]goworker.Option{goworker.MaxRunning(1, goworker.SharedAs("a"), goworker.SharedAs("b"))}, `SharedAs("a") and SharedAs("b") both say the limit's name`},
		{[]goworker.Option{goworker.MaxRunning(1, goworker.SharedAs("a")), goworker.MaxRunning(1, goworker.SharedAs("a"))}, `the limit SharedAs("a") is given twice`},
		{[]goworker.Option{goworker.FairBy(key), goworker.FairBy(key)}, "FairBy is given twice"},

		{[]goworker.Option{goworker.Isolated(), goworker.Isolated()}, "Isolated is given twice"},
		{[]goworker.Option{goworker.Isolated(nil)}, "Isolated: a nil IsolatedOption was given"},
		{[]goworker.Option{goworker.Isolated(goworker.HardTimeout(1), goworker.HardTimeout(2))}, "Isolated: HardTimeout(1ns) and HardTimeout(2ns) both say"},
		{[]goworker.Option{goworker.Isolated(goworker.KillGrace(1), goworker.KillGrace(1))}, "Isolated: KillGrace(1ns) is given twice"},
		{[]goworker.Option{goworker.Isolated(goworker.MaxMemory(1), goworker.MaxMemory(2))}, "Isolated: MaxMemory(1) and MaxMemory(2) both say"},
		{[]goworker.Option{goworker.Isolated(goworker.ChildEnv("A=1", "B=2"), goworker.ChildEnv("A=3"))}, "Isolated: ChildEnv(A) is given twice"},
		{[]goworker.Option{goworker.Isolated(goworker.ChildEnv("=1"))}, `Isolated: "=1" is not NAME=value`},

		{[]goworker.Option{goworker.ExpireAfter(-1)}, "ExpireAfter(-1ns): it must be positive, or 0 for no limit"},
		{[]goworker.Option{goworker.ExpireAfter(1), goworker.ExpireAfter(2)}, "ExpireAfter(1ns) and ExpireAfter(2ns) both say"},
		{[]goworker.Option{goworker.Unique(), goworker.Unique()}, "Unique is given twice"},
		{[]goworker.Option{goworker.Unique(goworker.UntilDone(), goworker.UntilDone())}, "UntilDone is given twice"},
		{[]goworker.Option{goworker.Unique(goworker.UntilElapsed(time.Hour), goworker.UntilElapsed(time.Minute))}, "UntilElapsed(1h0m0s) and UntilElapsed(1m0s) both say"},
		{[]goworker.Option{goworker.Unique(goworker.ByKey("a"), goworker.ByKey("b"))}, `ByKey("a") and ByKey("b") both say`},
		{[]goworker.Option{goworker.Unique(goworker.ByKey("a"), goworker.ByKeyOf(func(*goworker.Job) string { return "" }))}, `ByKey("a") and ByKeyOf both say`},
		{[]goworker.Option{goworker.Unique(goworker.ByKey(""))}, `ByKey(""): the key by which a job is to be unique is empty`},
		{[]goworker.Option{goworker.Unique(goworker.ReplaceWaiting(), goworker.ReplaceWaiting())}, "ReplaceWaiting is given twice"},
		{[]goworker.Option{goworker.Unique(goworker.LockAtMost(time.Hour), goworker.LockAtMost(time.Minute))}, "LockAtMost(1h0m0s) and LockAtMost(1m0s) both say"},
		{[]goworker.Option{goworker.Uniqueness{}}, "a unique job's lock is to last 0s"},
	} {
		daemontest.WantPanic(t, `goworker: Register("C"): `+tt.want, func() { goworker.New(goworker.WorkerSettings{}).Register("C", func() {}, tt.opts...) })
	}
	twice := goworker.MaxRunning(1, goworker.SharedAs("a"))
	daemontest.WantPanic(t, `goworker: LimitQueue("q"): the limit SharedAs("a") is given twice`, func() { goworker.New(goworker.WorkerSettings{}).LimitQueue("q", twice, twice) })
}

// What adds up may be repeated, and what has a documented zero or NoLimit stays.
func TestRegisterAcceptsOptions(t *testing.T) {
	t.Parallel()
	through := func(h goworker.Handler) goworker.Handler { return h }
	eof, key := errors.New("end"), goworker.ByArg(0)
	for i, opts := range [][]goworker.Option{
		{goworker.Timeout(0)},
		{goworker.WithMiddleware(through), goworker.WithMiddleware(through, through), goworker.WithMiddleware()},
		{goworker.Retry(goworker.NoLimit)}, {goworker.Retry(0, goworker.Delays{0})}, {goworker.Retry(1, goworker.Exponential{Jitter: goworker.NoJitter})},
		{goworker.Retry(1, goworker.RetryOn(eof), goworker.RetryOn(eof), goworker.RetryIf(goworker.ErrorAs[*goworker.PanicError]), goworker.NoRetryOn(eof), goworker.NoRetryOn(eof), goworker.NoRetryIf(goworker.ErrorAs[*goworker.PanicError]))},
		{goworker.MaxRunning(2), goworker.MaxRunning(3), goworker.RateLimit(1, time.Second), goworker.MaxRunning(1, goworker.PerKey(key)), goworker.FairBy(key)},
		{goworker.MaxRunning(1, goworker.SharedAs("a"), goworker.PerKey(key)), goworker.MaxRunning(1, goworker.SharedAs("a"), goworker.PerKey(goworker.ByArg(1))), goworker.RateLimit(1, time.Second, goworker.SharedAs("a"))},
		{goworker.Isolated(goworker.HardTimeout(0), goworker.KillGrace(0), goworker.MaxMemory(0), goworker.ChildEnv("A=1"), goworker.ChildEnv("B=1"))},
		{goworker.ExpireAfter(0)},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			daemontest.WantPanic(t, "", func() { goworker.New(goworker.WorkerSettings{}).Register("C", func() {}, opts...) })
		})
	}
}

// EnqueueWith returns the same sentences, names the class and sends nothing. Its options
// go before those of the class.
func TestEnqueueWithRefusesOptions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := goworker.New(goworker.WorkerSettings{URI: server.URI()})
	defer d.Close()
	d.Register("C", func() {}, goworker.Unique(), goworker.ExpireAfter(time.Hour))
	at := time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC)
	job := &goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "C", Args: nil}}
	for _, tt := range []struct {
		opts []goworker.EnqueueOption
		want string
	}{
		{[]goworker.EnqueueOption{goworker.ProcessAt(at), goworker.ProcessAt(at)}, "ProcessAt(2126-01-02T03:04:05Z) is given twice; give it once"},
		{[]goworker.EnqueueOption{goworker.ProcessAt(at), goworker.ProcessIn(time.Hour)}, "ProcessAt(2126-01-02T03:04:05Z) and ProcessIn(1h0m0s) both say when the job is due; give one of them"},
		{[]goworker.EnqueueOption{goworker.WithID("")}, `WithID(""): the id is empty`},
		{[]goworker.EnqueueOption{goworker.WithID("a"), goworker.WithID("b")}, `WithID("a") and WithID("b") both say the job's id`},
		{[]goworker.EnqueueOption{goworker.Unique(), goworker.Unique(goworker.UntilStart())}, "Unique is given twice"},
		{[]goworker.EnqueueOption{goworker.Unique(goworker.ByKey("a"), goworker.ByKey("a"))}, `ByKey("a") is given twice`},
		{[]goworker.EnqueueOption{goworker.ExpireAfter(-time.Second)}, "ExpireAfter(-1s): it must be positive, or 0 for no limit"},
		{[]goworker.EnqueueOption{goworker.ExpireAfter(1), goworker.ExpiresAt(at)}, "ExpireAfter(1ns) and ExpiresAt(2126-01-02T03:04:05Z) both say when the job expires"},
		{[]goworker.EnqueueOption{goworker.ExpiresAt(at), goworker.ExpiresAt(at.Add(1))}, "ExpiresAt(2126-01-02T03:04:05Z) and ExpiresAt(2126-01-02T03:04:05.000000001Z) both say when the job expires"},
	} {
		_, err := d.EnqueueWith(job, tt.opts...)
		if err == nil || !strings.HasPrefix(err.Error(), "goworker: enqueueing C: "+tt.want) || !strings.HasSuffix(err.Error(), "nothing was enqueued") {
			t.Errorf("the error %v does not say %q", err, tt.want)
		}
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("keys: %q", keys)
	}
	for i, opts := range [][]goworker.EnqueueOption{
		{goworker.Unique(goworker.ByKey("other")), goworker.ExpireAfter(time.Minute)},
		{goworker.Unique(goworker.ByKey("third")), goworker.ExpireAfter(0), goworker.ProcessIn(-time.Second)},
		{goworker.Unique(goworker.ByKey("fourth")), goworker.ExpiresAt(time.Time{}), goworker.WithID("mine"), goworker.ProcessAt(at)},
	} {
		if _, err := d.EnqueueWith(job, opts...); err != nil {
			t.Errorf("options %d: %v", i, err)
		}
	}
}
