package setting

import (
	"strings"
	"time"

	"github.com/goworker/goworker/internal/argv"
	"github.com/goworker/goworker/internal/queues"
)

// Queues is the type of a setting with a list of queues.
type Queues []string

// Set appends the queues of a comma-separated list. It returns an error, and
// appends nothing, if the list names no queue or a weight is not a number.
func (q *Queues) Set(value string) error {
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
func (q Queues) String() string { return strings.Join(q, ",") }

// Interval is a time.Duration that untyped constants such as 5.0 are assignable to.
type Interval time.Duration

// Set takes seconds ("2.5") or a duration ("2500ms"), not negative.
func (i *Interval) Set(value string) error {
	d, err := argv.ParseSeconds(value)
	if err != nil {
		return err
	}
	*i = Interval(d)
	return nil
}

// SetFloat takes seconds, not negative.
func (i *Interval) SetFloat(value float64) error {
	d, err := argv.DurationOf(value)
	if err != nil {
		return err
	}
	*i = Interval(d)
	return nil
}

// String returns the interval as in "2.5s".
func (i Interval) String() string { return i.Duration().String() }

// Duration corrects a mistake that the type invites: as a duration 5.0 is five
// nanoseconds, and no program means less than a microsecond.
func (i Interval) Duration() time.Duration {
	if i > 0 && time.Duration(i) < time.Microsecond {
		return time.Duration(i) * time.Second
	}
	return time.Duration(i)
}
