package command

import (
	"maps"

	"github.com/goworker/goworker/cmd/goworker/internal/shell"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/checks"
)

// mostAlike is how many lines one check has.
const mostAlike = 3

// alarms are the lines of status that begin with an exclamation mark. Without a sample before, what moves is not known.
func (o *operator) alarms(before *inspect.Sample, s inspect.Sample) []view.Alarm {
	if before == nil {
		before = &inspect.Sample{}
	}
	var lines []view.Alarm
	said := make(map[*checks.Check]int)
	found := checks.Moving(*before, s)
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
