package inflight

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// TestRecord plays a poller and its workers against a Redis of plain Go that loses answers, hears
// requests late, refuses keys, loses the record, or falls back to what it was some time ago.
func TestRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		t.Repeat(map[string]func(*rapid.T){
			"":         m.check,
			"push":     m.push,
			"exchange": m.exchange,
			"answer":   m.exchange, // twice as often
			"work":     m.work,
			"end":      m.end,
			"requeue":  func(*rapid.T) { m.r.Requeue(true) },
			"withdraw": m.withdraw,
			"wait":     func(*rapid.T) { m.now = m.now.Add(700 * time.Millisecond) },
			"late":     m.hearLate,
			"session":  m.anotherSession,
			"removed":  m.loseRecord,
			"snapshot": func(*rapid.T) { m.behind = m.redis.clone() },
			"failover": m.failOver,
			"apart":    m.putApart,
		})
		m.finish(t)
	})
}

// modelRedis is what Redis holds. All jobs lie in one list.
type modelRedis struct {
	epoch  int64
	marked bool // the record has its mark
	record map[int64]modelJob
	apart  map[int64]bool // tickets whose payloads are in fields of their own
	list   []modelJob
	done   map[string]int // how often each job was committed for good
}

// modelJob is a job, in its queue or in a lane of it.
type modelJob struct {
	id   string
	lane *resque.Lane
}

func (j modelJob) reserved(ticket int64) resque.Reserved {
	return resque.Reserved{Ticket: ticket, Queue: "work", Payload: []byte(j.id), Lane: j.lane}
}

func (r *modelRedis) clone() *modelRedis {
	return &modelRedis{r.epoch, r.marked, maps.Clone(r.record), maps.Clone(r.apart), slices.Clone(r.list), maps.Clone(r.done)}
}

type model struct {
	r       *Record
	redis   *modelRedis
	behind  *modelRedis        // what a replica holds; nil: nothing
	late    []*resque.Exchange // requests that Redis has not heard yet, and may still hear
	session *fleet.Session
	now     time.Time
	pushed  int
	running []*Task
	lives   int
	states  map[string]outcome.State // what became of a job, by session and ticket
	effects map[string]bool          // which of them ended with effects
	exact   bool                     // nothing has happened that may count a job twice
}

// modelSlots is how many workers there are.
const modelSlots = 4

var modelLane = resque.NewLane("work", resque.Limit{Kind: resque.LimitRunning, Name: "Mail"})

func newModel() *model {
	m := &model{now: time.Unix(1e9, 0), states: make(map[string]outcome.State), effects: make(map[string]bool), exact: true}
	m.redis = &modelRedis{record: make(map[int64]modelJob), done: make(map[string]int)}
	m.r = New(m, 1<<20)
	m.begin()
	return m
}

func (m *model) begin() {
	m.lives++
	m.session = &fleet.Session{Process: resque.Process{ID: fmt.Sprint("p", m.lives)}}
	m.redis.epoch, m.redis.marked, m.redis.record, m.redis.apart = 1, true, make(map[int64]modelJob), make(map[int64]bool)
	m.late = nil
	m.r.Begin(m.session)
}

func (m *model) key(ticket int64) string { return fmt.Sprint(m.session.Process.ID, "/", ticket) }

// End is how the Record asks what becomes of a job that goes back.
func (m *model) End(j *outcome.Job, state outcome.State, _ error) outcome.Outcome {
	m.states[m.key(j.Ticket)], m.effects[m.key(j.Ticket)] = state, true
	return outcome.Outcome{State: state, Effects: resque.New("").Head(j.Reserved)}
}

// putApart has the lease find out whether all processes know payloads in fields of their own.
func (m *model) putApart(t *rapid.T) {
	m.session.SetApart(rapid.SampledFrom([]int{0, 1, len("job 10")}).Draw(t, "from"))
}

func (m *model) push(*rapid.T) {
	m.pushed++
	m.redis.list = append(m.redis.list, modelJob{id: fmt.Sprint("job ", m.pushed)})
}

// withdraw is a change of the list of queues: no job of a queue that it has not may start any more.
func (m *model) withdraw(t *rapid.T) {
	works := rapid.Bool().Draw(t, "works")
	ahead := m.r.Ahead()
	m.r.Withdraw(func(string) bool { return works })
	if works && m.r.Ahead() != ahead || !works && (m.r.Ahead() > 0 || m.r.SuspectWaits()) {
		t.Fatalf("%d jobs wait for workers, and a suspect does: %v", m.r.Ahead(), m.r.SuspectWaits())
	}
}

// compose is a poller's turn.
func (m *model) compose() *resque.Exchange {
	m.r.Retry(m.now)
	m.r.Regroup()
	x := new(resque.Exchange)
	m.r.HandIn(x)
	idle := modelSlots - len(m.running)
	x.Want = max(0, m.r.Room(modelSlots, idle, true))
	m.r.Advance(x, idle > 0, m.now)
	return x
}

// exchange is one exchange with Redis, however it ends.
func (m *model) exchange(t *rapid.T) {
	x := m.compose()
	switch rapid.IntRange(0, 9).Draw(t, "end") {
	case 0: // Redis never hears it
		m.resync(t)
	case 1: // Redis hears it later, when it must change nothing
		m.late = append(m.late, x)
		m.resync(t)
	case 2: // the answer is lost
		m.apply(t, x, true)
		m.resync(t)
	default:
		m.answered(t, x, m.apply(t, x, true))
	}
}

func (m *model) hearLate(t *rapid.T) {
	if len(m.late) == 0 {
		t.Skip()
	}
	if _, stale := m.try(t, m.late[0], true); !stale {
		t.Fatal("a late request changes the record")
	}
	m.late = m.late[1:]
}

// apply is the exchange in Redis, which must not find it late.
func (m *model) apply(t *rapid.T, x *resque.Exchange, refuses bool) resque.Exchanged {
	out, stale := m.try(t, x, refuses)
	if stale {
		t.Fatalf("epoch %d where Redis has %d", x.Epoch, m.redis.epoch)
	}
	return out
}

func (m *model) try(t *rapid.T, x *resque.Exchange, refuses bool) (out resque.Exchanged, stale bool) {
	r := m.redis
	if x.Epoch != r.epoch || x.Process != m.session.Process.ID {
		return out, true
	}
	refuse := func(ticket int64, reason string) {
		out.Refused = append(out.Refused, resque.Refusal{Ticket: ticket, KeyError: resque.KeyError{Key: "k", Reason: reason}})
	}
	for _, e := range x.Ended {
		state := m.states[m.key(e.Ticket)]
		job, held := r.record[e.Ticket]
		if !held && e.Bytes != nil {
			job, held = modelJob{id: string(e.Bytes)}, true
		}
		switch {
		case refuses && rapid.IntRange(0, 4).Draw(t, "refused") == 0:
			refuse(e.Ticket, "WRONGTYPE")
			continue
		case state == outcome.Returned && !held:
			refuse(e.Ticket, "NOBYTES it is gone")
			continue
		case state == outcome.Returned:
			r.list = slices.Insert(r.list, 0, job)
		default:
			r.done[m.idOf(t, e.Ticket)]++
		}
		delete(r.record, e.Ticket)
	}
	for _, ticket := range x.Done {
		if m.effects[m.key(ticket)] {
			t.Fatalf("ticket %d is handed in without its effects", ticket)
		}
		r.done[m.idOf(t, ticket)]++
		delete(r.record, ticket)
	}
	for _, ticket := range x.Spent {
		if _, held := r.record[ticket]; held {
			t.Fatalf("the payload of ticket %d is removed, and its job has not ended", ticket)
		}
		delete(r.apart, ticket)
	}
	n := min(x.Want, len(r.list))
	for i, job := range r.list[:n] {
		ticket := x.Last + int64(i) + 1
		r.record[ticket] = job
		if x.Apart > 0 && len(job.id) >= x.Apart {
			r.apart[ticket] = true
		}
		out.Jobs = append(out.Jobs, job.reserved(ticket))
	}
	r.list = slices.Clone(r.list[n:])
	out.Removed = !r.marked
	return out, false
}

// idOf is which job a ticket is of, whether or not Redis still has it.
func (m *model) idOf(t *rapid.T, ticket int64) string {
	for _, ends := range [][]End{m.r.sent, m.r.pending, m.r.refused} {
		for _, e := range ends {
			if e.Task.Ticket == ticket {
				return string(e.Task.Payload)
			}
		}
	}
	t.Fatalf("an exchange hands in ticket %d, which no task has", ticket)
	return ""
}

// answered is what the poller makes of an answer.
func (m *model) answered(t *rapid.T, x *resque.Exchange, out resque.Exchanged) {
	m.r.Confirm(out.Refused, m.now, func(e *End) {
		if m.r.held[e.Task.Ticket] != nil {
			t.Fatalf("ticket %d is committed and held", e.Task.Ticket)
		}
	})
	m.r.Recorded(x, m.now)
	m.receive(t, out.Jobs)
	if out.Removed {
		m.resync(t)
	}
}

func (m *model) receive(t *rapid.T, jobs []resque.Reserved) {
	deaths := make([]resque.Deaths, len(jobs))
	for i := range deaths {
		if rapid.IntRange(0, 5).Draw(t, "found") == 0 {
			deaths[i] = resque.Deaths{Count: 1, Level: rapid.IntRange(0, 1).Draw(t, "level")}
		}
	}
	m.r.Received(jobs, deaths, rapid.IntRange(0, 9).Draw(t, "known") == 0, m.now)
}

// resync is what the poller does when an exchange got no answer.
func (m *model) resync(t *rapid.T) {
	m.r.Unanswered()
	r := m.redis
	r.epoch++
	epoch, tickets, whole := r.epoch, slices.Sorted(maps.Keys(r.record)), r.marked
	maps.DeleteFunc(r.apart, func(ticket int64, _ bool) bool { return !slices.Contains(tickets, ticket) })
	var unknown []resque.Reserved
	for _, ticket := range m.r.Unknown(tickets) {
		unknown = append(unknown, r.record[ticket].reserved(ticket))
	}
	if !whole {
		jobs, _ := m.r.Missing(tickets)
		for _, j := range jobs {
			r.record[j.Ticket] = modelJob{string(j.Payload), j.Lane}
		}
		r.marked = true
	}
	m.r.Resynced(epoch, tickets, whole)
	m.receive(t, m.r.Adopt(unknown))
}

// work lets a worker take the next job.
func (m *model) work(t *rapid.T) {
	task := m.r.Next()
	if task == nil || len(m.running) == modelSlots {
		t.Skip()
	}
	m.r.Dispatched()
	m.running = append(m.running, task)
}

// end lets a worker end its job, or go on with it.
func (m *model) end(t *rapid.T) {
	if len(m.running) == 0 {
		t.Skip()
	}
	at := rapid.IntRange(0, len(m.running)-1).Draw(t, "worker")
	task := m.running[at]
	state := rapid.SampledFrom([]string{"done", "done", "effects", "failed", "back", "elsewhere", "admitted"}).Draw(t, "state")
	if state == "admitted" {
		task.Admitted()
		return
	}
	m.running = slices.Delete(m.running, at, at+1)
	m.ended(task, state)
}

func (m *model) ended(task *Task, how string) {
	s := resque.New("")
	o := outcome.Outcome{Started: true, Counts: resque.CountsDone}
	switch how {
	case "effects":
		o.Effects = s.Tail(task.Reserved)
	case "failed":
		o.State, o.Counts, o.Effects = outcome.Failed, resque.CountsFailed, s.FileFailure("work", []byte("{}"), false)
	case "back":
		o.State, o.Counts, o.Effects = outcome.Returned, resque.CountsNothing, s.Head(task.Reserved)
	case "elsewhere":
		o.State, o.Counts, o.Effects = outcome.Returned, resque.CountsNothing, s.ToLane(task.Reserved, modelLane)
		o.Next = outcome.Next{Place: outcome.Lane, Lane: &modelLane}
	}
	current := task.Session == m.session
	if current {
		m.states[m.key(task.Ticket)], m.effects[m.key(task.Ticket)] = o.State, len(o.Effects) > 0
	}
	e := NewEnd(task, &o)
	if m.r.Ended(&e) != current {
		panic("an outcome is taken that is not this session's, or the other way round")
	}
}

// anotherSession is what happens when the lease was lost: another process puts the jobs back.
func (m *model) anotherSession(t *rapid.T) {
	if !m.redis.marked {
		t.Skip() // the jobs would be lost with the record and the only process that holds them
	}
	for _, ticket := range slices.Backward(slices.Sorted(maps.Keys(m.redis.record))) {
		m.redis.list = slices.Insert(m.redis.list, 0, m.redis.record[ticket])
	}
	m.behind = nil
	m.begin()
}

// loseRecord removes the in-flight record.
func (m *model) loseRecord(*rapid.T) {
	m.redis.record, m.redis.apart, m.redis.marked, m.exact = make(map[int64]modelJob), make(map[int64]bool), false, false
	m.behind = nil
}

// failOver goes to a replica that was behind. The jobs that were pushed since are lost with the
// master; they are pushed again here.
func (m *model) failOver(t *rapid.T) {
	if m.behind == nil {
		t.Skip()
	}
	old := m.redis
	m.redis, m.behind, m.late, m.exact = m.behind, nil, nil, false
	m.redis.epoch = old.epoch
	known := m.known(m.redis)
	for n := range m.pushed {
		if id := fmt.Sprint("job ", n+1); !known[id] {
			m.redis.list = append(m.redis.list, modelJob{id: id})
		}
	}
	m.resync(t)
}

// known is which jobs Redis has anything of.
func (m *model) known(r *modelRedis) map[string]bool {
	known := make(map[string]bool)
	for _, j := range slices.Concat(r.list, slices.Collect(maps.Values(r.record))) {
		known[j.id] = true
	}
	for id, n := range r.done {
		known[id] = known[id] || n > 0
	}
	return known
}

// check holds after every step.
func (m *model) check(t *rapid.T) {
	bytes := 0
	places := make(map[*Task]int)
	for _, ends := range [][]End{m.r.pending, m.r.sent, m.r.refused, m.r.misplaced} {
		for _, e := range ends {
			places[e.Task]++
		}
	}
	for _, task := range slices.Concat(m.r.ahead, m.r.suspects.waiting, m.running) {
		places[task]++
	}
	if c := m.r.suspects.chosen; c != nil {
		places[c]++
	}
	for ticket, task := range m.r.held {
		bytes += len(task.Payload)
		if ticket > m.r.last {
			t.Fatalf("ticket %d is above the highest, %d", ticket, m.r.last)
		}
		if places[task] != 1 {
			t.Fatalf("ticket %d is in %d places", ticket, places[task])
		}
	}
	if bytes != m.r.heldBytes {
		t.Fatalf("%d bytes are held, and it says %d", bytes, m.r.heldBytes)
	}
	for ticket := range m.redis.record {
		if m.r.held[ticket] == nil {
			t.Fatalf("Redis has ticket %d for this process, and the mirror has not", ticket)
		}
	}
}

// finish lets all jobs run, and Redis serve.
func (m *model) finish(t *rapid.T) {
	for turn := 0; len(m.redis.list)+len(m.redis.record)+m.r.Held() > 0 || !m.r.Delivered(); turn++ {
		if turn > 50*m.pushed+100 {
			t.Fatalf("jobs are stuck: %d in the list, %d in the record, %d run", len(m.redis.list), len(m.redis.record), len(m.running))
		}
		x := m.compose()
		m.answered(t, x, m.apply(t, x, false))
		m.check(t)
		for m.r.Next() != nil && len(m.running) < modelSlots {
			m.work(t)
		}
		for _, task := range m.running {
			m.ended(task, "done")
		}
		m.running = nil
		m.now = m.now.Add(time.Minute)
	}
	if len(m.redis.apart) > 0 {
		x := m.compose()
		if x.Want = 0; x.Empty() {
			t.Fatalf("nothing removes the payloads of tickets %v", m.redis.apart)
		}
		if m.answered(t, x, m.apply(t, x, false)); len(m.redis.apart) > 0 {
			t.Fatalf("the payloads of tickets %v stay", m.redis.apart)
		}
	}
	if m.r.Held() != 0 || m.r.heldBytes != 0 || m.r.Undelivered() != 0 {
		t.Fatalf("%d jobs are held, %d bytes, %d outcomes", m.r.Held(), m.r.heldBytes, m.r.Undelivered())
	}
	for n := range m.pushed {
		id := fmt.Sprint("job ", n+1)
		if done := m.redis.done[id]; done == 0 || done > 1 && m.exact {
			t.Fatalf("%s ended %d times", id, done)
		}
	}
}
