package argv

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

var errSeconds = errors.New("it takes seconds, as in 2.5, or a duration, as in 500ms or 1m30s, and no negative one")

// ParseSeconds reads a plain number as seconds and anything else as Go writes
// durations.
func ParseSeconds(value string) (time.Duration, error) {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return DurationOf(seconds)
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, errSeconds
	}
	return d, nil
}

// DurationOf returns a number of seconds as a duration. It never rounds a positive time
// to zero, which every setting gives another meaning.
func DurationOf(seconds float64) (time.Duration, error) {
	d := seconds * float64(time.Second)
	if !(seconds >= 0 && d < math.MaxInt64) {
		return 0, errSeconds
	}
	return time.Duration(math.Ceil(d)), nil
}

// Seconds is the value of a flag that holds a time.
type Seconds time.Duration

// Set takes seconds or a duration, not negative.
func (s *Seconds) Set(value string) error {
	d, err := ParseSeconds(value)
	if err != nil {
		return err
	}
	*s = Seconds(d)
	return nil
}

// String returns the time in seconds.
func (s *Seconds) String() string {
	return strconv.FormatFloat(time.Duration(*s).Seconds(), 'g', -1, 64)
}

// Type is what the usage calls the value.
func (s *Seconds) Type() string { return "seconds" }

// Count is the value of a flag that holds a number of at least one. In the settings zero
// stands for the default; a zero on the command line is a mistake.
type Count int

// Set takes a whole number of at least 1.
func (c *Count) Set(value string) error {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 1 {
		return errors.New("it takes a whole number of at least 1")
	}
	*c = Count(n)
	return nil
}

func (c *Count) String() string { return strconv.Itoa(int(*c)) }

// Type is what the usage calls the value.
func (c *Count) Type() string { return "int" }

// Amount is the value of a flag that holds a number of at least zero. Zero is a number
// like others, or means no limit.
type Amount int

// Set takes a whole number of at least 0.
func (a *Amount) Set(value string) error {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 0 {
		return errors.New("it takes a whole number of at least 0")
	}
	*a = Amount(n)
	return nil
}

func (a *Amount) String() string { return strconv.Itoa(int(*a)) }

// Type is what the usage calls the value.
func (a *Amount) Type() string { return "int" }
