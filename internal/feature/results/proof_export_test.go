package results

import "github.com/goworker/goworker/internal/resque"

// Silence has a test write what the run says, by Fill, in place of the goroutine.
func (r *Run) Silence() { r.wake = func(*Run) {} }

// Written is one call with notes, as the goroutine makes it.
type Written struct {
	Process string
	Notes   []resque.Note
	batch   batch
}

// Fill takes what runs of one process have to say.
func Fill(runs []*Run) (w Written) {
	w.batch.fill(runs)
	w.Process, w.Notes = w.batch.process, w.batch.notes
	return w
}

// Answered is called when Redis has answered the call.
func (w *Written) Answered() {
	for i, r := range w.batch.runs {
		r.noted(&w.Notes[i], w.batch.versions[i])
	}
}
