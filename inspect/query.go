package inspect

import (
	"fmt"
	"time"
)

// Condition is one condition of a search, as ParseQuery reads it.
type Condition struct {
	Not   bool   // jobs that do not fulfil it are meant
	Name  string // "class", "error", "arg.0.account" …; "text" for a text without a name
	Value string // a * in it stands for any text, unless Literal is set
	// Literal says that the value was quoted: it is meant as it is, to the letter.
	Literal bool
	// Time is what a time in Value means: set by ParseQuery for for, since, until and due.
	Time time.Time
}

// QueryError says what is wrong with the text of a search, and where.
type QueryError struct {
	Query string
	At    int // the byte where the mistake begins
	What  string
}

func (e *QueryError) Error() string {
	return fmt.Sprintf("goworker: search %q, at character %d: %s", e.Query, e.At+1, e.What)
}

// ParseQuery reads a search.
func ParseQuery(text string, now time.Time) (Query, error) {
	return Query{}, &QueryError{text, 0, "nothing is understood"}
}
