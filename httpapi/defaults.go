package httpapi

import (
	"fmt"
	"math"
	"time"

	"github.com/goworker/goworker"
)

// The values that a zero field of Defaults stands for.
const (
	V1TTL = 24 * time.Hour
	V1TTR = 2 * time.Minute
)

// Defaults are the values of the parameters that a request of v1 leaves out, in whole seconds. They are lmstfy's settings
// DelaySecond, TTLSecond, TTRSecond, TimeoutSecond and TriesNum.
type Defaults struct {
	Delay   time.Duration // how long a published job waits; 0: not at all
	TTL     time.Duration // how long it may be taken; 0: V1TTL, goworker.NoTimeout: for ever
	TTR     time.Duration // how long a consumer has it, at most 12 h; 0: V1TTR
	Timeout time.Duration // how long a consumer waits for a job, at most 10 min; 0: not at all
	Tries   int           // how often it is given out at most; 0: once
}

// check returns an error that names what is wrong, and fills in the defaults.
func (d *Defaults) check() error {
	switch {
	case d.Tries < 0 || d.Tries > math.MaxUint16:
		return fmt.Errorf("the setting Defaults.Tries is %d; a job has 1 to %d, and 0 is 1", d.Tries, math.MaxUint16)
	case d.Tries == 0:
		d.Tries = 1
	}
	switch d.TTL {
	case 0:
		d.TTL = V1TTL
	case goworker.NoTimeout:
		d.TTL = 0
	}
	if d.TTR == 0 {
		d.TTR = V1TTR
	}
	for _, f := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{
		{"Delay", d.Delay, 0, math.MaxUint32 * time.Second}, {"TTL", d.TTL, 0, math.MaxUint32 * time.Second},
		{"TTR", d.TTR, time.Second, v1MostTTR}, {"Timeout", d.Timeout, 0, v1MostWait},
	} {
		if f.value < f.least || f.value > f.most || f.value%time.Second != 0 {
			return fmt.Errorf("the setting Defaults.%s is %s; it is whole seconds from %s to %s", f.name, f.value, f.least, f.most)
		}
	}
	if d.TTL > 0 && d.TTL < d.Delay {
		return fmt.Errorf("the setting Defaults.TTL is %s and Defaults.Delay is %s; a job must live until it is due", d.TTL, d.Delay)
	}
	return nil
}
