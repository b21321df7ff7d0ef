package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// WorkflowInfo is what is known of a workflow. Times are those of Redis's clock; a time that is zero has not come, or is
// unknown.
type WorkflowInfo struct {
	ID    string
	Name  string            // "" if it has none
	State State             // running, retrying, failed, cancelled, expired or done
	Meta  map[string]string // as Start got it
	Began time.Time
	Ended time.Time

	Deadline time.Duration // how long it may take, from its start and from each retry; 0: no bound
	Until    time.Time     // when that is over

	Open    bool   // it is a batch that is not closed yet
	Paused  bool   // what comes next is not sent
	RunRest bool   // after a failure the steps run that do not need the failed one
	Stalled string // why it stands still; "": it does not
	Lost    []int  // the numbers of its sent steps that are nowhere: at most 100
	Unique  string // the name under which it is unique; "": none

	Err        *WorkflowError  // the first failure that nothing bears, or why it expired; nil: there is none
	Result     json.RawMessage // only of Get of one that is done
	ResultLeft string          // why the result was not kept; "": it was, or there is none

	Counts WorkflowCounts // only of Get and Page
}

// WorkflowCounts are the steps and handlers of a workflow, by what has become of them.
type WorkflowCounts struct {
	Waiting int64 // not sent yet
	Sent    int64 // queued, delayed, between two tries, or running
	Outside int64 // sent, and ended by a token
	Done    int64
	Failed  int64 // for good: discarded, expired, cancelled and removed ones too
	NotRun  int64 // dropped because the workflow was stopped

	Handlers int64 // OnError and OnComplete: not sent
	Called   int64 // sent
	Over     int64
}

// Steps returns how many steps there are so far.
func (c WorkflowCounts) Steps() int64 {
	return c.Waiting + c.Sent + c.Outside + c.Done + c.Failed + c.NotRun
}

// WorkflowError is the error of a workflow that failed: its first failure that no Collect and no Ignore bears.
type WorkflowError struct {
	ID, Name     string // of the workflow
	Step         int    // the number of the step that failed
	StepName     string // "" if it has none
	Class, Queue string // of its job
	Exception    string // as failure records name it
	Message      string // the text of its error
	Attempt      int    // of its last run
	State        State  // how the step ended: failed, discarded, expired, cancelled, lost or removed
}

func (e *WorkflowError) Error() string {
	text := fmt.Sprintf("goworker: %s failed", workflowName(e.ID, e.Name))
	if e.Class != "" {
		text += fmt.Sprintf(": step %s of class %s in queue %s %s", stepName(e.Step, e.StepName), e.Class, e.Queue, endedAs(e.State))
	}
	if e.Attempt > 1 {
		text += fmt.Sprintf(" in attempt %d", e.Attempt)
	}
	for _, why := range []string{e.Exception, e.Message} {
		if why != "" {
			text += ": " + prefix.Bare(errors.New(why))
		}
	}
	return text
}

// endedAs says in words how a step ended that is not done.
func endedAs(state State) string {
	switch state {
	case StateFailed, "":
		return "failed"
	case StateExpired:
		return "expired"
	}
	return "was " + string(state)
}

func workflowName(id, name string) string {
	if name == "" {
		return "workflow " + id
	}
	return fmt.Sprintf("workflow %s (%s)", id, name)
}

func stepName(number int, name string) string {
	if name == "" {
		return fmt.Sprint(number)
	}
	return fmt.Sprintf("%d (%s)", number, name)
}

// workflowError reads a failure as Redis has it; nil: there is none.
func workflowError(id, name, text string) *WorkflowError {
	if text == "" || text == "null" {
		return nil
	}
	e := &WorkflowError{ID: id, Name: name}
	f, ok := workflows.FailureOf(text)
	if !ok {
		e.Message = text // another program's: show it as it is
		return e
	}
	e.Step, e.StepName, e.Class, e.Queue = f.Step, f.Name, f.Class, f.Queue
	e.Exception, e.Message, e.Attempt, e.State = f.Exception, f.Error, f.Attempt, State(f.State)
	return e
}

// mostLost is how many lost steps of a workflow are shown.
const mostLost = 100

// infoOf is a workflow as operators see it.
func infoOf(w workflows.Workflow) WorkflowInfo {
	i := WorkflowInfo{ID: w.ID, Name: w.Name, State: State(w.State), Began: w.Began, Ended: w.Ended, Deadline: w.Deadline, Until: w.Until,
		Open: w.Open, Paused: w.Paused, RunRest: w.Rest, Unique: w.Lock, ResultLeft: w.Left,
		Counts: countsOf(w.Counts)}
	i.Lost, i.Stalled = workflows.LostSteps(w.Stalled, mostLost)
	i.Err = workflowError(w.ID, w.Name, w.Error)
	if w.Result != "" && i.State == StateDone {
		i.Result = json.RawMessage(w.Result)
	}
	_ = json.Unmarshal([]byte(w.Meta), &i.Meta) // what another program wrote there is no metadata
	return i
}

func countsOf(n workflows.Counts) WorkflowCounts {
	return WorkflowCounts{
		Waiting: n.Waiting, Sent: n.Sent, Outside: n.Outside, Done: n.Done, Failed: n.Failed,
		NotRun: n.NotRun, Handlers: n.Armed, Called: n.Called, Over: n.Over,
	}
}

// StepState is what has become of a step of a workflow.
type StepState string

// The states of a step.
const (
	StepWaiting StepState = "waiting" // not sent yet
	StepSent    StepState = "sent"    // queued, delayed, between two tries, or running
	StepOutside StepState = "outside" // sent, and ended by a token
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"  // for good: discarded, expired, cancelled and removed ones too
	StepNotRun  StepState = "not run" // dropped because the workflow was stopped
)

var stepLetters = map[StepState]byte{
	StepWaiting: workflows.Waits, StepSent: workflows.Sent, StepOutside: workflows.Outside,
	StepDone: workflows.Done, StepFailed: workflows.Failed, StepNotRun: workflows.NotRun,
}

// StepInfo is what is known of a step of a workflow. Class, Queue and Args are empty of a step of which Redis keeps no
// template: of some that were sent with the start.
type StepInfo struct {
	ID     string // of its job
	Number int
	Name   string // "" if it has none
	Class  string
	Queue  string
	Args   []json.RawMessage // without what steps before it add
	State  StepState

	Since  time.Time       // of one that ends from outside: when it was sent; zero: it is not known
	Until  time.Time       // of one that ends from outside: when it fails if nothing ends it
	Err    *WorkflowError  // of one that failed
	Result json.RawMessage // of one that is done, if the workflow keeps it. Of a handler with several results the list of them
}

// StepFilter chooses steps: those that fit every field that is set.
type StepFilter struct {
	State StepState
	Class string
	From  int // only steps whose numbers are not below it
	Limit int // at most so many; 0: all
}

// WorkflowFilter chooses workflows: those that fit every field that is set.
type WorkflowFilter struct {
	State State
	Name  string            // with * and ? as in path.Match: "import*"
	Meta  map[string]string // what its metadata has, too

	Paused, Stalled, Open bool // only such

	Limit int // at most so many; 0: all
}
