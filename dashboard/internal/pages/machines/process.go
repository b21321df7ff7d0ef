package machines

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/goworker/goworker/dashboard/internal/brief"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// Page is the page /processes/{process}.
type Page struct {
	Process
	Goroutines int       `json:"goroutines"`
	Exchange   site.Time `json:"last_exchange"` // when Redis answered its poller last

	Running   []Job    `json:"running"`
	Partial   bool     `json:"running_partial"` // the fleet is too large to look for its jobs: ask it with ?ask=active
	StuckJobs []Stuck  `json:"stuck_jobs"`
	Bridges   []Bridge `json:"bridges"`
	Log       []Line   `json:"log"` // of its comings and goings, the newest first

	Asked  *Asked  `json:"asked"`  // its answer to ?ask=
	Answer *Answer `json:"answer"` // of the user's last command
}

// PageTitle is the title of the page.
func (p *Page) PageTitle() string { return p.ID }

// First is the first line of a stack: where it is.
func (p *Page) First(stack string) string {
	line, _, _ := strings.Cut(stack, "\n")
	return line
}

// Stuck is a job that runs past its time limit.
type Stuck struct {
	Queue  string    `json:"queue"`
	Class  string    `json:"class"`
	ID     string    `json:"id,omitempty"`
	Worker string    `json:"worker"`
	For    site.Span `json:"for_ms"`
	Limit  site.Span `json:"limit_ms"`
	Stack  string    `json:"stack,omitempty"`
}

// Bridge is a queue of another library from which the process takes.
type Bridge struct {
	Queue   string    `json:"queue"`
	To      string    `json:"to"`
	Waiting int64     `json:"waiting"`
	Taken   int64     `json:"taken"`
	At      site.Time `json:"at"`
}

// Line is an entry of the fleet's log.
type Line struct {
	At   site.Time         `json:"at"`
	Kind string            `json:"kind"`
	Text string            `json:"text,omitempty"`
	More map[string]string `json:"more,omitempty"`
}

const (
	// mostLooked is how many processes a fleet may have for its running jobs to be looked through for those of one.
	mostLooked = 100
	// logged is how many entries of the fleet's log are looked through, and lines is how many of them the page shows.
	logged, lines = 500, 20
)

func loadProcess(ctx context.Context, a *site.Ask) (any, error) {
	id := a.Path("process")
	info, err := processNow(ctx, a, id)
	if err != nil {
		return nil, err
	}
	p := &Page{Process: processOf(a.Now(), info), Goroutines: info.Vitals.Goroutines, Exchange: site.Time{Time: info.Vitals.LastExchange}}
	for _, s := range info.Stuck {
		p.StuckJobs = append(p.StuckJobs, Stuck{s.Queue, s.Class, s.ID, s.Worker, site.Span(s.For), site.Span(s.Limit), a.Masks.Text(s.Stack)})
	}
	for _, b := range info.Bridges {
		p.Bridges = append(p.Bridges, Bridge{b.Queue, b.To, b.Waiting, b.Taken, site.Time{Time: b.At}})
	}
	if err := p.runs(ctx, a); err != nil {
		return nil, err
	}
	if p.Log, err = logOf(ctx, a, id); err != nil {
		return nil, err
	}
	if answer := a.Param("answer"); answer != "" {
		p.Answer = answersOf(a.Fleet).get(a.User.Name, answer)
	}
	if verb := a.Param("ask"); verb != "" {
		if p.Asked, err = ask(ctx, a, id, verb); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// processNow is a process as the Sample has it, or else as Redis has it.
func processNow(ctx context.Context, a *site.Ask, id string) (inspect.SampleProcess, error) {
	if n := slices.IndexFunc(a.Base.Processes, func(p inspect.SampleProcess) bool { return p.ID == id }); n >= 0 {
		return a.Base.Processes[n], nil
	}
	info, err := a.In().Process(ctx, id)
	if errors.Is(err, inspect.ErrUnknownProcess) {
		return inspect.SampleProcess{}, site.Missing("process %s has no lease: it has stopped, or it was found dead and its jobs are back in their queues", id)
	}
	return inspect.SampleProcess{ProcessInfo: info, Busy: inspect.Count{N: int64(info.Vitals.Busy), Bound: inspect.Exact}}, err
}

// runs finds the jobs that the process runs.
func (p *Page) runs(ctx context.Context, a *site.Ask) error {
	if len(a.Base.Processes) > mostLooked {
		p.Partial = true
		return nil
	}
	page, err := a.In().Running(ctx, "", 2*rows, inspect.RunningFilter{Text: p.ID})
	if err != nil {
		return err
	}
	for _, j := range page.Jobs {
		if j.Process != p.ID {
			continue
		}
		job := Job{Queue: j.Queue, Class: j.Class, ID: j.ID, Since: site.Time{Time: j.Began}, Attempt: j.Attempt, Worker: j.Worker, Brief: brief.Of(a.Masks, j.Payload, nil).Line}
		if !j.Began.IsZero() {
			job.For = site.Span(max(0, a.Now().Sub(j.Began)))
		}
		if !j.Cut && len(j.Payload) > 0 {
			job.Payload = a.Masks.Payload(j.Payload)
		}
		p.Running = append(p.Running, job)
	}
	p.Partial = page.Next != ""
	return nil
}

// logOf are the newest entries of the fleet's log about a process.
func logOf(ctx context.Context, a *site.Ask, id string) (all []Line, err error) {
	entries, err := site.Keep(ctx, a.Fleet, "log of the fleet", keepFor, func(ctx context.Context) ([]inspect.LogEntry, error) {
		entries, _, err := a.In().Log(ctx, "", logged)
		return entries, err
	})
	for _, e := range slices.Backward(entries) {
		if e.Process == id && len(all) < lines {
			more := make(map[string]string, len(e.More))
			for name, text := range e.More {
				more[name] = a.Masks.Text(text)
			}
			all = append(all, Line{site.Time{Time: e.At}, e.Kind, a.Masks.Text(e.Text), more})
		}
	}
	return all, err
}
