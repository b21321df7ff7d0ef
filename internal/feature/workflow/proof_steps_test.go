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
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/workflow"
)

// step is one step of a history: what is done, and three numbers that say to which process, job or key.
type step struct {
	kind    int
	a, b, c uint8
}

func (s step) String() string {
	return fmt.Sprintf("{%q, %d, %d, %d}", kinds[s.kind].name, s.a, s.b, s.c)
}

// kinds are what may happen. A function returns false where there is nothing of the kind to do.
var kinds = []struct {
	name   string
	weight int
	do     func(w *world, s step) bool
}{
	{"enter", 3, (*world).stepEnter},
	{"exchange", 10, (*world).stepExchange},
	{"work", 30, (*world).stepWork},
	{"end", 34, (*world).stepEnd},
	{"kill", 2, (*world).stepKill},
	{"fence", 1, (*world).stepFence},
	{"reap", 8, (*world).stepReap},
	{"stop", 1, (*world).stepStop},
	{"hear", 6, (*world).stepHear},
	{"poison", 1, (*world).stepPoison},
	{"due", 8, func(w *world, _ step) bool { return w.pump() }},
	{"retry by id", 4, (*world).stepRetryByID},
	{"twice", 2, (*world).stepTwice},
	{"spoil", 1, (*world).stepSpoil},
	{"mend", 3, (*world).stepMend},
	{"cancel", 1, (*world).stepCancel},
	{"expire", 1, (*world).stepExpire},
	{"pause", 2, (*world).stepPause},
	{"resume", 3, (*world).stepResume},
	{"retry", 4, (*world).stepRetry},
	{"mark", 2, (*world).stepMark},
	{"complete", 6, (*world).stepComplete},
	{"look", 10, (*world).stepLook},
	{"add", 6, (*world).stepAdd},
	{"close", 1, (*world).stepClose},
}

func pick[T any](all []T, n uint8) (one T) {
	if len(all) > 0 {
		one = all[int(n)%len(all)]
	}
	return one
}

func (w *world) among(which func(*process) bool) (found []*process) {
	for _, p := range w.procs {
		if which(p) {
			found = append(found, p)
		}
	}
	return found
}

func (w *world) alive(n uint8) *process {
	return pick(w.among(func(p *process) bool { return !p.killed && !p.stopping && !p.fenced }), n)
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
	d.options.ID, d.options.Now = "w", w.now
	m := newModel("w", d.root, d.options)
	w.model = m
	for _, one := range m.root.inside() { // only a list is spread
		front := m.front(one)
		one.step.Spread = one.step.Spread && len(front) == 1 && m.spreads(front[0])
	}
	plan, err := workflow.Compile(d.root, d.options, w.encode)
	w.must(err)
	w.numbered(m.root, len(plan.Letters))
	started, err := w.store.Start(w.c, plan)
	w.must(err)
	if !started.New {
		w.fatalf("it was there: %+v", started)
	}
	w.tally.workflows++
	w.tally.letters += len(plan.Letters)
	w.check()
	again, err := w.store.Start(w.c, plan)
	w.must(err)
	if again.New {
		w.fatalf("it started twice")
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
				w.fatalf("a step has no number")
			}
			one.number, one.place, one.letter = n, w.places[n], workflows.Waits
			if one.handler {
				one.letter = workflows.Armed
			}
			m.steps[n] = one
		}
	})
}

func (w *world) stepEnter(step) bool {
	if len(w.among(func(p *process) bool { return !p.killed && !p.reaped })) == 3 {
		return false
	}
	w.enter()
	return true
}

func (w *world) stepExchange(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	how := answered
	if s.b < 100 {
		how = way(s.b % uint8(ways))
	}
	return p.exchange(how)
}

// stepWork is a turn of a process whose workers take what it has reserved.
func (w *world) stepWork(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	worked := p.exchange(answered)
	for !p.killed && p.start() {
		worked = true
	}
	return worked
}

// working returns a run that a worker of a process that works has.
func (w *world) working(n uint8) *run {
	var busy []*run
	for _, p := range w.procs {
		busy = append(busy, p.busy...)
	}
	return pick(busy, n)
}

var errOops = errors.New("oops")

// stepEnd ends a handler.
func (w *world) stepEnd(s step) bool {
	r := w.working(s.a)
	if r == nil {
		return false
	}
	how := s.b % 16
	if w.kind && how > 10 {
		how = 0
	}
	r.p.finish(r, func(ctx context.Context, j *outcome.Job) error {
		if errors.Is(context.Cause(ctx), failure.ErrHalted) && s.c%4 != 0 { // its context's end ends it, mostly
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
			panic(fatal{err.Error()})
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

func (w *world) stepKill(s step) bool {
	p := w.alive(s.a)
	if p == nil || w.kind {
		return false
	}
	w.tally.kills++
	p.kill()
	return true
}

// gone are processes that may be taken for dead: mostly they are.
func (w *world) gone(s step) *process {
	return pick(w.among(func(p *process) bool { return !p.reaped && (p.killed || p.fenced || p.stopping || s.c < 30) }), s.b)
}

func (w *world) stepFence(s step) bool {
	p := w.alive(s.a)
	if p == nil || w.kind {
		return false
	}
	_, err := w.store.Fence(w.c, p.ID, w.lease(p))
	w.must(err)
	return true
}

func (w *world) stepReap(s step) bool {
	dead := w.gone(s)
	if dead == nil {
		return false
	}
	p := pick(w.among(func(p *process) bool { return !p.killed && p != dead && !p.reaped }), s.a)
	if p == nil {
		return false
	}
	p.reap(dead)
	return true
}

// stepStop gives back the jobs that no worker has, as a process does that stops.
func (w *world) stepStop(s step) bool {
	p := w.alive(s.a)
	if p == nil || w.kind {
		return false
	}
	p.stopping = true
	p.rec.Requeue(true)
	p.exchange(answered)
	return true
}

// stepHear has a process read the keys that its features watch.
func (w *world) stepHear(s step) bool {
	p := w.alive(s.a)
	if p == nil {
		return false
	}
	p.hear()
	return true
}

func (p *process) hear() {
	for _, watched := range p.set.Watched() {
		if err := watched.Read(p.w.c); len(p.w.spoiled) == 0 {
			p.w.must(err)
		}
	}
}

// stepPoison makes a job that waits one with which two deaths were charged: the next one files it.
func (w *world) stepPoison(s step) bool {
	queue := w.store.KeyOfQueue(pick(queueNames, s.b))
	if w.kind || slices.Contains(w.spoiled, queue) {
		return false
	}
	waiting := w.list("LRANGE", queue, 0, -1)
	if len(waiting) == 0 {
		return false
	}
	w.do("HSET", "resque:go:recovered", resque.Digest([]byte(pick(waiting, s.a))), fmt.Sprintf("2 %d other 2 0", w.now.UnixMilli()))
	return true
}

// stepRetryByID is what happens when an operator retries a failure: its payload is pushed.
func (w *world) stepRetryByID(s step) bool {
	records := w.list("LRANGE", "resque:failed", 0, -1)
	if len(records) == 0 || w.kind || w.model.held() && w.model.state != workflows.StateDone || w.read().due {
		return false
	}
	record := pick(records, s.a)
	f, err := payload.ParseFailure([]byte(record))
	w.must(err)
	j := parse(f.Payload)
	queue := w.store.KeyOfQueue(f.Queue)
	if j.step < 0 || slices.Contains(w.spoiled, queue) {
		return false
	}
	w.do("LREM", "resque:failed", 1, record)
	raw, err := payload.Without(f.Payload, "attempt")
	w.must(err)
	w.do("RPUSH", queue, raw)
	w.model.steps[j.step].extra++
	return true
}

// stepTwice has a job in a queue twice, as after a fail-over.
func (w *world) stepTwice(s step) bool {
	queue := w.store.KeyOfQueue(pick(queueNames, s.b))
	if w.kind || slices.Contains(w.spoiled, queue) {
		return false
	}
	waiting := w.list("LRANGE", queue, 0, -1)
	if len(waiting) == 0 {
		return false
	}
	raw := pick(waiting, s.a)
	j := parse([]byte(raw))
	if j.step < 0 {
		return false
	}
	w.do("RPUSH", queue, raw)
	w.model.steps[j.step].extra++
	return true
}

// stepSpoil puts another program's text under a key that a commit writes.
func (w *world) stepSpoil(s step) bool {
	keys := []string{w.store.KeyOfQueue("a"), w.store.KeyOfQueue("b"), w.store.KeyOfSchedule(), w.store.HaltedKey().String(), "resque:queues"}
	key := pick(keys, s.a)
	if w.kind || len(w.spoiled) > 0 || w.number("EXISTS", key) == 1 && key != "resque:queues" {
		return false
	}
	w.do("SET", key, "another program's")
	w.spoiled = append(w.spoiled, key)
	return true
}

func (w *world) stepMend(step) bool {
	if len(w.spoiled) == 0 {
		return false
	}
	for _, key := range w.spoiled {
		w.do("DEL", key)
	}
	w.spoiled = nil
	return true
}

func (w *world) stepCancel(step) bool {
	m := w.model
	was, err := w.store.Halt(w.c, m.id)
	if w.refusal(err) {
		return true
	}
	if over := m.state == workflows.StateDone || m.state == workflows.StateExpired; over {
		if !errors.Is(err, workflows.ErrOver) {
			w.fatalf("cancelling a workflow that is %s: %v", m.state, err)
		}
		return false
	}
	w.must(err)
	if was != m.state {
		w.fatalf("cancelling finds %s, want %s", was, m.state)
	}
	if was == workflows.StateCancelled {
		return false
	}
	m.state, m.open = workflows.StateCancelled, false
	w.tally.cancelled++
	return true
}

// refusal reports whether Redis has refused a call because of a key that holds another program's text.
func (w *world) refusal(err error) bool {
	if named := new(resque.KeyTypeError); len(w.spoiled) > 0 && errors.As(err, &named) {
		if !slices.Contains(w.spoiled, named.Key) {
			w.fatalf("%v names another key than %s", err, w.spoiled)
		}
		w.tally.refused++
		return true
	}
	return false
}

// stepExpire has the deadline of a workflow pass.
func (w *world) stepExpire(step) bool {
	m := w.model
	if m.state != workflows.StateRunning && m.state != workflows.StateRetrying {
		return false
	}
	return w.expire()
}

func (w *world) stepPause(step) bool { return w.hold(true) }

func (w *world) stepResume(step) bool { return w.hold(false) }

func (w *world) hold(pause bool) bool {
	m := w.model
	was, err := w.store.Hold(w.c, m.id, pause)
	if w.refusal(err) {
		return true
	}
	if over := m.state == workflows.StateDone || m.state == workflows.StateCancelled || m.state == workflows.StateExpired; over {
		if !errors.Is(err, workflows.ErrOver) {
			w.fatalf("pausing a workflow that is %s: %v", m.state, err)
		}
		return false
	}
	w.must(err)
	if was != m.paused {
		w.fatalf("pausing finds %v", was)
	}
	m.paused = pause
	return true
}

// stepRetry retries a workflow: its first piece, or all.
func (w *world) stepRetry(s step) bool {
	m := w.model
	begin := m.state != workflows.StateRetrying
	piece, err := w.store.Retry(w.c, m.id, begin)
	if w.refusal(err) {
		return true
	}
	if begin && (m.state == workflows.StateRunning || m.state == workflows.StateDone) {
		if !errors.Is(err, workflows.ErrNothing) {
			w.fatalf("retrying a workflow that is %s: %+v, %v", m.state, piece, err)
		}
		return false
	}
	w.must(err)
	if begin {
		w.tally.retries++
	}
	w.resent(begin)
	if !piece.Over {
		w.fatalf("a small workflow is retried in pieces")
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
func (w *world) stepMark(s step) bool {
	m := w.model
	one := pick(m.steps, s.a)
	if one == nil || one.handler || w.kind {
		return false
	}
	value := fmt.Sprint(w.next())
	_, err := w.store.Mark(w.c, m.id, one.number, one.place.String(), []byte(value))
	if w.refusal(err) {
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
			w.fatalf("marking step %d (%c): %v, want %v", one.number, one.letter, err, want)
		}
		return false
	}
	w.must(err)
	if one.letter == workflows.Sent || one.letter == workflows.Outside && !one.outside {
		one.extra++
	}
	m.arrive(end{step: one.number, to: workflows.Done, values: []string{value}})
	return true
}

// stepComplete ends a step by its token.
func (w *world) stepComplete(s step) bool {
	var all []int
	for n := range w.model.steps {
		if w.tokens[n] != "" {
			all = append(all, n)
		}
	}
	return len(all) > 0 && w.complete(pick(all, s.a), s.b%4 == 0 && !w.kind)
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
	done, err := w.store.Complete(w.c, w.tokens[n], e.to, value)
	if w.refusal(err) {
		return true
	}
	if one.letter == workflows.Waits {
		if !errors.Is(err, workflows.ErrToken) {
			w.fatalf("a token of a step that waits: %v", err)
		}
		return false
	}
	w.must(err)
	if !done.Changed {
		if one.letter == workflows.Outside && m.state != workflows.StateDone {
			w.fatalf("the token of step %d changes nothing", n)
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
	w.kind = true
	w.stepMend(step{})
	if w.model.open && w.stepClose(step{}) {
		w.check()
	}
	for round := range 6 {
		if w.model.paused && w.stepResume(step{}) {
			w.check()
		}
		w.drain()
		w.atRest()
		if w.model.state == workflows.StateDone {
			return
		}
		if round == 5 {
			w.fatalf("the workflow is %s after 5 retries", w.model.state)
		}
		if w.stepRetry(step{}) {
			w.check()
		}
	}
}

// drain has a process work until nothing is left to do.
func (w *world) drain() {
	p := w.enter()
	for turn := 0; ; turn++ {
		if turn == 2000 {
			w.fatalf("the workflow does not come to rest: %s", w.read().letters)
		}
		w.now = w.now.Add(time.Minute)
		moved := false
		saw := func(did bool) {
			if did {
				moved = true
				w.check()
			}
		}
		for _, other := range w.procs {
			if other == p || other.reaped {
				continue
			}
			other.kill()
			p.reap(other)
			saw(true)
		}
		p.hear()
		saw(w.pump())
		worked := p.exchange(answered)
		for p.start() {
			worked = true
		}
		saw(worked)
		if len(p.busy) > 0 {
			saw(w.stepEnd(step{}))
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
