package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/playtest"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/workflow"
)

// kinds are what may happen. A function returns false where there is nothing of the kind to do.
var kinds = []playtest.Kind[*world]{
	{Name: "enter", Weight: 3, Do: (*world).StepEnter},
	{Name: "exchange", Weight: 10, Do: (*world).StepExchange},
	{Name: "work", Weight: 30, Do: (*world).StepWork},
	{Name: "end", Weight: 34, Do: (*world).stepEnd},
	{Name: "kill", Weight: 2, Do: (*world).StepKill},
	{Name: "fence", Weight: 1, Do: (*world).StepFence},
	{Name: "reap", Weight: 8, Do: (*world).StepReap},
	{Name: "stop", Weight: 1, Do: (*world).StepStop},
	{Name: "hear", Weight: 6, Do: (*world).StepHear},
	{Name: "poison", Weight: 1, Do: (*world).StepPoison},
	{Name: "due", Weight: 8, Do: func(w *world, _ playtest.Step) bool { return w.Pump() }},
	{Name: "retry by id", Weight: 4, Do: (*world).stepRetryByID},
	{Name: "twice", Weight: 2, Do: (*world).stepTwice},
	{Name: "spoil", Weight: 1, Do: (*world).stepSpoil},
	{Name: "mend", Weight: 3, Do: (*world).StepMend},
	{Name: "cancel", Weight: 1, Do: (*world).stepCancel},
	{Name: "expire", Weight: 1, Do: (*world).stepExpire},
	{Name: "pause", Weight: 2, Do: (*world).stepPause},
	{Name: "resume", Weight: 3, Do: (*world).stepResume},
	{Name: "retry", Weight: 4, Do: (*world).stepRetry},
	{Name: "mark", Weight: 2, Do: (*world).stepMark},
	{Name: "complete", Weight: 6, Do: (*world).stepComplete},
	{Name: "look", Weight: 10, Do: (*world).stepLook},
	{Name: "add", Weight: 6, Do: (*world).stepAdd},
	{Name: "close", Weight: 1, Do: (*world).stepClose},
}

// encode encodes the job of a step: its own argument is its number.
func (w *world) encode(s *workflow.Step, id string, place workflows.Place, token string) (workflow.Encoded, error) {
	how := s.Job.(*own)
	_, n, _ := workflows.SplitID(id)
	w.places[n], w.numbers[s] = place, n
	arguments := fmt.Sprint(n)
	if token != "" {
		arguments += `,"` + token + `"`
		w.tokens[n] = token
	}
	text := fmt.Sprintf(`"class":%q,"args":[%s],"wf":%q`, how.class, arguments, place)
	if s.External > 0 {
		text += `,"external":true`
	}
	if how.priority > 0 {
		text = fmt.Sprintf(`"priority":%d,`, how.priority) + text
	}
	return workflow.Encoded{
		Payload: []byte(fmt.Sprintf(`{%s,"id":%q}`, text, id)), Queue: s.Queue, Delay: how.delay, Expires: how.expires, Priority: how.priority,
	}, nil
}

// begins starts a workflow.
func (w *world) begins(d drawn) {
	d.options.ID, d.options.Now = "w", w.Now
	m := newModel("w", d.root, d.options)
	w.model = m
	for _, one := range m.root.inside() { // only a list is spread
		front := m.front(one)
		one.step.Spread = one.step.Spread && len(front) == 1 && m.spreads(front[0])
	}
	plan, err := workflow.Compile(d.root, d.options, w.encode)
	w.Must(err)
	w.numbered(m.root, len(plan.Letters))
	started, err := w.store.Start(w.Conn, plan)
	w.Must(err)
	if !started.New {
		playtest.Fatalf("it was there: %+v", started)
	}
	w.tally.workflows++
	w.tally.letters += len(plan.Letters)
	w.check()
	again, err := w.store.Start(w.Conn, plan)
	w.Must(err)
	if again.New {
		playtest.Fatalf("it started twice")
	}
	w.check()
}

// numbered gives the steps of a vertex the numbers that the plan has given them.
func (w *world) numbered(v *vertex, letters int) {
	m := w.model
	m.steps = append(m.steps, make([]*member, max(0, letters-len(m.steps)))...)
	v.each(func(v *vertex) {
		if v.empty() && v != m.root { // nothing of it is sent, so its handlers are not in the workflow
			v.errs, v.overs = nil, nil
		}
		for _, one := range v.members() {
			n, ok := w.numbers[one.step]
			if !ok && m.root.empty() {
				continue
			} else if !ok {
				playtest.Fatalf("a step has no number")
			}
			one.number, one.place, one.letter = n, w.places[n], workflows.Waits
			if one.handler {
				one.letter = workflows.Armed
			}
			m.steps[n] = one
		}
	})
}

var errOops = errors.New("oops")

// stepEnd ends a handler.
func (w *world) stepEnd(s playtest.Step) bool {
	r := w.Working(s.A)
	if r == nil {
		return false
	}
	how := s.B % 16
	if w.Calm && how > 10 {
		how = 0
	}
	r.Finish(func(ctx context.Context, j *outcome.Job) error {
		if errors.Is(context.Cause(ctx), failure.ErrHalted) && s.C%4 != 0 { // its context's end ends it, mostly
			return context.Cause(ctx)
		}
		switch how {
		case 0, 1, 2, 3, 4:
			j.Value = map[string]any{"n": w.next()}
		case 5, 6:
			j.Value = fmt.Sprint("text ", w.next())
		case 7, 8:
			j.Value, j.Several = []any{w.next(), "b"}, true
		case 11, 12, 13:
			return errOops
		case 14:
			return &failure.Wish{Kind: failure.WishDiscard, Err: errOops}
		case 15:
			return &failure.Wish{Kind: failure.WishSnooze}
		}
		return nil // 9, 10: no value
	})
	return true
}

// next returns another number each time, so that no result is taken for another.
func (w *world) next() int { w.results++; return w.results }

// valuesOf are the results of a job that is done.
func valuesOf(j *outcome.Job) (values []string, several bool) {
	text := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			panic(playtest.Fatal{Text: err.Error()})
		}
		return string(raw)
	}
	if !j.Several {
		return []string{text(j.Value)}, false
	}
	for _, v := range j.Value.([]any) {
		values = append(values, text(v))
	}
	return values, true
}

// stepRetryByID is what happens when an operator retries a failure: its payload is pushed.
func (w *world) stepRetryByID(s playtest.Step) bool {
	records := w.List("LRANGE", "resque:failed", 0, -1)
	if len(records) == 0 || w.Calm || w.model.held() && w.model.state != workflows.StateDone || w.read().due {
		return false
	}
	record := playtest.Pick(records, s.A)
	f, err := payload.ParseFailure([]byte(record))
	w.Must(err)
	j := parse(f.Payload)
	queue := w.store.KeyOfQueue(f.Queue)
	if j.step < 0 || slices.Contains(w.Spoiled, queue) {
		return false
	}
	w.Do("LREM", "resque:failed", 1, record)
	raw, err := payload.Without(f.Payload, "attempt")
	w.Must(err)
	w.Do("RPUSH", queue, raw)
	w.model.steps[j.step].extra++
	return true
}

// stepTwice has a job in a queue twice, as after a fail-over.
func (w *world) stepTwice(s playtest.Step) bool {
	queue := w.store.KeyOfQueue(playtest.Pick(w.Queues, s.B))
	if w.Calm || slices.Contains(w.Spoiled, queue) {
		return false
	}
	waiting := w.List("LRANGE", queue, 0, -1)
	if len(waiting) == 0 {
		return false
	}
	raw := playtest.Pick(waiting, s.A)
	j := parse([]byte(raw))
	if j.step < 0 {
		return false
	}
	w.Do("RPUSH", queue, raw)
	w.model.steps[j.step].extra++
	return true
}

// stepSpoil puts another program's text under a key that a commit writes.
func (w *world) stepSpoil(s playtest.Step) bool {
	return w.Spoil(s, w.store.KeyOfQueue("a"), w.store.KeyOfQueue("b"), w.store.KeyOfSchedule(), w.store.HaltedKey().String(), "resque:queues")
}

func (w *world) stepCancel(playtest.Step) bool {
	m := w.model
	was, err := w.store.Halt(w.Conn, m.id)
	if w.Refusal(err) {
		return true
	}
	if over := m.state == workflows.StateDone || m.state == workflows.StateExpired; over {
		if !errors.Is(err, workflows.ErrOver) {
			playtest.Fatalf("cancelling a workflow that is %s: %v", m.state, err)
		}
		return false
	}
	w.Must(err)
	if was != m.state {
		playtest.Fatalf("cancelling finds %s, want %s", was, m.state)
	}
	if was == workflows.StateCancelled {
		return false
	}
	m.state, m.open = workflows.StateCancelled, false
	w.tally.cancelled++
	return true
}

// stepExpire has the deadline of a workflow pass.
func (w *world) stepExpire(playtest.Step) bool {
	m := w.model
	if m.state != workflows.StateRunning && m.state != workflows.StateRetrying {
		return false
	}
	return w.expire()
}

func (w *world) stepPause(playtest.Step) bool { return w.hold(true) }

func (w *world) stepResume(playtest.Step) bool { return w.hold(false) }

func (w *world) hold(pause bool) bool {
	m := w.model
	was, err := w.store.Hold(w.Conn, m.id, pause)
	if w.Refusal(err) {
		return true
	}
	if over := m.state == workflows.StateDone || m.state == workflows.StateCancelled || m.state == workflows.StateExpired; over {
		if !errors.Is(err, workflows.ErrOver) {
			playtest.Fatalf("pausing a workflow that is %s: %v", m.state, err)
		}
		return false
	}
	w.Must(err)
	if was != m.paused {
		playtest.Fatalf("pausing finds %v", was)
	}
	m.paused = pause
	return true
}

// stepRetry retries a workflow: its first piece, or all.
func (w *world) stepRetry(s playtest.Step) bool {
	m := w.model
	begin := m.state != workflows.StateRetrying
	piece, err := w.store.Retry(w.Conn, m.id, begin)
	if w.Refusal(err) {
		return true
	}
	if begin && (m.state == workflows.StateRunning || m.state == workflows.StateDone) {
		if !errors.Is(err, workflows.ErrNothing) {
			playtest.Fatalf("retrying a workflow that is %s: %+v, %v", m.state, piece, err)
		}
		return false
	}
	w.Must(err)
	if begin {
		w.tally.retries++
	}
	w.resent(begin)
	if !piece.Over {
		playtest.Fatalf("a small workflow is retried in pieces")
	}
	return true
}

// resent has the model learn that the failed steps and those that were not run are sent again.
func (w *world) resent(all bool) {
	m := w.model
	for _, one := range m.steps {
		if one == nil || one.handler {
			continue
		}
		if one.letter == workflows.NotRun || all && one.letter == workflows.Failed && m.fatal(one) {
			one.letter, one.outside = workflows.Sent, false
			if one.step.External > 0 {
				one.letter = workflows.Outside
			}
			w.again = append(w.again, one)
			for _, h := range m.called(one) { // may be called once more
				if all && h.letter == workflows.Over {
					h.letter, h.called = workflows.Armed, -1
				}
			}
		}
	}
	w.retried = true
	m.state = workflows.StateRunning
	if bad, _ := m.failures(); bad > 0 {
		m.state = workflows.StateFailed
	}
}

// stepMark takes a step as done.
func (w *world) stepMark(s playtest.Step) bool {
	m := w.model
	one := playtest.Pick(m.steps, s.A)
	if one == nil || one.handler || w.Calm {
		return false
	}
	value := fmt.Sprint(w.next())
	_, err := w.store.Mark(w.Conn, m.id, one.number, one.place.String(), []byte(value))
	if w.Refusal(err) {
		return true
	}
	var want error
	switch {
	case one.letter == workflows.Waits:
		want = workflows.ErrWaits
	case one.letter == workflows.Done:
		want = workflows.ErrLate
	case m.state == workflows.StateDone:
		want = workflows.ErrOver
	}
	if want != nil {
		if !errors.Is(err, want) {
			playtest.Fatalf("marking step %d (%c): %v, want %v", one.number, one.letter, err, want)
		}
		return false
	}
	w.Must(err)
	if one.letter == workflows.Sent || one.letter == workflows.Outside && !one.outside {
		one.extra++
	}
	m.arrive(end{step: one.number, to: workflows.Done, values: []string{value}})
	return true
}

// stepComplete ends a step by its token.
func (w *world) stepComplete(s playtest.Step) bool {
	var all []int
	for n := range w.model.steps {
		if w.tokens[n] != "" {
			all = append(all, n)
		}
	}
	return len(all) > 0 && w.complete(playtest.Pick(all, s.A), s.B%4 == 0 && !w.Calm)
}

func (w *world) complete(n int, fails bool) bool {
	m := w.model
	if n >= len(m.steps) || m.steps[n] == nil || m.steps[n].step.External == 0 {
		return false // of a piece that was refused
	}
	one := m.steps[n]
	e := end{step: n, to: workflows.Done, values: []string{fmt.Sprint(w.next())}}
	value := []byte(e.values[0])
	if fails {
		e.to, e.values = workflows.Failed, nil
		value = fmt.Appendf(nil, `{"step":%d,"error":"outside"}`, n)
	}
	done, err := w.store.Complete(w.Conn, w.tokens[n], e.to, value)
	if w.Refusal(err) {
		return true
	}
	if one.letter == workflows.Waits {
		if !errors.Is(err, workflows.ErrToken) {
			playtest.Fatalf("a token of a step that waits: %v", err)
		}
		return false
	}
	w.Must(err)
	if !done.Changed {
		if one.letter == workflows.Outside && m.state != workflows.StateDone {
			playtest.Fatalf("the token of step %d changes nothing", n)
		}
		return false
	}
	if one.letter == workflows.Outside && !one.outside {
		one.extra++
	}
	handlers, _ := m.arrive(e)
	w.call(handlers, n)
	return true
}

// stop ends a history: keys are mended, processes are found dead or work on, and all jobs end well. Then all rests;
// what failed is retried, and the workflow is done.
func (w *world) stop() {
	w.Calm = true
	w.StepMend(playtest.Step{})
	if w.model.open && w.stepClose(playtest.Step{}) {
		w.check()
	}
	for round := range 6 {
		if w.model.paused && w.stepResume(playtest.Step{}) {
			w.check()
		}
		w.drain()
		w.atRest()
		if w.model.state == workflows.StateDone {
			return
		}
		if round == 5 {
			playtest.Fatalf("the workflow is %s after 5 retries", w.model.state)
		}
		if w.stepRetry(playtest.Step{}) {
			w.check()
		}
	}
}

// drain has a process work until nothing is left to do.
func (w *world) drain() {
	p := w.Enter()
	for turn := 0; ; turn++ {
		if turn == 2000 {
			playtest.Fatalf("the workflow does not come to rest: %s", w.read().letters)
		}
		w.Now = w.Now.Add(time.Minute)
		moved := false
		saw := func(did bool) {
			if did {
				moved = true
				w.check()
			}
		}
		w.Bury(p, func() { saw(true) })
		p.Hear()
		saw(w.Pump())
		saw(p.Turn())
		if len(p.Busy) > 0 {
			saw(w.stepEnd(playtest.Step{}))
		}
		for n := range w.tokens {
			saw(w.complete(n, false))
		}
		saw(w.look())
		if !moved {
			return
		}
	}
}
