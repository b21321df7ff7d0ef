// Package guard decides who may look at the dashboard, and what each of them may do.
package guard

import (
	"fmt"
	"net/http"
	"path"
)

// Role says what a user may do. Each role may do what those before it may.
type Role int

const (
	Viewer   Role = iota // looks; arguments are masked
	Operator             // retries, pauses, moves, cancels and takes back
	Admin                // removes, edits, adds, and changes limits, schedules and processes
)

// String returns the role as configuration and pages write it: viewer, operator or admin.
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Admin:
		return "admin"
	}
	return "unknown"
}

// Target is what an action concerns. The fields that do not apply are empty.
type Target struct {
	Fleet   string // the name of the fleet
	Queue   string
	Class   string
	ID      string // of a job, failure, workflow, operation or token
	Process string
}

// User is who a request comes from.
type User struct {
	Name string // for the audit; "": nobody, and the request is refused
	Role Role

	// Queues are the queues that the user sees and changes, as names or patterns with * ? [. Such a user sees nothing
	// of other queues, and no totals. nil: all queues.
	Queues []string

	// Can decides in place of Role which actions the user may do, where it is set. The names of the actions are in
	// docs/dashboard.md. It is called by several goroutines.
	Can func(action string, on Target) bool
}

// Sees reports whether the user sees a queue.
func (u User) Sees(queue string) bool {
	if u.Queues == nil {
		return true
	}
	for _, pattern := range u.Queues {
		if match, err := path.Match(pattern, queue); pattern == queue || err == nil && match {
			return true
		}
	}
	return false
}

// Whole reports whether the user sees all queues, and with them totals, processes and Redis.
func (u User) Whole() bool { return u.Queues == nil }

// May reports whether the user may do an action that needs a role.
func (u User) May(action string, need Role, on Target) bool {
	if on.Queue != "" && !u.Sees(on.Queue) {
		return false
	}
	if u.Can != nil {
		return u.Can(action, on)
	}
	return u.Role >= need
}

// Identify finds the user of a request. An error means that the request is not let in: 401.
type Identify func(r *http.Request) (User, error)

// ParseRole returns the role of a word: viewer, operator or admin.
func ParseRole(word string) (Role, error) {
	for role := Viewer; role <= Admin; role++ {
		if role.String() == word {
			return role, nil
		}
	}
	return Viewer, fmt.Errorf("the role %.40q: want viewer, operator or admin", word)
}
