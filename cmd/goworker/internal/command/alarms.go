package command

import (
	"github.com/goworker/goworker/cmd/goworker/internal/shell"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/checks"
)

// alarms are the lines of status that begin with an exclamation mark. Without a sample before, what moves is not known.
func alarms(before *inspect.Sample, s inspect.Sample) []view.Alarm {
	if before == nil {
		before = &inspect.Sample{}
	}
	var lines []view.Alarm
	for _, f := range checks.Moving(*before, s) {
		a := view.Alarm{Text: view.Text(f.Sentence), Command: f.Remedy.Command, Error: f.Check.Severity == checks.Error}
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
