// Package limits holds jobs to limits: how many run at a time, how many start in a time. It knows which
// limits the classes and queues of this process have, and so in which lane of its queue a job waits.
package limits

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// Limit is one limit of a class or of a queue.
type Limit struct {
	Kind  resque.LimitKind
	Name  string                              // "": its owner's
	Spec  string                              // its numbers, as Redis keeps them
	Key   func(args []json.RawMessage) string // nil: it holds for all jobs together
	Burst int
	Rate  float64 // µs between two starts; 0: it counts jobs that run
}

// Rate returns a limit of n starts in each period. Its Rate is below 1 if these are none or too many.
// Count must be called before use.
func Rate(n int, per time.Duration) Limit {
	l := Limit{Kind: resque.LimitStarts}
	if n > 0 {
		l.Rate = float64(per.Microseconds()) / float64(n)
	}
	l.Burst = resque.DefaultBurst(l.Rate)
	return l
}

// Count writes the numbers of a rate, as Redis keeps them.
func (l *Limit) Count() { l.Spec = resque.RateText(l.Rate, l.Burst) }

// Here makes the limit hold for one process instead of the fleet.
func (l *Limit) Here() {
	switch l.Kind {
	case resque.LimitRunning:
		l.Kind = resque.LimitRunningHere
	case resque.LimitStarts:
		l.Kind = resque.LimitStartsHere
	}
}

// Of is the option of a class that has limits. All of them have names; see Named.
type Of []Limit

// Exempt is the option of a class: for which of its jobs no limit holds, nor those of their queue.
type Exempt func(j *outcome.Job) bool

// Repeated returns an error that names a limit which is given twice. Those of their class or queue
// alone, and those that have keys, may differ in what they count.
func Repeated(limits []Limit) error {
	for i, l := range limits {
		if l.Name != "" && l.Key == nil && slices.ContainsFunc(limits[:i], func(o Limit) bool {
			return o.Key == nil && o.Kind == l.Kind && o.Name == l.Name
		}) {
			return fmt.Errorf("the limit SharedAs(%q) is given twice; give it once", l.Name)
		}
	}
	return nil
}

// Named gives names to the limits that have none: their owner's, and where the owner has several of a
// kind the later ones a number.
func Named(owner string, limits []Limit) Of {
	taken := make(map[string]int)
	named := make([]Limit, len(limits))
	for i, l := range limits {
		if l.Name == "" {
			l.Name = owner
			if l.Key != nil {
				l.Name += "/key"
			}
			kind := string(l.Kind) + l.Name
			if taken[kind]++; taken[kind] > 1 {
				l.Name += "/" + strconv.Itoa(taken[kind])
			}
		}
		named[i] = l
	}
	return named
}

// text says what the limit's numbers are.
func (l Limit) text() string {
	if l.Rate == 0 {
		return "at most " + l.Spec + " at a time"
	}
	each := time.Duration(l.Rate * float64(time.Microsecond))
	if l.Burst == 1 {
		return fmt.Sprintf("one each %v", each)
	}
	return fmt.Sprintf("one each %v and %d at once", each, l.Burst)
}

// Words says what the limit is.
func (l Limit) Words() string {
	text := l.text()
	if l.Key != nil {
		text += ", by key"
	}
	if l.Kind == resque.LimitRunningHere || l.Kind == resque.LimitStartsHere {
		text += ", in each process"
	}
	if l.Name != "" {
		text += ", shared as " + strconv.Quote(l.Name)
	}
	return text
}

// on is the limit as it holds for a job, and whether it does.
func (l Limit) on(args []json.RawMessage) (resque.Limit, bool) {
	limit := resque.Limit{Kind: l.Kind, Name: l.Name}
	if l.Key != nil {
		limit.Keyed, limit.Key = true, l.keyOf(args)
	}
	return limit, !limit.Keyed || limit.Key != ""
}

// keyOf returns the key of a job. A panic of the program's function counts as no key.
func (l Limit) keyOf(args []json.RawMessage) (key string) {
	defer func() {
		if recover() != nil {
			key = ""
		}
	}()
	return l.Key(args)
}

// longestKey bounds what stands in the name of a lane: of a longer key, and of one that is not UTF-8,
// the digest does.
const longestKey = 128

func shortKey(key string) string {
	if len(key) <= longestKey && utf8.ValidString(key) {
		return key
	}
	return "sha256:" + resque.Digest([]byte(key))
}
