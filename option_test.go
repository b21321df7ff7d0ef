package goworker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// What Register refuses, for each option: out of its range, given twice, contradicting
// another. The sentence names the class, the option, its value and what is allowed.
func TestRegisterRefusesOptions(t *testing.T) {
	t.Parallel()
	key, expired := Arg(0), func(context.Context, *Delivery) error { return nil }
	for _, tt := range []struct {
		opts []Option
		want string
	}{
		{[]Option{Timeout(-1)}, "Timeout(-1ns): it must be positive, or 0 for no limit"},
		{[]Option{Timeout(1), Timeout(2)}, "Timeout(1ns) and Timeout(2ns) both say how long a run may take; give one of them"},
		{[]Option{Timeout(1), Timeout(1)}, "Timeout(1ns) is given twice; give it once"},
		{[]Option{UseNumber(), UseNumber()}, "UseNumber is given twice"},
		{[]Option{OnExpired(expired), OnExpired(expired)}, "OnExpired is given twice"},

		{[]Option{Retry(-7)}, "Retry(-7): it must be a number of retries, or NoLimit (-1)"},
		{[]Option{Retry(3), Retry(5)}, "Retry(3) and Retry(5) both say how often"},
		{[]Option{Retry(3), Retry(3)}, "Retry(3) is given twice"},
		{[]Option{Retry(3, Delays{1}, Delays{1})}, "Retry: Delays is given twice"},
		{[]Option{Retry(3, Delays{1}, Exponential{})}, "Retry: Delays and Exponential both say how long to wait"},
		{[]Option{Retry(3, Delays{1, -1})}, "Retry: the wait -1ns in Delays[1ns -1ns] is negative; 0 does not wait"},
		{[]Option{Retry(3, Exponential{Jitter: -0.5})}, "Retry: Exponential{Jitter: -0.5}: it must be at most 1 and not negative, or NoJitter"},
		{[]Option{Retry(3, Fibonacci{Unit: time.Minute, Max: 1})}, "Retry: Fibonacci{Unit: 1m0s, Max: 1ns}: Max is shorter"},
		{[]Option{Retry(3, ResqueRetry{}, ResqueRetry{})}, "Retry: ResqueRetry is given twice"},

		{[]Option{RateLimit(1, time.Second, Burst(0))}, "Burst(0): it must be at least 1"},
		{[]Option{RateLimit(1, time.Second, Burst(2), Burst(3))}, "Burst(2) and Burst(3) both say"},
		{[]Option{Concurrency(1, Burst(2))}, "Burst(2): a Concurrency starts as many as may run"},
		{[]Option{Concurrency(1, InProcess(), Burst(2))}, "Burst(2): a Concurrency"},
		{[]Option{Concurrency(1, InProcess(), InProcess())}, "InProcess is given twice"},
		{[]Option{Concurrency(1, PerKey(key), PerKey(key))}, "PerKey is given twice"},
		{[]Option{Concurrency(1, SharedAs(""))}, `SharedAs(""): the name is empty`},
		{[]Option{Concurrency(1, SharedAs("a"), SharedAs("b"))}, `SharedAs("a") and SharedAs("b") both say the limit's name`},
		{[]Option{Concurrency(1, SharedAs("a")), Concurrency(1, SharedAs("a"))}, `the limit SharedAs("a") is given twice`},
		{[]Option{Fair(key), Fair(key)}, "Fair is given twice"},

		{[]Option{Isolated(), Isolated()}, "Isolated is given twice"},
		{[]Option{Isolated(nil)}, "Isolated: a nil IsolatedOption was given"},
		{[]Option{Isolated(HardTimeout(1), HardTimeout(2))}, "Isolated: HardTimeout(1ns) and HardTimeout(2ns) both say"},
		{[]Option{Isolated(KillGrace(1), KillGrace(1))}, "Isolated: KillGrace(1ns) is given twice"},
		{[]Option{Isolated(MaxMemory(1), MaxMemory(2))}, "Isolated: MaxMemory(1) and MaxMemory(2) both say"},
		{[]Option{Isolated(ChildEnv("A=1", "B=2"), ChildEnv("A=3"))}, "Isolated: ChildEnv(A) is given twice"},
		{[]Option{Isolated(ChildEnv("=1"))}, `Isolated: "=1" is not NAME=value`},

		{[]Option{ExpireAfter(-1)}, "ExpireAfter(-1ns): it must be positive, or 0 for no limit"},
		{[]Option{ExpireAfter(1), ExpireAfter(2)}, "ExpireAfter(1ns) and ExpireAfter(2ns) both say"},
		{[]Option{Unique(), Unique()}, "Unique is given twice"},
		{[]Option{Unique(UntilDone(), UntilDone())}, "UntilDone is given twice"},
		{[]Option{Unique(UntilElapsed(time.Hour), UntilElapsed(time.Minute))}, "UntilElapsed(1h0m0s) and UntilElapsed(1m0s) both say"},
		{[]Option{Unique(ByKey("a"), ByKey("b"))}, `ByKey("a") and ByKey("b") both say`},
		{[]Option{Unique(ByKey("a"), ByKeyOf(func(*Job) string { return "" }))}, `ByKey("a") and ByKeyOf both say`},
		{[]Option{Unique(ByKey(""))}, `ByKey(""): the key by which a job is to be unique is empty`},
		{[]Option{Unique(ReplaceWaiting(), ReplaceWaiting())}, "ReplaceWaiting is given twice"},
		{[]Option{Unique(LockAtMost(time.Hour), LockAtMost(time.Minute))}, "LockAtMost(1h0m0s) and LockAtMost(1m0s) both say"},
		{[]Option{Uniqueness{}}, "a unique job's lock is to last 0s"},
	} {
		wantPanic(t, `goworker: Register("C"): `+tt.want, func() { New(WorkerSettings{}).Register("C", func() {}, tt.opts...) })
	}
	twice := Concurrency(1, SharedAs("a"))
	wantPanic(t, `goworker: LimitQueue("q"): the limit SharedAs("a") is given twice`, func() { New(WorkerSettings{}).LimitQueue("q", twice, twice) })
}

// What adds up may be repeated, and what has a documented zero or NoLimit stays.
func TestRegisterAcceptsOptions(t *testing.T) {
	t.Parallel()
	through := func(h Handler) Handler { return h }
	eof, key := errors.New("end"), Arg(0)
	for i, opts := range [][]Option{
		{Timeout(0)},
		{With(through), With(through, through), With()},
		{Retry(NoLimit)}, {Retry(0, Delays{0})}, {Retry(1, Exponential{Jitter: NoJitter})},
		{Retry(1, RetryOn(eof), RetryOn(eof), RetryIf(ErrorAs[*PanicError]), NoRetryOn(eof), NoRetryOn(eof), NoRetryIf(ErrorAs[*PanicError]))},
		{Concurrency(2), Concurrency(3), RateLimit(1, time.Second), Concurrency(1, PerKey(key)), Fair(key)},
		{Concurrency(1, SharedAs("a"), PerKey(key)), Concurrency(1, SharedAs("a"), PerKey(Arg(1))), RateLimit(1, time.Second, SharedAs("a"))},
		{Isolated(HardTimeout(0), KillGrace(0), MaxMemory(0), ChildEnv("A=1"), ChildEnv("B=1"))},
		{ExpireAfter(0)},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			wantPanic(t, "", func() { New(WorkerSettings{}).Register("C", func() {}, opts...) })
		})
	}
}

// EnqueueWith returns the same sentences, names the class and sends nothing. Its options
// go before those of the class.
func TestEnqueueWithRefusesOptions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := New(WorkerSettings{URI: server.URI()})
	defer d.Close()
	d.Register("C", func() {}, Unique(), ExpireAfter(time.Hour))
	at := time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC)
	job := &Job{"q", Payload{"C", nil}}
	for _, tt := range []struct {
		opts []EnqueueOption
		want string
	}{
		{[]EnqueueOption{At(at), At(at)}, "At(2126-01-02T03:04:05Z) is given twice; give it once"},
		{[]EnqueueOption{At(at), In(time.Hour)}, "At(2126-01-02T03:04:05Z) and In(1h0m0s) both say when the job is due; give one of them"},
		{[]EnqueueOption{WithID("")}, `WithID(""): the id is empty`},
		{[]EnqueueOption{WithID("a"), WithID("b")}, `WithID("a") and WithID("b") both say the job's id`},
		{[]EnqueueOption{Unique(), Unique(UntilStart())}, "Unique is given twice"},
		{[]EnqueueOption{Unique(ByKey("a"), ByKey("a"))}, `ByKey("a") is given twice`},
		{[]EnqueueOption{ExpireAfter(-time.Second)}, "ExpireAfter(-1s): it must be positive, or 0 for no limit"},
		{[]EnqueueOption{ExpireAfter(1), ExpiresAt(at)}, "ExpireAfter(1ns) and ExpiresAt(2126-01-02T03:04:05Z) both say when the job expires"},
		{[]EnqueueOption{ExpiresAt(at), ExpiresAt(at.Add(1))}, "ExpiresAt(2126-01-02T03:04:05Z) and ExpiresAt(2126-01-02T03:04:05.000000001Z) both say when the job expires"},
	} {
		_, err := d.EnqueueWith(job, tt.opts...)
		if err == nil || !strings.HasPrefix(err.Error(), "goworker: enqueueing C: "+tt.want) || !strings.HasSuffix(err.Error(), "nothing was enqueued") {
			t.Errorf("the error %v does not say %q", err, tt.want)
		}
	}
	if keys := server.Keys(t); len(keys) > 0 {
		t.Errorf("keys: %q", keys)
	}
	for i, opts := range [][]EnqueueOption{
		{Unique(ByKey("other")), ExpireAfter(time.Minute)},
		{Unique(ByKey("third")), ExpireAfter(0), In(-time.Second)},
		{Unique(ByKey("fourth")), ExpiresAt(time.Time{}), WithID("mine"), At(at)},
	} {
		if _, err := d.EnqueueWith(job, opts...); err != nil {
			t.Errorf("options %d: %v", i, err)
		}
	}
}
