package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// Revealed is the arguments and the texts of one job, unmasked.
type Revealed struct {
	ID     string    `json:"id"`
	Class  string    `json:"class"`
	Queue  string    `json:"queue"`
	Known  bool      `json:"args_known"`
	Args   site.Args `json:"args"`
	Errors []string  `json:"errors,omitempty"`
	Logs   []LogLine `json:"logs,omitempty"`
	Back   string    `json:"-"`
}

// PageTitle names the job.
func (r *Revealed) PageTitle() string { return "Job " + r.ID + " without masks" }

// Text is the arguments as a list.
func (r *Revealed) Text() string {
	text, _ := json.Marshal(r.Args)
	return string(text)
}

// reveal shows the arguments and the texts of a job without masks, once.
func reveal(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	if wait, ok := a.Config.Limits.Reveal(a.User); !ok {
		return site.Outcome{}, &site.Problem{
			Status: http.StatusTooManyRequests, Title: "Too often",
			Err: fmt.Errorf("you may have %d jobs a minute shown without masks; wait %s", guard.RevealsAMinute, look.Dur(wait)),
		}
	}
	f, err := locate(ctx, a, "job.reveal")
	if err != nil {
		return site.Outcome{}, err
	}
	r := &Revealed{ID: f.id, Class: f.class(), Queue: f.queue(), Args: site.Args{}, Back: a.URL("jobs", f.id)}
	if f.entry != nil {
		r.Known, r.Args = true, f.entry.Args
		if fail := f.entry.Failure; fail != nil {
			r.Errors = append(r.Errors, errorText(fail.Exception, fail.Error))
		}
	}
	if f.status != nil {
		for _, t := range f.status.Tries {
			if t.Error != "" {
				r.Errors = append(r.Errors, errorText(t.Exception, t.Error))
			}
		}
		lines, err := a.In().JobLogs(ctx, f.id)
		if err != nil && !errors.Is(err, inspect.ErrNoResult) {
			return site.Outcome{}, err
		}
		for _, l := range lines {
			line := LogLine{At: site.Time{Time: l.Time}, Level: l.Level.String(), Text: l.Message}
			for _, name := range sorted(l.Attrs) {
				line.Attrs = append(line.Attrs, Pair{name, string(l.Attrs[name])})
			}
			r.Logs = append(r.Logs, line)
		}
	}
	a.Log.Info("dashboard: a job was shown without masks", "user", a.User.Name, "id", f.id, "class", r.Class, "queue", r.Queue)
	return site.Outcome{Said: "This is the job without masks.", Done: 1, Data: r}, nil
}
