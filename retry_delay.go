package goworker

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/feature/retry"
)

// What the fields of Exponential are when they are zero.
const (
	DefaultRetryBase   = 10 * time.Second
	DefaultRetryFactor = 2.0
	DefaultRetryMax    = time.Hour
	DefaultRetryJitter = 0.2
)

// NoJitter is a Jitter of zero.
const NoJitter = -1

// Exponential waits longer before each retry. After the n-th run a job waits
//
//	min(Max, Base · Factor^(n−1)) · (1 − Jitter · r), r random in [0, 1)
//
// so by default 10 s, 20 s, 40 s, … an hour, each up to a fifth less: that jobs which
// failed together do not come back together. Fields that are zero have their defaults.
type Exponential struct {
	Base   time.Duration
	Factor float64       // at least 1
	Max    time.Duration // at least Base, which it is by default where that is longer
	Jitter float64       // at most 1, which is anything from nothing to the whole wait; NoJitter: none
}

func (e Exponential) retry(p *retryPolicy) error {
	e.Base = orDefault(e.Base, DefaultRetryBase)
	e.Factor = orDefault(e.Factor, DefaultRetryFactor)
	e.Max = min(orDefault(e.Max, max(DefaultRetryMax, e.Base)), longestWait)
	e.Jitter = orDefault(e.Jitter, DefaultRetryJitter)
	if e.Jitter == NoJitter {
		e.Jitter = 0
	}
	switch {
	case e.Base < 0 || e.Max < 0:
		return fmt.Errorf("Exponential{Base: %s, Max: %s}: neither may be negative", e.Base, e.Max)
	case e.Max < min(e.Base, longestWait):
		return fmt.Errorf("Exponential{Base: %s, Max: %s}: Max is shorter than the first wait", e.Base, e.Max)
	case !(e.Factor >= 1) || math.IsInf(e.Factor, 0):
		return fmt.Errorf("Exponential{Factor: %v}: it must be at least 1", e.Factor)
	case !(e.Jitter >= 0 && e.Jitter <= 1):
		return fmt.Errorf("Exponential{Jitter: %v}: it must be at most 1 and not negative, or NoJitter", e.Jitter)
	}
	return p.wait("Exponential", func(attempt int, _ error) time.Duration {
		wait := min(float64(e.Max), float64(e.Base)*math.Pow(e.Factor, float64(attempt-1)))
		return time.Duration(wait * (1 - e.Jitter*rand.Float64()))
	})
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Fibonacci waits 1, 2, 3, 5, 8, … Units before the retries, as Machinery does with
// Units of a second.
type Fibonacci struct {
	Unit time.Duration // zero: a second
	Max  time.Duration // zero: no limit
}

func (f Fibonacci) retry(p *retryPolicy) error {
	f.Unit = orDefault(f.Unit, time.Second)
	f.Max = min(orDefault(f.Max, longestWait), longestWait)
	switch {
	case f.Unit < 0 || f.Max < 0:
		return fmt.Errorf("Fibonacci{Unit: %s, Max: %s}: neither may be negative", f.Unit, f.Max)
	case f.Max < min(f.Unit, longestWait):
		return fmt.Errorf("Fibonacci{Unit: %s, Max: %s}: Max is shorter than the first wait", f.Unit, f.Max)
	}
	return p.wait("Fibonacci", func(attempt int, _ error) time.Duration {
		a, b := 1.0, 2.0
		for n := 1; n < attempt && a*float64(f.Unit) < float64(f.Max); n++ {
			a, b = b, a+b
		}
		return time.Duration(min(a*float64(f.Unit), float64(f.Max)))
	})
}

// Delays are how long a job waits before its first retry, its second, and so on; the
// last one holds for all that follow. A single one is the same wait each time. Zero
// puts the job behind the others of its queue at once; none may be negative.
type Delays []time.Duration

// ResqueDelays are the delays of resque-retry's ExponentialBackoff: none, a minute, ten
// minutes, one hour, three, six. Its limit is 6 retries.
func ResqueDelays() Delays {
	return Delays{0, time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour}
}

func (d Delays) retry(p *retryPolicy) error {
	if len(d) == 0 {
		return errors.New("Delays{}: at least one is needed; Delays{0} does not wait")
	}
	d = slices.Clone(d)
	for _, wait := range d {
		if wait < 0 {
			return fmt.Errorf("the wait %s in Delays%v is negative; 0 does not wait", wait, d)
		}
	}
	return p.wait("Delays", func(attempt int, _ error) time.Duration { return d[min(attempt, len(d))-1] })
}

// DelayFunc says how long a job waits after its attempt-th run, the first being 1, ended
// with err. Zero or less puts it behind the others of its queue at once. It is called by
// many workers at the same time.
type DelayFunc func(attempt int, err error) time.Duration

func (f DelayFunc) retry(p *retryPolicy) error {
	if f == nil {
		return errors.New("a nil DelayFunc was given; leave it out")
	}
	return p.wait("DelayFunc", f)
}

func (p *retryPolicy) wait(option string, f DelayFunc) error {
	p.once("how long to wait", option)
	p.delay = f
	return nil
}

// longestWait is far away, and safe to be added to a time.
const longestWait = retry.Longest
