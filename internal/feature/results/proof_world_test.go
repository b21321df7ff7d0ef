package results_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/feature/cancel"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/failed"
	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
)

const (
	queue      = "work"
	slots      = 2 // workers of a process
	maxPayload = 1 << 20
	most       = 1 // dead processes in which a job may be found; one more and it may be poison
)

// ground is what all histories share: a Redis, and how jobs are enqueued.
type ground struct {
	store    resque.Store
	c        redis.Conn
	dialer   conn.Dialer
	pool     *conn.Pool
	client   *producer.Client
	enqueues *outcome.Set
}

func newGround(t *testing.T) *ground {
	server := redistest.Start(t)
	dialer, err := conn.NewDialer(t.Context(), conn.Config{URI: "unix://" + server.Socket()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{store: resque.New(""), c: server.Dial(t), dialer: dialer}
	g.pool = conn.NewPool(dialer, 1)
	t.Cleanup(func() { g.pool.Close(errors.New("closed")) })
	g.client = &producer.Client{Pool: g.pool, Store: g.store}
	g.enqueues = outcome.New(outcome.Deps{Base: part.Base{Store: g.store, Clock: clock.System}, Time: clock.System}, nil, features()...)
	return g
}

// features are those of a daemon, in its order, without those that have nothing to do with documents.
func features() []func(outcome.Deps) outcome.Feature {
	return []func(outcome.Deps) outcome.Feature{cancel.New, expiry.New, retry.New, unique.New, failed.New, results.New}
}

// world is one history: the processes that work on the Redis, and the model of the documents.
type world struct {
	*ground
	now   time.Time // by which suspects are on trial
	procs []*process
	model *model
	calls []call // with notes, which Redis may hear late
	began time.Time
}

func (g *ground) begin() *world {
	w := &world{ground: g, now: clock.System.Now(), model: newModel(), began: clock.System.Now()}
	w.do("FLUSHALL")
	return w
}

// end lets all handlers return.
func (w *world) end() {
	for _, p := range w.procs {
		p.kill()
		p.set.Close()
	}
}

// fatal is why a history is wrong.
type fatal struct{ text string }

func (w *world) fatalf(format string, args ...any) { panic(fatal{fmt.Sprintf(format, args...)}) }

func (w *world) must(err error) {
	if err != nil {
		w.fatalf("%v", err)
	}
}

func (w *world) do(command string, args ...any) any {
	reply, err := w.c.Do(command, args...)
	w.must(err)
	return reply
}

func (w *world) number(command string, args ...any) int {
	n, err := redis.Int(w.do(command, args...), nil)
	w.must(err)
	return n
}

func (w *world) list(command string, args ...any) []string {
	l, err := redis.Strings(w.do(command, args...), nil)
	w.must(err)
	return l
}

// classes are what handlers are registered for. Only their options matter.
type classes map[string]*outcome.Class

func (c classes) Class(name string) *outcome.Class { return c[name] }
func (classes) Unknown(class string) error         { return fmt.Errorf("unknown class %s", class) }
func (classes) Misfit(class string, e *args.Error) error {
	return fmt.Errorf("misfit %s: %v", class, e)
}
func newClasses() classes {
	c := classes{"Plain": {Name: "Plain"}, "Again": {Name: "Again"}}
	outcome.Put(c["Again"], &retry.Policy{Limit: 2, Delay: func(int, error) time.Duration { return 0 }, Allows: func(error) bool { return true }})
	return c
}

// process is a process of the fleet, without its goroutines: the steps of a history are its turns.
type process struct {
	w *world
	resque.Process
	set  *outcome.Set
	rec  *inflight.Record
	busy []*run          // in the order of their starts
	ends map[int64]ended // by ticket: what the job's end is to make of its document
	late []*resque.Exchange

	hears    map[string]bool // the ids that were cancelled, when it last read
	killed   bool            // or it found out that it was reaped
	reaped   bool            // nothing of it is left
	stopping bool
	fenced   bool
}

func (w *world) enter() *process {
	n := len(w.procs)
	id := fmt.Sprint("p", n)
	p := &process{w: w, ends: make(map[int64]ended), Process: resque.Process{
		ID: id, Host: "h", PID: n + 1, Version: "1", Queues: queue, Concurrency: slots, Started: w.now, IDHead: id + "-", IDQueues: queue,
	}}
	p.set = outcome.New(outcome.Deps{
		Base: part.Base{Log: slog.New(slog.DiscardHandler), Store: w.store, Dialer: w.dialer, Clock: clock.System},
		Time: clock.System, Settings: outcome.Settings{MaxPayload: maxPayload}, Do: w.pool.Do,
		Running: func(yield func(*outcome.Job) bool) {
			for _, r := range p.busy {
				if !yield(&r.Job) {
					return
				}
			}
		},
	}, newClasses(), features()...)
	p.rec = inflight.New(p, maxPayload)
	p.rec.Begin(fleet.Enter(p.Process))
	w.must(w.store.Enter(w.c, p.Process, resque.LeasePeriod, w.now))
	w.procs = append(w.procs, p)
	return p
}

// End is how the record asks what becomes of a job that goes back.
func (p *process) End(j *outcome.Job, state outcome.State, err error) outcome.Outcome {
	o := p.set.End(j, state, err)
	e := ended{state: o.State, err: o.Err, started: j.Started, job: parse(j.Payload), process: p.ID, worker: j.Worker}
	e.unwanted = p.hears[e.job.id] && j.Started
	if (o.State == outcome.Cancelled) != e.unwanted {
		p.w.fatalf("job %s goes back as %v", e.job.id, o.State)
	}
	p.ends[j.Ticket] = e
	return o
}

// run is a job with a worker, whose handler waits to be told how it ends.
type run struct {
	*inflight.Task
	p      *process
	job    job
	says   *results.Run // nil: it has no document
	said   string       // its latest progress; "": none
	kept   bool         // that was written, as far as the process knows
	begun  bool         // it was said that it runs
	cut    bool         // it was cancelled while it ran
	deaf   bool         // and its context did not end
	lines  []string     // of its log, all it has said
	logged int          // how many of them are written, as far as the process knows
	obeys  bool         // it returned because its context had ended
	end    chan func(context.Context, *outcome.Job) error
	out    chan outcome.Outcome
}

// start has a worker take the next job. It returns false if none waits, or no worker is free.
func (p *process) start() bool {
	t := p.rec.Next()
	if t == nil || len(p.busy) == slots {
		return false
	}
	p.rec.Dispatched()
	n := 0
	for slices.ContainsFunc(p.busy, func(r *run) bool { return r.Slot == n }) {
		n++
	}
	t.Worker, t.Slot, t.StartedAt = p.WorkerID(n), n, clock.System.Now()
	r := &run{Task: t, p: p, job: parse(t.Payload), end: make(chan func(context.Context, *outcome.Job) error), out: make(chan outcome.Outcome, 1)}
	p.busy = append(p.busy, r)
	began := make(chan struct{})
	go func() {
		var o outcome.Outcome
		p.set.Run(context.Background(), &t.Job, func(ctx context.Context, j *outcome.Job) error {
			if r.says = results.Of(ctx); r.says != nil {
				r.says.Silence()
			}
			t.Admitted()
			close(began)
			return (<-r.end)(ctx, j)
		}, &o)
		r.out <- o
	}()
	select {
	case <-began:
		p.asked(r)
		if p.hears[r.job.id] {
			p.w.fatalf("job %s runs although %s has heard that it was cancelled", r.job.id, p.ID)
		}
	case o := <-r.out: // it was not run
		p.asked(r)
		p.ended(r, o)
	}
	return true
}

// asked follows a process that has asked Redis about a job that it has heard was cancelled: a push with its id may have taken that back.
func (p *process) asked(r *run) {
	if id := r.job.id; p.hears[id] && !p.w.model.wanted[id] && !p.w.model.other["go:cancelled"] {
		delete(p.hears, id)
	}
}

// finish ends a handler, and hands in what became of its job.
func (p *process) finish(r *run, how func(context.Context, *outcome.Job) error) {
	r.end <- how
	p.ended(r, <-r.out)
}

func (p *process) ended(r *run, o outcome.Outcome) {
	p.busy = slices.DeleteFunc(p.busy, func(other *run) bool { return other == r })
	if p.killed {
		return
	}
	e := inflight.NewEnd(r.Task, &o)
	hit := p.hears[r.job.id]
	switch {
	case r.deaf:
		p.w.fatalf("the context of job %s goes on although %s has heard that it was cancelled", r.job.id, p.ID)
	case r.obeys && o.State != outcome.Cancelled:
		p.w.fatalf("job %s ended as %v when its context had ended", r.job.id, o.State)
	case o.State == outcome.Cancelled && !hit && !r.cut:
		p.w.fatalf("job %s ended as cancelled, which %s has not heard", r.job.id, p.ID)
	case hit && o.State != outcome.Cancelled && o.State != outcome.Done:
		p.w.fatalf("job %s was cancelled and ended as %v", r.job.id, o.State)
	}
	if p.rec.Ended(&e) {
		said := ended{state: o.State, started: o.Started, err: o.Err, value: r.Value, next: o.Next, job: r.job, process: p.ID, worker: r.Worker, unwanted: hit,
			run: resque.RunName(p.ID, r.Ticket), before: r.logged, lines: r.lines[r.logged:]}
		if !r.kept {
			said.progress = r.said
		}
		p.ends[r.Ticket] = said
	}
}

// kill ends the process. What its handlers return is lost.
func (p *process) kill() {
	p.killed = true
	for len(p.busy) > 0 {
		p.finish(p.busy[0], func(context.Context, *outcome.Job) error { return nil })
	}
}

// job is what a payload says.
type job struct {
	id      string
	ttl     int64 // of its document, in ms; 0: it has none
	attempt int
	class   string
}

func parse(payload []byte) job {
	var f struct {
		Class   string `json:"class"`
		ID      string `json:"id"`
		Result  int64  `json:"result"`
		Attempt int    `json:"attempt"`
	}
	if err := json.Unmarshal(payload, &f); err != nil {
		panic(err)
	}
	return job{id: f.ID, ttl: f.Result, attempt: max(1, f.Attempt), class: f.Class}
}

// way is what becomes of a request and its answer.
type way int

const (
	answered way = iota
	answerLost
	requestLost
	requestLate // Redis hears it later, when it must change nothing
	ways
)

// exchange is one turn of the process's poller. It returns false if nothing came of it.
func (p *process) exchange(how way) bool {
	w := p.w
	p.rec.Retry(w.now)
	p.rec.Regroup()
	x := new(resque.Exchange)
	p.rec.HandIn(x)
	idle := slots - len(p.busy)
	if !p.stopping && !p.fenced {
		x.Want = max(0, p.rec.Room(slots, idle, true))
	}
	x.Asks = []resque.Ask{{Queue: queue, Quota: x.Want}}
	p.rec.Advance(x, idle > 0, w.now)
	switch how {
	case requestLate:
		p.late = append(p.late, x)
		fallthrough
	case requestLost:
		p.rec.Unanswered()
		p.resync()
		return true
	}
	out, err := p.send(x)
	switch {
	case errors.Is(err, resque.ErrReaped):
		p.rec.Unanswered()
		p.kill()
	case errors.Is(err, resque.ErrStale), err == nil && how == answerLost:
		p.rec.Unanswered()
		p.resync()
	case err != nil:
		w.fatalf("an exchange of %s: %v", p.ID, err)
	default:
		p.rec.Confirm(out.Refused, w.now, func(*inflight.End) {})
		p.rec.Recorded(x, w.now)
		p.fenced = p.fenced || out.Fenced
		p.receive(out.Jobs, out.Suspects)
		if out.Removed && !out.Fenced {
			p.resync()
		}
		return len(x.Ended)+len(x.Done)+len(out.Jobs) > 0 || x.Handed != ""
	}
	return true
}

// send does an exchange, and has the model learn which ends were committed.
func (p *process) send(x *resque.Exchange) (resque.Exchanged, error) {
	w := p.w
	held := w.list("HKEYS", w.inflight(p.ID))
	strict := w.number("EXISTS", "resque:go:reaped:"+p.ID) == 1
	w.must(w.store.Send(w.c, x))
	out, err := w.store.Receive(w.c, x)
	if err != nil {
		return out, err
	}
	refused := make(map[int64]bool)
	for _, r := range out.Refused {
		if r.Ticket == 0 {
			w.model.soft = append(w.model.soft, r.KeyError)
		}
		if refused[r.Ticket] = true; r.Ticket != 0 && !r.NoBytes() {
			w.fatalf("Redis refuses the end of a job for its document: %v", r)
		}
	}
	for _, e := range x.Ended {
		if !refused[e.Ticket] && (!strict || slices.Contains(held, strconv.FormatInt(e.Ticket, 10))) {
			w.model.end(p.ends[e.Ticket])
		}
	}
	for _, ticket := range x.Done {
		if e := p.ends[ticket]; e.job.ttl > 0 {
			w.fatalf("job %s with a result is handed in without it", e.job.id)
		}
	}
	return out, err
}

func (p *process) receive(jobs []resque.Reserved, suspects bool) {
	var deaths []resque.Deaths
	if suspects && len(jobs) > 0 {
		var err error
		deaths, err = p.w.store.DeathsOf(p.w.c, jobs, p.w.now)
		p.w.must(err)
	}
	p.rec.Received(jobs, deaths, false, p.w.now)
}

// resync reads the record back, as a poller does after a lost answer.
func (p *process) resync() {
	w := p.w
	epoch, tickets, whole, err := w.store.Resync(w.c, p.ID)
	if errors.Is(err, resque.ErrReaped) {
		p.kill()
		return
	}
	w.must(err)
	unknown, unreadable, err := w.store.ReadReserved(w.c, p.ID, p.rec.Unknown(tickets))
	w.must(errors.Join(append(unreadable, err)...))
	if !whole {
		jobs, handed := p.rec.Missing(tickets)
		w.must(w.store.Restore(w.c, p.ID, epoch, jobs, handed))
	}
	p.rec.Resynced(epoch, tickets, whole)
	if fresh := p.rec.Adopt(unknown); len(fresh) > 0 {
		p.receive(fresh, true)
	}
}

// hearLate has Redis hear a request that its process has given up. It must change nothing.
func (p *process) hearLate() bool {
	if len(p.late) == 0 {
		return false
	}
	x := p.late[0]
	p.late = p.late[1:]
	p.w.must(p.w.store.Send(p.w.c, x))
	if _, err := p.w.store.Receive(p.w.c, x); !errors.Is(err, resque.ErrStale) && !errors.Is(err, resque.ErrReaped) && !errors.Is(err, resque.ErrGone) {
		p.w.fatalf("a late request of %s is answered with %v", p.ID, err)
	}
	return true
}

// reaper ends the jobs of a dead process by the seam of another one, and has the model learn how.
type reaper struct {
	*process
	said map[int64]ended // what it said last of each ticket
}

func (r *reaper) Bury(d resque.DeadJob) []resque.Effect {
	e := ended{state: outcome.Returned, dead: true, started: d.Started, job: parse(d.Payload), process: d.Process, worker: d.Worker}
	if d.Poison > 0 {
		e.state, e.err = outcome.Failed, &outcome.Poison{Found: d.Poison, Last: d.Process}
	}
	if r.hears[e.job.id] && d.Started {
		e.state, e.err, e.unwanted = outcome.Cancelled, failure.ErrUnwanted, true
	}
	r.said[d.Ticket] = e
	return r.set.Bury(d)
}

// End is of fleet.Ends.
func (r *reaper) End(j *outcome.Job, state outcome.State, err error) outcome.Outcome {
	return r.set.End(j, state, err)
}

// reap has a process take the jobs of another one, which may be alive.
func (p *process) reap(dead *process) {
	w := p.w
	r := &reaper{p, make(map[int64]ended)}
	out, err := fleet.Reaping{
		Store: w.store, Limit: most, Ends: r,
		Died: func(redis.Conn, string) error { return nil },
	}.Reap(w.c, resque.Lease{Process: dead.ID, Value: w.lease(dead)}, w.now)
	w.must(err)
	for _, refused := range out.Refused {
		w.model.soft = append(w.model.soft, resque.KeyError{Reason: refused.Error()})
	}
	dead.reaped = out.Left == 0
	left := w.list("HKEYS", w.inflight(dead.ID))
	tickets := make([]int64, 0, len(r.said))
	for ticket := range r.said {
		tickets = append(tickets, ticket)
	}
	slices.Sort(tickets)
	slices.Reverse(tickets)
	for _, ticket := range tickets {
		if !slices.Contains(left, strconv.FormatInt(ticket, 10)) {
			w.model.end(r.said[ticket])
		}
	}
}

// lease is what a process's lease is seen to be.
func (w *world) lease(p *process) string {
	lease, err := redis.String(w.c.Do("ZSCORE", "resque:go:processes", p.ID))
	if err == redis.ErrNil {
		return ""
	}
	w.must(err)
	return lease
}

func (w *world) inflight(process string) string { return "resque:go:inflight:" + process }

// pump moves the delayed jobs to their queues, as if their time had come.
func (w *world) pump() bool {
	jobs := w.list("ZRANGE", w.store.KeyOfSchedule(), 0, -1)
	if len(jobs) == 0 {
		return false
	}
	for _, member := range jobs {
		w.do("ZADD", w.store.KeyOfSchedule(), 1, member)
	}
	pump := delayed.Pump{Store: delayed.New(w.store), By: "pump"}
	for w.number("ZCARD", w.store.KeyOfSchedule()) > 0 {
		_, err := pump.Own(w.c)
		w.must(err)
	}
	return true
}
