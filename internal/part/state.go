package part

import (
	"fmt"
	"time"
)

// The states of a part.
const (
	Waiting    = "waiting"    // the parts before it are not running yet
	Starting   = "starting"   // its Start has not returned, or its Run has not said that it is ready
	Running    = "running"    //
	Restarting = "restarting" // its Run has failed, and is called again soon
	Stopping   = "stopping"   // its Stop has not returned, or its Run
	Stopped    = "stopped"    //
	Failed     = "failed"     // it could not start or stop, or its Run has failed for good
)

// State is the state of a part. The public PartState has the same fields, and documents them.
type State struct {
	Name      string
	State     string
	Since     time.Time
	StartTook time.Duration
	StopTook  time.Duration
	Restarts  int
	Err       error
	Requires  []string
	Info      any
}

// Failure is the unexpected end of a part. The public PartError has the same fields.
type Failure struct {
	Part  string
	Err   error
	Stack []byte
}

func (f *Failure) Error() string { return fmt.Sprintf("part %s failed: %v", f.Part, f.Err) }

func (f *Failure) Unwrap() error { return f.Err }

// panicked is a panic as an error.
type panicked struct{ value any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func (p panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
