package workflow_test

import (
	"log/slog"
	"strings"

	"github.com/goworker/goworker/internal/playtest"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/sweep"
)

func (w *world) stepLook(playtest.Step) bool { return w.look() }

// look has the sweep do what is due. It returns false if that was nothing.
func (w *world) look() bool {
	m := w.model
	s := w.read()
	if !s.due || len(w.Spoiled) > 0 {
		return false
	}
	w.tally.looks++
	w.looking = s.hash["more"] != ""
	if m.state == workflows.StateRetrying {
		w.resent(s.hash["again"] == "" || strings.Contains(s.hash["again"], "f"))
	}
	var log strings.Builder
	sweeper := sweep.New(w.Base(slog.New(slog.NewTextHandler(&log, nil))), sweep.Config{})
	for n := 0; s.due; n++ { // an entry may be due within this millisecond
		_, err := sweeper.Step(w.Conn)
		w.Must(err)
		if s = w.read(); log.Len() > 0 || n > 100 {
			playtest.Fatalf("the sweep has looked, and said %q; the workflow is due: %v", log.String(), s.due)
		}
	}
	return true
}

// expire has the deadline of the workflow pass.
func (w *world) expire() bool {
	m := w.model
	if m.state != workflows.StateRunning && m.state != workflows.StateRetrying || !m.deadline || len(w.Spoiled) > 0 {
		return false
	}
	w.Do("HSET", w.store.WorkflowKey(m.id).String(), "until", 1)
	w.Do("ZADD", w.store.IndexKey().String(), 1, m.id)
	m.state, m.open = workflows.StateExpired, false
	w.tally.expired++
	if n := len(m.root.errs); n > 0 && m.root.errs[n-1].letter == workflows.Armed {
		h := m.root.errs[n-1] // the outermost
		h.letter, h.called = workflows.Called, 0
		w.fresh = append(w.fresh, h)
	}
	return w.look()
}
