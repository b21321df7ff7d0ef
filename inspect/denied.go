package inspect

import (
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// Denied is what Redis does not let this user ask. What depends on it is left out.
type Denied struct {
	Command string // CONFIG GET
	Rule    string // the ACL rule to add: +config|get; "": this server does not know the command
}

func (d Denied) String() string {
	if d.Rule == "" {
		return "this server does not know " + d.Command
	}
	return "this Redis user may not run " + d.Command + ": add the ACL rule " + d.Rule
}

// DeniedBy returns what an error of any call says that Redis denies this user. It returns false for other errors.
func DeniedBy(err error) (Denied, bool) {
	var denied *DeniedError
	if errors.As(err, &denied) {
		return denied.Denied, true
	}
	d, ok := resque.Store{}.Denied(err)
	if !ok {
		return Denied{}, false
	}
	return Denied{d.Command, d.Rule}, true
}

func deniedOf(all []*resque.DeniedError) (denied []Denied) {
	for _, d := range all {
		denied = append(denied, Denied{d.Command, d.Rule})
	}
	return denied
}

// mergeDenied adds what is not there.
func mergeDenied(a, b []Denied) []Denied {
	for _, d := range b {
		known := false
		for _, k := range a {
			known = known || k == d
		}
		if !known {
			a = append(a, d)
		}
	}
	return a
}

// DeniedError is returned where Redis refuses this user the whole of a question or a change.
type DeniedError struct {
	Denied
	Err error // of Redis
}

func (e *DeniedError) Error() string { return "goworker: " + e.Denied.String() }

func (e *DeniedError) Unwrap() error { return e.Err }

// refusal turns the error of a command that Redis refuses this user into a DeniedError, and explains others.
func refusal(s resque.Store, err error) error {
	if err == nil {
		return nil
	}
	if denied, ok := s.Denied(err); ok {
		return &DeniedError{Denied{denied.Command, denied.Rule}, err}
	}
	var refused redis.Error
	if errors.As(err, &refused) {
		return prefix.Of(resque.Explain(err))
	}
	return err
}
