package goworker

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	retrying "github.com/goworker/goworker/internal/feature/retry"
)

// waits are what an option says of the first n runs.
func waits(t *testing.T, o RetryOption, n int) []time.Duration {
	t.Helper()
	var p retryPolicy
	if err := o.retry(&p); err != nil {
		t.Fatal(err)
	}
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = p.policy.Delay(i+1, errNoLuck)
	}
	return all
}

func TestDelays(t *testing.T) {
	t.Parallel()
	const s, m, h = time.Second, time.Minute, time.Hour
	tests := []struct {
		name   string
		option RetryOption
		want   []time.Duration
	}{
		{"exponential", Exponential{Jitter: NoJitter}, []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 640 * s, 1280 * s, 2560 * s, h, h}},
		{"exponential from far up", Exponential{Base: 3 * h, Jitter: NoJitter}, []time.Duration{3 * h, 3 * h}},
		{"exponential of one's own", Exponential{Base: s, Factor: 3, Max: m, Jitter: NoJitter}, []time.Duration{s, 3 * s, 9 * s, 27 * s, m, m}},
		{"Machinery's", Fibonacci{}, []time.Duration{s, 2 * s, 3 * s, 5 * s, 8 * s, 13 * s, 21 * s}},
		{"Fibonacci up to", Fibonacci{Unit: m, Max: 4 * m}, []time.Duration{m, 2 * m, 3 * m, 4 * m, 4 * m}},
		{"resque-retry's", ResqueDelays(), []time.Duration{0, m, 10 * m, h, 3 * h, 6 * h, 6 * h}},
		{"fixed", Delays{m}, []time.Duration{m, m, m}},
		{"custom", DelayFunc(func(n int, err error) time.Duration { return time.Duration(n * len(err.Error())) }), []time.Duration{7, 14}},
	}
	for _, tt := range tests {
		if got := waits(t, tt.option, len(tt.want)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// However often a job was retried, its wait is one.
func TestDelaysFarOut(t *testing.T) {
	t.Parallel()
	for _, o := range []RetryOption{
		Exponential{Factor: 1e300, Max: math.MaxInt64, Jitter: NoJitter}, Exponential{Jitter: 1}, Fibonacci{}, Fibonacci{Unit: math.MaxInt64, Max: math.MaxInt64}, ResqueDelays(),
	} {
		var p retryPolicy
		_ = o.retry(&p)
		for _, attempt := range []int{1, 2, 90, 10_000, math.MaxInt32} {
			p.policy.Limit, p.policy.Allows = NoLimit, p.choice.Allows
			wait, retry, err := p.policy.Again(attempt, errNoLuck)
			if wait < 0 || wait > retrying.Longest || !retry || err != errNoLuck {
				t.Errorf("%T after %d runs: %s, %v, %v", o, attempt, wait, retry, err)
			}
		}
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 100 {
		for i, wait := range waits(t, Exponential{Base: time.Second, Factor: 1}, 2) {
			if wait <= 800*time.Millisecond-1 || wait > time.Second {
				t.Errorf("%d: %s is not within a fifth below a second", i, wait)
			}
			seen[wait] = true
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d different waits of 200", len(seen))
	}
}

func TestRetryRefusesNonsense(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]RetryOption{
		"at least one is needed":         {Delays{}},
		"nil RetryOption":                {nil},
		"nil DelayFunc":                  {DelayFunc(nil)},
		"nil function":                   {RetryIf(nil)},
		"RetryOn was given no errors":    {RetryOn()},
		"NoRetryOn was given no errors":  {NoRetryOn()},
		"RetryOn was given a nil error":  {RetryOn(errNoLuck, nil)},
		"Delays and Fibonacci both say":  {Delays{1}, Fibonacci{}},
		"neither may be negative":        {Exponential{Base: -1}},
		"shorter than the first wait":    {Exponential{Base: time.Hour, Max: time.Minute}},
		"must be at least 1":             {Exponential{Factor: 0.5}},
		"at least 1":                     {Exponential{Factor: math.NaN()}},
		"must be at most 1":              {Exponential{Jitter: 1.5}},
		"at most 1":                      {Exponential{Jitter: math.NaN()}},
		"Fibonacci{Unit: -1ns, Max: 1s}": {Fibonacci{Unit: -1, Max: time.Second}},
		"ExpireAfter is -1s":             {ResqueRetry{ExpireAfter: -time.Second}},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) || !strings.HasPrefix(text, `goworker: Register("C"): Retry: `) {
					t.Errorf("panicked with %q, want %q", text, want)
				}
			}()
			New(WorkerSettings{}).Register("C", func() {}, Retry(1, opts...))
		}()
	}
}

// An error with a method RetryAfter says how long to wait, if it says anything.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	p := retrying.Policy{Limit: 1, Delay: func(int, error) time.Duration { return time.Hour }, Allows: new(retrying.Choice).Allows}
	for err, want := range map[error]time.Duration{
		fmt.Errorf("x: %w", busyFor(time.Minute)): time.Minute,
		busyFor(-1): time.Hour,
		RetryIn(time.Second, busyFor(time.Minute)):      time.Second,
		RetryIn(-time.Second, errNoLuck):                -time.Second,
		errors.Join(busyFor(0), busyFor(2*time.Minute)): 2 * time.Minute,
	} {
		if wait, retry, _ := p.Again(1, err); !retry || wait != want {
			t.Errorf("%v: %s, %v; want %s", err, wait, retry, want)
		}
	}
}

// busyFor is an error that says how long to wait.
type busyFor time.Duration

func (b busyFor) Error() string             { return "busy" }
func (b busyFor) RetryAfter() time.Duration { return time.Duration(b) }
