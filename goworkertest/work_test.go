package goworkertest_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

var errDeclined = errors.New("the card was declined")

// shop registers a class for each end that a job can have. It writes down what hooks and middleware see.
func shop(d *goworker.Daemon, saw *[]string) {
	d.Use(func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, run *goworker.Delivery) error {
			*saw = append(*saw, "around "+run.Class)
			return next.Perform(ctx, run)
		})
	})
	d.AddHooks(goworker.Hooks{
		Start:   func(_ context.Context, run *goworker.Delivery) { *saw = append(*saw, "start") },
		Success: func(_ context.Context, run *goworker.Delivery) { *saw = append(*saw, "success") },
		Failure: func(_ context.Context, run *goworker.Delivery, err error) { *saw = append(*saw, "failure") },
		Retry: func(_ context.Context, run *goworker.Delivery, err error, at time.Time) {
			*saw = append(*saw, "retry")
		},
	})
	d.Register("Double", func(n int) (int, error) { return 2 * n, nil })
	d.Register("Pay", func(ctx context.Context, customer string) error {
		switch customer {
		case "bob":
			return errDeclined
		case "carol":
			return goworker.Discard(errDeclined)
		case "dave":
			panic("no such customer")
		case "erin":
			return goworker.RetryIn(time.Hour, errBusy)
		case "frank":
			<-ctx.Done()
			return ctx.Err()
		}
		return errBusy
	}, goworker.Retry(2, goworker.Delays{time.Minute, time.Hour}, goworker.NoRetryOn(errDeclined)), goworker.Timeout(20*time.Millisecond))
	d.Register("Ruby", func() error { return errBusy }, goworker.Retry(1, goworker.ResqueRetry{}, goworker.Exponential{Base: 10 * time.Second}))
	d.Register("Once", func() error { return nil }, goworker.Unique(goworker.UntilStart()))
	d.Register("Later", func() error { return goworker.Snooze(time.Minute) })
	d.Register("Limited", func() {}, goworker.MaxRunning(1), goworker.RateLimit(1, time.Hour))
	d.Register("Apart", func(ctx context.Context) (string, error) { return goworker.FromContext(ctx).Class, nil }, goworker.Isolated())
}

func TestWork(t *testing.T) {
	t.Parallel()
	var saw []string
	d := daemon(func(d *goworker.Daemon) { shop(d, &saw) })
	work := func(class string, args ...any) *goworkertest.Result {
		saw = nil
		return goworkertest.Work(t, d, goworker.NewJob("q", class, args...), goworkertest.Now(start))
	}
	r := work("Double", 21)
	if n := goworkertest.ValueOf[int](t, r); n != 42 || !r.Ran || r.Attempt != 1 || string(r.Payload) != `{"class":"Double","args":[21]}` {
		t.Errorf("%+v", r)
	}
	if got := strings.Join(saw, ", "); got != "start, around Double, success" {
		t.Error(got)
	}
	r = work("Pay", "ann")
	r.RequireRetried(t, time.Minute)
	r.RequireAttempt(t, 1)
	if !r.RunAt.Equal(start.Add(time.Minute)) || !strings.Contains(string(r.Next), `"attempt":2`) || !strings.Contains(r.Log, "it is retried") {
		t.Errorf("%+v", r)
	}
	if got := strings.Join(saw, ", "); got != "start, around Pay, retry" {
		t.Error(got)
	}
	// The next run is that of the payload which the first one left.
	r = goworkertest.WorkPayload(t, d, "q", string(r.Next))
	r.RequireRetried(t, time.Hour)
	r.RequireAttempt(t, 2)
	goworkertest.WorkPayload(t, d, "q", string(r.Next)).RequireFailed(t, errBusy)

	work("Pay", "bob").RequireFailed(t, errDeclined)
	work("Pay", "carol").RequireDiscarded(t, errDeclined)
	work("Pay", "erin").RequireRetried(t, time.Hour)
	var panicked *goworker.PanicError
	if r := work("Pay", "dave"); !errors.As(r.Err, &panicked) || r.State != goworkertest.Retried {
		t.Errorf("a panic: %s", r)
	}
	if r := work("Pay", "frank"); !errors.Is(r.Err, context.DeadlineExceeded) || !strings.Contains(r.Err.Error(), "timeout of 20ms") {
		t.Errorf("a timeout: %s", r)
	}
	var misfit *goworker.ArgumentError
	if r := work("Double", "x"); !errors.As(r.Err, &misfit) || r.State != goworkertest.Failed {
		t.Errorf("arguments: %s", r)
	}
	var unknown *goworker.UnknownClassError
	if r := work("Nobody"); !errors.As(r.Err, &unknown) || r.Ran {
		t.Errorf("a class that nobody knows: %s", r)
	}
	work("Ruby").RequireRetried(t, 8*time.Second, 10*time.Second)
	work("Once").RequireDone(t)
	snoozed := work("Later")
	snoozed.RequireSnoozed(t, time.Minute)
	goworkertest.WorkPayload(t, d, "q", string(snoozed.Next)).RequireAttempt(t, 1)
	work("Limited").RequireDone(t)
	if r := work("Apart"); goworkertest.ValueOf[string](t, r) != "Apart" {
		t.Error(r)
	}
	if r := goworkertest.WorkPayload(t, d, "q", "no job"); r.State != goworkertest.Failed || r.Class != "" {
		t.Error(r)
	}
}

func TestWorkOptions(t *testing.T) {
	t.Parallel()
	var run *goworker.Delivery
	type key struct{}
	var value any
	d := daemon(func(d *goworker.Daemon) {
		d.Register("See", func(ctx context.Context) error {
			run, value = goworker.FromContext(ctx), ctx.Value(key{})
			return errBusy
		}, goworker.Retry(5), goworker.OnQueue("seen"))
	})
	r := goworkertest.Work(t, d, goworker.NewJob("", "See"), goworkertest.Attempt(5), goworkertest.Recovered(2),
		goworkertest.WithContext(context.WithValue(t.Context(), key{}, "here")), goworkertest.EnqueuedWith(goworker.WithID("id-7"), goworker.WithMeta(map[string]string{"tenant": "acme"})))
	r.RequireRetried(t)
	if run.Attempt != 5 || run.RetriesLeft != 1 || run.Recovered != 2 || run.ID != "id-7" || run.Meta["tenant"] != "acme" || run.Queue != "seen" || value != "here" {
		t.Errorf("%+v, %v", run, value)
	}
	goworkertest.Work(t, d, goworker.NewJob("", "See"), goworkertest.Attempt(6)).RequireFailed(t, errBusy)
	expired := goworkertest.Work(t, d, goworker.NewJob("", "See"),
		goworkertest.Now(start), goworkertest.EnqueuedWith(goworker.ExpiresAt(start)))
	if expired.RequireState(t, goworkertest.Expired); expired.Ran {
		t.Error(expired)
	}
}

// failing is a testing.TB that keeps the message of Fatal, and ends the goroutine as one does.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) { f.Fatalf("%v", args...) }

func (f *failing) Fatalf(format string, args ...any) {
	f.message = sprintf(format, args...)
	runtime.Goexit()
}

// fails returns the message with which a check ends the test.
func fails(t *testing.T, check func(t testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(f)
	}()
	<-done
	if f.message == "" {
		t.Error("the check has passed")
	}
	return f.message
}

// Every check fails where it should, with a sentence that says what was and what should be.
func TestResultsThatDoNotFit(t *testing.T) {
	t.Parallel()
	d := daemon(func(d *goworker.Daemon) { shop(d, new([]string)) })
	work := func(class string, args ...any) *goworkertest.Result {
		return goworkertest.Work(t, d, goworker.NewJob("q", class, args...))
	}
	retried, failed, done := work("Pay", "ann"), work("Pay", "bob"), work("Double", 1)
	for want, check := range map[string]func(t testing.TB){
		"Pay of queue q is retried at attempt 1 and runs again in 1m0s (the bank is busy), want done": retried.RequireDone,
		"want it to wait 2m0s":                  func(t testing.TB) { retried.RequireRetried(t, 2*time.Minute) },
		"want it to wait between 2m0s and 3m0s": func(t testing.TB) { retried.RequireRetried(t, 2*time.Minute, 3*time.Minute) },
		"3 waits were given":                    func(t testing.TB) { retried.RequireRetried(t, 1, 2, 3) },
		"want attempt 2":                        func(t testing.TB) { retried.RequireAttempt(t, 2) },
		"is done at attempt 1, want failed":     func(t testing.TB) { done.RequireFailed(t, nil) },
		"want snoozed":                          func(t testing.TB) { done.RequireSnoozed(t) },
		"want discarded":                        func(t testing.TB) { failed.RequireDiscarded(t, nil) },
		`(the card was declined), want an error that is "the bank is busy"`: func(t testing.TB) { failed.RequireFailed(t, errBusy) },
		"the handler of Double returned a int, not a string":                func(t testing.TB) { goworkertest.ValueOf[string](t, done) },
		"neither may be negative": func(t testing.TB) {
			goworkertest.Work(t, d, goworker.NewJob("q", "Double", 1), goworkertest.Attempt(-1))
		},
		"a job to be enqueued needs a queue and a class": func(t testing.TB) { goworkertest.Work(t, d, goworker.NewJob("", "Double", 1)) },
		"args[0]": func(t testing.TB) { goworkertest.Work(t, d, goworker.NewJob("q", "Double", func() {})) },
	} {
		if message := fails(t, check); !strings.HasPrefix(message, "goworker") || !strings.Contains(message, want) {
			t.Errorf("%q; want %q", message, want)
		}
	}
}
