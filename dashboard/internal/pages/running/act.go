package running

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// onForm is what the form of a running job concerns. Where it names no queue, the action looks for the job and asks again.
func onForm(a *site.Ask) guard.Target {
	return guard.Target{Queue: a.Value("queue"), Class: a.Value("class"), ID: a.Value("id"), Process: a.Value("process")}
}

// mostSought is how many stretches are looked through for a job.
const mostSought = 20

// find returns the running job that the form names: by its id, or by its process and ticket.
func find(ctx context.Context, a *site.Ask) (job inspect.RunningJob, found bool, err error) {
	id, process := a.Value("id"), a.Value("process")
	ticket, _ := strconv.ParseInt(a.Value("ticket"), 10, 64)
	if id == "" && process == "" {
		return job, false, site.Bad("name a job: its id, or its process and ticket")
	}
	after := ""
	for range mostSought {
		page, err := a.In().Running(ctx, after, stretch, inspect.RunningFilter{Queue: seen(a)})
		if err != nil {
			return job, false, err
		}
		for _, j := range page.Jobs {
			if id != "" && j.ID == id || id == "" && j.Process == process && j.Ticket == ticket {
				return j, true, nil
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	return job, false, nil
}

// seen are the queues of the user; nil: all.
func seen(a *site.Ask) func(queue string) bool {
	if a.User.Whole() {
		return nil
	}
	return a.Sees
}

func cancel(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	job, found, err := find(ctx, a)
	if err != nil {
		return site.Outcome{}, err
	}
	if !found {
		return site.Outcome{Said: "The job does not run any more, so nothing was cancelled.", Missing: 1}, nil
	}
	if err := a.Permit("running.cancel", guard.Target{Queue: job.Queue, Class: job.Class, ID: job.ID, Process: job.Process}); err != nil {
		return site.Outcome{}, err
	}
	switch {
	case job.ID != "":
		err = a.By().Cancel(ctx, job.ID)
	case job.Process != "":
		err = a.By().CancelRunning(ctx, job.Process, job.Ticket)
	default:
		return site.Outcome{}, site.Bad("a worker that is not goworker's runs this job, and cannot be asked to stop it")
	}
	if errors.Is(err, inspect.ErrUnknownJob) || errors.Is(err, inspect.ErrJobEnded) {
		return site.Outcome{Said: "The job has ended meanwhile, so nothing was cancelled.", Missing: 1}, nil
	}
	if err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget("running ")
	name := cmp.Or(job.Class, "The job")
	switch {
	case job.Source == inspect.SourceHTTP:
		return site.Outcome{Said: name + " is cancelled. Its client hears of it when it extends or ends the job.", Done: 1}, nil
	case job.Source == inspect.SourceOther:
		return site.Outcome{Said: name + " is marked as cancelled. The worker that runs it is not goworker's and does not stop it.", Done: 1}, nil
	}
	return site.Outcome{Said: name + " is cancelled. Its context ends within a second; a handler that ignores it runs on.", Done: 1}, nil
}

// release ends the lease of a job that a client holds over HTTP.
func release(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	queue, id := a.Value("queue"), a.Value("id")
	if queue == "" || id == "" {
		return site.Outcome{}, site.Bad("name the queue and the id of the job whose lease is to be released")
	}
	if !a.Sees(queue) {
		return site.Outcome{}, site.Missing("there is no such job for you")
	}
	if a.Value("ends") != "" { // the client may have extended its lease, or another one has the job
		ends, err := a.Number("ends")
		if err != nil {
			return site.Outcome{}, err
		}
		job, found, err := find(ctx, a)
		if err != nil {
			return site.Outcome{}, err
		}
		if found && job.LeaseEnds.UnixMilli() != ends {
			return site.Outcome{}, site.Changed(job.LeaseEnds.UnixMilli(), "the job has another lease by now, until %s; look again", job.LeaseEnds.In(a.Loc).Format("15:04:05"))
		}
	}
	err := a.By().ReleaseLease(ctx, queue, id, a.Value("lease"))
	if errors.Is(err, inspect.ErrNoLease) {
		return site.Outcome{Said: "No client holds the job any more, so nothing was released.", Missing: 1}, nil
	}
	if err != nil {
		return site.Outcome{}, err
	}
	a.Fleet.Forget("running ")
	return site.Outcome{Said: fmt.Sprintf("The lease of %s is over. The job goes back to its queue, or is filed as failed after its last try, within five seconds.", id), Done: 1}, nil
}

// Stacks is the page /running/stack: where the goroutines of a process are.
type Stacks struct {
	Process    string             `json:"process"`
	Asked      site.Time          `json:"asked"` // zero: nobody has asked
	Goroutines int                `json:"goroutines"`
	Cut        bool               `json:"cut"` // there are more than the answer has
	Stacks     []Stack            `json:"stacks"`
	Why        string             `json:"why,omitempty"` // there is no answer
	Stuck      []inspect.StuckJob `json:"-"`
}

// Stack is the stack of goroutines that are at the same place.
type Stack struct {
	Count int    `json:"count"`
	State string `json:"state"`
	Stack string `json:"stack"`
}

// handles is 1 for a goroutine that runs a handler: these come first.
func (s Stack) handles() int {
	if strings.Contains(s.Stack, "goworker.(*Delivery).perform(") {
		return 1
	}
	return 0
}

func (s *Stacks) PageTitle() string { return "Stacks of " + s.Process }

// stacksKey names the kept answer of a process.
func stacksKey(process string) string { return "stacks " + process }

// stacksFor is how long an answer is shown.
const stacksFor = 10 * time.Minute

// askStack asks a process where its goroutines are. The answer is on the page that follows.
func askStack(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	process := a.Value("process")
	if process == "" {
		return site.Outcome{}, site.Bad("name the process whose stacks are wanted")
	}
	s := &Stacks{Process: process, Asked: site.Time{Time: a.Now()}}
	got, err := control.Gather(a.Control().Inspect(ctx, control.Stacks, control.To(process)))
	switch {
	case errors.Is(err, control.ErrNoMatch), errors.Is(err, control.ErrNobody):
		return site.Outcome{}, site.Missing("there is no process %s any more", process)
	case err != nil:
		return site.Outcome{}, err
	case len(got.Replies) > 0:
		var answer control.StacksAnswer
		if err := got.Replies[0].Decode(&answer); err != nil {
			return site.Outcome{}, err
		}
		s.Goroutines, s.Cut = answer.Goroutines, answer.Cut
		for _, one := range answer.Stacks {
			s.Stacks = append(s.Stacks, Stack{one.Count, one.State, a.Masks.Text(one.Stack)})
		}
		slices.SortStableFunc(s.Stacks, func(x, y Stack) int { return cmp.Compare(y.handles(), x.handles()) })
	case len(got.Refused) > 0:
		s.Why = got.Refused[0].Text
	case len(got.Silent) > 0:
		s.Why = got.Silent[0].Why()
	}
	a.Fleet.Forget(stacksKey(process))
	if _, err := site.Keep(ctx, a.Fleet, stacksKey(process), stacksFor, func(context.Context) (*Stacks, error) { return s, nil }); err != nil {
		return site.Outcome{}, err
	}
	said := "The process has answered."
	if s.Why != "" {
		said = "The process has not answered: " + s.Why + "."
	}
	return site.Outcome{Said: said, Done: int64(len(s.Stacks)), Data: s, To: "/running/stack?process=" + url.QueryEscape(process)}, nil
}

func loadStack(ctx context.Context, a *site.Ask) (any, error) {
	process := a.Param("process")
	if process == "" {
		return nil, site.Missing("there is no such process: name one in ?process=")
	}
	kept, err := site.Keep(ctx, a.Fleet, stacksKey(process), stacksFor, func(context.Context) (*Stacks, error) { return &Stacks{Process: process}, nil })
	if err != nil {
		return nil, err
	}
	s := *kept
	for _, j := range a.Base.Stuck {
		if j.Process == process {
			s.Stuck = append(s.Stuck, j)
		}
	}
	return &s, nil
}
