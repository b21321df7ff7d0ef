package command

import (
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// alarms are the lines of status that begin with an exclamation mark.
func alarms(before *inspect.Sample, s inspect.Sample) []view.Alarm {
	var lines []view.Alarm
	for _, j := range s.Stuck {
		lines = append(lines, view.Alarm{Text: escaped(j.Class) + " is stuck in " + escaped(j.Worker) + " for " + view.Span(j.For), Error: true})
	}
	return lines
}
