package goworker

import (
	step "github.com/goworker/goworker/internal/feature/workflow"
	"github.com/goworker/goworker/internal/outcome"
)

// WorkflowStep says which step of which workflow a job is.
type WorkflowStep struct {
	// ID is the id of the workflow.
	ID string

	// Step is the number of the step in it, as Status and lists have it.
	Step int

	// Name is the name that Named gave the step, "" if it has none.
	Name string

	// Meta is the metadata of the job, which has that of the workflow. Treat it as read-only.
	Meta map[string]string
}

// workflowStep returns which step a job is, nil if it is none.
func workflowStep(j *outcome.Job, meta map[string]string) *WorkflowStep {
	id, number, name, ok := step.Standing(j)
	if !ok {
		return nil
	}
	return &WorkflowStep{ID: id, Step: number, Name: name, Meta: meta}
}

// StepFailure says how a step ended that is not done. The jobs of OnError get it behind their
// arguments: take it as the last parameter.
type StepFailure struct {
	// Step is the number of the step in its workflow, and ID the id of its job.
	Step int    `json:"step"`
	ID   string `json:"id"`

	// Name is the name that Named gave the step, "" if it has none.
	Name string `json:"name,omitempty"`

	Class string `json:"class"`
	Queue string `json:"queue"`

	// Exception and Error are those of the failure record. At most 8 KiB of the error's text are kept.
	Exception string `json:"exception"`
	Error     string `json:"error"`

	// Attempt is the number of the run that failed for good; the first is 1.
	Attempt int `json:"attempt"`

	// State is what became of the job: "failed", "discarded", "expired", "cancelled", "lost" or "removed".
	State string `json:"state"`
}
