package command

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/goworker/goworker/cmd/goworker/internal/shell"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/checks"
)

// mostAlike is how many lines one check has.
const mostAlike = 3

// usual is the history that says for how long jobs usually wait. It is read only where some wait for long, and once in ten minutes.
type usual struct {
	history inspect.History
	at      time.Time
}

// read reads it, and reports whether it is another one than before. What cannot be read is not known.
func (u *usual) read(ctx context.Context, in *inspect.Inspector, s inspect.Sample) bool {
	const step = 10 * time.Minute
	if len(s.Processes) == 0 && len(s.Servings) == 0 || time.Since(u.at) < step {
		return false
	}
	u.at = time.Now()
	h, err := in.History(ctx, inspect.HistoryQuery{Step: step, Since: s.At.Add(-24 * time.Hour)})
	if err != nil {
		return false
	}
	u.history = h
	return true
}

// alarms are the lines of status that begin with an exclamation mark. Without a sample before, what moves is not known.
func (o *operator) alarms(ctx context.Context, before *inspect.Sample, s inspect.Sample) []view.Alarm {
	if before == nil {
		before = &inspect.Sample{}
	}
	var lines []view.Alarm
	said := make(map[*checks.Check]int)
	found := checks.Moving(*before, s, checks.Usually(o.usual.history))
	if slices.ContainsFunc(found, func(f checks.Finding) bool { return f.Check.Name == "waits-long" }) && o.usual.read(ctx, o.in, s) {
		found = checks.Moving(*before, s, checks.Usually(o.usual.history))
	}
	for _, f := range found {
		said[f.Check]++
	}
	left := maps.Clone(said)
	for _, f := range found {
		left[f.Check]--
		if n := said[f.Check]; n > mostAlike && left[f.Check] < n-mostAlike+1 {
			if left[f.Check] == 0 {
				more := view.Count(int64(n - mostAlike + 1))
				lines = append(lines, view.Alarm{Text: "… and " + more + " more: " + view.Text(f.Check.Title), Error: f.Check.Severity == checks.Error})
			}
			continue
		}
		text := f.Sentence
		if f.Shard != "" {
			text = o.places[f.Shard] + ": " + text
		}
		a := view.Alarm{Text: view.Text(text), Command: o.aimed(f.Remedy.Command), Error: f.Check.Severity == checks.Error}
		if !shell.Printable(a.Command) {
			a.Command = ""
		}
		if a.Command == "" && f.Remedy.Words != "" {
			a.Text += ": " + view.Text(f.Remedy.Words)
		}
		lines = append(lines, a)
	}
	return lines
}
