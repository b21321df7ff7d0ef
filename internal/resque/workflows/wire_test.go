package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// wire is a server of its own, a connection to it, and a process that takes jobs and ends them.
type wire struct {
	t      testing.TB
	server *redistest.Server
	c      redis.Conn
	s      Store
	last   int64             // ticket
	jobs   []resque.Reserved // that the process has
	filled []string          // queues, by the last commit
	wrote  []string          // keys, by the last commit
}

func newWire(t testing.TB, args ...string) *wire {
	t.Helper()
	server := redistest.Start(t, args...)
	w := &wire{t: t, server: server, c: server.Dial(t), s: New(resque.New(""))}
	w.must(w.s.Enter(w.c, resque.Process{ID: "p", Started: time.Unix(1, 0)}, time.Hour, time.Unix(1, 0)))
	w.turn(resque.Exchange{Ended: []resque.Ended{{Ticket: 9, Effects: []resque.Effect{w.s.Arrive(&Arrival{Workflow: "none", Place: "-"})}}}})
	return w
}

func (w *wire) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) same(what string, want, got any) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (w *wire) do(command string, args ...any) any {
	w.t.Helper()
	return w.server.Do(w.t, command, args...)
}

// spoil gives a key another type.
func (w *wire) spoil(key string) {
	w.t.Helper()
	w.do("DEL", key)
	if strings.Contains(key, "wf-") {
		w.do("RPUSH", key, "spoiled")
	} else {
		w.do("SET", key, "spoiled")
	}
}

func (w *wire) turn(x resque.Exchange) resque.Exchanged {
	w.t.Helper()
	x.Process, x.Epoch, x.Last = "p", 1, w.last
	w.must(w.s.Send(w.c, &x))
	out, err := w.s.Receive(w.c, &x)
	w.must(err)
	for _, j := range out.Jobs {
		w.last = max(w.last, j.Ticket)
	}
	return out
}

// take reserves all jobs of queues.
func (w *wire) take(queues ...string) {
	w.t.Helper()
	x := resque.Exchange{Want: 1000}
	for _, q := range queues {
		x.Asks = append(x.Asks, resque.Ask{Queue: q, Quota: 1000})
	}
	w.jobs = append(w.jobs, w.turn(x).Jobs...)
}

// pump moves what the schedule has for now to its queues.
func (w *wire) pump() {
	w.t.Helper()
	for _, member := range w.server.List(w.t, "ZRANGEBYSCORE", w.s.ScheduleKey(), 0, time.Now().UnixMilli()) {
		queue, payload, ok := resque.CutPrefix([]byte(member))
		if !ok {
			w.t.Fatalf("the schedule has %q", member)
		}
		w.must(w.s.Push(w.c, queue, payload))
		w.do("ZREM", w.s.ScheduleKey(), member)
	}
}

// parsed are the fields of a step's payload.
type parsed struct {
	Class string
	Args  json.RawMessage
	Place string `json:"wf"`
	ID    string
}

func (w *wire) parsed(j resque.Reserved) (p parsed) {
	w.t.Helper()
	w.must(json.Unmarshal(j.Payload, &p))
	return p
}

// job takes a reserved job of a class, and returns its arguments too.
func (w *wire) job(class string) (resque.Reserved, string) {
	w.t.Helper()
	w.pump()
	w.take("low", "high", "mid")
	for i, j := range w.jobs {
		if p := w.parsed(j); p.Class == class {
			w.jobs = append(w.jobs[:i:i], w.jobs[i+1:]...)
			return j, string(p.Args)
		}
	}
	w.t.Fatalf("there is no job %s", class)
	return resque.Reserved{}, ""
}

// none checks that a job of this class was not sent.
func (w *wire) none(class string) {
	w.t.Helper()
	w.take("low", "high", "mid")
	for _, j := range w.jobs {
		if w.parsed(j).Class == class {
			w.t.Errorf("%s was sent: %s", class, j.Payload)
		}
	}
}

// arrival is the end of a job.
func (w *wire) arrival(j resque.Reserved, letter byte, value string) *Arrival {
	w.t.Helper()
	p := w.parsed(j)
	id, n, ok := SplitID(p.ID)
	if !ok {
		w.t.Fatalf("%s is no step's id", p.ID)
	}
	a := &Arrival{Workflow: id, Step: n, Letter: letter, Place: p.Place, Job: j}
	if value != "" {
		a.Value = []byte(value)
	}
	if letter != Done {
		a.Again = again(j)
	}
	return a
}

// again is the template that sends a job once more.
func again(j resque.Reserved) string {
	return fmt.Sprintf("s n - 0 0 0 0 %s%s", resque.JobPrefix(j.Queue), j.Payload)
}

// commit ends a job, and returns what was refused.
func (w *wire) commit(a *Arrival, beside ...resque.Effect) []resque.Refusal {
	w.t.Helper()
	out := w.turn(resque.Exchange{Ended: []resque.Ended{{
		Ticket: a.Job.Ticket, Counts: resque.CountsDone, Effects: append(beside, w.s.Arrive(a)),
	}}})
	w.filled, w.wrote = out.Filled, out.Wrote
	return out.Refused
}

// end takes a job of a class and ends it. It returns the arguments it had.
func (w *wire) end(class string, letter byte, value string) (args string) {
	w.t.Helper()
	j, args := w.job(class)
	if refused := w.commit(w.arrival(j, letter, value)); len(refused) > 0 {
		w.t.Fatalf("ending %s: %v", class, refused)
	}
	return args
}

func (w *wire) letters(id string) string {
	w.t.Helper()
	return w.server.Text(w.t, "GET", w.s.LettersKey(id))
}

func (w *wire) field(id, name string) string {
	w.t.Helper()
	text, err := redis.String(w.c.Do("HGET", w.s.WorkflowKey(id), name))
	if err != nil && err != redis.ErrNil {
		w.t.Fatal(err)
	}
	return text
}

// document is the fields of the workflow's document, without times.
func (w *wire) document(id string) map[string]string {
	w.t.Helper()
	fields, err := redis.StringMap(w.c.Do("HGETALL", w.s.KeyOfResult(id)))
	w.must(err)
	for _, name := range []string{"enqueued", "ended"} {
		if _, there := fields[name]; there {
			fields[name] = "then"
		}
	}
	return fields
}

func (w *wire) state(id, want string) {
	w.t.Helper()
	w.same("state", want, w.field(id, "state"))
	w.same("state of the document", want, w.document(id)["state"])
}

// start starts a plan that must be new.
func (w *wire) start(p *Plan) {
	w.t.Helper()
	got, err := w.s.Start(w.c, p)
	w.must(err)
	w.same("started", Started{New: true}, got)
}

// stepOf is a step of a plan that is written by hand. Its class is C and its number.
type stepOf struct {
	n     int
	queue string
	place string
	args  string // inside the brackets
}

func (s stepOf) payload(id string) []byte {
	return fmt.Appendf(nil, `{"class":"C%d","args":[%s],"wf":"%s","id":"%s"}`, s.n, s.args, s.place, StepID(id, s.n))
}

// template is that of a step which waits: "letter mode of delay ttl", and the rest.
func (s stepOf) template(id, how string) string {
	record := append([]byte(resque.JobPrefix(s.queue)), s.payload(id)...)
	cut := bytes.Index(record, []byte(`],"wf"`))
	return fmt.Sprintf("%s %d %d %s", how, cut, bytes.Index(record, []byte(`,"id"`)), record)
}

func (s stepOf) job(id string) Job { return Job{Step: s.n, Queue: s.queue, Payload: s.payload(id)} }
