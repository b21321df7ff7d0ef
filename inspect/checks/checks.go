// Package checks looks for what is wrong with a Resque: with its Redis, with what its programs have left there, and with how
// its fleet works. goworker doctor prints the findings. Each finding says in one sentence what is wrong and what to do about it.
//
// Table has all checks with their bounds. No bound is anywhere else: doctor, the lines that status marks with an exclamation
// mark, notices and alert rules all read it.
//
// A check of doctor looks once. It does not say ok unless it saw all there is to see. A moving check compares two samples; see
// Moving.
package checks

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Severity is how bad it is if a check finds something.
type Severity int

const (
	Warning Severity = iota // jobs run, but not as they should, or not for long
	Error                   // jobs are lost or do not run, or workers end
)

func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// State is how a check ended.
type State int

const (
	OK           State = iota // it saw everything and found nothing
	Found                     // see Finding.Sentence
	NotAllSeen                // it found nothing in what it saw, and time was over before it had seen everything
	CouldNotLook              // Redis refused, or this Redis cannot answer
	Accepted                  // it found something that Options.Accept lists
)

func (s State) String() string {
	switch s {
	case OK:
		return "ok"
	case Found:
		return "found"
	case NotAllSeen:
		return "not all seen"
	case CouldNotLook:
		return "could not look"
	case Accepted:
		return "accepted"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Use says who reads a check.
type Use int

const (
	Doctor Use = 1 << iota // goworker doctor
	Status                 // the lines of goworker status that begin with an exclamation mark
	Notice                 // what webhooks and the dashboard say by themselves
	Alert                  // the alert rules for Prometheus
)

// Bound is the number that a check compares with. The zero Bound is that of a check which compares with none: what it looks
// for is there or not.
type Bound struct {
	Value float64
	Unit  string // "s", "share", "jobs", "connections", "bytes" or "version"
}

// Duration is a bound in seconds.
func (b Bound) Duration() time.Duration { return time.Duration(b.Value * float64(time.Second)) }

// Check is a row of the table. Sentence, Remedy and Command have {names} in braces for what the check finds. In a Command
// each of them is one word of a shell.
type Check struct {
	Number   int    // of doctor, and 0 for another one
	Name     string // it never changes
	Severity Severity
	Title    string // what it looks at, in a few words: "ok" and "not all seen" are said of it
	Bound    Bound
	More     []Bound // further ones, if it has any
	Sentence string
	Remedy   string // what to do, in words
	Command  string // a line for a shell that does it, or ""
	Uses     Use

	look func(*look) error
	fix  func(*fixing) (changed bool, err error)
}

// HasFix reports whether Fix mends what the check finds.
func (c *Check) HasFix() bool { return c.fix != nil }

// In reports whether the user u reads the check.
func (c *Check) In(u Use) bool { return c.Uses&u != 0 }

// Finding is what a check says of one thing, or of nothing.
type Finding struct {
	Check    *Check
	State    State
	Seen     float64 // the share that the check has seen, from 0 to 1
	Sentence string  // for people, on one line; what does not print is escaped
	Remedy   Remedy
	Rule     string            // of CouldNotLook: the ACL rule that the Redis user lacks, if that is why
	Subject  map[string]string // what Sentence is about, by the names in braces, byte for byte
	More     int               // findings like this one that Options.Most left out; they follow the last one
	Shard    string            // of several Redises, the one that it is about

	about    string // see Identity
	values   values
	door     int
	readOnly bool
}

// Remedy says what to do.
type Remedy struct {
	Words   string // for people, on one line
	Command string // safe to paste into a shell, whatever the names in it; "" if there is none
}

// Identity is the check and the names that the finding is about. It is the same while a thing goes on being wrong, whatever its
// numbers are.
func (f Finding) Identity() string { return f.about }

// Fixable reports whether Fix mends the finding.
func (f Finding) Fixable() bool {
	return f.Check != nil && f.Check.HasFix() && (f.State == Found || f.State == Accepted) && f.values != nil
}

// Table has all checks: those of doctor by their numbers, then the moving ones, and those of alert rules alone.
var Table = inOrder(slices.Concat(
	serverChecks, memoryChecks, diskChecks, placeChecks, netChecks, userChecks, shapeChecks, idChecks,
	workerChecks, failureChecks, poisonChecks, queueChecks, pauseChecks, delayedChecks, orphanChecks, limitChecks, versionChecks, runningChecks, recurringChecks,
	movingChecks, alertChecks,
))

func inOrder(all []*Check) []*Check {
	slices.SortStableFunc(all, func(a, b *Check) int {
		return cmp.Or(cmp.Compare(min(b.Number, 1), min(a.Number, 1)), cmp.Compare(a.Number, b.Number)) // moving checks have 0
	})
	return all
}

// ByNumber returns the check of doctor with a number, or nil.
func ByNumber(number int) *Check {
	for _, c := range Table {
		if c.Number == number && number > 0 {
			return c
		}
	}
	return nil
}
