package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// Event is a line of a job's timeline.
type Event struct {
	Icon    string    `json:"-"`
	Class   string    `json:"-"`
	What    string    `json:"what"`
	State   string    `json:"state,omitempty"`
	Text    string    `json:"text,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	At      site.Time `json:"at"`
	Wait    site.Span `json:"waited_ms,omitempty"`
	Ran     site.Span `json:"ran_ms,omitempty"`
	Process string    `json:"process,omitempty"`
	Worker  string    `json:"worker,omitempty"`
	Error   string    `json:"error,omitempty"`
	Trace   []string  `json:"backtrace,omitempty"`

	kind string // of the error
}

// Life is when the job waited, ran and was delayed.
type Life struct {
	From    site.Time `json:"from"`
	To      site.Time `json:"to"`
	Spans   []Span    `json:"spans"`
	Waited  site.Span `json:"waited_ms"`
	Running site.Span `json:"ran_ms"`
	Delayed site.Span `json:"delayed_ms"`

	Ends site.Time `json:"-"` // of the picture, where the job is delayed still; zero: To
}

// Span is a piece of a Life.
type Span struct {
	From site.Time `json:"from"`
	To   site.Time `json:"to"`
	Kind string    `json:"kind"` // wait, run, failed or delay
	Text string    `json:"-"`
}

// Plot is the life as a lane.
func (l *Life) Plot() look.Gantt {
	g := look.Gantt{Label: "The job's life: " + l.Text(), From: l.From.Time, To: cmp.Or(l.Ends.Time, l.To.Time)}
	for _, s := range l.Spans {
		g.Spans = append(g.Spans, look.Span{From: s.From.Time, To: s.To.Time, Title: s.Text, Class: map[string]string{"wait": "w", "failed": "f", "delay": "l"}[s.Kind]})
	}
	return g
}

// Text says how the time was spent.
func (l *Life) Text() string {
	text := look.Dur(l.To.Sub(l.From.Time)) + ": " + look.Dur(l.Running.D()) + " running"
	if l.Waited > 0 {
		text += ", " + look.Dur(l.Waited.D()) + " waiting"
	}
	if l.Delayed > 0 {
		text += ", " + look.Dur(l.Delayed.D()) + " delayed"
	}
	return text
}

func (l *Life) add(from, to time.Time, kind, text string) {
	if from.IsZero() || !to.After(from) {
		return
	}
	l.Spans = append(l.Spans, Span{site.Time{Time: from}, site.Time{Time: to}, kind, text + " " + look.Dur(to.Sub(from))})
	switch took := site.Span(to.Sub(from)); kind {
	case "wait":
		l.Waited += took
	case "delay":
		l.Delayed += took
	default:
		l.Running += took
	}
}

// lived makes the lane of a job that keeps a result. It is nil if too little is known to draw one.
func lived(j *Job, s *inspect.Status, now time.Time) *Life {
	l := new(Life)
	at := s.Enqueued
	for n, t := range s.Tries {
		switch {
		case n == 0 && t.Attempt <= 1:
			l.add(at, t.Began, "wait", "waited")
		default:
			l.add(at, t.Began, "delay", "between two tries")
		}
		kind := "failed"
		if t.State == inspect.StateDone || t.State == inspect.StateSnoozed {
			kind = "run"
		}
		l.add(t.Began, t.Ended, kind, fmt.Sprintf("try %d %s after", t.Attempt, t.State))
		at = cmp.Or(t.Ended, t.Began, at)
	}
	first := len(s.Tries) == 0
	due := time.Time{} // that is still to come
	switch began := j.began(); {
	case s.Over():
		l.add(at, s.Ended, "wait", "waited")
	case !began.IsZero() && !began.Before(at):
		kind := "delay"
		if first {
			kind = "wait"
		}
		l.add(at, began, kind, "before this run")
		l.add(began, now, "run", "runs for")
	case s.Due.After(now):
		l.add(at, now, "delay", "delayed for")
		due = s.Due
	case s.Due.After(at):
		l.add(at, s.Due, "delay", "delayed by")
		l.add(s.Due, now, "wait", "waits for")
	default:
		l.add(at, now, "wait", "waits for")
	}
	if len(l.Spans) == 0 {
		return nil
	}
	l.From, l.To = l.Spans[0].From, l.Spans[len(l.Spans)-1].To
	if !due.IsZero() { // at most a third more than what was, so that the past can be seen
		l.Spans = append(l.Spans, Span{l.To, site.Time{Time: due}, "delay", "due in " + look.Dur(due.Sub(now))})
		if most := l.To.Add(l.To.Sub(l.From.Time) / 3); due.After(most) {
			due = most
		}
		l.Ends = site.Time{Time: due}
	}
	return l
}

// happened makes the timeline, the newest first.
func happened(j *Job, f *found, text func(string) string, now time.Time) (all []Event) {
	s := f.status
	if s != nil && !s.Enqueued.IsZero() {
		all = append(all, Event{Icon: "plus", Class: "q", What: "Pushed", Text: "to " + s.Queue, At: site.Time{Time: s.Enqueued}})
	}
	if s != nil {
		before := s.Enqueued
		for _, t := range s.Tries {
			e := Event{
				What: fmt.Sprintf("Try %d %s", t.Attempt, t.State), State: string(t.State), Attempt: t.Attempt, At: site.Time{Time: cmp.Or(t.Ended, t.Began)},
				Process: t.Process, Worker: t.Worker, kind: text(t.Exception), Error: text(errorText(t.Exception, t.Error)), Icon: "failed", Class: "bad",
			}
			switch t.State {
			case inspect.StateDone:
				e.Icon, e.Class = "done", "ok"
			case inspect.StateSnoozed:
				e.Icon, e.Class = "delayed", "later"
			case inspect.StateRetrying:
				e.What = fmt.Sprintf("Try %d failed", t.Attempt)
			}
			if !before.IsZero() && t.Began.After(before) {
				e.Wait = site.Span(t.Began.Sub(before))
			}
			if !t.Began.IsZero() && t.Ended.After(t.Began) {
				e.Ran = site.Span(t.Ended.Sub(t.Began))
			}
			if !t.Ended.IsZero() {
				before = t.Ended
			}
			all = append(all, e)
		}
	} else if f.entry != nil && f.entry.LastError != "" {
		all = append(all, Event{Icon: "failed", Class: "bad", What: fmt.Sprintf("Try %d failed", f.entry.Attempt-1), Attempt: f.entry.Attempt - 1, Error: text(f.entry.LastError)})
	}
	if j.Failure != nil {
		if n := len(all); n > 0 && s != nil && all[n-1].Icon == "failed" {
			all[n-1].Trace, all[n-1].Error = j.Failure.Backtrace, j.Failure.Text
		} else {
			all = append(all, Event{Icon: "failed", Class: "bad", What: "Failed", Text: j.Failure.At, Error: j.Failure.Text, Trace: j.Failure.Backtrace, Worker: j.Failure.Worker})
		}
	}
	switch began := j.began(); {
	case !began.IsZero():
		all = append(all, Event{Icon: "running", Class: "run", What: "Runs", Text: "for " + look.Dur(now.Sub(began)), At: site.Time{Time: began}, Attempt: j.Attempt, Process: j.Where.Process, Worker: j.Where.Worker})
	case j.Where.Place == string(inspect.Leased):
		all = append(all, Event{Icon: "running", Class: "run", What: "A client has it", Text: "over HTTP", Attempt: j.Attempt})
	case !j.Where.Until.IsZero() && j.Where.Place == string(inspect.Delayed):
		what := "Is due"
		if j.Attempt > 1 {
			what = fmt.Sprintf("Try %d is due", j.Attempt)
		}
		all = append(all, Event{Icon: "delayed", Class: "later", What: what, At: j.Where.Until, Attempt: j.Attempt})
	case s != nil && s.State != inspect.StateDone && s.State != inspect.StateFailed && s.Over():
		all = append(all, Event{Icon: "cancel", Class: "q", What: "Ended as " + string(s.State), At: site.Time{Time: s.Ended}})
	}
	slices.Reverse(all)
	return all
}
