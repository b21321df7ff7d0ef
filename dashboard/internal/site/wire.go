package site

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/goworker/goworker/inspect"
)

// The types with which a page's data says numbers and times. Templates use what is in them, and JSON has one form of each.

// Time is a time as JSON: RFC 3339 with milliseconds, or null.
type Time struct{ time.Time }

// MarshalJSON encodes the time.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// Span is a duration as JSON: whole milliseconds. The names of such fields end in _ms.
type Span time.Duration

// D is the duration.
func (s Span) D() time.Duration { return time.Duration(s) }

// MarshalJSON encodes the duration.
func (s Span) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Milliseconds()) }

// Wait is how long something waits, as JSON {"value":840000,"kind":"seen"}: milliseconds, and exact, counted, seen or unknown.
type Wait struct{ inspect.Age }

// MarshalJSON encodes the wait.
func (w Wait) MarshalJSON() ([]byte, error) { return bounded(w.For.Milliseconds(), string(w.Method)) }

// Num is a number as JSON {"value":12,"kind":"exact"}: exact, atleast, atmost or unknown.
type Num struct{ inspect.Count }

// MarshalJSON encodes the number.
func (n Num) MarshalJSON() ([]byte, error) { return bounded(n.N, string(n.Bound)) }

// PerSecond is a rate as JSON {"value":1.5,"kind":"exact"}.
type PerSecond struct{ inspect.Rate }

// MarshalJSON encodes the rate.
func (r PerSecond) MarshalJSON() ([]byte, error) {
	return bounded(math.Round(r.Rate.PerSecond*1000)/1000, string(r.Bound))
}

func bounded[T int64 | float64](value T, kind string) ([]byte, error) {
	if kind == "" {
		return []byte(`{"value":null,"kind":"unknown"}`), nil
	}
	return json.Marshal(struct {
		Value T      `json:"value"`
		Kind  string `json:"kind"`
	}{value, kind})
}

// Values are the values of a plot as JSON: null where nothing is known.
type Values []float64

// MarshalJSON encodes the values.
func (v Values) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for n, f := range v {
		if n > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, f, 'g', 6, 64)
		}
	}
	return append(b, ']'), nil
}

// Paged is how a list goes on: the cursor of its next page, "" after the last one.
type Paged struct {
	Next string `json:"next,omitempty"`
}

// Args are arguments as they are in the payload, and as one text for a row.
type Args []json.RawMessage

// Text is the arguments in one line, cut to a length.
func (a Args) Text(most int) string {
	var b []byte
	for n, one := range a {
		if n > 0 {
			b = append(b, ", "...)
		}
		b = append(b, one...)
		if len(b) > most {
			break
		}
	}
	return cut(string(b), most)
}

// Cut returns the arguments up to so many bytes, and whether something was left off: the argument that does not fit becomes a text of its
// beginning.
func (a Args) Cut(most int) (Args, bool) {
	for n, one := range a {
		if most -= len(one); most >= 0 {
			continue
		}
		text, _ := json.Marshal(cut(string(one), max(0, len(one)+most)))
		return append(a[:n:n], text), true
	}
	return a, false
}
