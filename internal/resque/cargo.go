package resque

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// Cargo is what the renewal of a lease carries beside the lease: commands on goworker's keys. Redis may refuse any of them,
// for the type of its key or a missing permission, and that harms neither the lease nor the other commands. An empty
// Cargo sends nothing more. It is for one goroutine.
//
// Each caller of Write and Read bounds what it adds: a renewal is one step of Redis.
type Cargo struct {
	// Number rises from one Cargo of a process to the next. The writes of one that is sent twice, because the answer
	// was lost, are done once.
	Number int64

	// Last says that no renewal follows: the process stops.
	Last bool

	writes, reads []carried

	failures int   // how many renewals with it failed
	alone    bool  // the next renewal goes without it
	unsure   bool  // Redis may have done its writes
	unheard  error // why the answers of the last one cannot be read
}

// carried is one command.
type carried struct {
	command string
	key     Key
	args    []any
	heard   func(reply any, err error)
}

// Write adds a command that changes a key. heard, if it is not nil, gets the error with which Redis refused it, or nil.
func (c *Cargo) Write(heard func(error), command string, key Key, args ...any) {
	var answered func(any, error)
	if heard != nil {
		answered = func(_ any, err error) { heard(err) }
	}
	c.WriteAsking(answered, command, key, args...)
}

// WriteAsking adds a command that changes a key, and whose answer counts. Where it was done before, because the answer was lost,
// its answer is "".
func (c *Cargo) WriteAsking(heard func(reply any, err error), command string, key Key, args ...any) {
	c.writes = append(c.writes, carried{command, key, args, heard})
}

// Read adds a command that changes nothing. It is done after all writes. heard gets its answer. A command without
// anything to answer has nil.
func (c *Cargo) Read(heard func(reply any, err error), command string, key Key, args ...any) {
	c.reads = append(c.reads, carried{command, key, args, heard})
}

// Drop takes back what was to be written into a key. It is for a process that others have found dead: its record, written again,
// would be that of one more dead process, and another process is the keeper now.
func (c *Cargo) Drop(key Key) {
	c.writes = slices.DeleteFunc(c.writes, func(w carried) bool { return w.key == key })
}

// Empty reports whether there is nothing to carry.
func (c *Cargo) Empty() bool { return c == nil || len(c.writes)+len(c.reads) == 0 }

// Clear takes back all.
func (c *Cargo) Clear() { c.writes, c.reads, c.failures, c.unsure = nil, nil, 0, false }

// Unsure reports whether Redis may have done the writes already, because a renewal with them was not answered. Only the
// record that has the number keeps them from being done twice.
func (c *Cargo) Unsure() bool { return c.unsure }

// Aboard returns what the next renewal carries: c, or nil if the renewal before failed. The lease comes first, and what is
// carried may be what fails. Behind the last renewal no lease counts.
func (c *Cargo) Aboard() *Cargo {
	if c.alone && !c.Last {
		return nil
	}
	return c
}

// Renewed takes how a renewal went, and whether it carried anything. A cargo with which two renewals failed is dropped. lost
// says why what was carried is lost; nil: it is not.
func (c *Cargo) Renewed(carried bool, err error) (lost error) {
	lost, c.unheard = c.unheard, nil
	switch {
	case err == nil || errors.Is(err, ErrReaped) || errors.Is(err, ErrGone):
		c.alone = false
	case carried:
		if c.alone = true; c.Empty() { // it was heard
			break
		}
		c.unsure = true
		if c.failures++; c.failures > 1 && !c.Last {
			c.Clear()
			lost = err
		}
	}
	return lost
}

// Carry adds the commands to a call of a script that has parts/carry.lua. They are the last of its arguments.
func (a *Call) Carry(c *Cargo) {
	if c.Empty() {
		return
	}
	a.Arg(c.Number, len(c.writes))
	numbers := make(map[string]int)
	for _, rows := range [][]carried{c.writes, c.reads} {
		for _, r := range rows {
			number := numbers[r.key.name]
			if number == 0 {
				number = a.Key(r.key.name)
				numbers[r.key.name] = number
			}
			a.Arg(r.command, number, len(r.args))
			a.Arg(r.args...)
		}
	}
}

// RefusedError is the error of a command that a renewal carried and Redis refused.
type RefusedError struct {
	Key     string
	Command string
	Err     error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("Redis refused %s of %s with the renewal of a lease: %v", e.Command, e.Key, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// hear empties the Cargo and hands the answers to the callers of Write and Read. If the answers cannot be read, nobody hears
// them, and Renewed says so: the lease is renewed all the same.
func (c *Cargo) hear(answers any) {
	if c.Empty() {
		return
	}
	rows := slices.Concat(c.writes, c.reads)
	c.Clear()
	pairs := make([][]any, len(rows))
	all, err := redis.Values(answers, nil)
	if err == nil && len(all) != len(rows) {
		err = ErrAnswer
	}
	for i := 0; err == nil && i < len(rows); i++ {
		if pairs[i], err = redis.Values(all[i], nil); err == nil && len(pairs[i]) == 0 {
			err = ErrAnswer
		}
	}
	if err != nil {
		c.unheard = fmt.Errorf("reading what came with the renewal of a lease: %w", err)
		return
	}
	for i, r := range rows {
		if r.heard == nil {
			continue
		}
		switch refused, _ := redis.String(pairs[i][0], nil); {
		case refused != "":
			r.heard(nil, &RefusedError{Key: r.key.name, Command: r.command, Err: redis.Error(refused)})
		case len(pairs[i]) < 2:
			r.heard(nil, nil)
		default:
			r.heard(pairs[i][1], nil)
		}
	}
}
