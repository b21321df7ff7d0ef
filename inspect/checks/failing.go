package checks

import (
	"slices"
	"time"

	"github.com/goworker/goworker/inspect"
)

// What fails now and did not before. These checks read the history and the failures.

var classFails = &Check{
	Name: "class-fails", Severity: Warning, Uses: Notice, Title: "classes that fail",
	// This share, and so many times the class's own median of the last day, and so many failures, within that time.
	Bound: Bound{0.05, "share"}, More: []Bound{{5, "times"}, {20, "jobs"}, {600, "s"}},
	Sentence: "{failed} of {jobs} of class {class} failed within {within} ({share}, usually {usual})",
	Remedy:   "see what they have in common, and which deploy came before",
	Command:  "goworker failed groups -- {query}",
}

// NewKind is the name of the check of NewFailures.
const NewKind = "new-failures"

var newGroup = &Check{
	Name: NewKind, Severity: Warning, Uses: Notice, Title: "failures of a new kind",
	Bound: Bound{3600, "s"}, More: []Bound{{10, "jobs"}}, // the first one came within this time, and there are so many
	Sentence: "{failed} of class {class} with {exception}, the first one {first} ago",
	Remedy:   "see what they have in common, and which deploy came before",
	Command:  "goworker failed ls -- {query}",
}

// dirtyExit is the exception of a job whose process was killed, as Ruby's workers file it: the first one of a class is reported at once.
const dirtyExit = "Resque::DirtyExit"

// Failing returns the classes that fail more than usual, by a history of ten minutes a row that reaches back a day.
func Failing(h inspect.History) (found []Finding) {
	within := classFails.More[2].Duration()
	if h.Step != within || len(h.Rows) == 0 {
		return nil
	}
	last := len(h.Rows) - 1
	if h.Rows[last].Open && last > 0 {
		last-- // what it counts is not all there yet
	}
	for _, class := range sortedKeys(h.Rows[last].Classes) {
		failed, jobs := failedOf(h.Rows[last].Classes[class])
		if class == inspect.OtherNames || float64(failed) < classFails.More[1].Value {
			continue
		}
		var usual []float64
		for _, row := range h.Rows[:last] {
			if failed, jobs := failedOf(row.Classes[class]); jobs > 0 {
				usual = append(usual, float64(failed)/float64(jobs))
			}
		}
		median, now := 0.0, float64(failed)/float64(jobs)
		if slices.Sort(usual); len(usual) > 0 {
			median = usual[len(usual)/2]
		}
		if now >= classFails.Bound.Value && now >= classFails.More[0].Value*median {
			f := newFinding(classFails, values{"class": class, "query": "class:" + class, "failed": failed, "jobs": jobs, "within": within, "share": share(now), "usual": share(median)})
			f.values = nil
			found = append(found, f)
		}
	}
	return found
}

// failedOf returns the runs that failed, those that are tried again included, and all runs.
func failedOf(c inspect.ClassHistory) (failed, jobs int64) {
	failed = c.Failed + c.Retried
	return failed, failed + c.Done
}

// NewFailures returns the kinds of failures, out of those that Groups returns, that came up within the last hour.
func NewFailures(groups []inspect.FailureGroup, now time.Time) (found []Finding) {
	for _, g := range groups {
		first := now.Sub(g.First)
		if g.First.IsZero() || first > newGroup.Bound.Duration() || float64(g.Count) < newGroup.More[0].Value && g.Exception != dirtyExit {
			continue
		}
		f := newFinding(newGroup, values{
			"class": g.Class, "exception": g.Exception, "query": "class:" + g.Class, "failed": words(plural(int(g.Count), "failure", "failures")), "first": max(0, first),
		})
		f.values = nil
		found = append(found, f)
	}
	return found
}
