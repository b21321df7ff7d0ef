package argv

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var errSeconds = errors.New("it takes seconds, as in 2.5, or a duration, as in 500ms, 1m30s, 30d or 2w, and no negative one")

// longUnits are the units of a duration that Go's own parser does not know, the longest first.
var longUnits = []struct {
	unit string
	of   time.Duration
}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}}

// ParseSeconds reads a plain number as seconds and anything else as Go writes durations. Weeks and
// days may stand in front, as in 1w2d12h.
func ParseSeconds(value string) (time.Duration, error) {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return DurationOf(seconds)
	}
	var total time.Duration
	for _, long := range longUnits {
		number, rest, found := strings.Cut(value, long.unit)
		if !found {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || strings.Trim(number, "0123456789.") != "" {
			return 0, errSeconds
		}
		d, err := DurationOf(n * long.of.Seconds())
		if err != nil || total+d < total {
			return 0, errSeconds
		}
		total, value = total+d, rest
		if value == "" {
			return total, nil
		}
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || total+d < total || value[0] == '+' && total > 0 {
		return 0, errSeconds
	}
	return total + d, nil
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

// Span is the value of a flag that holds a number of at least one, or two of them, the smaller one first.
type Span struct{ Least, Most int } // Most 0: there is one number

// ParseSpan reads two numbers of at least one with two dots between, as in 5..50.
func ParseSpan(value string) (s Span, err error) {
	least, most, found := strings.Cut(value, "..")
	s.Least, err = strconv.Atoi(strings.TrimSpace(least))
	if err == nil && found {
		s.Most, err = strconv.Atoi(strings.TrimSpace(most))
	}
	if err != nil || !found || s.Least < 1 || s.Most < s.Least {
		return Span{}, errors.New("it takes two whole numbers of at least 1 with two dots between, the smaller one first, as in 5..50")
	}
	return s, nil
}

// Set takes a whole number of at least 1, or two as in 5..50.
func (s *Span) Set(value string) error {
	if !strings.Contains(value, "..") {
		var c Count
		if err := c.Set(value); err != nil {
			return fmt.Errorf("%w, or two as in 5..50", err)
		}
		*s = Span{Least: int(c)}
		return nil
	}
	both, err := ParseSpan(value)
	if err == nil {
		*s = both
	}
	return err
}

func (s *Span) String() string {
	if s.Most == 0 {
		return strconv.Itoa(s.Least)
	}
	return fmt.Sprintf("%d..%d", s.Least, s.Most)
}

// Type is what the usage calls the value.
func (s *Span) Type() string { return "int" }

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

// Word is the value of a flag that holds one of a few words, in any case.
type Word struct {
	Value   string
	Allowed []string
}

// Set takes one of the words, or nothing for the default.
func (w *Word) Set(value string) error {
	if value == "" {
		w.Value = ""
		return nil
	}
	for _, a := range w.Allowed {
		if strings.EqualFold(value, a) {
			w.Value = a
			return nil
		}
	}
	return fmt.Errorf("it takes %s", OneOf(w.Allowed))
}

func (w *Word) String() string { return w.Value }

// Type is what the usage calls the value.
func (w *Word) Type() string { return "string" }

// OneOf lists words: "a, b or c".
func OneOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Text is the value of a flag that holds a text in some form.
type Text struct {
	Value string
	Check func(string) error // it returns what is wrong with a text
}

// Set takes a text with which nothing is wrong.
func (t *Text) Set(value string) error {
	err := t.Check(value)
	if err == nil {
		t.Value = value
	}
	return err
}

func (t *Text) String() string { return t.Value }

// Type is what the usage calls the value.
func (t *Text) Type() string { return "string" }
