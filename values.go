package goworker

import (
	"fmt"
	"github.com/goworker/goworker/internal/queues"
	"math"
	"strconv"
	"strings"
	"time"
)

// queuesFlag is the type of WorkerSettings.Queues; any []string is assignable
// to it.
type queuesFlag []string

// Set appends the queues of a comma-separated list. It returns an error, and
// appends nothing, if the list names no queue or a weight is not a number.
func (q *queuesFlag) Set(value string) error {
	if _, err := queues.Parse([]string{value}); err != nil {
		return err
	}
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			*q = append(*q, part)
		}
	}
	return nil
}

// String returns the queues as Set takes them.
func (q queuesFlag) String() string { return strings.Join(q, ",") }

// intervalFlag is the type of WorkerSettings.Interval: a time.Duration that
// untyped constants such as 5.0 are assignable to.
type intervalFlag time.Duration

// Set takes seconds ("2.5") or a duration ("2500ms"), not negative.
func (i *intervalFlag) Set(value string) error {
	d, err := parseSeconds(value)
	if err != nil {
		return err
	}
	*i = intervalFlag(d)
	return nil
}

// SetFloat takes seconds, not negative.
func (i *intervalFlag) SetFloat(value float64) error {
	d, err := secondsToDuration(value)
	if err != nil {
		return err
	}
	*i = intervalFlag(d)
	return nil
}

// String returns the interval as in "2.5s".
func (i intervalFlag) String() string { return i.duration().String() }

// duration undoes the mistake the type invites: as a duration 5.0 is five
// nanoseconds, and nobody sleeps for less than a microsecond.
func (i intervalFlag) duration() time.Duration {
	if i > 0 && time.Duration(i) < time.Microsecond {
		return time.Duration(i) * time.Second
	}
	return time.Duration(i)
}

// parseSeconds reads a plain number as seconds and anything else as Go writes
// durations.
func parseSeconds(value string) (time.Duration, error) {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return secondsToDuration(seconds)
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, errSeconds
	}
	return d, nil
}

var errSeconds = fmt.Errorf("it takes seconds, as in 2.5, or a duration, as in 500ms or 1m30s, and no negative one")

// secondsToDuration never rounds a positive time to zero, which has a meaning
// of its own wherever it is used.
func secondsToDuration(seconds float64) (time.Duration, error) {
	d := seconds * float64(time.Second)
	if !(seconds >= 0 && d < math.MaxInt64) {
		return 0, errSeconds
	}
	return time.Duration(math.Ceil(d)), nil
}

// seconds is a flag that holds a time.
type seconds time.Duration

func (s *seconds) Set(value string) error {
	d, err := parseSeconds(value)
	if err != nil {
		return err
	}
	*s = seconds(d)
	return nil
}

func (s *seconds) String() string {
	return strconv.FormatFloat(time.Duration(*s).Seconds(), 'g', -1, 64)
}

func (s *seconds) Type() string { return "seconds" }

// count is a flag that holds a number of at least one. In the settings zero
// stands for the default; a zero on the command line is a mistake.
type count int

func (c *count) Set(value string) error {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 1 {
		return fmt.Errorf("it takes a whole number of at least 1")
	}
	*c = count(n)
	return nil
}

func (c *count) String() string { return strconv.Itoa(int(*c)) }

func (c *count) Type() string { return "int" }

// amount is a flag that holds a number of at least zero, which is a number like others or
// no limit.
type amount int

func (a *amount) Set(value string) error {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 0 {
		return fmt.Errorf("it takes a whole number of at least 0")
	}
	*a = amount(n)
	return nil
}

func (a *amount) String() string { return strconv.Itoa(int(*a)) }

func (a *amount) Type() string { return "int" }
