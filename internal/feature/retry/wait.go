package retry

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Wait says how long a job waits after its attempt-th run, the first being 1.
type Wait = func(attempt int, err error) time.Duration

// NoJitter is a Jitter of zero.
const NoJitter = -1

// The fields of the Exponential that holds where nothing else is said.
const (
	DefaultBase   = 10 * time.Second
	DefaultFactor = 2.0
	DefaultMax    = time.Hour
	DefaultJitter = 0.2
)

// Default returns the waits of such an Exponential.
func Default() Wait {
	wait, err := Exponential{DefaultBase, DefaultFactor, DefaultMax, DefaultJitter}.Wait()
	if err != nil {
		panic(err) // of constants
	}
	return wait
}

// Exponential multiplies the wait by Factor each time. Its fields must be set.
type Exponential struct {
	Base   time.Duration
	Factor float64
	Max    time.Duration
	Jitter float64
}

// Wait checks the fields and returns their waits.
func (e Exponential) Wait() (Wait, error) {
	e.Max = min(e.Max, Longest)
	if e.Jitter == NoJitter {
		e.Jitter = 0
	}
	switch {
	case e.Base < 0 || e.Max < 0:
		return nil, fmt.Errorf("Exponential{Base: %s, Max: %s}: neither may be negative", e.Base, e.Max)
	case e.Max < min(e.Base, Longest):
		return nil, fmt.Errorf("Exponential{Base: %s, Max: %s}: Max is shorter than the first wait", e.Base, e.Max)
	case !(e.Factor >= 1) || math.IsInf(e.Factor, 0):
		return nil, fmt.Errorf("Exponential{Factor: %v}: it must be at least 1", e.Factor)
	case !(e.Jitter >= 0 && e.Jitter <= 1):
		return nil, fmt.Errorf("Exponential{Jitter: %v}: it must be at most 1 and not negative, or NoJitter", e.Jitter)
	}
	return func(attempt int, _ error) time.Duration {
		wait := min(float64(e.Max), float64(e.Base)*math.Pow(e.Factor, float64(attempt-1)))
		return time.Duration(wait * (1 - e.Jitter*rand.Float64()))
	}, nil
}

// Fibonacci waits 1, 2, 3, 5, 8, … Units, and Max at most. Its fields must be set.
type Fibonacci struct{ Unit, Max time.Duration }

// Wait checks the fields and returns their waits.
func (f Fibonacci) Wait() (Wait, error) {
	f.Max = min(f.Max, Longest)
	switch {
	case f.Unit < 0 || f.Max < 0:
		return nil, fmt.Errorf("Fibonacci{Unit: %s, Max: %s}: neither may be negative", f.Unit, f.Max)
	case f.Max < min(f.Unit, Longest):
		return nil, fmt.Errorf("Fibonacci{Unit: %s, Max: %s}: Max is shorter than the first wait", f.Unit, f.Max)
	}
	return func(attempt int, _ error) time.Duration {
		a, b := 1.0, 2.0
		for n := 1; n < attempt && a*float64(f.Unit) < float64(f.Max); n++ {
			a, b = b, a+b
		}
		return time.Duration(min(a*float64(f.Unit), float64(f.Max)))
	}, nil
}

// Delays returns given waits. The last one holds for all further retries.
func Delays(waits []time.Duration) (Wait, error) {
	if len(waits) == 0 {
		return nil, errors.New("Delays{}: at least one is needed; Delays{0} does not wait")
	}
	waits = slices.Clone(waits)
	for _, w := range waits {
		if w < 0 {
			return nil, fmt.Errorf("the wait %s in Delays%v is negative; 0 does not wait", w, waits)
		}
	}
	return func(attempt int, _ error) time.Duration { return waits[min(attempt, len(waits))-1] }, nil
}
