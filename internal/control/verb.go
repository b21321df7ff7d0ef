package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/pattern"
	"github.com/goworker/goworker/internal/resque/control"
)

// Level says what a process obeys.
type Level int

const (
	Off  Level = iota // nothing
	On                // what a program that writes to Redis could do anyway, or what ends by itself
	Full              // what ends a process or changes its queues or settings; such a command needs a signature
)

// The words of the setting.
var levels = []string{"off", "on", "full"}

func (l Level) String() string { return levels[l] }

// ParseLevel returns the level of a word.
func ParseLevel(word string) Level {
	for l, w := range levels {
		if w == word {
			return Level(l)
		}
	}
	return Off
}

// Verb is a question that processes answer, or a command that they obey.
type Verb struct {
	Name  string
	Level Level  // which one the process needs; Off is On
	Help  string // one sentence

	// Addressed makes the process refuse a command without an address: the answer is large, or the command is not meant for all.
	Addressed bool

	// Whole says that the verb concerns the program as a whole: the program does it once, although a command may arrive over several
	// Redises.
	Whole bool

	// Do does it and returns what is answered, as JSON. It runs in a goroutine of its own until its context ends, which is when the
	// caller waits no more. It may be called several times at once. A panic is an answer.
	Do func(ctx context.Context, c *Call) (any, error)
}

var verbName = pattern.New(`^[a-z][a-z0-9-]{0,63}$`)

// MustBeVerb panics if a verb has no name or no function.
func MustBeVerb(v Verb) {
	if err := v.check(); err != nil {
		panic("goworker: " + err.Error())
	}
}

func (v Verb) check() error {
	if !verbName.MatchString(v.Name) {
		return fmt.Errorf("the verb %q needs a name of at most 64 small letters, digits and hyphens", v.Name)
	}
	if v.Do == nil {
		return fmt.Errorf("the verb %s has no function", v.Name)
	}
	return nil
}

// Call is a command that a Verb does.
type Call struct {
	control.Command

	full  error // why it may not do what needs the level full; nil: it may
	after []func()
}

// Decode reads the arguments. Fields that v does not have are an error.
func (c *Call) Decode(v any) error {
	if len(c.Args) == 0 {
		return nil
	}
	return decode(c.Args, v)
}

// Full returns an error if the command may not do what needs the level full. A Verb of the level on asks this where only some of
// its arguments need more.
func (c *Call) Full() error { return c.full }

// After has a function called once the answer is with Redis, or cannot be sent.
func (c *Call) After(f func()) { c.after = append(c.after, f) }

// For returns how long something is to last that an argument says in seconds; an error if it is longer than most.
func For(seconds float64, most time.Duration) (time.Duration, error) {
	d := time.Duration(seconds * float64(time.Second))
	if seconds < 0 || d > most || seconds > most.Seconds() {
		return 0, fmt.Errorf("it may last %s at most", most)
	}
	return d, nil
}

// Errors that processes answer.
var (
	errUnsigned = errors.New("the command needs the level full, so it must be signed, and it is not signed: give the key file of the fleet, which this process has as -control-key-file")
	errForged   = errors.New("the command needs the level full, and it is not signed with the key of this process, for this namespace: give the key file that the process has as -control-key-file")
	errLong     = fmt.Errorf("a command that needs the level full must be valid for at most %s", control.FullLives)
	errAddress  = errors.New("the verb needs an address")
	errBusy     = errors.New("the process has too many commands in hand; try again")
)

// levelError is the error of a command that needs more than the process obeys.
type levelError struct {
	verb string
	is   Level
}

func (e levelError) Error() string {
	return fmt.Sprintf("this command of the verb %s needs the level full, and the process has -control=%s: start it with -control=full and -control-key-file, and sign the command with that key", e.verb, e.is)
}

// unknown is the error of a verb that is not there.
type unknown struct{ verb string }

func (e unknown) Error() string {
	if e.verb == "profile" {
		return "the program takes no profiles: it does not add the verb of package control/profile"
	}
	return fmt.Sprintf("the process knows no verb %q: it is of another release, or its program does not add it", e.verb)
}

// decode is json.Unmarshal that refuses fields which v does not have.
func decode(text json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("the arguments are wrong: %w", err)
	}
	return nil
}
