package workflow_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/playtest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// arrive has the model learn of an end that was committed.
func (w *world) arrive(e *ended) {
	if e == nil {
		playtest.Fatalf("an end was committed that no job had")
	}
	if e.step < 0 || !e.over && e.to == 0 {
		return
	}
	w.tally.commits++
	m := w.model
	s := m.steps[e.step]
	sent := s.letter == workflows.Sent || s.letter == workflows.Outside || s.letter == workflows.Called
	if !sent {
		w.tally.twice++
	}
	if s.step.External > 0 && e.to == workflows.Done { // its token ends it
		if s.letter == workflows.Outside && !s.outside {
			s.outside = true
		} else {
			s.extra--
		}
		return
	}
	handlers, back := m.arrive(e.end)
	w.between()
	if !sent && !back {
		s.extra--
	}
	if s.outside && sent && !s.handler { // a copy of a job whose own has ended
		s.extra--
		s.outside = false
	}
	w.call(handlers, e.step)
}

// between notes what may be sent after an end: other ends of the same commit come behind it.
func (w *world) between() {
	m := w.model
	m.walk(m.root, true, func(v *vertex, reached bool) {
		if v.one != nil && reached && v.one.letter == workflows.Waits && m.sends() {
			w.may[v.one] = append(w.may[v.one], m.before(v.one))
		}
		if is := m.status(v, reached); !m.held() && (is == well || is == badly || is == stopped) {
			for _, h := range v.overs {
				w.may[h] = append(w.may[h], nil)
			}
		}
	})
	if m.sends() && !w.due {
		m.settle()
		if m.root.passed && m.state == workflows.StateRunning {
			m.state = workflows.StateDone
		}
	}
}

// call has error handlers called that the failure of a step calls, each once.
func (w *world) call(handlers []*member, step int) {
	for _, h := range handlers {
		if h.letter == workflows.Armed {
			h.letter, h.called = workflows.Called, step
			w.fresh = append(w.fresh, h)
		}
	}
}

// plain has the model learn of a job that was done without any effect.
func (w *world) plain(e *ended) {
	if e == nil || e.step < 0 {
		return
	}
	if s := w.model.steps[e.step]; s.step.External > 0 {
		w.arrive(e)
		return
	}
	playtest.Fatalf("step %d was done, and its workflow has not heard of it", e.step)
}

// stored is what Redis holds of a workflow.
type stored struct {
	letters string
	hash    map[string]string
	doc     map[string]string
	due     bool // the sweep is to look at it now
	halted  bool // it is in the set of halted ones
	places  map[string][]placed
}

// placed is where a job is.
type placed struct {
	where   string
	payload []byte
}

func (w *world) read() (s stored) {
	id := w.model.id
	keys := []string{w.store.WorkflowKey(id).String(), w.store.LettersKey(id).String(), "resque:go:result:" + id, w.store.IndexKey().String(), w.store.HaltedKey().String()}
	w.Must(w.Conn.Send("HGETALL", keys[0]))
	w.Must(w.Conn.Send("GET", keys[1]))
	w.Must(w.Conn.Send("HGETALL", keys[2]))
	w.Must(w.Conn.Send("ZSCORE", keys[3], id))
	w.Must(w.Conn.Send("TIME"))
	w.Must(w.Conn.Send("ZSCORE", keys[4], id))
	w.Must(w.Conn.Send("ZRANGE", w.store.KeyOfSchedule(), 0, -1))
	for _, queue := range w.Queues {
		w.Must(w.Conn.Send("LRANGE", w.store.KeyOfQueue(queue), 0, -1))
	}
	w.Must(w.Conn.Flush())
	receive := func() any {
		reply, err := w.Conn.Receive() // a key of another type answers with an error
		if err != nil && !resque.IsWrongType(err) {
			playtest.Fatalf("%v", err)
		}
		return reply
	}
	s.hash, _ = redis.StringMap(receive(), nil)
	s.letters, _ = redis.String(receive(), nil)
	s.doc, _ = redis.StringMap(receive(), nil)
	score, err := redis.Float64(receive(), nil)
	times, _ := redis.Int64s(receive(), nil)
	s.due = err == nil && int64(score) <= times[0]*1000+times[1]/1000+1
	_, err = redis.Float64(receive(), nil)
	s.halted = err == nil
	s.places = make(map[string][]placed)
	add := func(where string, raw string, framed bool) {
		payload := []byte(raw)
		if framed {
			var ok bool
			if _, payload, ok = resque.CutPrefix(payload); !ok {
				return
			}
		}
		j := parse(payload)
		s.places[j.id] = append(s.places[j.id], placed{where, payload})
	}
	for i := range 1 + len(w.Queues) {
		all, _ := redis.Strings(receive(), nil)
		for _, raw := range all {
			if i == 0 {
				add("schedule", raw, true)
			} else {
				add("queue "+w.Queues[i-1], raw, false)
			}
		}
	}
	for _, p := range w.Procs {
		for _, raw := range p.Reserved() {
			add("record", raw, true)
		}
	}
	return s
}

// check compares what Redis holds with the model, and has the model learn what was sent.
func (w *world) check() {
	m := w.model
	s := w.read()
	if m.forgot {
		if len(s.hash)+len(s.letters)+len(s.doc) > 0 {
			playtest.Fatalf("the workflow was forgotten, and %v %q is left", s.hash, s.letters)
		}
		return
	}
	if len(s.letters) < len(m.steps) {
		playtest.Fatalf("it has the letters %q, want %d", s.letters, len(m.steps))
	}
	w.learn(&s)
	w.checkCounters(&s)
	w.checkJoins(&s)
	w.checkPlaces(&s)
	w.checkSent(&s)
	w.checkAgain(&s)
	if m.sends() && !s.due || m.state == workflows.StateDone {
		m.settle()
	}
	w.due = s.due
	w.looking, w.retried, w.fresh, w.again = false, false, nil, nil
	clear(w.may)
}

// learn compares the letters. A step may be sent if all in front of it has ended well and the workflow sends; it must
// be, unless the sweep is to look.
func (w *world) learn(s *stored) {
	m := w.model
	done := m.state == workflows.StateRunning && !m.paused
	reached := make(map[*member]bool)
	predicted := make([]byte, len(m.steps))
	for n, one := range m.steps {
		if one == nil {
			continue
		}
		predicted[n] = one.letter
		if is := s.letters[n]; one.letter == workflows.Waits && (is == workflows.Sent || is == workflows.Outside) {
			one.letter = is
			one.outside = false
			w.fresh = append(w.fresh, one)
		}
	}
	ended := make(map[*member]bool)
	m.walk(m.root, true, func(v *vertex, r bool) {
		if v.one != nil && r {
			reached[v.one] = true
		}
		if is := m.status(v, r); is == well || is == badly || is == stopped {
			for _, h := range v.overs {
				ended[h] = true
			}
		}
	})
	if is := m.status(m.root, true); done && is == well && (!s.due || s.hash["state"] == workflows.StateDone) {
		m.state = workflows.StateDone
	}
	for n, one := range m.steps {
		if one == nil {
			continue
		}
		is := s.letters[n]
		switch was := predicted[n]; {
		case was == workflows.Waits && is != was:
			if !reached[one] && w.may[one] == nil {
				playtest.Fatalf("step %d was sent before its turn", n)
			}
			if w.may[one] == nil && !m.sends() && !w.looking && m.state != workflows.StateDone {
				playtest.Fatalf("step %d was sent although the workflow is %s (paused: %v)", n, m.state, m.paused)
			}
			want := byte(workflows.Sent)
			if one.step.External > 0 {
				want = workflows.Outside
			}
			if is != want {
				playtest.Fatalf("step %d was sent as %c", n, is)
			}
		case was == workflows.Waits && reached[one] && m.sends() && !s.due:
			playtest.Fatalf("step %d could be sent, and is not", n)
		case was == workflows.Armed && is == workflows.Called && (w.may[one] != nil || ended[one] && (!m.held() || m.state == workflows.StateDone)):
			one.letter = is
			w.fresh = append(w.fresh, one)
		case was == workflows.Armed && ended[one] && is == was && !m.held() && !s.due:
			playtest.Fatalf("handler %d is called when all of its node has ended, and was not", n)
		case was == workflows.Over && is == workflows.Armed && one.handler && w.retried:
			one.letter = is
		case is != was:
			playtest.Fatalf("the letter of %d is %c, want %c", n, is, was)
		}
	}
}

// checkCounters compares what the hash says of the workflow.
func (w *world) checkCounters(s *stored) {
	m := w.model
	if s.hash["state"] != m.state {
		playtest.Fatalf("the workflow is %s, want %s", s.hash["state"], m.state)
	}
	bad, off := m.failures()
	if m.state != workflows.StateDone && (number(s.hash["bad"]) != bad || number(s.hash["off"]) != off) {
		playtest.Fatalf("the workflow counts %s failed and %s not run, want %d and %d", s.hash["bad"], s.hash["off"], bad, off)
	}
	if (s.hash["paused"] == "1") != m.paused {
		playtest.Fatalf("paused is %q", s.hash["paused"])
	}
	if s.doc["state"] != m.state {
		playtest.Fatalf("the document says %s, want %s", s.doc["state"], m.state)
	}
	over := m.state != workflows.StateRunning && m.state != workflows.StateRetrying
	if (s.doc["ended"] != "") != over {
		playtest.Fatalf("the document of a workflow that is %s has ended %q", m.state, s.doc["ended"])
	}
	sent := strings.ContainsAny(s.letters, "sy")
	if m.halted() && sent && !s.halted || !m.halted() && s.halted {
		playtest.Fatalf("a workflow that is %s, with the letters %s, is halted: %v", m.state, s.letters, s.halted)
	}
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// join is a join as the hash says it.
type joined struct {
	left, bad, stopped int
	kind               string
	first, count       int
	up, letter, borne  string
	over               string
}

func parseJoin(text string) (j joined, ok bool) {
	words := strings.Fields(text)
	if len(words) != 10 {
		return j, false
	}
	return joined{number(words[0]), number(words[1]), number(words[2]), words[3], number(words[4]), number(words[5]), words[6], words[7], words[8], words[9]}, true
}

// checkJoins compares the counters of each join with the letters of its members.
func (w *world) checkJoins(s *stored) {
	if w.model.late {
		return
	}
	type count struct{ left, bad, stopped int }
	counts := make(map[string]*count)
	seen := make(map[string]bool)
	member := func(joins string, letter int, borne string) {
		for j := range strings.SplitSeq(joins, ",") {
			if j == "" || j == "-" || seen[fmt.Sprint(j, " ", letter)] {
				continue
			}
			seen[fmt.Sprint(j, " ", letter)] = true
			c := counts[j]
			if c == nil {
				c = new(count)
				counts[j] = c
			}
			is := s.letters[letter]
			switch {
			case strings.IndexByte("wsyb", is) >= 0:
				c.left++
			case strings.IndexByte("fn", is) >= 0 && borne == "-":
				c.bad++
			case strings.IndexByte("xt", is) >= 0:
				c.stopped++
			}
		}
	}
	for n, one := range w.model.steps {
		if one == nil || one.handler {
			continue
		}
		p := one.place
		letter, borne := n, p.Borne
		if p.Letter != "" {
			letter = number(p.Letter)
		}
		if borne == "" {
			borne = "-"
		}
		member(p.Joins, letter, borne)
	}
	joins := make(map[string]joined)
	for name, value := range s.hash {
		if name[0] != 'j' || number(name[1:]) == 0 && name != "j0" {
			continue
		}
		j, ok := parseJoin(value)
		if !ok {
			playtest.Fatalf("join %s is %q", name, value)
		}
		joins[name[1:]] = j
		if j.letter != "+" && j.up != "-" {
			member(j.up, number(j.letter), j.borne)
		}
	}
	for name, j := range joins {
		c := counts[name]
		if c == nil {
			c = new(count)
		}
		if s.hash["open"] == name {
			c.left++
		}
		if j.kind == "j" && (j.left != c.left || j.bad != c.bad || j.stopped != c.stopped) {
			playtest.Fatalf("join %s counts %d left, %d bad, %d stopped; the letters are %+v", name, j.left, j.bad, j.stopped, *c)
		}
		all := !strings.ContainsAny(s.letters, "wfxsy") // what comes behind a failure that something bears stays as it was
		if w.model.state == workflows.StateDone && all && (j.left != 0 || j.bad != 0 || j.stopped != 0) && j.kind != "z" {
			playtest.Fatalf("the workflow is done, and join %s is %+v", name, j)
		}
	}
}

// checkPlaces proves that each step that is sent lies in one place.
func (w *world) checkPlaces(s *stored) {
	for n, one := range w.model.steps {
		if one == nil {
			continue
		}
		want := one.extra
		if one.letter == workflows.Sent || one.letter == workflows.Called || one.letter == workflows.Outside && !one.outside {
			want++
		}
		is := s.places[workflows.StepID(w.model.id, n)]
		if len(is) > 0 && len(is) < want && slices.ContainsFunc(is, func(p placed) bool { return p.where == "schedule" }) {
			one.extra -= want - len(is) // two equal members of a sorted set are one
			continue
		}
		if len(is) != want {
			playtest.Fatalf("the job of step %d (%c) is in %d places, want %d: %s", n, one.letter, len(is), want, is)
		}
	}
}

func (p placed) String() string { return p.where + " " + string(p.payload) }

// checkSent compares the arguments of the jobs that this call has sent.
func (w *world) checkSent(s *stored) {
	m := w.model
	for _, one := range w.fresh {
		if one.letter != workflows.Sent && one.letter != workflows.Outside && one.letter != workflows.Called {
			continue
		}
		places := s.places[workflows.StepID(m.id, one.number)]
		if len(places) == 0 {
			playtest.Fatalf("step %d was sent, and is nowhere", one.number)
		}
		j := parse(places[len(places)-1].payload)
		right := false
		for _, given := range append(w.may[one], m.before(one)) {
			right = right || w.fits(one, given, j.args)
		}
		if !right {
			playtest.Fatalf("step %d is sent with the arguments %s, want its own and %s", one.number, j.args, m.before(one))
		}
		one.args = fmt.Sprintf("%s", j.args)
		if one.place.Joins != "" && j.place != one.place.String() {
			playtest.Fatalf("step %d is sent with the place %q, want %q", one.number, j.place, one.place)
		}
	}
}

// fits compares the arguments of a step: its number, what it is given, its token.
func (w *world) fits(one *member, given []string, is []json.RawMessage) bool {
	want := []string{strconv.Itoa(one.number)}
	called := one.handler && one.called >= 0
	if called {
		want = append(want, fmt.Sprintf(`{"error":"%d"}`, one.called))
	}
	want = append(want, given...)
	if one.step.External > 0 {
		want = append(want, `"token"`)
	}
	if len(is) != len(want) {
		return false
	}
	for i := range want {
		if !same(want[i], is[i], one.step.External > 0 && i == len(want)-1, called && i == 1) {
			return false
		}
	}
	return true
}

// checkAgain compares the arguments of the jobs that this call has sent once more.
func (w *world) checkAgain(s *stored) {
	for _, one := range w.again {
		places := s.places[workflows.StepID(w.model.id, one.number)]
		if !slices.ContainsFunc(places, func(p placed) bool { return fmt.Sprintf("%s", parse(p.payload).args) == one.args }) {
			playtest.Fatalf("step %d is sent again as %s, want the arguments %s", one.number, places, one.args)
		}
	}
}

// same compares an argument. Of a failure the step counts.
func same(want string, is json.RawMessage, token, failed bool) bool {
	if token {
		return is[0] == '"'
	}
	var a, b any
	if json.Unmarshal([]byte(want), &a) != nil || json.Unmarshal(is, &b) != nil {
		return false
	}
	if failed {
		b = map[string]any{"error": b}
	}
	return equal(a, b)
}

func equal(want, is any) bool {
	switch want := want.(type) {
	case []any:
		is, ok := is.([]any)
		return ok && slices.EqualFunc(want, is, equal)
	case map[string]any:
		of, ok := is.(map[string]any)
		if !ok || len(of) != len(want) {
			return false
		}
		if steps, failed := want["error"].(string); failed {
			failure, ok := of["error"].(map[string]any)
			return ok && slices.Contains(strings.Fields(steps), fmt.Sprint(failure["step"]))
		}
		for name, value := range want {
			if !equal(value, of[name]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, is)
}

// atRest proves that nothing is left to do: nothing that could be sent is not, and each handler of completion came.
func (w *world) atRest() {
	m := w.model
	if strings.ContainsAny(w.read().letters, "sr") {
		playtest.Fatalf("the workflow rests with the letters %s", w.read().letters)
	}
	if m.state == workflows.StateDone {
		return
	}
	if is := m.status(m.root, true); m.sends() && is != badly && is != stopped {
		playtest.Fatalf("the workflow rests as %s, and %s", m.state, is)
	}
}
