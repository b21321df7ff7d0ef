package command

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
)

// drawn writes an answer to a verb of every daemon for people. ok is false for a verb of a program, and for an answer in another form,
// such as that of another release.
func (o *operator) drawn(verb string, r control.Reply) (text string, ok bool) {
	draw := map[string]func(control.Reply) (string, error){
		control.Stats:      drawnBy(o.drawStats),
		control.Active:     drawnBy(o.drawJobs),
		control.Reserved:   drawnBy(o.drawJobs),
		control.Registered: drawnBy(o.drawClasses),
		control.Conf:       drawnBy(o.drawSettings),
		control.Queues:     drawnBy(o.drawQueues),
		control.Pause:      drawnBy(o.drawQueues),
		control.Resume:     drawnBy(o.drawQueues),
		control.Report:     drawnBy(o.drawReport),
		control.Stacks:     drawnBy(o.drawStacks),
		control.Shutdown:   drawnBy(o.drawStop),
		control.Log:        drawnBy(o.drawLevel),
		control.Profile:    drawnBy(o.drawProfile),

		control.Concurrency: drawnBy(o.drawResized),
		control.WorkQueues:  drawnBy(o.drawRelisted),
		control.Autoscale:   drawnBy(o.drawRescaled),
		control.Verbs:       drawnBy(o.drawVerbs),
	}[verb]
	if draw == nil {
		return "", false
	}
	text, err := draw(r)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("  "+line, " \n") + "\n")
	}
	return b.String(), true
}

// drawnBy reads an answer and draws it by a function.
func drawnBy[T any](draw func(T) string) func(control.Reply) (string, error) {
	return func(r control.Reply) (string, error) {
		var answer T
		if err := r.Decode(&answer); err != nil {
			return "", err
		}
		return draw(answer), nil
	}
}

// room is how many cells a line of an answer has beside its indent; 0: no end.
func (o *operator) room() int {
	if o.width == 0 {
		return 0
	}
	return max(1, o.width-2)
}

// wrapped breaks a sentence before the terminal ends.
func (o *operator) wrapped(text, indent string) string {
	if o.width == 0 {
		return text + "\n"
	}
	return view.Wrap(text, max(1, o.room()-2), indent) + "\n"
}

// spanOf is a number of seconds as a duration.
func spanOf(seconds float64) string { return view.Span(time.Duration(seconds * float64(time.Second))) }

// drawClasses draws classes with their options below them.
func (o *operator) drawClasses(classes []control.ClassAnswer) string {
	var b strings.Builder
	for _, c := range classes {
		b.WriteString(o.wrapped(escaped(c.Name), ""))
		for _, option := range c.Options {
			b.WriteString("  " + o.wrapped(escaped(option), "    "))
		}
	}
	return b.String()
}

// drawSettings draws the table of settings. It marks values that differ from the default.
func (o *operator) drawSettings(settings []control.SettingAnswer) string {
	t := view.Table{Columns: []view.Column{{}, {}, {Cut: true}}}
	for _, s := range settings {
		mark := "*"
		if s.Default {
			mark = ""
		}
		t.Rows = append(t.Rows, []string{mark, escaped(s.Name), escaped(cmp.Or(s.Value, "-"))})
	}
	return t.Draw(o.room()) + "* is not the default\n"
}

// drawQueues draws the queues of a process, and what keeps it from taking jobs.
func (o *operator) drawQueues(q control.QueuesAnswer) string {
	text := view.Pairs(o.room(), [2]string{"queues", escaped(q.Queues)}, [2]string{"order", escaped(q.Order)}, [2]string{"takes jobs", takes(q.Ready)})
	return text + o.drawReasons(q.Reasons)
}

// drawReasons draws why a process takes no jobs, and what else needs attention.
func (o *operator) drawReasons(reasons []string) string {
	text := ""
	for _, reason := range reasons {
		text += o.wrapped("! "+escaped(reason), "  ")
	}
	return text
}

func takes(ready bool) string {
	if ready {
		return "yes"
	}
	return "no"
}

// drawStacks draws the stacks of goroutines, equal ones once.
func (o *operator) drawStacks(s control.StacksAnswer) string {
	var b strings.Builder
	b.WriteString(view.Plural(int64(s.Goroutines), "goroutine") + "\n")
	for _, one := range s.Stacks {
		fmt.Fprintf(&b, "\n%d × %s\n", one.Count, escaped(one.State))
		for line := range strings.Lines(view.Lines(one.Stack)) {
			b.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	if s.Cut {
		b.WriteString("\nthere are more, which were not written down\n")
	}
	return b.String()
}

// drawStop draws what a process that stops still does.
func (o *operator) drawStop(p control.PingAnswer) string {
	return "stops; " + view.Plural(int64(p.Busy), "job") + " " + map[bool]string{true: "runs", false: "run"}[p.Busy == 1] + " there\n"
}

func (o *operator) drawLevel(l control.LevelAnswer) string {
	return escaped(l.Was) + " → " + escaped(l.Level) + forSeconds(l.For) + "\n"
}

func (o *operator) drawProfile(p savedProfile) string {
	return o.wrapped(fmt.Sprintf("%s of %s in %s", view.Bytes(p.Bytes), escaped(p.Kind), escaped(p.File)), "  ")
}

// drawResized draws the former and the present concurrency, and the jobs that run beyond it.
func (o *operator) drawResized(c struct {
	goworker.Resized
	For float64 `json:"for"`
}) string {
	text := fmt.Sprintf("%s → %s%s (its settings say %s)", view.Count(int64(c.From)), view.Count(int64(c.To)), forSeconds(c.For), view.Count(int64(c.Settings)))
	if c.Fixed {
		text += "; it does not change by itself any more"
	}
	return o.wrapped(text, "  ") + o.drawBusy("beyond that", c.Busy)
}

// drawRescaled draws the former and the present bounds of autoscale.
func (o *operator) drawRescaled(c control.RescaledAnswer) string {
	return o.wrapped(fmt.Sprintf("%s → %s%s (its settings say %s), %s", escaped(c.From), escaped(c.To), forSeconds(c.For), escaped(c.Settings), view.Plural(int64(c.Workers), "worker")), "  ")
}

// drawVerbs is the table of verbs.
func (o *operator) drawVerbs(verbs []control.VerbAnswer) string {
	t := view.Table{Columns: []view.Column{{Head: "VERB", Cut: true}, {Head: "LEVEL"}, {Head: "HELP", Cut: true, Prose: true}}}
	for _, v := range verbs {
		t.Rows = append(t.Rows, []string{escaped(v.Name), escaped(v.Level), escaped(v.Help)})
	}
	return t.Draw(o.room())
}

// drawRelisted draws the former and the present queues of a process, and the workers whose ids still name the former ones.
func (o *operator) drawRelisted(c goworker.Relisted) string {
	return o.wrapped(fmt.Sprintf("%s → %s (its settings say %s)", escaped(c.From), escaped(c.To), escaped(c.Settings)), "  ") + o.drawBusy("under the list before", c.Busy)
}

// drawBusy lists jobs that go on.
func (o *operator) drawBusy(where string, busy []goworker.BusyWorker) string {
	if len(busy) == 0 {
		return ""
	}
	t := view.Table{Columns: []view.Column{{Head: "SINCE"}, {Head: "QUEUE", Cut: true}, {Head: "WORKER", Cut: true}}}
	for _, w := range busy {
		t.Rows = append(t.Rows, []string{view.Time(w.Since), escaped(w.Queue), escaped(w.Worker)})
	}
	verb := "run"
	if len(busy) == 1 {
		verb = "runs"
	}
	return view.Plural(int64(len(busy)), "job") + " still " + verb + " " + where + "\n" + t.Draw(o.room())
}

// forSeconds is how long a change lasts; "": there is no end.
func forSeconds(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return " for " + spanOf(seconds)
}
