package inspect

import (
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// LockName returns the name of the lock that the job has because it is unique, for Lock; "" if it has none. A job that waits still may have
// a lock that another job holds by now.
func (e Entry) LockName() string {
	name, _ := e.lock()
	return name
}

// Workflow returns the id of the workflow that the job is a step of, and the number of the step; ok is false if it is none.
func (e Entry) Workflow() (id string, step int, ok bool) {
	p, err := payload.Parse(e.Payload)
	if err != nil || p.Field(workflows.Field) == nil {
		return "", 0, false
	}
	return workflows.SplitID(p.ID)
}
