package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/brief"
	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/pages/queues"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	lists "github.com/goworker/goworker/internal/queues"
)

// Worker is a registered worker of any program.
type Worker struct {
	ID        string    `json:"id"`
	Host      string    `json:"host"`
	PID       string    `json:"pid"`
	State     string    `json:"state"` // working, idle or lost
	Process   string    `json:"process,omitempty"`
	Queues    []string  `json:"queues"`
	Started   site.Time `json:"started"`
	Heartbeat site.Time `json:"heartbeat"`
	Processed int64     `json:"processed"`
	Failed    int64     `json:"failed"`
	Job       *Job      `json:"job"` // null: it has none
	Shard     string    `json:"shard,omitempty"`
}

// Job is the job that a worker or a process has.
type Job struct {
	Queue   string          `json:"queue"`
	Class   string          `json:"class"`
	ID      string          `json:"id,omitempty"`
	Since   site.Time       `json:"since"`
	For     site.Span       `json:"for_ms"`
	Attempt int             `json:"attempt,omitempty"`
	Worker  string          `json:"worker,omitempty"`
	Brief   string          `json:"-"`
	Payload json.RawMessage `json:"payload,omitempty"` // 2 KiB at most, masked
}

// Text is the payload.
func (j Job) Text() string { return string(j.Payload) }

// WorkerPage is the page /workers/{id}.
type WorkerPage struct {
	Worker
	Removable bool   `json:"removable"`
	Beats     bool   `json:"beats"`         // it sends heartbeats
	Alive     string `json:"why,omitempty"` // why it cannot be removed
}

// PageTitle is the title of the page.
func (p *WorkerPage) PageTitle() string { return p.ID }

// most is how many bytes of a payload are shown.
const most = 2 << 10

// workers lists the registered workers of all programs.
func (l *List) workers(ctx context.Context, a *site.Ask) error {
	match, host := l.Query, ""
	for word := range strings.FieldsSeq(l.Query) {
		if of, is := strings.CutPrefix(word, "host:"); is {
			host, match = of, of
		}
	}
	page, err := a.In().WorkersPage(ctx, a.Param("after"), rows, match)
	if err != nil {
		return err
	}
	for _, w := range page.Workers {
		if host == "" || strings.HasPrefix(w.Host, host) {
			l.Workers = append(l.Workers, workerOf(a, w))
		}
	}
	l.Next, l.Looked, l.Of = page.Next, page.Seen, site.Num{Count: inspect.Count{N: page.Of, Bound: inspect.Exact}}
	return nil
}

// workerOf is a worker as lists show it.
func workerOf(a *site.Ask, w inspect.WorkerInfo) Worker {
	r := Worker{
		ID: w.ID, Host: w.Host, PID: w.PID, State: "idle", Queues: w.Queues, Started: site.Time{Time: w.Started}, Heartbeat: site.Time{Time: w.Heartbeat},
		Processed: w.Processed, Failed: w.Failed, Shard: w.Shard, Process: processWith(a.Base.Processes, w),
	}
	if w.Working != nil {
		r.State = "working"
		r.Job = &Job{Queue: w.Working.Queue, Class: w.Working.Class, Since: site.Time{Time: w.Working.RunAt}}
		if !w.Working.RunAt.IsZero() {
			r.Job.For = site.Span(max(0, a.Now().Sub(w.Working.RunAt)))
		}
		if len(w.Working.Payload) > 0 {
			var job struct{ ID string }
			_ = json.Unmarshal(w.Working.Payload, &job) // what is no job has no id
			r.Job.ID = job.ID
			r.Job.Brief = brief.Of(a.Masks, w.Working.Payload, nil).Line
			if masked := a.Masks.Payload(w.Working.Payload); len(masked) <= most {
				r.Job.Payload = masked
			}
		}
	}
	if w.Dead {
		r.State = "lost"
	}
	return r
}

// processWith is the goworker process that has a worker; "": none of those that the Sample saw. The host of such a worker ends with .go, and
// its pid with its number.
func processWith(all []inspect.SampleProcess, w inspect.WorkerInfo) string {
	host, isGo := strings.CutSuffix(w.Host, ".go")
	pid, _, numbered := strings.Cut(w.PID, "-")
	if !isGo || !numbered {
		return ""
	}
	for _, p := range all {
		if p.Host == host && fmt.Sprint(p.PID) == pid {
			return p.ID
		}
	}
	return ""
}

func loadWorker(ctx context.Context, a *site.Ask) (any, error) {
	id := a.Path("id")
	info, err := a.In().Worker(ctx, id)
	if err != nil {
		return nil, err
	}
	p := &WorkerPage{Worker: workerOf(a, info)}
	if !info.Dead && !info.Heartbeat.IsZero() {
		return p, nil // it lives, as far as anybody knows
	}
	switch beats, err := a.In().DeadWorker(ctx, id); {
	case err == nil:
		p.Removable, p.Beats = true, beats
	case errors.Is(err, inspect.ErrWorkerAlive), errors.Is(err, inspect.ErrUnknownWorker):
		p.Alive = strings.TrimPrefix(err.Error(), "goworker: ")
	default:
		return nil, err
	}
	return p, nil
}

func removeWorker(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	id := a.Path("id")
	if err := a.By().RemoveWorker(ctx, id); err != nil {
		return site.Outcome{}, err
	}
	return site.Outcome{Said: fmt.Sprintf("Worker %s is removed. A job that it had is among the failures.", id), Done: 1, To: "/processes?by=worker"}, nil
}

// removeWorkers removes the selected workers that are dead.
func removeWorkers(ctx context.Context, a *site.Ask) (out site.Outcome, err error) {
	ids, err := chosen(a)
	if err != nil {
		return out, err
	}
	for _, id := range ids {
		if err := a.Permit("worker.remove", guard.Target{ID: id}); err != nil {
			return out, err
		}
	}
	for _, id := range ids {
		switch err := a.By().RemoveWorker(ctx, id); {
		case err == nil:
			out.Done++
		case errors.Is(err, inspect.ErrUnknownWorker):
			out.Missing++
		case errors.Is(err, inspect.ErrWorkerAlive):
			out.Refused = append(out.Refused, strings.TrimPrefix(err.Error(), "goworker: ")+".")
		default:
			return out, err
		}
	}
	out.Said = look.Plural(out.Done, "worker was", "workers were") + " removed."
	if out.Missing > 0 {
		out.Said += " " + look.Plural(out.Missing, "worker was", "workers were") + " gone already."
	}
	return out, nil
}

// chosen are the ids of a selection.
func chosen(a *site.Ask) ([]string, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(a.Values("ids"))))
	switch {
	case len(ids) == 0:
		return nil, site.Bad("nothing was selected")
	case len(ids) > 2*rows:
		return nil, site.Bad("%d are selected; select %d at most", len(ids), 2*rows)
	}
	return ids, nil
}

// worksOf is how many processes a queue names.
const worksOf = 10

// queues lists the queues and who works them.
func (l *List) queues(a *site.Ask) {
	type works struct {
		id   string
		list lists.Spec
	}
	var processes []works
	for _, p := range a.Base.Processes {
		if list, err := lists.Parse([]string{p.Queues}); err == nil && !p.Dead {
			processes = append(processes, works{p.ID, list})
		}
	}
	after := a.Param("after")
	var fit []inspect.SampleQueue
	for _, q := range a.Queues() {
		if strings.Contains(strings.ToLower(q.Name), strings.ToLower(l.Query)) {
			fit = append(fit, q)
		}
	}
	l.Looked, l.Of = int64(len(a.Base.Queues)), site.Num{Count: inspect.Count{N: int64(len(fit)), Bound: inspect.Exact}}
	for _, q := range fit {
		if after != "" && q.Name <= after {
			continue
		}
		if len(l.Queues) == rows {
			l.Next = l.Queues[rows-1].Name
			return
		}
		r := Queue{
			Name: q.Name, State: queues.StateOf(q), Waiting: site.Num{Count: q.Waiting}, First: site.Wait{Age: q.Oldest},
			Go: site.Num{Count: q.Go}, Other: site.Num{Count: q.Other}, HTTP: site.Num{Count: q.HTTP},
		}
		for _, p := range processes {
			switch {
			case !p.list.Works(q.Name):
			case len(r.By) < worksOf:
				r.By = append(r.By, p.id)
			default:
				r.More++
			}
		}
		l.Queues = append(l.Queues, r)
	}
}

// seconds is a number of seconds of an answer as a duration.
func seconds(s float64) site.Span { return site.Span(s * float64(time.Second)) }
